package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// What is newest is asked when it is asked for, and an answer that isn't one is an error.
func TestVersionCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status    int
		body      string
		want, err string
	}{
		{status: 200, body: `{"Version":"v9.8.7","Time":"2026-11-22T10:00:00Z"}`, want: "The newest is v9.8.7: npm install -g @firestore-counters/cli@9.8.7, or go install github.com/firestore-counters/counters/cmd/counters@v9.8.7"},
		{status: 200, body: fmt.Sprintf(`{"Version":%q}`, readBuild().Version), want: "That is the newest."},
		{status: 404, body: "not found", err: "knows of no version"},
		{status: 503, err: "answers 503"},
		{status: 200, body: "<html>", err: "is no version"},
		{status: 200, body: "{}", err: "is no version"},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.WriteHeader(c.status)
			_, _ = fmt.Fprint(w, c.body)
		}))
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		cmd.SetOut(&out)
		if err := printVersion(cmd, false, false, server.URL); err != nil || asked != 0 {
			t.Errorf("without --check: %v, asked %d times", err, asked)
		}
		err := printVersion(cmd, true, false, server.URL)
		server.Close()
		switch {
		case asked != 1:
			t.Errorf("asked %d times", asked)
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%d %s: %v, want %s", c.status, c.body, err, c.err)
			}
		case err != nil || !strings.Contains(out.String(), c.want):
			t.Errorf("%s: %v, %s\nwant %s", c.body, err, out.String(), c.want)
		}
	}
}
