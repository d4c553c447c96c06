package functions

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of bodies, in bytes.
const (
	maxBody     = 64 << 10
	maxBodyMany = 1 << 20 // of POST / without tokens: who has one names few counters
)

// noBody makes sure that a request has none.
func noBody(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, maxBody)
	if err == nil && len(body) > 0 {
		err = bad("want no body: the path says it all")
	}
	return err
}

// maxNames is how many names an object has at most. No counter has as many fields.
const maxNames = 100

// decoder reads JSON token by token. With structs, encoding/json would ignore the case of names, accept
// names that come twice, and accept null.
type decoder struct{ json *json.Decoder }

// decodeObject reads a body that is an object and nothing else. It calls field for each name, which reads the value.
// want says what belongs there.
func decodeObject(body []byte, want string, field func(d decoder, name string) error) error {
	if err := notUnicode(body); err != nil {
		return err
	}
	d := decoder{json.NewDecoder(bytes.NewReader(body))}
	d.json.UseNumber()
	if err := d.object(want, func(name string) error { return field(d, name) }); err != nil {
		return err
	}
	if _, err := d.json.Token(); err != io.EOF {
		return bad("the body goes on after its end")
	}
	return nil
}

// notUnicode refuses text that encoding/json would replace: it would count for another counter. It passes over a body
// once: what a user sends must not take long.
func notUnicode(body []byte) error {
	if !utf8.Valid(body) {
		return bad("the body is not UTF-8")
	}
	for at := bytes.IndexByte(body, '\\'); at >= 0; at = bytes.IndexByte(body, '\\') {
		body = body[at:]
		first := escaped(body)
		switch {
		case !utf16.IsSurrogate(first): // what is escaped may be a backslash
			body = body[min(2, len(body)):]
		case utf16.DecodeRune(first, escaped(body[6:])) == utf8.RuneError:
			return bad("the body is not Unicode: %s is half a surrogate pair", body[:6])
		default:
			body = body[12:]
		}
	}
	return nil
}

// escaped is the half of a pair that text begins with, as JSON escapes it; 0 if it begins with something else.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
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
		switch {
		case err != nil:
			return err
		case seen[name]:
			return bad("the field %q comes twice", name)
		case len(seen) == maxNames:
			return bad("an object has more than %d names", maxNames)
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
	s, is := t.(string)
	if err == nil && !is {
		err = bad("the body has %s where a string belongs", describe(t))
	}
	return s, err
}

func (d decoder) truth(want string) (bool, error) {
	t, err := d.token()
	truth, is := t.(bool)
	if err == nil && !is {
		err = bad("the body has %s where true or false belongs; %s", describe(t), want)
	}
	return truth, err
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
