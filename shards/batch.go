package shards

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/groupcommit"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// maxFailures is how often a batch is tried before its callers get an error. With [store.Pauses]
// that is about two seconds.
const maxFailures = 8

// step is what is to be done next about a batch in flight.
type step int

const (
	sendCommit  step = iota // write to a shard of each counter
	makeMissing             // the same in a transaction, which makes what is missing for it
	fence                   // make the marker alone, so that the commit in doubt can't be applied any more
	readMarkers             // see which of the batch's markers are there
	pause                   // for a while, then fence, or send another commit
	disband                 // its requests go on alone, each with those of its counter
	finished                // every request has its outcome
)

// batch is requests that share a commit, until each has an outcome or leaves. It says what follows from
// what happened, and does nothing by itself.
//
// A commit is in doubt when its answer is lost: it may have been applied, or may yet be. Nothing else
// is done before that is fenced: the commit's marker is made alone. If that succeeds, the commit can't
// be applied any more. If the marker is there already, it tells what was.
type batch struct {
	id       string // the id of the batch, and of the marker which its commits make
	requests []*request
	exact    bool           // without it, only batches with a key or a member make markers
	doubt    error          // the error of the commit that was sent last, if its outcome is not known
	conflict error          // the error of that commit, if a document is missing, or in the way
	failures int            // attempts that came to nothing
	picked   map[string]int // :: counter → number of its shard that was written to last

	sent  []*firestorepb.Write        // the last commit
	reply *firestorepb.CommitResponse // nil if that failed

	plan      limitedPlan
	misses    int        // commits that found a limited field's shard otherwise than it was known
	plannedAt int        // how many these were at the last plan: one more at as many goes by what is known
	unplanned []*request // requests for which a plan had no room beside the others: they leave, and come after these
}

// due is when the batch must have ended: at until. If its requests have left another batch, it is when that one had to:
// who leaves a batch gets no more time.
func (b *batch) due(until time.Time) time.Time {
	if left := b.requests[0].deadline; !left.IsZero() {
		return left
	}
	for _, r := range b.requests {
		r.deadline = until
	}
	return until
}

// hasOwnMarker reports whether the batch's commits make a marker with the batch's id. A single request with a key needs
// none: its key's marker says the same. A membership doesn't: another instance may delete it before anybody looks.
func (b *batch) hasOwnMarker() bool {
	first := b.requests[0]
	if len(b.requests) == 1 && first.key != "" {
		return false
	}
	return b.exact || b.documented()
}

// documented reports whether a request of the batch writes other documents than shards.
func (b *batch) documented() bool {
	return slices.ContainsFunc(b.requests, func(r *request) bool { return r.member != nil || r.key != "" })
}

// limited are the fields with limits in which the batch counts, as it has planned: see limited.go. Each of its requests
// counts in all of them, because requests for different ones stand in different lines.
func (b *batch) limited() map[place]bool { return b.requests[0].limited }

// planned reports whether the batch's commits are planned: it counts in fields with limits.
func (b *batch) planned() bool { return len(b.limited()) > 0 }

// deciding is the id of the marker that tells what became of a commit; "" if there is none.
func (b *batch) deciding() string {
	if b.hasOwnMarker() {
		return b.id
	}
	return b.requests[0].key
}

// markers are those of the batch's next commit: its own, and one per key.
func (b *batch) markers() map[string]marker {
	markers := make(map[string]marker, 1)
	if b.hasOwnMarker() {
		markers[b.id] = marker{batch: b.id}
	}
	for _, r := range b.requests {
		if r.key != "" {
			markers[r.key] = marker{batch: b.id, fingerprint: r.fingerprint, at: r.fenced, record: r.hold}
		}
	}
	return markers
}

// mixed reports whether the batch has requests of different counters, or of several.
func (b *batch) mixed() bool {
	first := b.requests[0].counter()
	return slices.ContainsFunc(b.requests[1:], func(r *request) bool { return first == several || r.counter() != first })
}

