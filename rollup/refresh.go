package rollup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/googleapis/gax-go/v2"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// If others are faster, a refresh leaves the rest to the next one; a reconcile has no next one.
var (
	patience = store.Patience{Conflicts: 6, Doubts: 12, Yield: true}
	thorough = store.Patience{Conflicts: 18, Doubts: 12}
)

// refresh asks what a counter's fields hold, and has its document show that, in one commit on condition of the
// document's version. It may be repeated. Errors: [ErrContention], [ErrDamagedBase], or the client library's.
func (c *Client) refresh(ctx context.Context, f flight) (refreshed, error) {
	r := refreshing{client: c, flight: f, memory: c.take(f.counter), answers: map[string]book.Answer{}}
	maps.Copy(r.answers, f.answers)
	err := r.run(ctx)
	c.db.Budget.Release(r.alsoPromised)
	r.memory.used = true
	if c.memories.Add(f.counter, r.memory); err != nil {
		r.outcome, err = failure(err), fmt.Errorf("roll up counter %q: %w", f.counter, err)
	}
	return r.refreshed, err
}

// run carries out the refresh, and keeps what it did and saw. With an error of doubt its changes may be shown.
func (r *refreshing) run(ctx context.Context) error {
	c := r.client
	r.fromMemory, r.memory.book = r.memory.book, nil
	if r.flight.all && r.fromMemory != nil { // now and then it is read, because others may have deleted the base
		r.ownVersion, r.fromMemory = r.fromMemory.Version(), nil
	}
	if c.db.Layout.Extension {
		if err := c.extension.Check(ctx, c.db); err != nil {
			return err
		}
	}
	done, err := c.books.Commit(ctx, patience, r.plan)
	r.untilNext = r.nextAt.Sub(c.db.Now())
	if err == nil || errors.Is(err, store.ErrDoubt) { // or else nothing was applied
		r.changes = r.draft.Changes
	}
	if err != nil {
		return err
	}
	if done.Full {
		c.log.ErrorContext(ctx, logProblem, "counter", r.flight.counter, "problem", problemTooLarge)
	}
	if r.wrote = done.Wrote && r.draft.After != nil; r.wrote {
		r.commitTook = done.Took
		if r.afterCommit(ctx, done); len(r.moved.Idle) > 0 {
			r.moved.Sweep(ctx, c.db)
		}
	}
	return nil
}

// memory is what a client remembers of a counter. A refresh takes it out of the cache while it uses it.
type memory struct {
	book    *book.Book // as this client wrote it last; nil if somebody has written since, as far as is known
	bound   bound
	problem string // that was logged last
	used    bool   // a refresh has had it
}

// take is for one refresh: no other gets the same memory until it is put back.
func (c *Client) take(counter string) *memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.memories.Get(counter)
	if !ok {
		return &memory{}
	}
	c.memories.Remove(counter)
	return m
}

// noteGoneEvery is how often it is noted that something was counted below a missing document.
const noteGoneEvery = time.Minute

// refreshing is a refresh on its way.
type refreshing struct {
	client       *Client
	flight       flight
	memory       *memory
	fromMemory   *book.Book             // as this instance wrote it last; nil once a plan has used it
	ownVersion   time.Time              // that this instance wrote last, where the document is read all the same
	answers      map[string]book.Answer // by the names of their fields
	moved        extension.Moved        // from the extension's shards, beside the answers
	draft        book.Draft             // the last planned commit
	began        time.Time              // this attempt, by Firestore's clock
	asking       time.Duration          // that its questions took
	nextAt       time.Time              // from when on the document may be refreshed again, by Firestore's clock
	alsoPromised ceiling.Amounts        // beside what is promised to the flight

	refreshed
}

