package rollup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// patience is how long a flush goes on. Each lost condition means that another writer was faster.
var patience = store.Patience{Conflicts: 6, Doubts: 12, Yield: true}

// errNoRoom says that a ledger is full, and has entries of shards that are gone.
var errNoRoom = errors.New("the ledger has no room before it is reconciled")

// flush counts states and answers in one commit of the counter's book, each once however often they are
// flushed. If the commit's answer says that a field is not what the ledger has, one more commit sets
// the document. If the document is missing, the ledger counts alone.
//
// Errors: [ErrContention], [ErrDamagedLedger], [ErrLedgerFull], or the client library's. Flushing again
// is always safe.
func (c *Client) flush(ctx context.Context, b batch) (flushed, error) {
	f := flushing{client: c, batch: b, known: c.take(b.counter)}
	if f.last, f.floor = f.known, b.floor; f.last != nil {
		f.floor = f.last.Floor
	}
	committed, err := c.books.Update(ctx, patience, f.change)
	if errors.Is(err, errNoRoom) {
		f.full = true
		// where that makes no room, what the ledger has counts on
		if _, err = c.reconcile(ctx, b.counter, ReconcileOptions{each: true}); err == nil || errors.Is(err, ErrLedgerFull) {
			committed, err = c.books.Update(ctx, patience, f.change)
		}
	}
	if f.book != nil {
		f.deltas = f.book.Deltas // even if the commit's answer was lost
	}
	if err != nil {
		if store.IsTooLarge(err) {
			// Its document is beyond a megabyte, whatever made it so large.
			err = fmt.Errorf("%w: Firestore doesn't take it: %w", ErrLedgerFull, err)
		}
		return f.flushed, fmt.Errorf("roll up counter %q: %w", b.counter, err)
	}
	if f.committed = committed != nil; f.committed {
		f.version, f.floor = f.book.Ledger.Updated, floorOf(f.book.Ledger)
		f.look(ctx)
	}
	return f.flushed, nil
}

// look looks at what the commit says of the counter's document.
func (f *flushing) look(ctx context.Context) {
	c, counter := f.client, f.batch.counter
	for field, kept := range f.diff.Kept {
		c.log.WarnContext(ctx, logProblem, "counter", counter, "problem", problemKept(field, ledger.Add(kept...)))
	}
	if f.book.Alone() { // the ledger counts, and the document shows it once there is room
		c.log.ErrorContext(ctx, logProblem, "counter", counter, "problem", problemTooLarge)
		return
	}
	agrees, drift := f.book.Seen()
	if drift != 0 {
		c.log.WarnContext(ctx, LogDrift, "counter", counter, "drift", drift)
	}
	if !agrees {
		if err := f.book.Mend(ctx); err != nil { // the next flush meets it again: what was flushed is counted
			c.log.InfoContext(ctx, "the counter's document is set by the next roll-up", "counter", counter, "error", err)
			return
		}
	}
	c.put(counter, f.copyOf(f.book))
}

// logFlush writes the one log line per flush that metrics are made from.
func (c *Client) logFlush(ctx context.Context, b batch, applied flushed, err error) {
	delta := slog.Any("deltas", applied.deltas)
	if fields := c.db.Layout.Fields.Names(); len(fields) == 1 {
		delta = slog.Int64("delta", applied.deltas[fields[0]])
	}
	attrs := []slog.Attr{
		slog.String("counter", b.counter),
		slog.Int("events", b.events-len(applied.open)),
		slog.Int("shards", len(applied.diff.States)),
		delta,
		slog.Float64("duration_ms", ms(time.Since(b.started))),
	}
	if oldest := applied.diff.Oldest(); !oldest.IsZero() && applied.committed {
		attrs = append(attrs, slog.Float64("lag_ms", ms(time.Since(oldest))))
	}
	if applied.reads > 0 {
		attrs = append(attrs, slog.Int("reads", applied.reads))
	}
	switch {
	case err != nil && errors.Is(err, ErrContention):
		c.log.LogAttrs(ctx, slog.LevelWarn, LogContention, append(attrs, slog.Any("error", err))...)
	case err != nil && failure(err) == own: // said once, by its note
	case err != nil:
		c.log.LogAttrs(ctx, slog.LevelError, logRollupFailed, append(attrs, slog.Any("error", err))...)
	case applied.gone:
		c.log.LogAttrs(ctx, slog.LevelInfo, "no such counter", attrs...)
	default:
		c.log.LogAttrs(ctx, slog.LevelInfo, LogRollup, append(attrs, slog.Int64("other_flushes", applied.otherFlushes))...)
	}
	if len(applied.diff.Full) > 0 {
		c.log.LogAttrs(ctx, slog.LevelError, logLedgerFull, slog.String("counter", b.counter), slog.Int("refused", len(applied.diff.Full)),
			slog.Int("known", ledger.MaxNumbers))
	}
}

