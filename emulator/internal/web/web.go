// Package web lets browsers, and whoever has no gRPC, use an embedded Firestore: the REST API,
// WebChannel for the streams of the web SDK, CORS, and the endpoints by which tools control an
// emulator.
//
// It is transport and nothing else. Every request becomes a call of the one gRPC service that other
// clients call, with streams that lead to the HTTP request or the WebChannel session instead of a
// gRPC connection.
package web

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator/internal/loopback"
	"github.com/firestore-counters/counters/emulator/internal/web/webchannel"
)

// Config is what a Handler needs; all but Hosts and Origins is required.
type Config struct {
	// Service answers every request of Firestore's API.
	Service pb.FirestoreServer
	// Clear deletes everything at and below a resource name:
	// projects/{p}/databases/{d}/documents[/{path}].
	Clear func(name string) error
	// Reset deletes everything in all databases.
	Reset func()
	// Hosts are names, besides localhost and IP addresses, by which requests may call.
	Hosts []string
	// Origins are those of web pages, besides this machine's, that may call; "*" is any.
	Origins []string
	// Logger gets what a user should know.
	Logger *slog.Logger
}

// Handler is an http.Handler for HTTP/1.1. Close it.
type Handler struct {
	Config
	listen *webchannel.Server
	write  *webchannel.Server
}

// New makes a Handler.
func New(c Config) *Handler {
	h := &Handler{Config: c}
	h.listen = webchannel.New(h.serveListen)
	h.write = webchannel.New(h.serveWrite)
	return h
}

// Close ends all WebChannel sessions, and returns when nothing serves them any more.
func (h *Handler) Close() {
	h.listen.Close()
	h.write.Close()
}

const service = "/google.firestore.v1.Firestore/"

// ServeHTTP answers one request. Paths are matched here rather than by an http.ServeMux, which
// redirects those that it would write differently: the ids in them are the user's.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !loopback.Host(r, h.Hosts...) {
		writeError(w, status.Errorf(codes.PermissionDenied, "The host %q isn't this server's: call it localhost or by its IP address.", r.Host))
		return
	}
	w.Header().Add("Vary", "Origin")
	if !h.mayCall(r) {
		writeError(w, status.Errorf(codes.PermissionDenied, "Pages of %s may not call this server. If they should: --allow-origin %[1]s, or Options.Origins.", r.Header.Get("Origin")))
		return
	}
	allowOrigin(w.Header(), r)
	if r.Method == http.MethodOptions {
		return // 200 on any path
	}
	switch path := r.URL.Path; {
	case path == "/":
		w.Header().Set("Server", "counters emulator") // which is how "counters dev" tells it from Google's
		w.Write([]byte("Ok\n"))                       // what scripts that wait for an emulator look for
	case path == service+"Listen/channel":
		h.listen.ServeHTTP(w, r)
	case path == service+"Write/channel":
		h.write.ServeHTTP(w, r)
	case strings.HasPrefix(path, "/v1/"), strings.HasPrefix(path, "/v1beta1/"): // the same to all who still say so
		h.serveREST(w, r)
	case path == "/reset", strings.HasPrefix(path, "/emulator/"):
		h.serveAdmin(w, r)
	default:
		writeError(w, notCovered(r))
	}
}

// mayCall reports whether a request comes from a page of this machine, of an origin that is let in,
// or from no page. There are no rules here: a page of any other site could read and write
// everything, through the browser of whoever runs the server. The official emulator lets it.
func (h *Handler) mayCall(r *http.Request) bool {
	if loopback.Origin(r, h.Hosts...) {
		return true
	}
	for _, origin := range r.Header.Values("Origin") {
		if !slices.Contains(h.Origins, "*") && !slices.Contains(h.Origins, origin) {
			return false
		}
	}
	return true
}

// allowOrigin lets the page in that asks. It names the origin, as requests of Firestore's REST API
// carry credentials, for which browsers refuse "*".
func allowOrigin(h http.Header, r *http.Request) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("Access-Control-Expose-Headers", "x-client-wire-protocol, x-http-session-id, x-http-initial-response")
	if r.Method != http.MethodOptions {
		return
	}
	h.Set("Access-Control-Allow-Methods", "DELETE, GET, HEAD, PATCH, POST, PUT")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h.Set("Access-Control-Allow-Headers", asked)
		h.Add("Vary", "Access-Control-Request-Headers")
	}
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
}