// plan is the commit that shows what the flight asks for. It is empty if all of that is shown already, or if another
// instance will show it. If the remembered document can show nothing, it is read: somebody may have set it right.
func (r *refreshing) plan(ctx context.Context) (book.Draft, error) {
	if !r.began.IsZero() && !r.flight.hurries { // all that are in flight while Firestore is away would owe the reads of minutes
		r.client.db.Budget.Wait(ctx, ceiling.Reads)
	}
	r.began, r.asking = r.client.db.Now(), 0
	if b := r.fromMemory; b != nil {
		r.fromMemory = nil
		if err := r.planFor(ctx, b, false); err != nil || len(r.draft.Writes) > 0 || r.memory.book != nil {
			return r.draft, err
		}
	}
	b, err := r.planAnew(ctx, nil)
	if err != nil || len(r.draft.Writes) == 0 || b.Version().Equal(r.ownVersion) || r.client.db.Budget.Short(ceiling.Reads) > 0 {
		return r.draft, err
	}
	switch shared := r.asking > 0 && (r.flight.crowd() || r.others()); {
	case !shared && r.asking < longAnswer: // nobody has written it meanwhile
		return r.draft, nil
	case shared && !r.flight.hurries:
		if err := gax.Sleep(ctx, rand.N(stepsAside)); err != nil {
			return r.draft, err
		}
	}
	_, err = r.planAnew(ctx, b)
	return r.draft, err
}

const (
	// After a question that took longAnswer, the document is read again before the commit: others may have written it. If
	// others have events, it is always read again; while the budget is short of reads, never. A commit that fails uses up
	// one of the document's writes.
	longAnswer = 50 * time.Millisecond
	// stepsAside is how long one waits at most before that, where others have events. Instances to which a crowd comes ask
	// in the same moment. Without it all commit at once, and the document is busy with that for seconds.
	stepsAside = 200 * time.Millisecond
)

// others reports whether other instances have events of a crowd: what is about to be shown is more, or less, than the
// flight's own events say. A click waits for nobody.
func (r *refreshing) others() bool {
	return slices.ContainsFunc(r.draft.Changes, func(c book.FieldDiff) bool {
		elsewhere := store.Sub(c.Delta, r.flight.delta[c.Field.Name])
		return c.Field.Counted == nil && (elsewhere > noCrowd || elsewhere < -noCrowd)
	})
}

// planAnew plans with the document as it is now. If it is as before, so is the plan.
func (r *refreshing) planAnew(ctx context.Context, before *book.Book) (*book.Book, error) {
	b, err := r.read(ctx)
	if err != nil || before != nil && b.Doc != nil && b.Version().Equal(before.Version()) {
		return b, err
	}
	r.draft = book.Draft{}
	switch {
	case b.Doc == nil && b.HasBase() && b.Unusable == nil && !b.Deleting() && r.flight.makes && b.At.Sub(b.Base.Gone) > noteGoneEvery:
		r.draft = b.SetGone() // something was counted, so what is below the document stays for its whole time again
	case b.Doc != nil && b.Deleting(): // the app made it again: its events come again after the deletion
		err = fmt.Errorf("%w: what was below the counter is being deleted", ErrContention)
	case b.Doc == nil: // no document shows anything: counts stay in the shards, or end with them
	case b.Unusable != nil:
		err = b.Unusable
	default:
		err = r.planFor(ctx, b, !b.Version().Equal(r.ownVersion))
	}
	return b, err
}

// planFor plans with a document that was just looked at, or is remembered.
func (r *refreshing) planFor(ctx context.Context, b *book.Book, fresh bool) error {
	r.nextAt = b.NextRefresh()
	r.noteAsOf(b)
	if len(r.flight.needs) > 0 && !r.needsMore() { // others were faster: what was asked for is shown, and newer answers need no commit
		clear(r.answers)
		maps.Copy(r.answers, r.flight.answers)
	}
	if fresh && r.leavesToOthers(b) {
		r.outcome = leftToOthers
		return nil
	}
	show := b.Show
	if r.client.db.Layout.Extension {
		if err := r.takeOver(ctx, b); err != nil {
			return err
		}
		show = r.moved.Show
	}
	if err := r.askSums(ctx, b); err != nil {
		return err
	}
	r.nextAt = r.flight.nextStart(b.NextRefresh(), r.began) // not as of now: however long questions take, commits are an interval apart
	r.draft = show(r.answers, r.nextAt)
	r.askAgain = r.draft.AskAgain
	r.name(ctx, b)
	if len(r.draft.Writes) == 0 && !fresh && len(r.answers) == 0 && !r.needsMore() {
		r.memory.book = b
	}
	return nil
}

