package hold

import (
	"context"
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
	Shards []Shard
}

// Shard is what a shard held at a version.
type Shard struct {
	Shard   string
	Version time.Time
	Held    escrow.Held
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
			if held, ok := seats.After(result); ok {
				done.Shards = append(done.Shards, Shard{writes[i].GetUpdate().GetName(), result.GetUpdateTime().AsTime(), held})
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

// takes asks from where more is taken until that is known, or there is no room for it, or the hold was finished. What was
// sent before it was seen that there is no room, and has not landed, never will: it wants shards that had room. So the
// record, read after that, says what is true.
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

// finish are the writes that finish a hold, none if it is finished, and has its record be as they leave it. Look says
// that a commit of such writes failed, most likely because a shard is gone.
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
	back, err := h.Freeing(ctx, r.Counter, r.Field, freed, look)
	return append(writes, back...), err
}
