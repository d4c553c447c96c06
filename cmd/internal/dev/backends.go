package dev

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// errNoInstance means that a request was certainly not sent to any instance.
var errNoInstance = errors.New("no instance answers")

// backends spreads requests over the instances of a function. It is the [http.RoundTripper] of the
// gateway.
type backends struct {
	transport *http.Transport
	addrs     atomic.Pointer[[]string] // host:port of each instance that answers.
	next      atomic.Uint64
}

func newBackends() *backends {
	b := &backends{transport: &http.Transport{
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		// Thousands of requests at once are what a counter is for, and HTTP/1 needs a connection
		// for each.
		MaxIdleConnsPerHost: 4096,
		IdleConnTimeout:     30 * time.Second,
		DisableCompression:  true, // What the client and the function agree upon is theirs.
	}}
	b.set(nil)
	return b
}

func (b *backends) set(addrs []string) { b.addrs.Store(&addrs) }

// RoundTrip sends a request to the next instance in turn. Where nothing listens, because the
// instance has just been killed, nothing was sent, and the next one is tried. It returns
// [errNoInstance] when there is none left.
func (b *backends) RoundTrip(r *http.Request) (*http.Response, error) {
	addrs := *b.addrs.Load()
	turn := b.next.Add(1)
	cause := errNoInstance
	for n := range addrs {
		attempt, to := r.WithContext(r.Context()), *r.URL
		to.Host = addrs[(turn+uint64(n))%uint64(len(addrs))]
		attempt.URL = &to
		if r.Body != nil {
			// The transport closes the body when it can't connect, but the next attempt has to read
			// it.
			attempt.Body = io.NopCloser(r.Body)
		}
		answer, err := b.transport.RoundTrip(attempt)
		if err == nil || !isDial(err) || r.Context().Err() != nil {
			return answer, err
		}
		cause = errors.Join(errNoInstance, err)
	}
	return nil, cause
}

// isDial reports whether an error comes from an attempt to connect.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && !errors.Is(err, context.Canceled)
}