// read reads document and base. If both are missing, and something was counted, it makes them.
func (r *refreshing) read(ctx context.Context) (*book.Book, error) {
	c, counter := r.client, r.flight.counter
	b, err := c.books.Read(ctx, counter)
	if err != nil {
		return nil, err
	}
	r.reads += book.Reads
	if b.Doc == nil && !b.HasBase() && r.flight.makes {
		made, err := c.appear(ctx, counter, anyCounted(r.flight.answers) || len(r.flight.shards) > 0)
		if err != nil || made == nil {
			return b, err
		}
		b = made
	}
	r.readAt = b.At
	return b, nil
}

// anyCounted reports whether queries have found documents.
func anyCounted(answers map[string]book.Answer) bool {
	for _, a := range answers {
		if n, _ := store.Float(a.Value); n != 0 {
			return true
		}
	}
	return false
}

// appear makes the document of a counter below which something was counted, or its base alone, and reads it: see
// [book.Books.Appear]. It returns nil if there is none.
func (c *Client) appear(ctx context.Context, counter string, documents bool) (*book.Book, error) {
	exists, err := c.books.Appear(ctx, counter, documents)
	if err != nil {
		return nil, fmt.Errorf("make what is missing: %w", err)
	}
	if !exists {
		return nil, nil
	}
	c.log.InfoContext(ctx, logAdopted, "counter", counter)
	return c.books.Read(ctx, counter)
}

// needsMore reports whether an event waits for what isn't shown as of its write.
func (r *refreshing) needsMore() bool {
	return slices.ContainsFunc(r.flight.needs, func(need need) bool { return !need.shown(r.asOf) })
}

// takeOver takes over what the extension's clients counted: in the shards that events name, and now and then in others.
func (r *refreshing) takeOver(ctx context.Context, b *book.Book) error {
	db := r.client.db
	looks := r.flight.all || slices.ContainsFunc(db.Layout.Sharded, func(f layout.Field) bool { return !b.TookOver(f) })
	if looks && r.alsoPromised[ceiling.Reads] == 0 { // it may find as many shards as one commit takes, and as many idle ones beside these
		looks = r.promises(ceiling.Amounts{ceiling.Reads: 2 * extension.AtOnce, ceiling.Writes: 2 * extension.AtOnce})
	}
	moved, err := extension.Take(ctx, db, b, r.flight.shards, looks)
	if r.reads += moved.Reads; err != nil {
		return err
	}
	if !looks && !r.promises(ceiling.Amounts{ceiling.Writes: float64(len(moved.Idle))}) {
		moved.Idle = nil
	}
	r.moved = moved
	return nil
}

// promises promises the refresh more than it had when it began, until it ends. It reports false if there is too little.
func (r *refreshing) promises(more ceiling.Amounts) bool {
	if r.client.db.Budget.Promise(more) > 0 {
		return false
	}
	r.alsoPromised = r.alsoPromised.Plus(more)
	return true
}

// noteAsOf remembers as of when a document shows its fields.
func (r *refreshing) noteAsOf(b *book.Book) {
	r.asOf = map[string]time.Time{}
	for _, field := range r.client.db.Layout.Shown() {
		r.asOf[field.Name] = b.AsOf(field)
	}
	r.unknown = b.Unknown()
}

// leavesToOthers reports whether this refresh leaves its fields to another instance: one refreshed the counter less
// than an interval ago, and will again, and a commit now would delay it. It doesn't leave a field that nobody has shown
// for two intervals: other instances may have no event of it, or be of another revision. Of the extension's shards only
// this instance knows. A new instance waits for its turn with these, too: others may be in theirs, or have died in it.
func (r *refreshing) leavesToOthers(b *book.Book) bool {
	due := b.NextRefresh()
	switch {
	case r.flight.hurries, len(r.flight.answers) > 0, len(r.flight.shards) > 0 && r.memory.used, !r.needsMore():
		return false
	case len(r.flight.shards) > 0:
		if latest := b.At.Add(r.flight.interval); latest.Before(due) { // many take turns
			due = latest
		}
	default:
		for _, need := range r.flight.needs {
			if !need.shown(r.asOf) && slices.ContainsFunc(need.fields, func(f string) bool { return b.At.Sub(r.asOf[f]) > 2*r.flight.interval }) {
				return false
			}
		}
		refreshed := b.Refreshed()
		if refreshed.After(b.Version()) { // an app has written that there: nobody waits for it to pass
			refreshed = b.Version()
		}
		if later := refreshed.Add(r.flight.interval); later.After(due) {
			due = later
		}
	}
	if b.At.Before(due) {
		r.nextAt = due
		return true
	}
	return false
}

