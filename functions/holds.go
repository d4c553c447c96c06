package functions

import (
	"errors"
	"net/http"
	"time"

	"github.com/firestore-counters/counters/shards"
)

// heldAmount is a hold of an amount, in what is answered about it. It is the same however often it is asked for, but
// for what a request has done itself.
type heldAmount struct {
	Counter  string    `json:"counter"`
	Field    string    `json:"field"`
	Hold     string    `json:"hold"`  // its id
	State    string    `json:"state"` // held, settled or ended
	Held     int64     `json:"held"`  // how much it has, or had
	Until    time.Time `json:"until,omitzero"`
	By       *int64    `json:"by,omitempty"` // for how much it is settled
	Returned *int64    `json:"returned,omitempty"`
	Left     *int64    `json:"left,omitempty"` // of the limit, where this instance knows that
	counted

	changed bool // by the request that is answered
}

func answerOf(r *request, h shards.Hold, replayed bool) heldAmount {
	a := heldAmount{Counter: r.counter, Field: r.field, Hold: h.ID, State: h.State, Held: h.By, Until: h.Until, changed: !h.At.IsZero() && h.By > 0}
	if a.counted.Replayed = replayed; r.kind == reserve {
		a.CommittedAt = h.At
	}
	if h.State == "settled" {
		a.By = &h.Settled
	}
	if h.State != "held" {
		a.Returned = new(h.Returned())
	}
	return a
}

// leaving says what is left of the limit, where the request itself has changed that.
func (a heldAmount) leaving(counter shards.Counter) heldAmount {
	if left, ok := counter.Left(a.Field); ok && a.changed {
		a.Left = &left
	}
	return a
}

// holdOf is the counter and the key of a hold, which belongs to its caller. The path names it, or where one is made by
// POST its Idempotency-Key does, which may be missing.
func (h *incrementHandler) holdOf(w http.ResponseWriter, r *request) (counter shards.Counter, key shards.Key, err error) {
	w.Header().Set("Cache-Control", "no-store")
	if counter, err = h.client.Counter(r.counter); err != nil {
		return counter, key, err
	}
	byKey := r.kind == reserve && r.Method == http.MethodPost
	if key.Value = r.holdID; byKey {
		key, err = keyOf(r)
	} else if err = key.Validate(); err == nil && key.Value == "" {
		err = bad("the path names no hold")
	}
	if key.Caller = r.caller; err == nil {
		err = checkHoldID(key.Value)
	}
	return counter, key, err
}

// checkHoldID refuses ids that no path can carry: browsers take them for steps to another path, encoded or not. Who
// held something by such a key could never settle it.
func checkHoldID(id string) error {
	if id == "." || id == ".." {
		return bad("%q is no id of a hold: want another Idempotency-Key", id)
	}
	return nil
}

// reserve holds an amount for a time.
func (h *incrementHandler) reserve(w http.ResponseWriter, r *request) (any, error) {
	counter, key, err := h.holdOf(w, r)
	if err != nil {
		return nil, err
	}
	under := holding
	if key.Value == "" { // nobody can ask for the same again
		under = counting
	}
	body, err := readBody(w, r.Request, maxBody)
	if err != nil {
		return nil, err
	}
	by, lasts, err := decodeHold(body, h.MaxIncrement)
	if err != nil {
		return nil, err
	}
	if err := h.mayMake(r, r.counter); err != nil {
		return nil, err
	}
	held, replayed, err := counter.Reserve(r.Context(), r.field, by, lasts, key)
	if err != nil {
		return nil, during{err, under}
	}
	return answerOf(r, held, replayed).leaving(counter), nil
}

// held answers what became of a hold.
func (h *incrementHandler) held(w http.ResponseWriter, r *request) (any, error) {
	counter, key, err := h.holdOf(w, r)
	if err != nil {
		return nil, err
	}
	held, err := counter.Held(r.Context(), r.field, key)
	return answerOf(r, held, false), err
}

// finish settles a hold, or gives it back.
func (h *incrementHandler) finish(w http.ResponseWriter, r *request) (any, error) {
	counter, key, err := h.holdOf(w, r)
	if err != nil {
		return nil, err
	}
	var held shards.Hold
	if r.kind == giveBack {
		if err := noBody(w, r.Request); err != nil {
			return nil, err
		}
		held, err = counter.GiveBack(r.Context(), r.field, key)
		return finished(r, counter, held, err)
	}
	body, err := readBody(w, r.Request, maxBody)
	if err != nil {
		return nil, err
	}
	by, err := decodeSettle(body, h.MaxIncrement)
	if err != nil {
		return nil, err
	}
	held, err = counter.Settle(r.Context(), r.field, by, key)
	return finished(r, counter, held, err)
}

// finished answers what a hold is now.
func finished(r *request, counter shards.Counter, h shards.Hold, err error) (any, error) {
	if errors.Is(err, shards.ErrSettled) {
		err = settledFor{h.Settled}
	}
	return answerOf(r, h, false).leaving(counter), err
}

// decodeHold reads {"by": 4000, "for": "2m"}.
func decodeHold(body []byte, most int64) (by int64, lasts time.Duration, err error) {
	const want = `want {"by": 5, "for": "2m"}`
	err = decodeObject(body, want, func(d decoder, name string) (err error) {
		switch name {
		case "by":
			by, err = d.integer("by", 1, most)
		case "for":
			var text string
			if text, err = d.text(); err == nil {
				if lasts, err = time.ParseDuration(text); err != nil || lasts < shards.MinHold || lasts > shards.MaxHold {
					err = bad("for is %.40q; want a time from 1s to 720h, such as 10m", text)
				}
			}
		default:
			err = bad("unknown field %.40q; %s", name, want)
		}
		return err
	})
	if err == nil && (by == 0 || lasts == 0) {
		err = bad("by or for is missing; %s", want)
	}
	return by, lasts, err
}

// decodeSettle reads {"by": 3127}.
func decodeSettle(body []byte, most int64) (by int64, err error) {
	const want = `want {"by": 5}`
	named := false
	err = decodeObject(body, want, func(d decoder, name string) (err error) {
		if named = name == "by"; !named {
			return bad("unknown field %.40q; %s", name, want)
		}
		by, err = d.integer("by", 0, most)
		return err
	})
	if err == nil && !named {
		err = bad("by is missing; %s", want)
	}
	return by, err
}
