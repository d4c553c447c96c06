package hold

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
	"github.com/firestore-counters/counters/internal/store"
)

// Record says what a hold of an amount has. The commit that takes the amount makes the record, which names the shards
// that count the amount. Whoever settles or ends the hold changes the record, on condition of its version, and takes
// the amount off those shards in the same commit. That only makes room, so it reads no shard, and its only condition is
// that they exist. The record stays for as long as somebody may ask again, or an earlier commit may arrive.
type Record struct {
	Counter string
	Field   string           // its name in the shards
	ID      string           // what its caller calls it
	Amount  int64            // 0 of an id that nobody had held by the time when somebody ended it
	Parts   map[string]int64 // :: shard's id → how much of the amount it counts
	Until   time.Time        // when its time is over: from then on anybody may end it
	Progress
	Made    time.Time     // when it was committed
	Used    int64         // of one that is settled: how much stays counted
	KeptFor time.Duration // how long the record stays after the hold

	Name    string    // the record's resource name
	Version time.Time // its update time; zero where there is none
}

// Progress is what became of a hold of an amount.
type Progress string

// The states of a record.
const (
	Unknown Progress = ""        // there is no record, or it only stands in the way of a commit in doubt
	Open    Progress = "held"    // the shards count the amount, and none of it is anybody else's to give back
	Settled Progress = "settled" // what was used stays counted
	Ended   Progress = "ended"   // all came back, or nothing was held
)

// Fields of an entry, besides Until and [layout.ExpireAt].
const (
	entryCounter = "counter"
	entryField   = "field"
	entryMember  = "member"
)

// Fields of a record, besides Until, [layout.ExpireAt], and those of an entry. The field due finds what is open of a
// field of a counter: Firestore has an index for each field, and none for several without being told.
const (
	recordID     = "id"
	recordAmount = "amount"
	recordParts  = "parts"
	recordState  = "state"
	recordUsed   = "used"
	recordKeep   = "keep" // in seconds
	recordEnds   = "ends" // as Until, which goes with the hold
	recordDue    = layout.Due
	recordAt     = "at" // when it was made
)

// dueFormat has times be in the order of their texts.
const dueFormat = "2006-01-02T15:04:05.000000Z"

// RecordOf is what a document says of a hold; nil is no document.
func RecordOf(doc *firestorepb.Document) Record {
	f := doc.GetFields()
	r := Record{
		Counter: f[entryCounter].GetStringValue(), Field: f[entryField].GetStringValue(),
		ID:     f[recordID].GetStringValue(),
		Amount: f[recordAmount].GetIntegerValue(), Parts: map[string]int64{},
		Until: f[recordEnds].GetTimestampValue().AsTime(), Progress: Progress(f[recordState].GetStringValue()),
		Made: f[recordAt].GetTimestampValue().AsTime(), Used: f[recordUsed].GetIntegerValue(), KeptFor: time.Duration(f[recordKeep].GetIntegerValue()) * time.Second,
		Name: doc.GetName(),
	}
	for id, n := range f[recordParts].GetMapValue().GetFields() {
		r.Parts[id] = n.GetIntegerValue()
	}
	if doc != nil {
		r.Version = doc.GetUpdateTime().AsTime()
	}
	return r
}

// Read reads a record. If there is none, it returns the given one, with the version of what stands in its way.
func (h Holds) Read(ctx context.Context, none Record) (Record, error) {
	docs, _, err := h.db.Get(ctx, none.Name)
	if err != nil {
		return Record{}, err
	}
	r := RecordOf(docs[0])
	if r.Progress == Unknown {
		none.Version = r.Version
		return none, nil
	}
	return r, nil
}

// More is how much more than it has an open hold is settled for.
func (r Record) More(used *int64) int64 {
	if used == nil || r.Progress != Open {
		return 0
	}
	return max(0, *used-r.Amount)
}

