package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

// gateway stands in front of the functions, as a load balancer or the functions' own URLs do in production.
type gateway struct {
	increment, reconcile http.Handler
	page                 http.Handler // Whatever has no path of its own.
	ready                func() bool
}

// newGateway returns a gateway. Without a page it serves a list of what is where.
func newGateway(increment, reconcile *backends, page http.Handler, ready func() bool, logger *slog.Logger) *gateway {
	if page == nil {
		page = http.HandlerFunc(overview)
	}
	return &gateway{
		increment: newProxy("/increment", increment, logger),
		reconcile: newProxy("/reconcile", reconcile, logger),
		page:      page,
		ready:     ready,
	}
}

// ServeHTTP implements [http.Handler]. It works on the path as the client wrote it, and without [http.ServeMux], which
// redirects what it holds to be untidy: an id may have slashes and dots in it, percent-encoded.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	switch {
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
		g.page.ServeHTTP(w, r)
	}
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
POST /reconcile            put right what events missed
GET  /-/ready              200 once everything answers
`)
}

// newProxy returns a handler that passes requests on to a function, with their path below the prefix.
func newProxy(prefix string, to *backends, logger *slog.Logger) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:  to,
		BufferPool: &bufferPool{},
		ErrorLog:   slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		Rewrite: func(p *httputil.ProxyRequest) {
			u := p.Out.URL
			u.Scheme = "http" // The host is the backends' choice.
			u.Path, u.RawPath = functionPath(p.In.URL, prefix)
			u.RawQuery = p.In.URL.RawQuery // As it came, unparsable parts included.
			// Cloud Run keeps what the client said of itself, and adds the address that it sees.
			p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
			p.SetXForwarded()
		},
		ModifyResponse: func(r *http.Response) error {
			// The framework redirects paths like //x to tidy ones, which it takes to be below its own root.
			if to := r.Header.Get("Location"); strings.HasPrefix(to, "/") {
				r.Header.Set("Location", prefix+to)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			switch {
			case r.Context().Err() != nil: // The client is gone.
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
