package functions

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/shards"
)

// Who may reset a counter to 0: the setting RESET.
const (
	resetOwn = "own" // the user whom the counter's path names
	resetAny = "any" // whoever may call
)

// resetOf is the counter of POST /{counter}/reset. It reports false for other requests. If a path has
// one part more than a counter's id, and the last isn't reset, the caller took a document's path for an
// id.
func resetOf(r *http.Request, partsOfID int) (counter string, is bool, err error) {
	parts := partsOf(r.URL, partsOfID+1)
	if parts == nil || parts[partsOfID] != "reset" {
		return "", false, nil
	}
	if r.Method != http.MethodPost {
		return "", true, &wrongMethod{http.MethodPost}
	}
	for i, part := range parts {
		if parts[i], err = url.PathUnescape(part); err != nil {
			return "", true, bad("the path can't be read: %v", err)
		}
	}
	return strings.Join(parts[:partsOfID], "/"), true, nil
}

// reset answers POST /{counter}/reset.
type reset struct {
	Counter string `json:"counter"`
	Reset   bool   `json:"reset"` // always true
}

func (h *incrementHandler) serveReset(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), h.timeout)
	defer cancel()
	counter, err := h.client.Counter(id)
	if err != nil {
		return nil, err
	}
	if err := h.mayReset(r, id); err != nil {
		return nil, err
	}
	if body, err := readBody(w, r, maxBody); err != nil {
		return nil, err
	} else if len(body) > 0 {
		return nil, bad("want no body: the path says it all")
	}
	if err := counter.Reset(ctx, shards.ResetOptions{}); err != nil {
		return nil, during{err, errReset}
	}
	return reset{Counter: id, Reset: true}, nil
}

// mayReset is an error if a caller may not reset a counter.
func (h *incrementHandler) mayReset(r *http.Request, id string) error {
	switch h.resets {
	case resetAny:
		return nil
	case resetOwn:
		at := slices.Index(h.wildcards, layout.UserWildcard)
		user, is := strings.CutPrefix(callerOf(r.Context()), userPrefix)
		if values := strings.Split(id, "/"); !is || at < 0 || at >= len(values) || values[at] != user {
			return errNotOwned
		}
		return nil
	}
	return errNoReset
}
