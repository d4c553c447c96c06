package rollup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// flushed is what one flush did.
type flushed struct {
	diff   ledger.Diff      // of the ledger
	deltas map[string]int64 // what the shown fields grew by
	// collections of which the ledger, made at that time, has no answer, met by its first flush: to be
	// asked for
	unasked []string
	made    time.Time

	// how many others made since this client's last one, as far as it knows: 0 when it is alone
	otherFlushes int64
	committed    bool
	gone         bool // there is nothing below the counter's path to count for
}

// patience is how long a flush goes on. Every lost condition means that another writer made
// progress, so more than a few in a row only happen to a counter that many write.
var patience = store.Patience{Conflicts: 6, Doubts: 12, Yield: true, Alone: true}

// flush counts states and answers, each exactly once however often they are flushed, in one commit:
// the ledger, on condition that it is as it was read, and the counter's document, whose shown
// fields grow by their differences; one that is shown for the first time is set. One that doesn't
// grow is incremented by 0, and what the commit says of each field is compared with the ledger:
// where it is something else, one more commit sets them. So whatever others have done to the
// document is healed by the flush that meets it. Where the document is missing, the ledger counts
// alone.
//
// Errors: [ErrContention], [ErrDamagedLedger], [ErrLedgerFull]; anything else is the client library's, and flushing again
// is always safe.
func (c *Client) flush(ctx context.Context, b batch) (flushed, error) {
	f := flushing{client: c, batch: b, held: c.take(b.counter)}
	f.last = f.held
	resp, err := c.db.Settle(ctx, patience, f.plan)
	if err != nil {
		if store.IsTooLarge(err) {
			// Its document is beyond a megabyte, whatever made it so large.
			err = fmt.Errorf("%w: Firestore doesn't take it: %w", ErrLedgerFull, err)
		}
		return f.flushed, fmt.Errorf("roll up counter %q: %w", b.counter, err)
	}
	if resp == nil {
		return f.flushed, nil
	}
	l := f.ledger
	l.Flushes++
	l.Updated = resp.GetWriteResults()[0].GetUpdateTime().AsTime()
	f.committed = true
	for field, kept := range f.diff.Kept {
		c.log.WarnContext(ctx, logProblem, "counter", b.counter, "problem", problemKept(field, kept))
	}
	switch results := resp.GetWriteResults(); {
	case len(results) == 1: // the ledger counts, and the document shows it once there is room
		c.log.ErrorContext(ctx, logProblem, "counter", b.counter, "problem", problemTooLarge)
	case f.missing, f.shows(results[1].GetTransformResults()):
		c.put(b.counter, l)
	default:
		if err := c.show(ctx, b.counter, l); err == nil {
			c.put(b.counter, l)
		} // or else the next flush meets it again: what was flushed is counted
	}
	return f.flushed, nil
}

// problemTooLarge says what keeps a counter's document from showing its ledger.
const problemTooLarge = "its document can't be written, because it has no room or holds what Firestore no longer takes; make room in it: what is counted meanwhile is kept, and shown then"

// spare is how many entries without counts a full ledger has at least before room is made: of
// shards that are gone, most likely.
const spare = 100

// flushing is a flush on its way.
type flushing struct {
	client *Client
	batch  batch
	held   *ledgerCopy // this client's copy; nil once it was of no use
	last   *ledgerCopy // as of this client's last flush
	room   bool        // entries of shards that are gone were removed already

	// Of the commit that was planned last:
	ledger  *ledgerCopy    // with diff in it
	missing bool           // the document
	shown   []layout.Field // those that were incremented, in the order of their transforms

	flushed
}

// plan is the commit of what is new in the batch.
func (f *flushing) plan(ctx context.Context) ([]*firestorepb.Write, error) {
	c, b := f.client, f.batch
	l := f.held
	f.held = nil
	var doc *firestorepb.Document
	now := time.Time{}
	copied := l != nil && !l.shared && l.Gone.IsZero()
	if copied {
		f.diff = l.Merge(b.states, b.answers)
		copied = len(f.diff.Full) == 0 // a reconcile may have made room
	}
	if !copied {
		var err error
		if l, doc, now, err = c.read(ctx, b.counter, b.adopts, b.counts); err != nil || l == nil {
			f.gone = err == nil
			return nil, err
		}
		switch {
		case f.last != nil && f.last.Created.Equal(l.Created):
			f.otherFlushes = l.Flushes - f.last.Flushes
		case l.Flushes > 0 && now.Sub(l.Updated) < b.quiet:
			f.otherFlushes = 1
		}
		l.shared = f.otherFlushes > 0
		f.diff = l.Merge(b.states, b.answers)
		c.db.Meet(l.Ledger, doc, now, &f.diff)
		if len(f.diff.Full) > 0 && !f.room && l.Gaps() >= spare {
			f.room = true
			// where that makes no room, what the ledger has counts on
			if _, err := c.reconcile(ctx, b.counter, ReconcileOptions{each: true}); err != nil && !errors.Is(err, ErrLedgerFull) {
				return nil, err
			}
			return f.plan(ctx)
		}
	}
	f.missing = !copied && doc == nil
	f.ledger, f.made = l, l.Created
	for _, field := range c.db.Counted {
		if _, asked := l.Answers[field.Key()]; l.Flushes == 0 && !f.missing && !asked {
			f.unasked = append(f.unasked, field.Counted.Documents())
		}
	}
	if f.diff.Empty() && (copied || f.missing || c.db.Shows(doc, l.Ledger)) {
		c.put(b.counter, l)
		return nil, nil
	}
	return f.writes(), nil
}

