package functions

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/shards"
)

// commanded is the counter of a command that its setting allows. Errors include notOwned and off.
func (h *incrementHandler) commanded(r *request, setting string, notOwned, off error) (shards.Counter, error) {
	counter, err := h.client.Counter(r.counter)
	switch {
	case err != nil, setting == settingAny:
		return counter, err
	case setting != settingOwn:
		return counter, off
	}
	at := slices.Index(h.Counters.Wildcards(), layout.UserWildcard)
	user, isUser := strings.CutPrefix(r.caller, userPrefix)
	if values := strings.Split(r.counter, "/"); !isUser || at < 0 || at >= len(values) || values[at] != user {
		return counter, notOwned
	}
	return counter, nil
}

// reset sets a counter back to 0.
func (h *incrementHandler) reset(w http.ResponseWriter, r *request) (any, error) {
	counter, err := h.commanded(r, h.Reset, errNotOwned, errNoReset)
	if err == nil {
		err = noBody(w, r.Request)
	}
	if err == nil {
		err = counter.Reset(r.Context(), shards.ResetOptions{})
	}
	return struct {
		Counter string `json:"counter"`
		Reset   bool   `json:"reset"`
	}{r.counter, true}, err
}

// setLimit gives a field a limit, or takes it away.
func (h *incrementHandler) setLimit(w http.ResponseWriter, r *request) (any, error) {
	counter, err := h.commanded(r, h.Limit, errNotOwnLimit, errNoLimit)
	if err != nil {
		return nil, err
	}
	body, err := readBody(w, r.Request, maxBody)
	if err != nil {
		return nil, err
	}
	field, limit, err := decodeLimit(body)
	if err != nil {
		return nil, err
	}
	if limited := (layout.Layout{Sharded: h.Fields}).Limited(); field == "" && len(limited) > 0 {
		field = limited[0].Name
	}
	field = cmp.Or(field, h.first)
	return struct {
		Counter string `json:"counter"`
		Field   string `json:"field"`
		Limit   int64  `json:"limit"`
	}{r.counter, field, limit}, counter.SetLimit(r.Context(), field, limit)
}

// decodeLimit reads {"limit": 500}, with "field" for another field than the first that has a limit.
func decodeLimit(body []byte) (field string, limit int64, err error) {
	const want = `want {"limit": 500}`
	if len(body) == 0 {
		return "", 0, bad(want)
	}
	given := false
	err = decodeObject(body, want, func(d decoder, name string) (err error) {
		switch name {
		case "field":
			if field, err = d.text(); err == nil && field == "" {
				err = bad("field is empty; leave it out for the first one")
			}
		case "limit":
			given = true
			limit, err = d.integer("limit", 0, math.MaxInt64)
		default:
			err = bad("unknown field %q; %s", name, want)
		}
		return err
	})
	if err == nil && !given {
		err = bad("the body has no limit; %s", want)
	}
	return field, limit, err
}