// deltas is what the batch adds to each counter. It fits: gathering made sure.
func (b *batch) deltas() (all deltas) {
	index := make(map[string]int, 1)
	for _, r := range b.requests {
		for _, delta := range r.deltas {
			for _, a := range delta.amounts {
				all.count(index, delta.counter, a)
			}
		}
	}
	return all
}

// plain is what a batch adds to other fields.
func (b *batch) plain(all deltas) (plain deltas) {
	if len(b.limited()) == 0 {
		return all
	}
	for _, s := range all {
		amounts := slices.DeleteFunc(slices.Clone(s.amounts), func(a amount) bool { return b.limited()[place{s.counter, a.field}] })
		if len(amounts) > 0 {
			plain = append(plain, delta{s.counter, amounts})
		}
	}
	return plain
}

// parts are the shards that count a request of one field, by their ids, and how much each.
func (b *batch) parts(i int) map[string]int64 {
	r, parts := b.requests[i], map[string]int64{}
	for where := range r.limited {
		for _, part := range b.plan.Parts[where][i] {
			parts[store.IDOf(b.plan.places[where].shards[part.Shard].Name)] = part.By.Count
		}
	}
	if len(r.limited) == 0 {
		parts[layout.ShardID(b.picked[r.counter()])] = r.deltas[0].amounts[0].by
	}
	return parts
}

// pick picks a random one of a counter's n shards, but not the last one again.
func (b *batch) pick(counter string, n int) {
	picked := rand.IntN(n)
	if last, again := b.picked[counter]; again && picked == last && n > 1 {
		picked = (last + 1 + rand.IntN(n-1)) % n
	}
	if b.picked == nil {
		b.picked = map[string]int{}
	}
	b.picked[counter] = picked
}

// pickedShard is the shard of a counter that was picked last, by its resource name.
func (b *batch) pickedShard(names layout.Layout, counter string) string {
	return names.Shard(counter, layout.ShardID(b.picked[counter]))
}

// writes are those of a batch's commit. Markers come first: Firestore looks at one write after the
// other, and a missing shard must not hide that the increments were counted.
func (b *batch) writes(names layout.Layout, now time.Time, keyTTL time.Duration, plain deltas) []*firestorepb.Write {
	for i, r := range b.requests {
		if r.hold != nil {
			r.hold.Parts = b.parts(i)
		}
	}
	markers := b.markers()
	writes := make([]*firestorepb.Write, 0, len(markers)+len(plain))
	for id, m := range markers {
		writes = append(writes, m.write(names, now, keyTTL, id))
	}
	for i, r := range b.requests {
		if r.member != nil {
			for shard := range b.parts(i) {
				writes = append(writes, r.member.writes(names, b.id, shard)...)
			}
		}
	}
	for _, delta := range plain {
		writes = append(writes, delta.increment(b.pickedShard(names, delta.counter)))
	}
	for where, changes := range b.plan.Plan {
		for i, shard := range b.plan.changed(where) {
			writes = append(writes, shard.AddTo(where.field, changes[i].By))
		}
	}
	return writes
}

// increment is the write that adds to a shard of the counter.
func (s delta) increment(shard string) *firestorepb.Write {
	transforms := make([]*firestorepb.DocumentTransform_FieldTransform, len(s.amounts))
	for i, a := range s.amounts {
		transforms[i] = store.Increment(layout.FieldPath(a.field), a.by)
	}
	return store.Update(shard, store.Exists(true), nil, nil, transforms...)
}

// write makes the marker of that id, or replaces one that was made alone. TTL must not delete it while a commit is in
// doubt, so it expires by the later of two clocks, which says what is now: [store.DB.Later].
func (m marker) write(names layout.Layout, now time.Time, ttl time.Duration, id string) *firestorepb.Write {
	if m.fingerprint == "" || ttl < batchMarkerTTL {
		// a key's may be the only one that stands in the way of a late commit
		ttl = batchMarkerTTL
	}
	fields := map[string]*firestorepb.Value{layout.ExpireAt: store.Time(now.Add(ttl)), markerBatch: store.String(m.batch)}
	if m.fingerprint != "" {
		fields[markerAsked] = store.String(m.fingerprint)
	}
	if m.fenced {
		fields[markerFenced] = store.Bool(true)
	}
	if m.record != nil && !m.fenced {
		delete(fields, layout.ExpireAt)
		m.record.Version = m.at
		return m.record.Make(names, fields)
	}
	return store.CreateOver(markerName(names, id), m.at, fields)
}

