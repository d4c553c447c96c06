package emulator

import (
	"fmt"
	"io"
	"net/http"
)

// handler answers HTTP/1.1.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "Ok\n") // what scripts that wait for the official emulator look for
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(http.StatusNotImplemented)
		fmt.Fprintf(w, `{"error":{"code":501,"message":%q,"status":"UNIMPLEMENTED"}}`+"\n",
			fmt.Sprintf("%s %s isn't covered; use gRPC.", r.Method, r.URL.Path))
	})
	return mux
}