// Finish is the write that settles a hold for what was used, or ends it where that is nil; no write if the hold is
// finished already. One that nobody knows is refused. The record is then as the write leaves it, and freed gets what
// comes off shards. The write is on condition of the record's version, so a hold ends once. The record expires by the
// later of two clocks, which says what is now: see [store.DB.Later].
func (r *Record) Finish(names layout.Layout, used *int64, now time.Time, freed GivenBack) (writes []*firestorepb.Write) {
	switch r.Progress {
	case Unknown:
		writes = append(writes, r.Refuse(now))
		r.Progress = Ended
	case Open:
		more := map[string]*firestorepb.Value{layout.ExpireAt: store.Time(now.Add(r.KeptFor))}
		r.Progress = Ended
		if used != nil {
			r.Progress, r.Used = Settled, *used
			more[recordUsed] = store.Int(r.Used)
		}
		more[recordState] = store.String(string(r.Progress))
		writes = append(writes, store.Update(r.Name, store.IfVersion(r.Version), more, []string{layout.Until, recordDue}))
		freed.AddUnused(names, *r)
	}
	return writes
}

// IsRecord reports whether an entry is that of an amount, and not of a seat.
func IsRecord(entry *firestorepb.Document) bool { return entry.GetFields()[recordAmount] != nil }

// Over reports whether the hold is open, and its time was over at a time of Firestore's.
func (r Record) Over(at time.Time) bool { return r.Progress == Open && !r.Until.After(at) }

// Make is the write of the record, with further fields, in the commit that takes the amount. It is on condition that
// there is none, unless the record has a version, which is of a document that stands in the way.
func (r Record) Make(names layout.Layout, further map[string]*firestorepb.Value) *firestorepb.Write {
	parts := map[string]*firestorepb.Value{}
	for id, n := range r.Parts {
		parts[id] = store.Int(n)
	}
	fields := map[string]*firestorepb.Value{
		layout.Until: store.Time(r.Until), recordEnds: store.Time(r.Until),
		recordDue:    store.String(names.HoldsOf(r.Counter, r.Field) + r.Until.UTC().Format(dueFormat)),
		entryCounter: store.String(r.Counter), entryField: store.String(r.Field),
		recordID:     store.String(r.ID),
		recordAmount: store.Int(r.Amount), recordParts: store.Map(parts),
		recordState: store.String(string(Open)), recordKeep: store.Int(int64(r.KeptFor / time.Second)),
	}
	maps.Copy(fields, further)
	return store.CreateOver(r.Name, r.Version, fields, store.ServerTime(recordAt))
}

// Refuse is the write that makes an ended record where there is none. Then nothing is ever held under its name: a
// commit that is on its way to hold it fails. Callers are told *hold ended* only after it.
func (r Record) Refuse(now time.Time) *firestorepb.Write {
	return store.CreateOver(r.Name, r.Version, map[string]*firestorepb.Value{
		entryCounter: store.String(r.Counter), entryField: store.String(r.Field), recordAmount: store.Int(0), recordID: store.String(r.ID),
		recordState: store.String(string(Ended)), layout.ExpireAt: store.Time(now.Add(r.KeptFor)),
	})
}

// GivenBack is what comes off shards, by their resource names: what is added to each.
type GivenBack map[string]escrow.Balance

// AddUnused adds what a hold gives back: its amount without what was used. If more was used than held, a shard of a
// field without a limit counts the rest. If just that was used, such a shard only gets a new version.
func (f GivenBack) AddUnused(names layout.Layout, r Record) {
	back := r.Amount - r.Used
	for _, id := range slices.Sorted(maps.Keys(r.Parts)) {
		some, off := min(back, r.Parts[id]), escrow.Balance{}
		if _, limited := layout.LimitedField(id); limited {
			some, off.Holds = max(0, some), -r.Parts[id]
		}
		back -= some
		off.Count = -some
		shard := names.Shard(r.Counter, id)
		f[shard] = f[shard].Plus(off)
	}
}