// decodeMarker is what a document says at a time that lies where a marker, or a membership, is looked for.
func decodeMarker(doc *firestorepb.Document, read time.Time) marker {
	record := hold.RecordOf(doc)
	return marker{
		batch:       doc.GetFields()[markerBatch].GetStringValue(),
		fingerprint: doc.GetFields()[markerAsked].GetStringValue(),
		fenced:      doc.GetFields()[markerFenced].GetBooleanValue(),
		at:          doc.GetUpdateTime().AsTime(),
		seat:        hold.StateOf(doc, read),
		until:       memberOf(doc).Until,
		record:      &record,
	}
}

// memberOf reads a membership.
func memberOf(doc *firestorepb.Document) Member {
	m := Member{Member: store.IDOf(doc.GetName()), At: doc.GetCreateTime().AsTime(), From: doc.GetFields()[memberFrom].GetStringValue()}
	if at := doc.GetFields()[memberAt].GetTimestampValue(); at != nil {
		m.At = at.AsTime()
	}
	if until := doc.GetFields()[layout.Until].GetTimestampValue(); until != nil {
		m.Until = until.AsTime()
	}
	return m
}

// writes are those of a batch's commit that counts on this shard.
func (m *membership) writes(names layout.Layout, batch, shard string) []*firestorepb.Write {
	switch {
	case !m.onlyVersion.IsZero():
		return []*firestorepb.Write{store.DeleteIf(m.name, store.IfVersion(m.onlyVersion))}
	case !m.join:
		return []*firestorepb.Write{store.DeleteIf(m.name, store.Exists(true))}
	}
	fields := map[string]*firestorepb.Value{
		memberID:           store.String(m.seat.Member),
		layout.MemberShard: store.String(shard),
		markerBatch:        store.String(batch),
	}
	if m.from != "" {
		fields[memberFrom] = store.String(m.from)
	}
	var entry []*firestorepb.Write
	if !m.until.IsZero() {
		fields[layout.Until] = store.Time(m.until)
		entry = append(entry, m.seat.Hold(names, m.until, m.entryVersion))
	}
	return append(entry, store.Create(m.name, fields, store.ServerTime(memberAt)))
}

// answer gives all requests their outcome: one without an error if a commit was applied.
func (b *batch) answer(out outcome) step {
	for _, r := range b.requests {
		r.answer(out)
	}
	b.requests = nil
	return finished
}

// afterCommitError is what follows from a commit that failed.
func (b *batch) afterCommitError(err error) step {
	code := status.Code(err)
	switch store.KindOf(err) {
	case store.Doubtful:
		if b.doubt == nil && store.NothingListens(err) {
			return b.giveUp(ErrBusy, err)
		}
		b.doubt = err
		if b.deciding() == "" {
			return b.giveUp(ErrUnknown, err)
		}
		return fence
	case store.Contention:
		if b.mixed() {
			return disband
		}
		return b.tryAgain(err)
	case store.Conflict:
		if m := b.requests[0].member; code == codes.AlreadyExists && len(b.requests) == 1 && m != nil && m.entry == "" {
			// The marker is a new one, so it is the membership that is there.
			return b.answer(outcome{already: true})
		}
		if len(b.limited()) > 0 && code != codes.AlreadyExists && !b.documented() {
			return b.afterStaleShard(err) // there is nothing else that may be in the way
		}
		b.conflict = err
		return readMarkers
	}
	if code == codes.InvalidArgument && b.mixed() {
		return disband
	}
	return b.giveUp(nil, err)
}

