package rollup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
)

// aggregationTimeout bounds a counter's aggregation queries, together. Firestore ends one after 60 s,
// and events wait for 55 s at most.
const aggregationTimeout = 50 * time.Second

// asked is what queries have said.
type asked struct {
	answers  map[string]ledger.Answer // :: key of a field's definition → what was asked for it
	reads    int64                    // that the queries took
	largest  int64                    // that one of them took
	problems []string                 // why fields stay as they are
	// unanswered: the time was over, and Firestore had said nothing over two connections.
	unanswered bool
}

// ask asks for fields that count documents, all as of one time. A field keeps its last value if the new
// one is no integer, or if its query can't succeed. The answers cover whatever came before the call.
func (c *Client) ask(ctx context.Context, counter string, fields layout.Fields) (asked, error) {
	ctx, cancel := context.WithTimeout(ctx, aggregationTimeout)
	defer cancel()
	got := asked{answers: make(map[string]ledger.Answer, len(fields))}
	problem := func(field layout.Field, what string) {
		got.problems = append(got.problems, what)
		c.log.ErrorContext(ctx, logRecountFailed, "counter", counter, "field", field.String(), "problem", what)
	}
	var at time.Time
	for _, field := range fields {
		a, err := c.db.Aggregate(ctx, counter, field.Counted, at)
		switch {
		case err != nil && timeIsOver(ctx, err):
			// Nor did it come over another connection: the query may take too long.
			got.unanswered = true
			problem(field, fmt.Sprintf("%s can't be counted: no answer within %v: %v", field, aggregationTimeout, err))
			continue
		case err != nil && refuses(err):
			problem(field, fmt.Sprintf("%s can't be counted: %v", field, err))
			continue
		case err != nil:
			return got, fmt.Errorf("count %s: %w", field, err)
		}
		at = a.At
		got.reads += a.Reads()
		got.largest = max(got.largest, a.Reads())
		answer := book.Answer(field, a)
		if answer.Odd {
			problem(field, oddAnswer(field))
		}
		got.answers[field.Key()] = answer
	}
	return got, nil
}

// oddAnswer says why a field stays as it is.
func oddAnswer(field layout.Field) string {
	return fmt.Sprintf("%s is not an integer: some of the documents hold fractions, or it is too large", field)
}

// timeIsOver reports whether an error says that ctx's deadline has come, or is about to: the server may
// notice first.
func timeIsOver(ctx context.Context, err error) bool {
	end, ok := ctx.Deadline()
	return ok && time.Until(end) < time.Second && (errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded)
}

// refuses reports whether Firestore says that a query will never succeed, as without an index.
// DEADLINE_EXCEEDED doesn't say that: our deadline is long before Firestore's own.
func refuses(err error) bool {
	return status.Code(err) == codes.FailedPrecondition || status.Code(err) == codes.InvalidArgument
}

// anyCounted reports whether a collection below a counter holds something, or it isn't known what. Then
// its events make a ledger.
func (c *Client) anyCounted(ctx context.Context, counter string) (bool, error) {
	for _, field := range c.db.Layout.Counted {
		if c.elsewhere(field.Counted.Documents()) {
			continue
		}
		got, err := c.ask(ctx, counter, layout.Fields{field})
		if err != nil {
			return false, fmt.Errorf("count documents: %w", err)
		}
		if answer, ok := got.answers[field.Key()]; !ok || answer.Counts() {
			return true, nil
		}
	}
	return false, nil
}

// elsewhere reports whether documents name their counter themselves. What a user writes there makes no
// ledger.
func (c *Client) elsewhere(documents string) bool {
	fields := c.db.Layout.CountedIn(documents)
	return len(fields) > 0 && len(fields[0].Counted.References()) > 0
}

// logRecount writes the one log line per recount.
func (c *Client) logRecount(ctx context.Context, b recount, got asked, err error) {
	values := make(map[string]any, len(got.answers))
	for _, field := range c.db.Layout.CountedIn(b.of.id) {
		if value := got.answers[field.Key()].Value; value != nil {
			values[field.Name] = loggable(value)
		}
	}
	attrs := []slog.Attr{
		slog.String("counter", b.of.counter),
		slog.String("collection", b.of.id),
		slog.Int64("events", b.events),
		slog.Int64("reads", got.reads),
		slog.Any("values", values),
		slog.Float64("duration_ms", ms(time.Since(b.started))),
	}
	if err != nil {
		c.log.LogAttrs(ctx, slog.LevelError, logRecountFailed, append(attrs, slog.Any("error", err))...)
		return
	}
	c.log.LogAttrs(ctx, slog.LevelInfo, logRecount, attrs...)
}

// loggable is an answer's value for a log entry. JSON has no NaN and no infinities, so they are texts.
func loggable(value any) any {
	if f, is := value.(float64); is && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return fmt.Sprint(f)
	}
	if value == (ledger.None{}) {
		return nil
	}
	return value
}