// Writes are those that take it off, on condition that the shards exist.
func (f GivenBack) Writes(field string) (writes []*firestorepb.Write) {
	for _, shard := range slices.Sorted(maps.Keys(f)) {
		writes = append(writes, seats.AddTo(shard, store.Exists(true), field, f[shard]))
	}
	return writes
}

// openDueBy asks for records of open holds of a field whose time is over at a time; the zero time is all. The field's
// name is that in the shards.
func (h Holds) openDueBy(counter, field string, by time.Time) store.Query {
	begins, end := h.db.Layout.HoldsOf(counter, field), "\uffff"
	if !by.IsZero() {
		end = by.UTC().Format(dueFormat)
	}
	return store.Query{Collection: h.db.Layout.Holds(), By: recordDue, Least: store.String(begins), Most: store.String(begins + end)}
}

// OpenAt are the records of open holds of a field, at most that many; 0 is all. From is who reads them: a transaction,
// or the database as of a time. The field's name is that in the shards.
func (h Holds) OpenAt(ctx context.Context, from book.Reader, counter, field string, at time.Time, most int) ([]*firestorepb.Document, error) {
	q := h.openDueBy(counter, field, time.Time{})
	q.At, q.Limit = at, most
	docs, err := from.Documents(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("look for holds: %w", err)
	}
	return docs, nil
}

// HeldAt is how much open holds of a field had at a time. For from and field see [Holds.OpenAt]. It reads each of them,
// but no more than half of what the budget has left: if more are open, its error is a [store.ErrContention]. Otherwise
// whoever makes thousands of holds could have one reset owe the reads of days, and several at once fill the memory.
func (h Holds) HeldAt(ctx context.Context, from book.Reader, counter, field string, at time.Time) (sum int64, err error) {
	q := h.openDueBy(counter, field, time.Time{})
	q.At, q.Fields = at, []string{recordAmount}
	if h.db.Budget.Bounds(ceiling.Reads) {
		q.Limit = int(max(fewAtOnce, h.db.Budget.Left(ceiling.Reads)/2))
		h.db.Budget.Spend(ceiling.Reads, float64(q.Limit))
		defer h.db.Budget.Spend(ceiling.Reads, -float64(q.Limit))
	}
	docs, err := from.Documents(ctx, q)
	switch {
	case err != nil:
		return 0, fmt.Errorf("look for holds: %w", err)
	case q.Limit > 0 && len(docs) == q.Limit:
		return 0, fmt.Errorf("%w: %d holds or more are open, and the ceiling has no reads for more", store.ErrContention, len(docs))
	}
	for _, doc := range docs {
		sum = store.Add(sum, RecordOf(doc).Amount)
	}
	return sum, nil
}

// EarlierLife are the writes that end open holds of a field which has no shards, in the commit that makes them: the
// holds are of an earlier life of the counter, whose documents somebody has deleted one by one, and nothing of them
// comes back. All of them end: one that stayed open would come off the new shards. Where these are more than one commit
// ends, the error is for [Holds.EndEarlierLife]. For from, at and field see [Holds.OpenAt].
func (h Holds) EarlierLife(ctx context.Context, from book.Reader, counter, field string, at time.Time) (writes []*firestorepb.Write, err error) {
	most := h.atOnce()
	docs, err := h.OpenAt(ctx, from, counter, field, at, most)
	for _, doc := range docs {
		r := RecordOf(doc)
		writes = append(writes, r.Finish(h.db.Layout, nil, h.db.Later(), GivenBack{})...)
	}
	if len(docs) == most {
		return nil, manyEarlier(writes)
	}
	return writes, err
}

// manyEarlier are the writes that end some of the holds of a counter's earlier life.
type manyEarlier []*firestorepb.Write