// tryAgain is what follows from an attempt that came to nothing: another one, up to maxFailures.
func (b *batch) tryAgain(err error) step {
	if b.failures++; b.failures < maxFailures {
		return pause
	}
	return b.giveUp(ErrBusy, err)
}

// maxMissed is how often a batch's commits may fail because shards have changed since this process knew them.
const maxMissed = 60

// afterStaleShard is what follows from a commit that failed because a shard had changed since the client knew it.
func (b *batch) afterStaleShard(err error) step {
	switch b.misses++; {
	case b.misses >= maxMissed:
		return b.giveUp(ErrBusy, err)
	case status.Code(err) == codes.NotFound: // a shard is missing
		if next := b.tryAgain(err); next != pause {
			return next
		}
		return makeMissing
	case b.misses%4 == 0: // other clients commit faster
		return pause
	}
	return sendCommit
}

// afterLookError is what follows where the plan could not be made: a read failed, or the end of holds that was to make
// room.
func (b *batch) afterLookError(err error) step {
	switch {
	case !store.MayPass(err):
		return b.giveUp(nil, err)
	case errors.Is(err, ErrUnknown): // whether holds have ended, say; the batch's own commit was not sent
		err = errors.New(err.Error())
	}
	return b.tryAgain(err)
}

// afterPause is what follows a pause.
func (b *batch) afterPause() step {
	if b.doubt != nil {
		return fence
	}
	return sendCommit
}

// afterFence is what follows once the commit in doubt can't be applied any more: its marker was made alone at a time.
func (b *batch) afterFence(at time.Time) step {
	err := b.doubt
	b.doubt = nil
	if !b.hasOwnMarker() {
		b.requests[0].fenced = at
	}
	b.id = newID() // the old one's marker is there
	if b.mixed() && store.IsDeadline(err) {
		return disband // it may have waited for the lock of one counter's shard
	}
	return b.tryAgain(err)
}

// afterFenceError is what follows from a fence that failed.
func (b *batch) afterFenceError(err error) step {
	if store.KindOf(err) == store.Conflict {
		return readMarkers
	}
	return b.afterMarkersUnread(err)
}

// afterMarkersUnread is what follows where the markers could not be read.
func (b *batch) afterMarkersUnread(err error) step {
	switch {
	case store.KindOf(err) == store.Permanent:
		return b.giveUp(nil, err)
	case b.doubt == nil && store.NothingListens(err):
		return b.giveUp(ErrBusy, err)
	}
	return pause // for as long as there is time
}

// afterMarkers is what follows from the markers (by their ids) and memberships (by their names) that are there, after a
// commit failed because of one of them or of a shard.
func (b *batch) afterMarkers(there map[string]marker) step {
	decisive, decided := there[b.deciding()]
	ours := decided && decisive.batch == b.id
	switch {
	case ours && !decisive.fenced:
		return b.answer(outcome{at: decisive.at})
	case b.doubt != nil && !decided: // the TTL policy has deleted the marker
		return pause
	case b.doubt != nil && ours:
		return b.afterFence(decisive.at)
	}
	// From here on no commit of the batch was applied, and none will be: its condition failed, or another batch has made
	// its key's marker, which is in the way of each. So nothing is in doubt any more.
	err := cmp.Or(b.doubt, b.conflict)
	b.doubt, b.conflict = nil, nil
	newlyKnown := false
	b.requests = slices.DeleteFunc(b.requests, func(r *request) bool {
		if r.answerBy(there) {
			newlyKnown = true
			return true
		}
		m := there[r.key]
		newlyKnown = newlyKnown || !m.at.Equal(r.fenced)
		r.fenced = m.at
		if r.member != nil && r.member.entry != "" {
			entry := there[r.member.entry]
			newlyKnown = newlyKnown || !entry.at.Equal(r.member.entryVersion)
			r.member.entryVersion = entry.at
		}
		return false
	})
	switch {
	case len(b.requests) == 0:
		return finished
	case newlyKnown:
		return sendCommit
	case len(b.limited()) > 0:
		return b.afterStaleShard(err)
	case b.mixed():
		return disband
	}
	if next := b.tryAgain(err); next != pause {
		return next
	}
	return makeMissing // a shard, most of the time
}