// askSums asks for the sum of each field that an event waits for, or that the extension's shards were taken over into,
// unless the answer of an earlier attempt still serves. Beside these it asks for fields of which nobody knows as of
// when they are shown, or for all; these alone are no reason to ask.
func (r *refreshing) askSums(ctx context.Context, b *book.Book) error {
	var wanted, others layout.Fields
	for _, field := range r.client.db.Layout.Sharded {
		asked, at := r.answers[field.Name].At, r.asOf[field.Name]
		_, moved := r.moved.Amounts[field.Name]
		if moved && !asked.After(at) || at.IsZero() && asked.Before(b.Version()) { // of an earlier attempt: it would not be shown
			asked = time.Time{}
			delete(r.answers, field.Name)
		}
		waits := slices.ContainsFunc(r.flight.needs, func(need need) bool { return slices.Contains(need.fields, field.Name) && !need.shown(r.asOf) })
		switch {
		case !asked.IsZero(), !b.MayShow(field):
		case waits, moved:
			wanted = append(wanted, field)
		case r.flight.all || at.IsZero():
			others = append(others, field)
		}
	}
	if len(wanted)+len(r.answers) == 0 {
		return nil
	}
	began := time.Now()
	answers, reads, err := r.client.sums(ctx, r.flight, append(wanted, others...), &r.memory.bound)
	r.asking += time.Since(began)
	r.reads += reads
	maps.Copy(r.answers, answers)
	return err
}

// name logs what keeps totals from being shown, once.
func (r *refreshing) name(ctx context.Context, b *book.Book) {
	_, kept := book.Blocked(r.client.db.Layout, b.Doc)
	problem := strings.Join(slices.Concat(kept, r.moved.Problems, r.draft.Problems), "; ")
	if problem != "" && problem != r.memory.problem {
		r.client.log.WarnContext(ctx, logProblem, "counter", b.Counter, "problem", problem)
	}
	r.memory.problem = problem
}

// afterCommit is what follows from the commit.
func (r *refreshing) afterCommit(ctx context.Context, done book.Committed) {
	if after := done.After; after != nil {
		r.memory.book = after
		r.noteAsOf(after)
	}
	log := r.client.log.With("counter", r.flight.counter)
	for _, change := range r.draft.Changes {
		if change.Drift != 0 {
			log.WarnContext(ctx, LogDrift, "field", change.Field.Name, "drift", change.Drift)
		}
		if change.Replaced != 0 {
			log.InfoContext(ctx, logAdopted, "field", change.Field.Name, "replaced_total", change.Replaced)
		}
	}
}

const (
	// aggregationTimeout bounds a counter's aggregation queries, together. Firestore ends one after 60 s, and events wait
	// for 55 s at most.
	aggregationTimeout = 50 * time.Second
	// showTime is what its caller has at least, after them, to show the answers and whatever else it has asked for; a
	// quarter of its time, if that is less.
	showTime = 10 * time.Second
	// besideSlow is how long the other queries have, together, once one has got no answer in all of that time: it keeps no
	// other field from being counted.
	besideSlow = 2 * time.Second
)

// queryTime is how long a counter's aggregation queries may take.
func queryTime(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return aggregationTimeout
	}
	left := time.Until(end)
	return min(aggregationTimeout, max(left-showTime, left*3/4))
}

