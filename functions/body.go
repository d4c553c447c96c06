package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"
)

// Bounds of bodies, in bytes.
const (
	maxBody     = 64 << 10
	maxBodyMany = 1 << 20 // of POST / without tokens: who has one names few counters
	// maxBodies is what all requests under way may have sent together. A body takes about four times its size while it
	// is decoded: that is 192 of an instance's 512 MiB.
	maxBodies = 48 << 20
)

// While so many bodies are waited for, which is half of the fewest slots that an instance may have, another must come
// within a moment. Otherwise a user who sends 25 slow ones a second would fill 500 slots.
const (
	maxAwaited = 50
	awaitedFor = time.Second
)

// What is read of a body that nobody wants: so many bytes, and for so long.
const (
	maxSkipped = 256 << 10
	skipsFor   = 50 * time.Millisecond
)

// boundBodies stops reading a request's body after timeout, and at once when ending is done. Otherwise a caller who
// sends one byte a minute could occupy an instance, and keep it from ending. It reads no body of a request that has
// none to say, and holds at most maxBodies of all of them.
func boundBodies(timeout time.Duration, ending context.Context, next http.Handler) http.Handler {
	room := semaphore.NewWeighted(maxBodies)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		b := &boundedBody{ReadCloser: r.Body, connection: http.NewResponseController(w), ending: ending, room: room, expects: r.Header.Get("Expect") != ""}
		defer b.release()
		// Only a test's writer has no deadlines, and no slow connection.
		_ = b.connection.SetReadDeadline(time.Now().Add(timeout))
		stop := context.AfterFunc(ending, b.cut)
		defer stop()
		r.Body = b
		next.ServeHTTP(w, r)
	})
}

// boundedBody is a body whose connection has a deadline until the body has been read.
type boundedBody struct {
	io.ReadCloser
	connection *http.ResponseController
	ending     context.Context
	expects    bool                // the client sends it once it is asked for
	room       *semaphore.Weighted // for all bodies, in bytes
	holds      int64               // of the room, until the request is answered
	awaited    *atomic.Int64       // how many bodies are waited for; nil once it has come, and for an event's
	awaits     bool                // it is one of these

	mu   sync.Mutex
	read bool // to its end
}

// Read reads. Its errors include errSlowBody, errEnding and errBodies.
func (b *boundedBody) Read(p []byte) (int, error) {
	b.await()
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.came()
	}
	if !b.room.TryAcquire(int64(n)) {
		return 0, errBodies
	}
	b.holds += int64(n)
	if err == nil {
		return n, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == io.EOF && !b.read {
		b.read = true
		// From here on, the server reads the connection only to see whether the client is still there.
		// After other errors the deadline stays: the server reads the rest of the body before it closes
		// the connection, and could wait forever.
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if err = errSlowBody; b.ending.Err() != nil {
			err = errEnding
		}
	}
	return n, err
}

// await has the body be waited for, from its first read on.
func (b *boundedBody) await() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.awaits || b.awaited == nil {
		return
	}
	b.awaits = true
	if b.awaited.Add(1) > maxAwaited && b.ending.Err() == nil {
		_ = b.connection.SetReadDeadline(time.Now().Add(awaitedFor))
	}
}

// came says that nobody waits for the body any more.
func (b *boundedBody) came() {
	if b.awaits {
		b.awaited.Add(-1)
		b.awaited, b.awaits = nil, false
	}
}

// release gives the body's room to others.
func (b *boundedBody) release() {
	b.room.Release(b.holds)
	b.came()
}

// skip passes over what is left of a body that nobody wants. It waits for it for a moment alone: a caller could occupy
// an instance with bodies that never come. One that is being sent is read, as far as it isn't long: a client may look
// for an answer only once it has sent all. It reports whether that was all. If not, the connection can't be used again.
func (b *boundedBody) skip() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.read {
		return true
	}
	if b.expects { // a read would ask for it
		_ = b.connection.SetReadDeadline(time.Unix(1, 0))
		return false
	}
	_ = b.connection.SetReadDeadline(time.Now().Add(skipsFor))
	if _, err := io.CopyN(io.Discard, b.ReadCloser, maxSkipped); err != io.EOF {
		_ = b.connection.SetReadDeadline(time.Unix(1, 0))
		return false
	}
	b.read = true
	_ = b.connection.SetReadDeadline(time.Time{})
	return true
}

// passOver is called before a request is answered whose body may not have been read. The server would wait for it.
func passOver(w http.ResponseWriter, r *http.Request) {
	if b, is := r.Body.(*boundedBody); is && !b.skip() {
		w.Header().Set("Connection", "close")
	}
}

// cut ends a waiting read.
func (b *boundedBody) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.read {
		_ = b.connection.SetReadDeadline(time.Unix(1, 0))
	}
}

// readBody reads a body of at most limit bytes: nothing is parsed before that is known. Errors: problems with 400 or
// 413, errSlowBody and errEnding.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	switch {
	case r.ContentLength == 0:
		return nil, nil
	case r.ContentLength > limit:
		return nil, tooLarge(limit)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	_, beyond := errors.AsType[*http.MaxBytesError](err)
	switch {
	case beyond:
		return nil, tooLarge(limit)
	case errors.Is(err, errSlowBody), errors.Is(err, errEnding), errors.Is(err, errBodies):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", bad("the body can't be read"), err)
	}
	return bytes.TrimPrefix(body, []byte("\uFEFF")), nil // a byte order mark, of a file that was sent
}

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
