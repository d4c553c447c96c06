package rollup

import (
	"context"
	"maps"
	"slices"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// leaves leaves the batch, but for what is counted already, to an instance that has spoken or is about
// to. It reports false if all is counted, or if something is left that nobody else does, such as a
// deletion, which no snapshot covers. It merges nothing.
func (f *flushing) leaves(k *book.Book, spoken bool) bool {
	if !f.batch.follows || !spoken && !f.hopes(k) || k.Changed() {
		return false
	}
	d := k.Ledger.Merge(f.batch.states, f.batch.answers)
	if len(d.Full)+len(d.Base)+len(d.Answers)+len(d.Early) > 0 {
		return false
	}
	open := map[string]bool{}
	for _, s := range f.batch.states {
		if _, new := d.States[ledger.Key(s.Shard)]; new {
			if s.Gone {
				return false
			}
			open[s.Shard] = true
		}
	}
	if len(open) == 0 {
		return false
	}
	f.left, f.open = true, open
	f.client.put(f.batch.counter, &ledgerCopy{Ledger: k.Ledger, shared: true})
	return true
}

// hopes reports whether another instance may pay for a snapshot that this one can't pay for.
func (f *flushing) hopes(k *book.Book) bool {
	if !f.wanted() || f.affords(k) || !f.batch.shared && f.otherFlushes == 0 {
		return false
	}
	now := f.client.db.Now()
	f.ago = now.Sub(k.Ledger.Updated)
	return hopes(now, k.Ledger.Floor, k.Ledger.Created, f.batch.least)
}

// wanted reports whether a snapshot is worth its reads.
func (f *flushing) wanted() bool {
	return f.snap == nil && !f.mute && (f.batch.speaks || f.otherFlushes > 0 || f.again)
}

// affords reports whether a snapshot is paid for, by as many shards as the ledger knows.
func (f *flushing) affords(k *book.Book) bool {
	return max(1, len(k.Ledger.States)) <= f.batch.reads-f.reads
}

// speak has the flush count a snapshot beside the batch, if that is worth its reads. The batch is
// merged first: of fields that are no integers its events know more than a snapshot.
func (f *flushing) speak(ctx context.Context, k *book.Book) {
	f.spoke, f.news = false, false
	if len(f.diff.Full) > 0 {
		return
	}
	if f.wanted() {
		f.snap = f.snapshot(ctx, k)
		f.mute = f.snap == nil
	}
	if f.snap == nil {
		return
	}
	now := k.At
	if now.IsZero() {
		now = f.snap.At // on the condition of the commit the ledger is then what it is in memory
	}
	told := maps.Clone(f.diff.States)
	d, spoke := k.Speak(now, *f.snap)
	if !spoke {
		return
	}
	f.spoke, f.news = true, news(told, d.States, f.snap.At)
	f.diff = f.diff.Then(d)
}

// snapshot reads the shards at one time, which is no earlier than the ledger's. It is nil if that takes
// more reads than are paid for, fails, or says too little: of a field that is no integer only events
// say what was counted.
func (f *flushing) snapshot(ctx context.Context, k *book.Book) *ledger.Snapshot {
	db, l := f.client.db, k.Ledger
	if !f.affords(k) {
		return nil
	}
	at, reads, lives := k.Lives(ctx)
	if f.reads += reads; !lives {
		return nil
	}
	allowed := f.batch.reads - f.reads
	shards, err := db.Documents(ctx, store.Query{Collection: db.Layout.ShardsOf(k.Counter), At: at, Limit: allowed + 1})
	f.reads += max(1, len(shards))
	if err != nil || len(shards) > allowed {
		return nil
	}
	s := &ledger.Snapshot{At: at, States: book.Shards(shards).States()}
	if f.diff.Uneven.IsZero() { // or the batch has just said so
		s.Uneven = l.Uneven
	}
	if slices.ContainsFunc(s.States, func(s ledger.State) bool { return len(s.Odd)+len(s.Blank) > 0 }) {
		return nil
	}
	return s
}
