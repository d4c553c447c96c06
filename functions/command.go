package functions

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/shards"
)

// Over which counters a caller may give a command, such as a reset: the settings RESET and LIMIT.
const (
	commandsOwn = "own" // those of the user whom their path names
	commandsAny = "any" // all
)

// Commands, by the end of their paths.
const (
	resetCommand = "reset" // POST
	limitCommand = "limit" // PUT
)

// commandOf is the counter of a path such as /{counter}/reset. It reports false for other paths. If a path
// has one part more than a counter's id, and the last isn't a command, the caller took a document's path
// for an id.
func commandOf(u *url.URL, partsOfID int, command string) (counter string, is bool, err error) {
	parts := partsOf(u, partsOfID+1)
	if parts == nil || parts[partsOfID] != command {
		return "", false, nil
	}
	for i, part := range parts {
		if parts[i], err = url.PathUnescape(part); err != nil {
			return "", true, bad("the path can't be read: %v", err)
		}
	}
	return strings.Join(parts[:partsOfID], "/"), true, nil
}

// isCommand reports whether a request is for a command over a counter.
func (h *incrementHandler) isCommand(r *http.Request, command string) bool {
	_, is, _ := commandOf(r.URL, h.partsOfID, command)
	return is
}

// mayCommand returns notOwned or off if a caller may not give a command over a counter, by its setting.
func (h *incrementHandler) mayCommand(r *http.Request, id, setting string, notOwned, off error) error {
	switch setting {
	case commandsAny:
		return nil
	case commandsOwn:
		at := slices.Index(h.wildcards, layout.UserWildcard)
		user, is := strings.CutPrefix(callerOf(r.Context()), userPrefix)
		if values := strings.Split(id, "/"); !is || at < 0 || at >= len(values) || values[at] != user {
			return notOwned
		}
		return nil
	}
	return off
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
	if err := h.mayCommand(r, id, h.resets, errNotOwned, errNoReset); err != nil {
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

// limited answers PUT /{counter}/limit.
type limited struct {
	Counter string `json:"counter"`
	Field   string `json:"field"`
	Limit   *int64 `json:"limit"` // null: the field has none any more
}

func (h *incrementHandler) serveLimit(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), h.timeout)
	defer cancel()
	counter, err := h.client.Counter(id)
	if err != nil {
		return nil, err
	}
	if err := h.mayCommand(r, id, h.setLimits, errNotOwnLimit, errNoLimit); err != nil {
		return nil, err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return nil, err
	}
	field, limit, err := decodeLimit(body)
	if err != nil {
		return nil, err
	}
	if field = cmp.Or(field, h.first); limit == nil {
		err = counter.RemoveLimit(ctx, field)
	} else {
		err = counter.SetLimit(ctx, field, *limit)
	}
	if err != nil {
		return nil, during{err, errSetLimit}
	}
	return limited{Counter: id, Field: field, Limit: limit}, nil
}
