package hold

import (
	"context"
	"maps"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
	"github.com/firestore-counters/counters/internal/store"
)

// Finish is how a hold of an amount is settled, or ended.
type Finish struct {
	None  Record // the record of a hold that there isn't, with its name
	Used  *int64 // how much stays counted; nil ends the hold
	Field layout.Field
	// More says from which shards a settle takes more of a field with a limit than was held, on condition of their
	// versions: no shards if there is no room, unless holds have ended since that was seen. Look says that what was known
	// of shards is old, most likely.
	More func(ctx context.Context, more int64, look bool) (takes []Taking, ended bool, err error)
}

// Taking is what is taken from a shard that is as it was at a version.
type Taking struct {
	Shard   string // its resource name
	Version time.Time
	By      escrow.Held
}

// Finished is what became of a hold.
type Finished struct {
	Record            // as it is now
	Refused bool      // there was no room for more, and nothing was changed
	At      time.Time // when it was finished; zero if it was before
	// Shards are what shards of a field with a limit hold since then, if they are as they can be.
	Shards []seats.Shard
}

// looksAfter is how many commits are sent by what is known of a limited field's shards, before all are looked at again.
const looksAfter = 4

// finishPatience is for others who write the same shards, or end the hold.
var finishPatience = store.Patience{Conflicts: 30, Doubts: 12}

// Finish settles or ends a hold, once: where it is finished already, it says how. *Ended* is answered only once the
// record says so, also for one that there wasn't. Errors are those of [store.DB.CommitIf], and of [Finish.More].
func (h Holds) Finish(ctx context.Context, f Finish) (done Finished, err error) {
	var writes []*firestorepb.Write
	try := 0
	resp, err := h.db.CommitIf(ctx, finishPatience, func(ctx context.Context) (_ []*firestorepb.Write, err error) {
		try++
		done, writes = Finished{}, nil
		if done.Record, err = h.read(ctx, f.None); err != nil {
			return nil, err
		}
		look := try > 1
		var takes []Taking
		if f.Field.Limit != nil {
			look = try%looksAfter == 0
			if more := f.more(done.Record); more > 0 {
				if takes, err = h.takes(ctx, f, more, look, &done); err != nil || done.Refused {
					return nil, err
				}
			}
		}
		writes, err = h.finish(ctx, f, &done.Record, takes, look)
		return writes, err
	})
	if err == nil && resp != nil {
		done.At = resp.GetCommitTime().AsTime()
		for i, result := range resp.GetWriteResults() {
			if shard, ok := seats.After(writes[i], result); ok {
				done.Shards = append(done.Shards, shard)
			}
		}
	}
	return done, err
}

// read reads a record. Where there is none, it is the one that is given, at the version of what stands in its way.
func (h Holds) read(ctx context.Context, none Record) (Record, error) {
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

// more is how much more than it has an open hold is settled for.
func (f Finish) more(r Record) int64 {
	if f.Used == nil || r.Progress != Open {
		return 0
	}
	return max(0, *f.Used-r.Amount)
}

// takes asks [Finish.More] until it says from which shards more is taken, there is no room for it, or somebody has finished
// the hold. A commit that was sent before there was no room, and hasn't landed, never will, because its shards have
// changed. So the record, read after that, has the last word.
func (h Holds) takes(ctx context.Context, f Finish, more int64, look bool, done *Finished) ([]Taking, error) {
	for {
		takes, ended, err := f.More(ctx, more, look)
		if err != nil || len(takes) > 0 {
			return takes, err
		}
		if done.Record, err = h.read(ctx, f.None); err != nil || f.more(done.Record) == 0 {
			return nil, err
		}
		if !ended {
			done.Refused = true
			return nil, nil
		}
		look = true
	}
}

// finish are the writes that finish a hold; none if it is finished already. It changes r to what they leave. Look says that
// a commit of such writes failed, most likely because a shard is gone.
func (h Holds) finish(ctx context.Context, f Finish, r *Record, takes []Taking, look bool) (writes []*firestorepb.Write, err error) {
	switch {
	case r.Progress == Unknown:
		writes = append(writes, r.Refuse(h.db.Later()))
		r.Progress = Ended
		return writes, nil
	case r.Progress != Open:
		return nil, nil
	}
	freed := Freed{}
	if f.Used == nil {
		writes = append(writes, r.End(h.db.Later()))
		freed.Free(h.db.Layout, *r, 0)
		r.Progress = Ended
	} else {
		writes = append(writes, r.Settle(*f.Used, h.db.Later()))
		freed.Free(h.db.Layout, *r, *f.Used)
		if more := f.more(*r); more > 0 && takes == nil {
			freed.More(h.db.Layout, *r, more)
		}
		r.Progress, r.Used = Settled, *f.Used
	}
	for _, t := range takes {
		writes = append(writes, seats.Change(t.Shard, store.UpdatedAtTime(t.Version), r.Field, t.By.Plus(freed[t.Shard])))
		delete(freed, t.Shard)
	}
	back, err := h.freeing(ctx, r.Counter, r.Field, freed, look)
	return append(writes, back...), err
}

// Record says what a hold of an amount has. The commit that takes the amount makes the record, which names the shards that
// count the amount. Whoever settles or ends the hold changes the record, on condition of its version, and takes the amount
// off those shards in the same commit. That only makes room, so it reads no shard, and its only condition is that they
// exist. The record stays for as long as somebody may ask again, or an earlier commit may arrive.
type Record struct {
	Counter string
	Field   string           // its name in the shards
	ID      string           // what its caller calls it
	Amount  int64            // 0 of an id that nobody had held by the time when somebody ended it
	Parts   map[string]int64 // :: shard's id → how much of the amount it counts
	Until   time.Time        // when its time is over: from then on anybody may end it
	Progress
	Made time.Time     // when it was committed
	Used int64         // of one that is settled: how much stays counted
	Keep time.Duration // how long the record stays after the hold

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

// Until is [layout.Until].
const Until = layout.Until

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
		Made: f[recordAt].GetTimestampValue().AsTime(), Used: f[recordUsed].GetIntegerValue(), Keep: time.Duration(f[recordKeep].GetIntegerValue()) * time.Second,
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
		Until: store.Time(r.Until), recordEnds: store.Time(r.Until),
		recordDue:    store.String(names.HoldsOf(r.Counter, r.Field) + r.Until.UTC().Format(dueFormat)),
		entryCounter: store.String(r.Counter), entryField: store.String(r.Field),
		recordID:     store.String(r.ID),
		recordAmount: store.Int(r.Amount), recordParts: store.Map(parts),
		recordState: store.String(string(Open)), recordKeep: store.Int(int64(r.Keep / time.Second)),
	}
	maps.Copy(fields, further)
	return store.CreateOver(r.Name, r.Version, fields, store.ServerTime(recordAt))
}

