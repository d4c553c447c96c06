package functions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/shards"
)

// increment is one of several in a request, and in its answer.
type increment struct {
	Counter string           `json:"counter"`
	By      amount           `json:"by"`
	Left    map[string]int64 `json:"left,omitempty"` // of limits, once it is counted
}

// amount is what a request adds to a counter.
type amount struct {
	by     int64            // for the first counted field
	fields map[string]int64 // or for these fields; may be nil
}

func (a amount) MarshalJSON() ([]byte, error) {
	if a.fields != nil {
		return json.Marshal(a.fields)
	}
	return strconv.AppendInt(nil, a.by, 10), nil
}

// of is the amount as increments of a counter, in the order of the fields' names.
func (a amount) of(counter string) []shards.Increment {
	if a.fields == nil {
		return []shards.Increment{{Counter: counter, By: a.by}}
	}
	var increments []shards.Increment
	for _, field := range slices.Sorted(maps.Keys(a.fields)) {
		increments = append(increments, shards.Increment{Counter: counter, Field: field, By: a.fields[field]})
	}
	return increments
}

// each are the increments of all fields.
func each(increments []increment) (list []shards.Increment) {
	for _, i := range increments {
		list = append(list, i.By.of(i.Counter)...)
	}
	return list
}

// counted says that increments were counted.
type counted struct {
	Replayed bool `json:"replayed,omitempty"` // an earlier request with the same key was counted

	CommittedAt time.Time `json:"committed_at,omitzero"`
}

func (h *incrementHandler) addOne(w http.ResponseWriter, r *request) (any, error) {
	began := time.Now()
	if _, err := h.client.Counter(r.counter); err != nil {
		return nil, err
	}
	key, err := keyOf(r)
	if err != nil {
		return nil, err
	}
	body, err := readBody(w, r.Request, maxBody)
	if err != nil {
		return nil, err
	}
	by, err := decodeBy(body, h.MaxIncrement)
	if err != nil {
		return nil, err
	}
	if err := h.limit.charge(r.payer, len(by.fields)-1); err != nil { // each counts, and the first has counted
		return nil, err
	}
	h.owe(r, len(by.fields)-1)
	one := increment{Counter: r.counter, By: by}
	done, err := h.apply(r, began, key, one)
	if err == nil && !done.Replayed {
		one.Left = h.left(one)
	}
	return struct {
		increment
		counted
	}{one, done}, err
}

// left is what this instance knows to be left of the limited fields that an increment adds to, by their names.
func (h *incrementHandler) left(i increment) (left map[string]int64) {
	if !h.limits {
		return nil
	}
	counter, err := h.client.Counter(i.Counter)
	if err != nil {
		return nil
	}
	for _, add := range i.By.of(i.Counter) {
		field := cmp.Or(add.Field, h.first)
		if n, ok := counter.Left(field); ok {
			if left == nil {
				left = map[string]int64{}
			}
			left[field] = n
		}
	}
	return left
}

func (h *incrementHandler) addMany(w http.ResponseWriter, r *request) (any, error) {
	began := time.Now()
	key, err := keyOf(r)
	if err != nil {
		return nil, err
	}
	most := int64(maxBodyMany)
	if h.tokens != nil {
		most = maxBody
	}
	body, err := readBody(w, r.Request, most)
	if err != nil {
		return nil, err
	}
	increments, err := decodeIncrements(body, h.MaxIncrement, h.first)
	if err == nil {
		err = h.mayName(increments)
	}
	if err == nil { // the answer repeats them
		err = h.promise(r, ceiling.Amounts{ceiling.Bytes: float64(repeats * len(body))}, ceiling.Amounts{}, "answers")
	}
	if err != nil {
		return nil, err
	}
	if err := h.limit.charge(r.payer, len(each(increments))-1); err != nil { // each counts, and the first has counted
		return nil, err
	}
	h.owe(r, len(each(increments))-1)
	done, err := h.apply(r, began, key, increments...)
	if err == nil && !done.Replayed {
		for n := range increments {
			increments[n].Left = h.left(increments[n])
		}
	}
	return struct {
		Increments []increment `json:"increments"`
		counted
	}{increments, done}, err
}

// maxNamed is how many counters a request of a token's bearer may name. Each is a write that the app's owner pays, and
// a page shows few. A backend may name [shards.MaxIncrements].
const maxNamed = 20

// mayName makes sure that a request names no more counters than its caller may.
func (h *incrementHandler) mayName(increments []increment) error {
	named := map[string]bool{}
	for _, i := range increments {
		named[i.Counter] = true
	}
	if h.tokens != nil && len(named) > maxNamed {
		return bad("the request names %d counters; with a token at most %d are allowed", len(named), maxNamed)
	}
	return nil
}

// apply counts increments, all or none, within the rest of the request's time. Usually that is nearly all of it, which
// the client bounds by itself. It is less if the body was slow, or if counters were looked up.
func (h *incrementHandler) apply(r *request, began time.Time, key shards.Key, increments ...increment) (counted, error) {
	ids := make([]string, len(increments))
	for n, i := range increments {
		ids[n] = i.Counter
	}
	err := h.mayLook(r, increments)
	if err == nil {
		err = h.mayMake(r, ids...)
	}
	if err != nil {
		return counted{}, err
	}
	ctx := r.Context()
	if took := time.Since(began); took >= h.RequestTimeout/100 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.RequestTimeout-took)
		defer cancel()
	}
	replayed, at, err := h.client.Apply(ctx, each(increments), key)
	return counted{replayed, at}, err
}