// askQueries asks for fields that count documents, all as of one time. A field keeps its last value if its query can't
// succeed. The answers cover whatever came before the call.
func (c *Client) askQueries(whole context.Context, counter string, fields layout.Fields) (queried, error) {
	bound := queryTime(whole)
	ctx, cancel := context.WithTimeout(whole, bound)
	defer cancel()
	beside, cancel := context.WithTimeout(whole, bound+besideSlow)
	defer cancel()
	got := queried{
		answers:   make(map[string]book.Answer, len(fields)),
		elsewhere: len(fields) > 0 && len(fields[0].Counted.References()) > 0,
	}
	problem := func(field layout.Field, what string) {
		got.problems, got.outcome = append(got.problems, what), unchanged
		c.log.ErrorContext(whole, logRecountFailed, "counter", counter, "field", field.String(), "problem", what)
	}
	for _, field := range fields {
		a, err := c.db.Aggregate(ctx, counter, field.Counted, got.at)
		switch {
		case err != nil && timeIsOver(ctx, err):
			// No answer came over two connections: the query may take too long.
			problem(field, fmt.Sprintf("%s can't be counted: no answer within %v: %v", field, bound.Round(100*time.Millisecond), err))
			got.unanswered, ctx, bound = true, beside, besideSlow
			continue
		case err != nil && store.InvalidQuery(err):
			problem(field, fmt.Sprintf("%s can't be counted: %v", field, err))
			continue
		case err != nil:
			got.outcome = failure(err)
			return got, fmt.Errorf("count %s: %w", field, err)
		}
		got.at = a.At
		got.reads += a.Reads()
		got.largest = max(got.largest, a.Reads())
		got.answers[field.Name] = book.Answer{Value: a.Value, At: a.At}
	}
	return got, nil
}

// timeIsOver reports whether an error says that ctx's deadline has come, or is about to: the server may
// notice first.
func timeIsOver(ctx context.Context, err error) bool {
	end, ok := ctx.Deadline()
	return ok && time.Until(end) < time.Second && store.IsDeadline(err)
}

// Each write of a shard leaves a deleted entry in the index that sum() reads, for about an hour: 92 writes a second
// leave 331,000 among 100 live ones, and a query scans over them. Nobody has published how long that takes. So
// questions are timed, and once entries slow them the counter's sums are bounded: its shards are listed by name, and
// their least number is kept. From then on one query asks for the sum and the count of shards that hold at least that,
// and another counts all. If the counts differ, or the questions are slow again, the shards are listed again.

const (
	// A question is slow that takes longer than two lone queries, which a bounded one or one of several fields takes, by
	// more than slower.
	slower = 100 * time.Millisecond
	// deadFor is how long a deleted entry stays in an index. A bound that is as old has nothing to skip any more.
	deadFor = time.Hour
	// A listing reads each shard. The first one waits for a quarter as many events as there are shards. Each later one
	// waits for four times as many, and so costs at most a quarter of a read an event.
	dear = 4
	// A counter with fewer events within deadFor is quiet. It is asked plainly, also if chance makes a query slow.
	quiet = 100
	// below is by how much a shard may fall below the least number before it is listed again.
	below = 16
)

// bound is what is known of a counter's shards, so that their sums are asked for quickly. It is pure.
type bound struct {
	since  time.Time        // when the shards were listed, or the counter was first asked
	events int64            // since then
	shards int64            // how many there were
	slow   bool             // dead entries make its questions slow
	least  map[string]int64 // :: field of the shards → the least that one held, less below; nil before the first listing
}

// next says how a flight asks for the sums of some fields: of a list of all shards, or in queries. These are of the
// shards that hold at least the least known numbers, or of all shards where least is nil.
func (b *bound) next(f flight, fields layout.Fields) (list bool, least map[string]int64) {
	if f.started.Sub(b.since) > deadFor {
		*b = bound{since: f.started, shards: b.shards}
	}
	b.events += f.events
	worth := b.shards * dear // events
	if b.least == nil {
		worth = max(quiet, b.shards/dear)
	}
	switch {
	case b.slow && b.events >= worth:
		return true, nil
	case slices.ContainsFunc(fields, func(f layout.Field) bool { _, known := b.least[f.Shard]; return !known }):
		return false, nil // a shard lacks the field, so the two counts would always differ
	}
	return false, b.least
}

// took remembers how long a question took, beside a lone query. Without an answer it is asked in another way next.
func (b *bound) took(question, lone time.Duration, answers map[string]book.Answer, err error) {
	b.slow = question > 2*lone+slower
	switch {
	case b.slow && err != nil:
		b.shards, b.events = 0, b.events+quiet
	case b.least == nil:
		for _, a := range answers {
			b.shards = max(b.shards, a.Numbers)
		}
	}
}

