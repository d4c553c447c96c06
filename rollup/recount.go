package rollup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// aggregationTimeout bounds a counter's aggregation queries, together. Firestore ends one after 60 s; events wait for less. A
// connection that is silent mostly ends before, after 35 s: see package store.
const aggregationTimeout = 40 * time.Second

// recounted is what one recount did.
type recounted struct {
	values   map[string]int64 // :: name of a field → what it holds now, where it was newer than what the ledger had
	reads    int64            // that the queries took
	largest  int64            // that one of them took
	problems []string         // why fields stay as they are
	// unanswered: one of them is that the time was over, and Firestore has said nothing: that may be the way there, or a
	// query that takes too long.
	unanswered bool

	otherFlushes int64 // see updated
	gone         bool  // there is no such counter
}

// recount counts the documents of a counter's collection, for all fields that do, and sets the fields. Whatever came before
// it began is in what it counts. Errors: [ErrContention]; anything else is the client library's, and to recount is always safe.
func (c *Client) recount(ctx context.Context, of collection, mayAdopt bool) (recounted, error) {
	r, err := c.setCounted(ctx, of.counter, c.db.CountedIn(of.id), mayAdopt)
	if err != nil {
		return r, fmt.Errorf("count %q of counter %q: %w", of.id, of.counter, err)
	}
	if r.gone && mayAdopt && c.db.ByLedgers() {
		// A reconcile looks for ledgers then, and this counter may have none yet.
		if _, err := c.db.Commit(ctx, []*firestorepb.Write{store.Update(c.db.Note(of.counter), nil, nil, nil, store.ServerTime(noteAt))}); err != nil {
			return r, fmt.Errorf("note that %q of counter %q is to be counted: %w", of.id, of.counter, err)
		}
	}
	return r, nil
}

// noteAt is the field of a note that says when it was last written.
const noteAt = "at"

// setCounted counts fields and sets them, in one commit, on condition that the ledger is the version that was read.
func (c *Client) setCounted(ctx context.Context, counter string, fields layout.Fields, mayAdopt bool) (recounted, error) {
	r, values, err := c.aggregate(ctx, counter, fields)
	if err != nil {
		return r, err
	}
	// Without a value, too: by a ledger, or by a note, the next reconcile finds the counter, and says what is wrong.
	var newer map[string]ledger.Counted
	u, err := c.update(ctx, counter, mayAdopt, func(l *ledgerCopy, _ bool) ([]*firestorepb.Write, error) {
		var early bool
		if newer, early = l.Recount(values); early { // of before the ledger was made
			again, fresh, err := c.aggregate(ctx, counter, fields)
			if r.reads += again.reads; err != nil {
				return nil, err
			}
			values, r.problems, r.unanswered = fresh, again.problems, again.unanswered
			newer, _ = l.Recount(values)
		}
		if len(newer) == 0 {
			return nil, nil
		}
		return c.setting(counter, l.Ledger, fields, newer), nil
	})
	r.otherFlushes = u.otherFlushes
	r.gone = err == nil && u.ledger == nil
	if err != nil || u.resp == nil {
		return r, err
	}
	u.ledger.Enter(newer)
	c.put(counter, u.ledger)
	r.values = valuesOf(fields, newer)
	return r, nil
}

// setting is the commit that enters values in a ledger and sets their fields. It is made also when they hold the same as
// before: the ledger's read time has to move on, or a value of before could come after it.
func (c *Client) setting(counter string, l *ledger.Ledger, fields layout.Fields, newer map[string]ledger.Counted) []*firestorepb.Write {
	entries, mask := ledger.CountedFields(newer)
	entries[ledger.FieldFlushes] = store.Int(l.Flushes + 1)
	mask = append(mask, ledger.FieldFlushes)
	set := map[string]*firestorepb.Value{}
	var setMask []string
	changed := false
	for _, field := range fields {
		if value, ok := newer[field.Key()]; ok {
			before, known := l.Counted[field.Key()]
			changed = changed || !known || before.Value != value.Value
			set[field.Name] = store.Int(value.Value)
			setMask = append(setMask, layout.FieldPath(field.Name))
		}
	}
	if c.db.Hosted {
		setMask = c.db.SetOwn(set, setMask, map[string]*firestorepb.Value{layout.LedgerID: store.String(l.ID)})
	}
	var transforms []*firestorepb.DocumentTransform_FieldTransform
	if changed { // or else whoever listens hears nothing
		transforms = append(transforms, store.ServerTime(c.db.OwnPath(layout.UpdatedAt)))
	}
	return []*firestorepb.Write{
		store.Update(c.db.LedgerOf(counter), store.UpdatedAtTime(l.Updated), entries, mask),
		store.Update(c.db.Counter(counter), store.Exists(true), set, setMask, transforms...),
	}
}

