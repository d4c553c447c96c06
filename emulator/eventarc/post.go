package eventarc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// longestPost is how long one post may go unanswered: a function's time limit unless it sets
// another. One that takes longer is stuck.
const longestPost = time.Minute

// newTransport returns a transport that keeps as many connections to a target as it may have posts
// in flight.
func newTransport(inFlight int) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		MaxIdleConnsPerHost: inFlight,
		IdleConnTimeout:     30 * time.Second,
		DisableCompression:  true,
	}
}

// post sends an event once. It returns nil when the answer is 2xx. A redirection acknowledges
// nothing, and is not followed.
func (d *Deliverer) post(to *url.URL, e *event) error {
	name, err := parseName(e.name)
	if err != nil {
		return err
	}
	header, event, err := encode(d.id(e), name, e.at, e.data)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(d.ctx, longestPost)
	defer cancel()
	body := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(event)), nil }
	r := (&http.Request{
		Method:        http.MethodPost,
		URL:           to,
		Header:        header,
		ContentLength: int64(len(event)),
		GetBody:       body, // For a connection that turns out to have been closed before anything was sent.
	}).WithContext(ctx)
	r.Body, _ = body()
	answer, err := d.transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	// Read to the end, so that the connection can be used again; but no more than an answer may
	// reasonably hold.
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if answer.StatusCode/100 == 2 {
		return nil // Acknowledged, whatever became of the rest.
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("answered %s: %.200s", answer.Status, bytes.TrimSpace(text))
}