func (f *flushing) writes() []*firestorepb.Write {
	db, l, counter := f.client.db, f.ledger, f.batch.counter
	before := f.client.shown(l.Ledger)
	l.Apply(f.diff)
	fields, removed := store.LedgerDiff(f.diff)
	fields[store.LedgerFlushes] = store.Int(l.Flushes + 1)
	view := store.DeleteIf(db.Counter(counter), store.Exists(false)) // it isn't there, and nothing changes
	f.shown, f.deltas = nil, map[string]int64{}
	var transforms []*firestorepb.DocumentTransform_FieldTransform
	// fields that are shown for the first time: what they have held so far is no part of the total;
	// doubles: an increment of one is not exact, and one of null makes a number of it; and what grows
	// by more than an increment can
	set := map[string]*firestorepb.Value{}
	for _, field := range db.Shown() {
		path := layout.FieldPath(field.Name)
		total, integer := l.Total(field)
		was, known := before[field.Name]
		if integer {
			f.deltas[field.Name] = ledger.Sub(total, was)
		}
		if known && ledger.Add(was, f.deltas[field.Name]) == total {
			f.shown = append(f.shown, field)
			transforms = append(transforms, store.Increment(path, f.deltas[field.Name]))
		} else if value := store.ShownAs(field, l.Ledger); value != nil {
			set[field.Name] = value
		}
	}
	if !f.missing {
		transforms = append(transforms, store.ServerTime(db.OwnPath(layout.UpdatedAt)))
		view = store.Update(db.Counter(counter), store.Exists(true), set, nil, transforms...)
	}
	return []*firestorepb.Write{db.UpdateLedger(counter, l.Ledger, fields, removed), view}
}

// shown are the totals that a counter's document shows, as the ledger has it. What is in the place
// of a field that whoever wrote the ledger last doesn't show is none of ours, and so is a number
// that the ledger was made beside, until the first flush.
func (c *Client) shown(l *ledger.Ledger) map[string]int64 {
	totals := l.Totals(c.db.Shown()...)
	for _, field := range c.db.Shown() {
		_, known := l.Sums[field.Key()]
		if _, replaced := l.Replaced[field.Name]; !known || replaced && l.Flushes == 0 {
			delete(totals, field.Name)
		}
	}
	return totals
}

// shows reports whether the document's fields, as the commit has left them, are what the ledger
// has. Where a field was another number that something else wrote, that is drift, and logged; one
// that was not there is a document that was made again.
func (f *flushing) shows(results []*firestorepb.Value) bool {
	shows, drift := true, int64(0)
	for i, field := range f.shown {
		total, _ := f.ledger.Total(field)
		is, integer := results[i].GetValueType().(*firestorepb.Value_IntegerValue)
		if integer && is.IntegerValue == total {
			continue
		}
		shows = false
		if n, _ := store.Integer(results[i]); n != f.deltas[field.Name] {
			by := ledger.Sub(n, total)
			if len(f.shown) > 1 { // of several, without signs: or they might cancel out
				by = max(by, ledger.Sub(0, by))
			}
			drift = ledger.Add(drift, by)
		}
	}
	if drift != 0 {
		f.client.log.Warn(LogDrift, "counter", f.batch.counter, "drift", drift)
	}
	return shows
}

// show sets the shown fields of a counter's document to what the ledger has, on condition that the
// ledger is as it is.
func (c *Client) show(ctx context.Context, counter string, l *ledgerCopy) error {
	_, err := c.db.Commit(ctx, []*firestorepb.Write{
		c.db.UpdateLedger(counter, l.Ledger, nil, nil), // it is there for its condition
		c.db.Show(counter, store.Exists(true), l.Ledger),
	})
	if err != nil {
		c.log.LogAttrs(ctx, slog.LevelInfo, "the counter's document is set by the next roll-up", slog.String("counter", counter), slog.Any("error", err))
	}
	return err
}

// ledgerCopy is a ledger as this client last wrote it. It is taken out of the cache while it is
// used: a concurrent call for the same counter reads its own.
type ledgerCopy struct {
	*ledger.Ledger
	// shared: others wrote it between this client's last two flushes, so that a commit on this
	// copy's condition would likely fail, and load the documents for nothing. The ledger is
	// read first then.
	shared bool
}

func (c *Client) take(counter string) *ledgerCopy {
	l, ok := c.known.Get(counter)
	if !ok || !c.known.Remove(counter) { // a concurrent call was faster
		return nil
	}
	return l
}

func (c *Client) put(counter string, l *ledgerCopy) { c.known.Add(counter, l) }