// Settle is the write that marks the record as settled, and End the one that marks it as ended. Both are on condition of
// its version, so a hold ends once. The record expires by the later of two clocks: see [store.DB.Later].
func (r Record) Settle(used int64, now time.Time) *firestorepb.Write {
	return r.finish(now, Settled, map[string]*firestorepb.Value{recordUsed: store.Int(used)})
}

// End is the inverse of [Record.Make]: see [Record.Settle].
func (r Record) End(now time.Time) *firestorepb.Write { return r.finish(now, Ended, nil) }

func (r Record) finish(now time.Time, state Progress, fields map[string]*firestorepb.Value) *firestorepb.Write {
	more := map[string]*firestorepb.Value{recordState: store.String(string(state)), layout.ExpireAt: store.Time(now.Add(r.Keep))}
	maps.Copy(more, fields)
	return store.Update(r.Name, store.UpdatedAtTime(r.Version), more, []string{Until, recordDue})
}

// Refuse is the write that makes an ended record where there is none. Then nothing is ever held under its name: a commit
// that is on its way to hold it fails. Callers are told *hold ended* only after it.
func (r Record) Refuse(now time.Time) *firestorepb.Write {
	return store.CreateOver(r.Name, r.Version, map[string]*firestorepb.Value{
		entryCounter: store.String(r.Counter), entryField: store.String(r.Field), recordAmount: store.Int(0), recordID: store.String(r.ID),
		recordState: store.String(string(Ended)), layout.ExpireAt: store.Time(now.Add(r.Keep)),
	})
}

// Freed is what comes off shards, by their resource names: what is added to each.
type Freed map[string]escrow.Held

// Free takes a hold's amount off its shards, except for what was used of it.
func (f Freed) Free(names layout.Layout, r Record, used int64) {
	back := max(0, r.Amount-used)
	for _, id := range slices.Sorted(maps.Keys(r.Parts)) {
		n := r.Parts[id]
		some := min(back, n)
		back -= some
		off := escrow.Held{Count: -some}
		if _, limited := layout.LimitedField(id); limited {
			off.Holds = -n
		}
		if off != (escrow.Held{}) {
			shard := names.Shard(r.Counter, id)
			f[shard] = f[shard].Plus(off)
		}
	}
}

// More adds to a shard what a settle takes beyond the hold, in a field without a limit.
func (f Freed) More(names layout.Layout, r Record, more int64) {
	shard := names.Shard(r.Counter, slices.Sorted(maps.Keys(r.Parts))[0])
	f[shard] = f[shard].Plus(escrow.Held{Count: more})
}

// Writes are those that take it off, on condition that the shards exist.
func (f Freed) Writes(field string) (writes []*firestorepb.Write) {
	for _, shard := range slices.Sorted(maps.Keys(f)) {
		writes = append(writes, seats.Change(shard, store.Exists(true), field, f[shard]))
	}
	return writes
}