// aggregate asks for fields' values, all as of one time, by [layout.Field.Key]. A field whose value is not an integer, or whose
// query can't succeed, is left out and logged: it stays as it is.
func (c *Client) aggregate(ctx context.Context, counter string, fields layout.Fields) (recounted, map[string]ledger.Counted, error) {
	ctx, cancel := context.WithTimeout(ctx, aggregationTimeout)
	defer cancel()
	var r recounted
	values := make(map[string]ledger.Counted, len(fields))
	var at time.Time
	problem := func(field layout.Field, what string) {
		r.problems = append(r.problems, what)
		c.log.ErrorContext(ctx, logRecountFailed, "counter", counter, "field", field.String(), "problem", what)
	}
	for _, field := range fields {
		a, err := c.db.Aggregate(ctx, c.db.CollectionOf(counter, field.Counted.Collection), field.Counted, at)
		switch {
		case err != nil && timeIsOver(ctx):
			r.unanswered = true
			problem(field, fmt.Sprintf("%s can't be counted: no answer within %v: %v", field, aggregationTimeout, err))
			continue
		case err != nil && refuses(err):
			problem(field, fmt.Sprintf("%s can't be counted: %v", field, err))
			continue
		case err != nil:
			return r, nil, fmt.Errorf("count %s: %w", field, err)
		}
		at = a.At
		c.clock.saw(at)
		r.reads += a.Reads()
		r.largest = max(r.largest, a.Reads())
		value, ok := store.Integer(a.Value)
		if !ok {
			problem(field, fmt.Sprintf("%s is not an integer: some of the documents hold fractions, or it is too large", field))
			continue
		}
		values[field.Key()] = ledger.Counted{Value: value, AsOf: at}
	}
	return r, values, nil
}

// timeIsOver reports whether the deadline of ctx has come, or comes so soon that the server's word of it may be faster.
func timeIsOver(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && time.Until(end) < time.Second
}

// refuses reports whether Firestore says with an error that a query will do no better when it is asked again, as where an index
// is missing. DEADLINE_EXCEEDED does not: this side's time is over long before the minute after which Firestore ends a query, so
// one that comes before says no more than UNAVAILABLE does.
func refuses(err error) bool {
	return status.Code(err) == codes.FailedPrecondition || status.Code(err) == codes.InvalidArgument
}

func valuesOf(fields layout.Fields, newer map[string]ledger.Counted) map[string]int64 {
	values := make(map[string]int64, len(newer))
	for _, field := range fields {
		if value, ok := newer[field.Key()]; ok {
			values[field.Name] = value.Value
		}
	}
	return values
}

// recount is a roller's: it counts a collection again, and answers the events that this covers.
func (r *Roller) recount(b recount) {
	ctx, cancel := context.WithTimeout(r.running, aggregationTimeout+flushTimeout)
	defer cancel()
	done, err := r.client.recount(ctx, b.of, !b.gone)
	r.reportRecount(ctx, b, done, err)
	o := committed
	switch {
	case err != nil:
		o = failure(err)
	case done.unanswered:
		o, err = unanswered, fmt.Errorf("count %q of counter %q: %w", b.of.id, b.of.counter, context.DeadlineExceeded)
	case len(done.problems) > 0: // nothing is gained by counting it again soon
		o = unchanged
	}
	r.mu.Lock()
	covered, refused := r.recounts.done(time.Now(), b, o, done.largest, done.otherFlushes)
	r.rest()
	r.mu.Unlock()
	if o == unanswered && len(covered) > 0 {
		r.log.LogAttrs(ctx, slog.LevelError, logRecountFailed, slog.String("counter", b.of.counter), slog.String("collection", b.of.id),
			slog.Int("acknowledged", len(covered)), slog.String("problem", "its queries take too long, so its events are acknowledged"))
	}
	for _, event := range covered {
		event <- nil
	}
	for _, event := range refused {
		event <- err
	}
	r.poke()
}

func (r *Roller) reportRecount(ctx context.Context, b recount, done recounted, err error) {
	attrs := []slog.Attr{
		slog.String("counter", b.of.counter),
		slog.String("collection", b.of.id),
		slog.Int64("events", b.events),
		slog.Int64("reads", done.reads),
		slog.Any("values", done.values),
		slog.Float64("duration_ms", ms(time.Since(b.started))),
	}
	switch {
	case err != nil && errors.Is(err, ErrContention):
		r.log.LogAttrs(ctx, slog.LevelWarn, LogContention, append(attrs, slog.Any("error", err))...)
	case err != nil:
		r.log.LogAttrs(ctx, slog.LevelError, logRecountFailed, append(attrs, slog.Any("error", err))...)
	case done.gone:
		r.log.LogAttrs(ctx, slog.LevelInfo, "no such counter", attrs...)
	default:
		r.log.LogAttrs(ctx, slog.LevelInfo, logRecount, append(attrs, slog.Int64("other_flushes", done.otherFlushes))...)
	}
}