// spare is how many entries without counts, of deleted shards most likely, make it worth to make room
// in a full ledger.
const spare = 100

// flushing is a flush on its way.
type flushing struct {
	client *Client
	batch  batch
	known  *ledgerCopy // this client's copy; nil once it was of no use
	last   *ledgerCopy // as of this client's last flush
	full   bool        // entries of shards that are gone were removed already
	book   *book.Book  // that was to be committed last; nil before the first was
	snap   *ledger.Snapshot
	mute   bool // no snapshot is taken any more
	again  bool // another attempt: others were faster, most likely

	flushed
}

// change is the counter's book with what is new in the batch.
func (f *flushing) change(ctx context.Context) (*book.Book, error) {
	k := f.fromMemory()
	remembered := k != nil
	if f.left {
		return nil, nil
	}
	if !remembered {
		var err error
		if k, err = f.client.read(ctx, f.batch.counter, f.batch.adopts, f.batch.counts); err != nil || k.Ledger == nil {
			f.gone = err == nil
			return nil, err
		}
		spoken := f.noticeOthers(k)
		if f.leaves(k, spoken) {
			return nil, nil
		}
		if f.merge(k); len(f.diff.Full) > 0 && !f.full && k.Ledger.Gaps() >= spare {
			return nil, errNoRoom
		}
	}
	if !k.Changed() && (remembered || k.Missing() || k.Agrees()) {
		f.client.put(f.batch.counter, f.copyOf(k))
		return nil, nil
	}
	f.speak(ctx, k)
	f.book, f.again = k, true
	k.Flush()
	return k, nil
}

// fromMemory is the book with this client's copy of the ledger, once; nil if that is of no use.
func (f *flushing) fromMemory() *book.Book {
	known := f.known
	f.known = nil
	if known == nil || known.shared || !known.Gone.IsZero() {
		return nil
	}
	k := f.client.books.InMemory(f.batch.counter, known.Ledger)
	if f.left = f.leaves(k, false); f.left {
		return k
	}
	if f.merge(k); len(f.diff.Full) > 0 { // a reconcile may have made room
		return nil
	}
	return k
}

// merge merges the batch into the ledger. What it finds to be asked for stays so: after a first flush
// whose answer was lost, the ledger says that it was flushed.
func (f *flushing) merge(k *book.Book) {
	f.made = k.Ledger.Created
	for _, field := range f.client.db.Layout.Counted {
		if _, asked := k.Ledger.Answers[field.Key()]; k.Ledger.Flushes == 0 && !k.Missing() && !asked {
			f.unasked = append(f.unasked, field.Counted.Documents())
		}
	}
	f.diff = k.Merge(f.batch.states, f.batch.answers)
}

// noticeOthers notices how many flushes others have made. It reports whether one of them has spoken for
// this one, or was just faster: then a commit now would likely fail, too.
func (f *flushing) noticeOthers(k *book.Book) (spoken bool) {
	l := k.Ledger
	switch {
	case f.last != nil && f.last.Created.Equal(l.Created):
		f.otherFlushes = l.Flushes - f.last.Flushes
	case l.Flushes > 0 && k.At.Sub(l.Updated) < f.batch.least && !l.Updated.Equal(f.batch.mine):
		f.otherFlushes = 1
	}
	spoken = spokenFor(f.floor, l.Floor, l.Created) || f.again && f.otherFlushes > 0
	f.floor, f.ago = floorOf(l), k.At.Sub(l.Updated)
	return spoken
}

// floorOf is a ledger's floor, or zero if the ledger claims a time that has not come.
func floorOf(l *ledger.Ledger) time.Time {
	if l.Ahead() {
		return time.Time{}
	}
	return l.Floor
}

// copyOf is what this client keeps of a book.
func (f *flushing) copyOf(k *book.Book) *ledgerCopy {
	return &ledgerCopy{Ledger: k.Ledger, shared: f.otherFlushes > 0}
}
