package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
)

// gateway stands in front of the functions, as a load balancer or the functions' own URLs do in
// production.
//
// What browsers say to Firestore goes through it too, so that one port is enough for a page: a
// forwarded one, or that of another machine.
type gateway struct {
	access                          access
	increment, reconcile, firestore http.Handler
	page                            http.Handler // Whatever has no path of its own.
	ready                           func() bool
	closing                         context.Context
}

// gatewayConfig says what stands behind a gateway. All of it is required, but for the page: without
// one, the gateway serves a list of what is where.
type gatewayConfig struct {
	access               access
	increment, reconcile http.RoundTripper
	firestore            http.RoundTripper
	page                 http.Handler
	ready                func() bool
	origin               string // What functions and Firestore take every page's origin for.
	logger               *slog.Logger
	closing              context.Context // Its end ends what the page and Firestore stream, which would go on for ever.
}

func newGateway(c gatewayConfig) *gateway {
	if c.page == nil {
		c.page = http.HandlerFunc(overview)
	}
	return &gateway{
		access:    c.access,
		increment: newProxy("/increment", c.increment, c.origin, c.logger),
		reconcile: newProxy("/reconcile", c.reconcile, c.origin, c.logger),
		firestore: newProxy("", c.firestore, c.origin, c.logger),
		page:      c.page,
		ready:     c.ready,
		closing:   c.closing,
	}
}

// ServeHTTP implements [http.Handler]. It works on the path as the client wrote it, and without
// [http.ServeMux], which redirects what it holds to be untidy: an id may have slashes and dots in
// it, percent-encoded.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if reason := g.access.refuse(r); reason != "" {
		problem(w, http.StatusForbidden, reason)
		return
	}
	path := r.URL.EscapedPath()
	switch {
	case below(path, "/v1"), below(path, "/google.firestore.v1.Firestore"):
		g.stream(g.firestore, w, r)
	case below(path, "/increment"):
		g.increment.ServeHTTP(w, r)
	case below(path, "/reconcile"):
		g.reconcile.ServeHTTP(w, r)
	case path == "/-/ready":
		if !g.ready() {
			http.Error(w, "not ready: a function has no instance that answers", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	default:
		g.stream(g.page, w, r)
	}
}

// stream serves a request whose answer may have no end, until the gateway closes.
func (g *gateway) stream(h http.Handler, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.closing, cancel)()
	h.ServeHTTP(w, r.WithContext(ctx))
}

func below(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// overview is what the gateway shows where there is no page.
func overview(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		problem(w, http.StatusNotFound, "Nothing is here: see /.")
		return
	}
	fmt.Fprint(w, `POST /increment/{counter}  add one, or {"by": N}
GET  /increment/{counter}  read the total
POST /reconcile            correct what events missed
GET  /-/ready              200 once everything answers
/v1/…                      Firestore's REST API, and what its web SDK speaks
`)
}

// newProxy returns a handler that passes requests on, with their path below the prefix.
//
// It has already been decided which pages may call. Functions and Firestore, which decide that once
// more, see one origin for all of them, and their answer to it is made one to the page's own.
func newProxy(prefix string, to http.RoundTripper, origin string, logger *slog.Logger) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:  to,
		BufferPool: &bufferPool{},
		ErrorLog:   slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		Rewrite: func(p *httputil.ProxyRequest) {
			passed := &passedRequest{origin: p.In.Header.Get("Origin"), unreadable: new(atomic.Bool)}
			if p.Out.Body != nil {
				p.Out.Body = &clientBody{ReadCloser: p.Out.Body, failed: passed.unreadable}
			}
			if passed.origin != "" {
				p.Out.Header.Set("Origin", origin)
			}
			u := p.Out.URL
			u.Scheme = "http" // The host is the backends' choice.
			u.Path, u.RawPath = functionPath(p.In.URL, prefix)
			u.RawQuery = p.In.URL.RawQuery // As it came, unparsable parts included.
			// Cloud Run keeps what the client said of itself, and adds the address that it sees.
			p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
			p.SetXForwarded()
			p.Out.Host = "" // What is behind goes by its own address, and may check that.
			p.Out = p.Out.WithContext(context.WithValue(p.Out.Context(), passedRequest{}, passed))
		},
		ModifyResponse: func(r *http.Response) error {
			if passed, ok := r.Request.Context().Value(passedRequest{}).(*passedRequest); ok && r.Header.Get("Access-Control-Allow-Origin") == origin {
				r.Header.Set("Access-Control-Allow-Origin", passed.origin)
			}
			// The framework redirects paths like //x to tidy ones, which it takes to be below its
			// own root.
			if to := r.Header.Get("Location"); strings.HasPrefix(to, "/") {
				r.Header.Set("Location", prefix+to)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			passed, ok := r.Context().Value(passedRequest{}).(*passedRequest)
			switch {
			case r.Context().Err() != nil: // The client is gone.
			case ok && passed.unreadable.Load():
				problem(w, http.StatusBadRequest, "The request's body can't be read.")
			case errors.Is(err, errNoInstance):
				w.Header().Set("Retry-After", "1")
				problem(w, http.StatusServiceUnavailable, "No instance of the function answers. The request was not sent to any.")
			default:
				logger.Warn("a function broke off a request", "method", r.Method, "path", r.URL.EscapedPath(), "error", err)
				problem(w, http.StatusBadGateway, "The function ended before it answered. Whether it did what was asked is unknown.")
			}
		},
	}
}

// passedRequest is what is to be known of a client's request when the one that was made of it is
// answered. The zero value is its key in that one's context.
type passedRequest struct {
	origin     string
	unreadable *atomic.Bool // The client's body has an error in it, such as a broken chunk.
}

// clientBody notes when the client's body can't be read: that is the client's fault, and not the
// function's.
type clientBody struct {
	io.ReadCloser
	failed *atomic.Bool
}

func (b *clientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.failed.Store(true)
	}
	return n, err
}

// functionPath returns the path below the prefix, decoded and as the client wrote it.
func functionPath(u *url.URL, prefix string) (path, raw string) {
	raw = strings.TrimPrefix(u.EscapedPath(), prefix)
	if raw == "" {
		raw = "/"
	}
	path, err := url.PathUnescape(raw)
	if err != nil { // Not possible: the prefix has no percent sign, and the server has parsed the whole.
		return raw, ""
	}
	return path, raw
}

// problem answers with an RFC 9457 problem.
func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(status), "status": status, "detail": detail})
}

// bufferPool spares the proxy a buffer of 32 KiB per request.
type bufferPool struct{ pool sync.Pool }

func (p *bufferPool) Get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 32<<10)
}

func (p *bufferPool) Put(b []byte) { p.pool.Put(&b) }
