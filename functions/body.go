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

// boundBodies stops reading a request's body after timeout, and at once when ending is done. Otherwise
// a caller who sends one byte a minute could occupy an instance, and keep it from ending.
func boundBodies(timeout time.Duration, ending context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		b := &boundedBody{ReadCloser: r.Body, connection: http.NewResponseController(w), ending: ending}
		// Only a test's writer has no deadlines, and no slow connection.
		_ = b.connection.SetReadDeadline(time.Now().Add(timeout))
		stop := context.AfterFunc(ending, b.cut)
		defer stop()
		r.Body = b
		next.ServeHTTP(w, r)
	})
}

// boundedBody is a body whose connection has a deadline until the body has been read.
type boundedBody struct {
	io.ReadCloser
	connection *http.ResponseController
	ending     context.Context

	mu   sync.Mutex
	read bool // to its end
}

// Read reads. Its errors include errSlowBody and errEnding.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		return n, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == io.EOF && !b.read {
		b.read = true
		// From here on, the server reads the connection only to see whether the client is still there.
		// After other errors the deadline stays: the server reads the rest of the body before it closes
		// the connection, and could wait forever.
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if err = errSlowBody; b.ending.Err() != nil {
			err = errEnding
		}
	}
	return n, err
}

// cut ends a waiting read.
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