// keyOf is the request's idempotency key.
func keyOf(r *request) (shards.Key, error) {
	switch values := r.Header.Values("Idempotency-Key"); {
	case len(values) == 0:
		return shards.Key{}, nil
	case len(values) > 1 || values[0] == "":
		return shards.Key{}, bad("want one Idempotency-Key of 1 to 255 printable ASCII characters")
	default:
		return shards.Key{Caller: r.caller, Value: values[0]}, nil
	}
}

// decodeBy reads the body of POST /{counter}: empty, {"by": 5} or {"by": {"likes": 1, "views": 3}}.
func decodeBy(body []byte, most int64) (amount, error) {
	const want = `want {"by": 5}, or nothing`
	by := amount{by: 1}
	if len(body) == 0 {
		return by, nil
	}
	err := decodeObject(body, want, func(d decoder, name string) (err error) {
		if name != "by" {
			return bad(`unknown field %q; %s`, name, want)
		}
		by, err = d.by(most)
		return err
	})
	return by, err
}

// decodeIncrements reads the body of POST /: {"increments": [{"counter": "a", "by": 1}, …]}.
func decodeIncrements(body []byte, most int64, first string) ([]increment, error) {
	const want = `want {"increments": [{"counter": "a", "by": 1}]}`
	var increments []increment
	err := decodeObject(body, want, func(d decoder, name string) error {
		if name != "increments" {
			return bad("unknown field %q; %s", name, want)
		}
		return d.array(want, func() error {
			if len(increments) == shards.MaxIncrements {
				return bad("more than %d increments", shards.MaxIncrements)
			}
			i, named := increment{By: amount{by: 1}}, false
			err := d.object(want, func(name string) (err error) {
				switch name {
				case "counter":
					named = true
					i.Counter, err = d.text()
				case "by":
					i.By, err = d.by(most)
				default:
					err = bad("unknown field %q; %s", name, want)
				}
				return err
			})
			if err == nil && !named {
				err = bad("an increment names no counter; %s", want)
			}
			increments = append(increments, i)
			return err
		})
	})
	switch {
	case err != nil:
	case len(increments) == 0:
		err = bad("no increments; %s", want)
	default:
		err = notBeyond(most, first, increments)
	}
	return increments, err
}

// notBeyond makes sure that several increments together add at most most, up or down, to a field of a
// counter. first is the name of the field that an increment without a field goes to.
func notBeyond(most int64, first string, increments []increment) error {
	type place struct{ counter, field string }
	sums := make(map[place]int64, len(increments))
	for _, i := range each(increments) {
		at := place{i.Counter, cmp.Or(i.Field, first)}
		sum := sums[at]
		if sum > 0 && i.By > most-sum || sum < 0 && i.By < -most-sum { // no overflow: sum is within most already
			return bad("the increments of %q add up to more than %d, up or down", i.Counter, most)
		}
		sums[at] = sum + i.By
	}
	return nil
}

// by reads an amount: an integer other than 0, at most most up or down, or an object of such integers.
func (d decoder) by(most int64) (amount, error) {
	t, err := d.token()
	if err != nil {
		return amount{}, err
	}
	if t != json.Delim('{') {
		by, err := integer("by", t, -most, most)
		return amount{by: by}, err
	}
	a := amount{fields: map[string]int64{}}
	err = d.members(func(name string) error {
		if name == "" { // it would mean the first field
			return bad("by has a field without a name")
		}
		a.fields[name], err = d.integer("by."+name, -most, most)
		return err
	})
	if err == nil && len(a.fields) == 0 {
		err = bad(`by is empty; want an integer, or fields such as {"likes": 1}`)
	}
	return a, err
}

// integer reads a whole number from least to most; where least is below 0, one other than 0. Name is what the body calls
// it.
func (d decoder) integer(name string, least, most int64) (int64, error) {
	t, err := d.token()
	if err != nil {
		return 0, err
	}
	return integer(name, t, least, most)
}

// integer is the whole number that [decoder.integer] reads.
func integer(name string, t json.Token, least, most int64) (int64, error) {
	want, allowed := fmt.Sprintf("an integer of %d or more", least), ""
	if least < 0 {
		want, allowed = "an integer other than 0", ", up or down"
	}
	number, ok := t.(json.Number)
	if !ok {
		return 0, bad("%s is %v; want %s", name, describe(t), want)
	}
	n, err := whole(number.String())
	shown := number.String()
	if len(shown) > 40 { // a body has room for 65,000 digits
		shown = shown[:40] + "…"
	}
	beyond := errors.Is(err, strconv.ErrRange)
	switch {
	case beyond && (least < 0 || shown[0] != '-'), err == nil && (n > most || least < 0 && n < least):
		return 0, bad("%s is %s; at most %d is allowed%s", name, shown, most, allowed)
	case err != nil, n < least, n == 0 && least < 0:
		return 0, bad("%s is %s; want %s", name, shown, want)
	}
	return n, nil
}
