package functions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/firestore-counters/counters/shards"
)

// Bounds of bodies, in bytes.
const (
	maxBody     = 64 << 10
	maxBodyMany = 1 << 20 // of POST /
)

// counterOf is the counter that a request names in its path, percent-decoded once, or in the parameter
// counter; "" if it names none.
func counterOf(u *url.URL) (string, error) {
	path := strings.TrimPrefix(u.EscapedPath(), "/")
	if path == "" {
		query, err := queryOf(u)
		return query.Get("counter"), err
	}
	id, err := url.PathUnescape(path)
	if err != nil {
		return "", bad("the path can't be read: %v", err)
	}
	return id, nil
}

// queryOf are a request's parameters. URL.Query leaves out those that can't be read: a seat would be taken for good
// that was to be held.
func queryOf(u *url.URL) (url.Values, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, bad("the query can't be read: %v", err)
	}
	return query, nil
}

// partsOf are the n parts of a path, still encoded; nil if there are more or fewer. It runs for every
// request, and most have one part, so it counts the parts before it allocates anything.
func partsOf(u *url.URL, n int) []string {
	path := strings.TrimPrefix(u.EscapedPath(), "/")
	if strings.Count(path, "/") != n-1 {
		return nil
	}
	return strings.Split(path, "/")
}

// surrogates matches escapes of half a surrogate pair in its first group. It also matches whole pairs and
// escaped backslashes, to skip them.
var surrogates = regexp.MustCompile(`(?i)\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(\\ud[89a-f][0-9a-f]{2})`)

// notUnicode refuses text that encoding/json would replace: it would count for another counter.
func notUnicode(body []byte) error {
	if !utf8.Valid(body) {
		return bad("the body is not UTF-8")
	}
	if !bytes.Contains(body, []byte(`\u`)) { // hardly any body has one
		return nil
	}
	for _, found := range surrogates.FindAllSubmatch(body, -1) {
		if half := found[1]; half != nil {
			return bad("the body is not Unicode: %s is half a surrogate pair", half)
		}
	}
	return nil
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

// decodeBy reads the body of POST /{counter}: empty, {"by": 5} or {"by": {"likes": 1, "views": 3}}.
func decodeBy(body []byte, most int64) (amount, error) {
	if len(body) == 0 {
		return amount{by: 1}, nil
	}
	if err := notUnicode(body); err != nil {
		return amount{}, err
	}
	const want = `want {"by": 5}, or nothing`
	d := newDecoder(body)
	by := amount{by: 1}
	err := d.object(want, func(name string) error {
		if name != "by" {
			return bad(`unknown field %q; %s`, name, want)
		}
		var err error
		by, err = d.by(most)
		return err
	})
	if err == nil {
		err = d.end()
	}
	return by, err
}

// decodeIncrements reads the body of POST /: {"increments": [{"counter": "a", "by": 1}, …]}.
func decodeIncrements(body []byte, most int64, first string) ([]increment, error) {
	const want = `want {"increments": [{"counter": "a", "by": 1}]}`
	if err := notUnicode(body); err != nil {
		return nil, err
	}
	d := newDecoder(body)
	var increments []increment
	one := func() error {
		i := increment{By: amount{by: 1}}
		named := false
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
	}
	err := d.object(want, func(name string) error {
		if name != "increments" {
			return bad("unknown field %q; %s", name, want)
		}
		return d.array(want, func() error {
			if len(increments) == shards.MaxIncrements {
				return bad("more than %d increments", shards.MaxIncrements)
			}
			return one()
		})
	})
	if err == nil {
		err = d.end()
	}
	switch {
	case err != nil:
	case len(increments) == 0:
		err = bad("no increments; %s", want)
	default:
		err = notBeyond(most, first, increments)
	}
	return increments, err
}

// decodeLimit reads {"limit": 500}, or {"limit": null}, with "field" for another field than the first.
func decodeLimit(body []byte) (field string, limit *int64, err error) {
	if err := notUnicode(body); err != nil {
		return "", nil, err
	}
	const want = `want {"limit": 500}, or {"limit": null} for none`
	if len(body) == 0 {
		return "", nil, bad(want)
	}
	d, given := newDecoder(body), false
	err = d.object(want, func(name string) (err error) {
		switch name {
		case "field":
			if field, err = d.text(); err == nil && field == "" {
				err = bad("field is empty; leave it out for the first one")
			}
		case "limit":
			given = true
			limit, err = d.limit()
		default:
			err = bad("unknown field %q; %s", name, want)
		}
		return err
	})
	if err == nil {
		err = d.end()
	}
	if err == nil && !given {
		err = bad("the body has no limit; %s", want)
	}
	return field, limit, err
}

// increment is one of several in a request, and in its answer.
type increment struct {
	Counter string `json:"counter"`
	By      amount `json:"by"`
}

// each are the increments of all fields.
func each(increments []increment) (list []shards.Increment) {
	for _, i := range increments {
		list = append(list, i.By.of(i.Counter)...)
	}
	return list
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

// decoder reads JSON token by token. With structs, encoding/json would ignore the case of names, accept
// names that come twice, and accept null.
type decoder struct{ json *json.Decoder }

func newDecoder(body []byte) decoder {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return decoder{d}
}

func (d decoder) token() (json.Token, error) {
	t, err := d.json.Token()
	if err != nil {
		return nil, bad("the body is not JSON: %v", err)
	}
	return t, nil
}

// delim reads a bracket. want says what belongs there.
func (d decoder) delim(bracket json.Delim, want string) error {
	t, err := d.token()
	if err == nil && t != bracket {
		err = bad("the body has %s where %s belongs; %s", describe(t), describe(bracket), want)
	}
	return err
}

// object reads an object, and calls field for each name in it, which reads the value.
func (d decoder) object(want string, field func(name string) error) error {
	if err := d.delim('{', want); err != nil {
		return err
	}
	return d.members(field)
}

// members reads an object whose first bracket has been read.
func (d decoder) members(field func(name string) error) error {
	seen := map[string]bool{}
	for d.json.More() {
		name, err := d.text()
		if err != nil {
			return err
		}
		if seen[name] {
			return bad("the field %q comes twice", name)
		}
		seen[name] = true
		if err := field(name); err != nil {
			return err
		}
	}
	return d.delim('}', "")
}

// array reads an array, and calls element for each element, which reads it.
func (d decoder) array(want string, element func() error) error {
	if err := d.delim('[', want); err != nil {
		return err
	}
	for d.json.More() {
		if err := element(); err != nil {
			return err
		}
	}
	return d.delim(']', "")
}

func (d decoder) text() (string, error) {
	t, err := d.token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", bad("the body has %s where a string belongs", describe(t))
	}
	return s, nil
}

func (d decoder) truth(want string) (bool, error) {
	t, err := d.token()
	is, ok := t.(bool)
	if err == nil && !ok {
		err = bad("the body has %s where true or false belongs; %s", describe(t), want)
	}
	return is, err
}

// by reads an amount: an integer other than 0, at most most up or down, or an object of such integers.
func (d decoder) by(most int64) (amount, error) {
	t, err := d.token()
	if err != nil {
		return amount{}, err
	}
	if t != json.Delim('{') {
		by, err := integer("by", t, most)
		return amount{by: by}, err
	}
	a := amount{fields: map[string]int64{}}
	err = d.members(func(name string) error {
		if name == "" { // it would mean the first field
			return bad("by has a field without a name")
		}
		t, err := d.token()
		if err == nil {
			a.fields[name], err = integer("by."+name, t, most)
		}
		return err
	})
	if err == nil && len(a.fields) == 0 {
		err = bad(`by is empty; want an integer, or fields such as {"likes": 1}`)
	}
	return a, err
}

// integer is an increment: other than 0, at most most up or down. name is what the body calls it.
func integer(name string, t json.Token, most int64) (int64, error) {
	number, ok := t.(json.Number)
	if !ok {
		return 0, bad("%s is %v; want an integer other than 0", name, describe(t))
	}
	by, err := whole(number.String())
	shown := number.String()
	if len(shown) > 40 { // a body has room for 65,000 digits
		shown = shown[:40] + "…"
	}
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && (by > most || by < -most):
		return 0, bad("%s is %v; at most %d is allowed, up or down", name, shown, most)
	case err != nil, by == 0:
		return 0, bad("%s is %v; want an integer other than 0", name, shown)
	}
	return by, nil
}

