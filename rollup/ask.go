package rollup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// aggregationTimeout bounds a counter's aggregation queries, together. Firestore ends one after 60 s,
// and events wait for 55 s at most.
const aggregationTimeout = 50 * time.Second

// ask asks for fields that count documents, all as of one time. A field keeps its last value if its query can't
// succeed. The answers cover whatever came before the call.
func (c *Client) ask(ctx context.Context, counter string, fields layout.Fields) (asked, error) {
	ctx, cancel := context.WithTimeout(ctx, aggregationTimeout)
	defer cancel()
	got := asked{
		answers:   make(map[string]book.Answer, len(fields)),
		elsewhere: len(fields) > 0 && len(fields[0].Counted.References()) > 0,
	}
	problem := func(field layout.Field, what string) {
		got.problems, got.outcome = append(got.problems, what), unchanged
		c.log.ErrorContext(ctx, logRecountFailed, "counter", counter, "field", field.String(), "problem", what)
	}
	for _, field := range fields {
		a, err := c.db.Aggregate(ctx, counter, field.Counted, got.at)
		switch {
		case err != nil && timeIsOver(ctx, err):
			// No answer came over two connections: the query may take too long.
			got.unanswered = true
			problem(field, fmt.Sprintf("%s can't be counted: no answer within %v: %v", field, aggregationTimeout, err))
			continue
		case err != nil && refuses(err):
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
	return ok && time.Until(end) < time.Second && (errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded)
}

// refuses reports whether Firestore says that a query will never succeed, as without an index.
// DEADLINE_EXCEEDED doesn't say that: our deadline is long before Firestore's own.
func refuses(err error) bool {
	return status.Code(err) == codes.FailedPrecondition || status.Code(err) == codes.InvalidArgument
}

// logRecount writes the one log line per recount.
func (c *Client) logRecount(ctx context.Context, f flight, got asked, err error) {
	values := make(map[string]any, len(got.answers))
	for _, field := range c.db.Layout.CountedIn(f.documents) {
		if a, ok := got.answers[field.Name]; ok {
			values[field.Name] = a.Plain()
		}
	}
	attrs := []slog.Attr{
		slog.String("counter", f.counter),
		slog.String("collection", f.documents),
		slog.Int64("events", f.events),
		slog.Int64("reads", got.reads),
		slog.Any("values", values),
		slog.Float64("duration_ms", ms(time.Since(f.started))),
	}
	if err != nil {
		c.log.LogAttrs(ctx, slog.LevelError, logRecountFailed, append(attrs, slog.Any("error", err))...)
		return
	}
	c.log.LogAttrs(ctx, slog.LevelInfo, logRecount, attrs...)
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

// appear makes the document of a counter below which something was counted: see [book.Books.Appear].
func (c *Client) appear(ctx context.Context, counter string, documents bool) (exists bool, err error) {
	if exists, err = c.books.Appear(ctx, counter, documents); exists {
		c.log.InfoContext(ctx, logAdopted, "counter", counter)
	}
	if err != nil {
		return false, fmt.Errorf("make what is missing: %w", err)
	}
	return exists, nil
}
