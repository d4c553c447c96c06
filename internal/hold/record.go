package hold

import (
	"maps"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
	"github.com/firestore-counters/counters/internal/store"
)

// Record is of a hold of an amount. The commit that takes the amount makes it, and says there in which shards it is.
// Whoever settles or ends the hold changes the record, on condition of its version, and takes the amount off those
// shards in the same commit. That only makes room, so it reads no shard and is on no condition of one. The record
// stays for as long as somebody may ask again, or an earlier commit may arrive.
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

// isRecord reports whether an entry is that of an amount, and not of a seat.
func isRecord(entry *firestorepb.Document) bool { return entry.GetFields()[recordAmount] != nil }

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
	w := store.Create(r.Name, fields, store.ServerTime(recordAt))
	if !r.Version.IsZero() {
		w.CurrentDocument = store.UpdatedAtTime(r.Version)
	}
	return w
}

// Settle is the write that has the record be settled, and End the one that has it be ended. Both are on condition of
// its version, so that a hold ends once. The record expires by the later of two clocks: see [store.DB.Later].
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

// Refuse is the write that has nothing ever be held under the name of the record, of which nothing was held so far:
// *hold ended* is answered after it. A commit that was to hold it, and is on its way, fails.
func (r Record) Refuse(now time.Time) *firestorepb.Write {
	w := store.Create(r.Name, map[string]*firestorepb.Value{
		entryCounter: store.String(r.Counter), entryField: store.String(r.Field), recordAmount: store.Int(0), recordID: store.String(r.ID),
		recordState: store.String(string(Ended)), layout.ExpireAt: store.Time(now.Add(r.Keep)),
	})
	if !r.Version.IsZero() {
		w.CurrentDocument = store.UpdatedAtTime(r.Version)
	}
	return w
}

// Freed is what comes off shards, by their resource names: what is added to each.
type Freed map[string]escrow.Held

// Free has a hold's amount come off its shards, but for what was used of it.
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

// More has a settle take more than was held, of a field without a limit.
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

// Move has what comes off shards that are gone come off another one, or off none: the count of a shard that a resize
// has removed is in the others, and what holds of a field with a limit have goes with its shards. Instead is a shard
// that is there; "" if none is.
func (f Freed) Move(gone []string, instead string) {
	for _, shard := range gone {
		off := f[shard]
		delete(f, shard)
		if _, limited := layout.LimitedField(shard[strings.LastIndexByte(shard, '/')+1:]); !limited && instead != "" {
			f[instead] = f[instead].Plus(off)
		}
	}
}