func (manyEarlier) Error() string { return "many holds of an earlier life of the counter end first" }
func (manyEarlier) Unwrap() error { return store.ErrContention }

// EndEarlierLife ends the holds that an error of [Holds.EarlierLife] names. It reports whether there may be more that
// the budget allows to end: false for other errors. Nobody makes shards meanwhile: whoever does ends these holds, too.
func (h Holds) EndEarlierLife(ctx context.Context, err error) (more bool) {
	many, is := errors.AsType[manyEarlier](err)
	if !is {
		return false
	}
	_, err = h.db.Commit(ctx, many...)
	return (err == nil || store.KindOf(err) == store.Conflict) && !h.budgetShort()
}

// Begin are the writes that make the shards of a field with a limit: n, or [layout.MostApart]. They end what
// [Holds.EarlierLife] ends.
func (h Holds) Begin(ctx context.Context, from book.Reader, counter string, field layout.Field, n int, limit int64, at time.Time) (writes []*firestorepb.Write, err error) {
	if writes, err = h.EarlierLife(ctx, from, counter, field.Shard, at); err != nil {
		return nil, err
	}
	return append(writes, seats.Make(h.db.Layout, counter, field, n, limit)...), nil
}

// endRecords plans a commit that ends holds of amounts.
func (h Holds) endRecords(ctx context.Context, counter string, field layout.Field, most, try int) (p page, err error) {
	q := h.openDueBy(counter, field.Shard, h.db.Now())
	q.Limit = most
	docs, err := h.db.Documents(ctx, q)
	if err != nil {
		return p, fmt.Errorf("look for holds that are over: %w", err)
	}
	// The query's own answer tells Firestore's time, if none before it did.
	now, freed := h.db.Now(), GivenBack{}
	for _, doc := range docs {
		if r := RecordOf(doc); r.Over(now) && r.Name != h.but {
			p.writes = append(p.writes, r.Finish(h.db.Layout, nil, h.db.Later(), freed)...)
			p.free = true
		}
	}
	p.more = p.free && len(docs) == most
	back, err := h.GiveBack(ctx, counter, field.Shard, freed, try > 1)
	p.writes = append(p.writes, back...)
	return p, err
}

// GiveBack are the writes that take something off shards. A shard may be gone where a commit of these has failed. The
// count of one that a resize has removed is in the others, so it comes off one of these. What holds of a field with a
// limit had is gone with its shards.
func (h Holds) GiveBack(ctx context.Context, counter, field string, freed GivenBack, shardMayBeGone bool) ([]*firestorepb.Write, error) {
	if !shardMayBeGone || len(freed) == 0 {
		return freed.Writes(field), nil
	}
	names := slices.Sorted(maps.Keys(freed))
	docs, _, err := h.db.Get(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("look for shards: %w", err)
	}
	gone, moved := escrow.Balance{}, false
	for i, doc := range docs {
		if doc == nil {
			if !limited(names[i]) {
				gone, moved = gone.Plus(freed[names[i]]), true
			}
			delete(freed, names[i])
		}
	}
	if !moved {
		return freed.Writes(field), nil
	}
	few := layout.MostApart*len(h.db.Layout.Limited()) + 1 // one of them has no limit, if there is one
	shards, err := h.db.Documents(ctx, store.Query{Collection: h.db.Layout.ShardsOf(counter), Names: true, Limit: few})
	if err != nil {
		return nil, fmt.Errorf("look for shards: %w", err)
	}
	if i := slices.IndexFunc(shards, func(shard *firestorepb.Document) bool { return !limited(shard.GetName()) }); i >= 0 {
		freed[shards[i].GetName()] = freed[shards[i].GetName()].Plus(gone)
	}
	return freed.Writes(field), nil
}

// limited reports whether a shard, by its resource name, is that of a field with a limit.
func limited(shard string) bool {
	_, is := layout.LimitedField(store.IDOf(shard))
	return is
}