// limit reads an integer of 0 or more; nil is null.
func (d decoder) limit() (*int64, error) {
	const want = "want an integer of 0 or more, or null"
	t, err := d.token()
	if err != nil || t == nil {
		return nil, err
	}
	number, ok := t.(json.Number)
	if !ok {
		return nil, bad("limit is %s; %s", describe(t), want)
	}
	n, err := whole(number.String())
	switch {
	case errors.Is(err, strconv.ErrRange) && number.String()[0] != '-':
		return nil, bad("limit is beyond 64 bits; %s", want)
	case err != nil, n < 0:
		return nil, bad("limit is no such number; %s", want)
	}
	return &n, nil
}

// whole is the integer that a JSON number stands for. It goes by the digits, because 0.999… as a double
// may be 1. 1.0 and 1e2 are integers, too: clients that hold doubles send them like that. Errors:
// [strconv.ErrSyntax] for a fraction, [strconv.ErrRange] beyond 64 bits.
func whole(number string) (int64, error) {
	mantissa, exponent := number, ""
	if at := strings.IndexAny(number, "eE"); at >= 0 {
		mantissa, exponent = number[:at], number[at+1:]
	}
	integer, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(integer+fraction, "0")
	if digits == "" || digits == "-" {
		return 0, nil
	}
	power, _ := strconv.ParseInt(exponent, 10, 32) // beyond 32 bits it is the nearest: no body has so many digits
	power += int64(len(integer) - len(digits))
	switch { // the number is digits·10^power, and the last digit is not 0
	case power < 0:
		return 0, strconv.ErrSyntax
	case power > 18:
		return 0, strconv.ErrRange
	}
	return strconv.ParseInt(digits+strings.Repeat("0", int(power)), 10, 64)
}

// end makes sure that nothing follows.
func (d decoder) end() error {
	if _, err := d.json.Token(); err != io.EOF {
		return bad("the body goes on after its end")
	}
	return nil
}

// describe names an unexpected token.
func describe(t json.Token) string {
	switch t := t.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return strconv.FormatBool(t)
	case json.Delim:
		return map[json.Delim]string{'{': "an object", '[': "a list"}[t]
	}
	return "a number"
}