// see remembers what all shards hold.
func (b *bound) see(now time.Time, fields layout.Fields, docs book.Shards) {
	*b = bound{since: now, shards: int64(len(docs)), least: map[string]int64{}}
	for _, field := range fields {
		counting := docs.Counting(field)
		least, known := int64(math.MaxInt64), len(counting) > 0
		for _, doc := range counting {
			value, has := doc.GetFields()[field.Shard]
			n, whole := store.Integer(value)
			least, known = min(least, n), known && has && whole
		}
		if known {
			b.least[field.Shard] = store.Sub(least, below)
		}
	}
}

// sums asks for sums of shards, by the names of their fields, all as of one time. It returns how many reads that took.
func (c *Client) sums(ctx context.Context, f flight, fields layout.Fields, b *bound) (answers map[string]book.Answer, reads int, err error) {
	if len(fields) == 0 {
		return nil, 0, nil
	}
	if list, least := b.next(f, fields); !list {
		began := time.Now()
		answers, err = c.books.Sums(ctx, f.counter, fields, least, time.Time{})
		took := time.Since(began)
		reads = len(fields)
		b.took(took, c.lone(took, err), answers, err)
		if err != nil || least == nil && !b.slow {
			return answers, reads, err
		}
		// The shards are counted. If the sums are bounded, the numbers tell whether they are of all shards. If they are
		// slow, the time of the counts, which read no deleted entries, tells whether all queries are slow, and not these
		// alone.
		counts := 1 + len(c.db.Layout.Apart())
		began = time.Now()
		whole, err := c.coverAllShards(ctx, f.counter, fields, answers)
		if reads += counts; err != nil {
			return nil, reads, err
		}
		b.took(took, c.measured(time.Since(began)/time.Duration(counts)), answers, nil)
		if whole || least == nil {
			return answers, reads, nil
		}
	}
	// All shards are listed, and what they hold is added up. Their least numbers are remembered for bounded queries.
	var paths []string
	for _, field := range c.db.Layout.Sharded {
		paths = append(paths, layout.FieldPath(field.Shard))
	}
	docs, at, err := c.db.DocumentsAsOf(ctx, store.Query{Collection: c.db.Layout.ShardsOf(f.counter), Fields: paths})
	if err != nil {
		return nil, reads, fmt.Errorf("list shards: %w", err)
	}
	for _, shard := range docs {
		for name, value := range shard.GetFields() {
			if n, _ := store.Float(value); math.IsNaN(n) { // queries of numbers leave it out
				delete(shard.GetFields(), name)
			}
		}
	}
	b.see(f.started, c.db.Layout.Sharded, docs)
	answers = map[string]book.Answer{}
	for _, field := range fields {
		answers[field.Name] = book.Answer{Value: book.Shards(docs).SumOf(field), At: at}
	}
	return answers, reads + max(1, len(docs)), nil
}

// lone is how long a lone query takes, as far as is known: no longer than one that was just answered.
func (c *Client) lone(took time.Duration, err error) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.query = min(c.query, took)
	}
	return c.query
}

// measured remembers how long a query took that reads no index with deleted entries.
func (c *Client) measured(took time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.query = took
	return took
}

// coverAllShards reports whether sums are of all shards in which their fields are counted: those that all fields have in
// common, or a field's own: see [layout.Field.Apart].
func (c *Client) coverAllShards(ctx context.Context, counter string, fields layout.Fields, sums map[string]book.Answer) (bool, error) {
	collection, at := c.db.Layout.ShardsOf(counter), sums[fields[0].Name].At
	all, err := c.db.Count(ctx, collection, "", at)
	shards := map[string]int64{"": all} // :: what [layout.Field.Apart] says → how many such shards there are
	for _, apart := range c.db.Layout.Apart() {
		if err == nil {
			shards[apart], err = c.db.Count(ctx, collection, apart, at)
			shards[""] -= shards[apart]
		}
	}
	if err != nil {
		return false, fmt.Errorf("count shards: %w", err)
	}
	for _, field := range fields {
		if sums[field.Name].Numbers != shards[field.Apart()] {
			return false, nil
		}
	}
	return true, nil
}