// afterMissing is what follows where counters don't exist: their requests fail, and the others go on.
func (b *batch) afterMissing(gone map[string]bool) step {
	b.requests = slices.DeleteFunc(b.requests, func(r *request) bool {
		counter, is := r.firstCounter(func(id string) bool { return gone[id] })
		if is {
			r.answer(outcome{err: notFound(r, counter)})
		}
		return is
	})
	if len(b.requests) == 0 {
		return finished
	}
	return sendCommit
}

// dropLeft drops requests whose callers have gone away, before another commit. Whoever asks again may have been refused
// since, and is told that nothing is counted: a commit that was sent before that fails, but another might find room.
func (b *batch) dropLeft() {
	b.requests = slices.DeleteFunc(b.requests, func(r *request) bool {
		left := r.nobodyWaits()
		if left {
			r.answer(outcome{err: ErrBusy})
		}
		return left
	})
}

// giveUp answers all requests with an error: with [ErrUnknown] if the commit is in doubt, or else with the sentinel, if
// it isn't nil.
func (b *batch) giveUp(sentinel, err error) step {
	if b.doubt != nil {
		sentinel = ErrUnknown
	}
	if sentinel != nil {
		err = fmt.Errorf("%w: %w", sentinel, err)
	}
	return b.answer(outcome{err: err})
}

// maxWrites is about how many documents a commit writes at most. Firestore allows more; its 10 MiB
// would be reached at several thousand.
const maxWrites = 500

// gathering puts a batch together.
type gathering struct {
	*batch
	most     int   // requests
	size     int64 // what its requests add and take off together: see [request.size]
	counters map[string]bool
	keys     map[string]*request // and memberships, by documents that a commit can write only once
}

func newGathering(most int) gathering {
	return gathering{batch: &batch{id: newID()}, most: most, counters: map[string]bool{}, keys: map[string]*request{}}
}

func (g *gathering) full() bool {
	return len(g.requests) == g.most || len(g.counters) >= groupcommit.MaxCounters
}

// fill takes requests into the batch, oldest first, and returns the others. A request stays out if the batch is full,
// if it must end at another time, if it writes a document that the batch writes, or if a sum could exceed an int64. The
// first one always fits. A request with the key of another shares that one's outcome.
func (g *gathering) fill(requests []*request) (left []*request) {
	for n, r := range requests {
		if len(g.requests) == g.most {
			return append(left, requests[n:]...)
		}
		switch {
		case g.joins(r):
			g.join(r)
			g.requests = append(g.requests, r)
		case r.key != "" && g.keys[r.key] != nil && r.deadline.Equal(g.requests[0].deadline):
			g.keys[r.key].same = append(g.keys[r.key].same, r)
		default:
			left = append(left, r)
		}
	}
	return left
}

// joins reports whether a request can be part of the batch.
func (g *gathering) joins(r *request) bool {
	if len(g.requests) == 0 {
		return true
	}
	if !r.deadline.Equal(g.requests[0].deadline) {
		return false // who has left a batch has less time, and goes with those who left it too
	}
	once := r.writtenOnce()
	if slices.ContainsFunc(once, func(name string) bool { return g.keys[name] != nil }) {
		return false
	}
	// with the request's own documents, and the batch's marker
	writes := len(g.counters) + len(g.keys) + len(once) + 1
	for _, delta := range r.deltas {
		if !g.counters[delta.counter] {
			writes++
		}
	}
	return writes <= maxWrites && store.Add(g.size, r.size()) < math.MaxInt64
}

func (g *gathering) join(r *request) {
	for _, delta := range r.deltas {
		g.counters[delta.counter] = true
	}
	g.size = store.Add(g.size, r.size())
	for _, once := range r.writtenOnce() {
		g.keys[once] = r
	}
}
