package functions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// boundBodies ends the reading of a request's body after timeout, and at once when ending is: who
// sends one byte a minute would hold an instance up otherwise, and its end.
func boundBodies(timeout time.Duration, ending context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		b := &boundedBody{ReadCloser: r.Body, connection: http.NewResponseController(w), ending: ending}
		// A writer without deadlines, which is a test's, has no connection that could be slow.
		_ = b.connection.SetReadDeadline(time.Now().Add(timeout))
		stop := context.AfterFunc(ending, b.cut)
		defer stop()
		r.Body = b
		next.ServeHTTP(w, r)
	})
}

// boundedBody is a body whose connection has a deadline, until it has been read.
type boundedBody struct {
	io.ReadCloser
	connection *http.ResponseController
	ending     context.Context

	mu   sync.Mutex
	read bool // to its end
}

// Read reads on. Its errors are errSlowBody and errEnding too.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		return n, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == io.EOF && !b.read {
		b.read = true
		// What the connection is read for from here on is to see whether the client is still there. After
		// any other error the deadline stays: the server reads on for what is left of the body before it
		// closes the connection, and would wait for good.
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if err = errSlowBody; b.ending.Err() != nil {
			err = errEnding
		}
	}
	return n, err
}

// cut ends a read that waits.
func (b *boundedBody) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.read {
		_ = b.connection.SetReadDeadline(time.Unix(1, 0))
	}
}

// readBody reads a body of at most limit bytes. Errors: [*tooLarge], [*badRequest], errSlowBody and
// errEnding.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	switch {
	case r.ContentLength == 0:
		return nil, nil
	case r.ContentLength > limit:
		return nil, &tooLarge{limit}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var beyond *http.MaxBytesError
	switch {
	case errors.As(err, &beyond):
		return nil, &tooLarge{limit}
	case errors.Is(err, errSlowBody), errors.Is(err, errEnding):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", &badRequest{"the body can't be read"}, err)
	}
	return body, nil
}
