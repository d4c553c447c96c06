package dev

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestReadable(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	clock := at.Local().Format("15:04:05.000")
	stamp := at.Format(time.RFC3339Nano)
	for _, test := range []struct{ line, want string }{
		{`{"time":"` + stamp + `","severity":"INFO","message":"rolled up","counter":"post 1","events":3,"lag":"1.2s"}`,
			clock + ` INFO rolled up counter="post 1" events=3 lag=1.2s`},
		{`{"timestamp":"` + stamp + `","level":"ERROR","msg":"poison","logging.googleapis.com/labels":{"a":"b"},"empty":"","none":null}`,
			clock + ` ERROR poison logging.googleapis.com/labels={"a":"b"} empty="" none=null`},
		{`{"message":"only a message"}`, "only a message"},
		{`{"severity":"INFO","severity":"WARN","message":7,"time":"noon"}`, "INFO severity=WARN message=7 time=noon"},
		{`{}`, ""},
	} {
		if got, ok := readable([]byte(test.line)); !ok || got != test.want {
			t.Errorf("%s\ngot  %q\nwant %q", test.line, got, test.want)
		}
	}
	for _, line := range []string{"plain", "{", `{"a":1`, `{"a":1} and more`, `{"a"}`, `[1]`, `"text"`} {
		if got, ok := readable([]byte(line)); ok {
			t.Errorf("%s is taken for a structured line: %q", line, got)
		}
	}
}

// An id of a counter that holds an escape sequence does nothing to the terminal, whether the line
// is structured or not.
func TestLinesHoldNothingForTheTerminal(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"\x1b]0;pwned\x07":         `\x1b]0;pwned\a`,
		"a\x1b[2Jb":                `a\x1b[2Jb`,
		"\u009b31m":                `\u009b31m`, // the same as ESC [, in one character
		"a\u202eb":                 `a\u202eb`,  // turns the writing round
		"日本 größe":                 "日本 größe",
		"one\rother":               `one\rother`,
		"a\x7f":                    `a\x7f`,
		"a tab\tand a \"quote\"\\": "a tab\tand a \"quote\"\\",
	} {
		structured, err := json.Marshal(map[string]string{"message": "no: " + id})
		if err != nil {
			t.Fatal(err)
		}
		field, err := json.Marshal(map[string]any{"counter": id, id: 1, "of": []string{id}})
		if err != nil {
			t.Fatal(err)
		}
		raw := strings.NewReplacer(`\u001b`, "\x1b", `\u007f`, "\x7f").Replace(string(field))
		for _, line := range []string{"no: " + id, string(structured), string(field), raw} {
			var out syncBuffer
			if _, err := newOutput(&out, 1).lines("Rollup").Write([]byte(line + "\n")); err != nil {
				t.Fatal(err)
			}
			got := out.String()
			if i := strings.IndexFunc(got, func(r rune) bool { return r != '\n' && r != '\t' && !strconv.IsPrint(r) }); i >= 0 {
				t.Errorf("%q is printed with %q in it", line, got[i:])
			}
			if strings.Contains(line, "no: ") && got != "Rollup    | no: "+want+"\n" {
				t.Errorf("%q is printed as %q, want %q", line, got, want)
			}
		}
	}
}

func TestLinesComeWhole(t *testing.T) {
	t.Parallel()
	var out syncBuffer
	o := newOutput(&out, 1)
	a, b := o.lines("Rollup"), o.lines("Increment")
	for _, write := range []struct {
		to   *lines
		text string
	}{{a, "one\ntw"}, {b, `{"message":`}, {a, "o\n\n\n"}, {b, "\"hello\"}\r\n"}, {a, "cut off"}, {b, "{broken\n"}} {
		if n, err := write.to.Write([]byte(write.text)); n != len(write.text) || err != nil {
			t.Fatal(n, err)
		}
	}
	a.flush()
	a.flush()
	want := "Rollup    | one\nRollup    | two\nIncrement | hello\nIncrement | {broken\nRollup    | cut off\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := a.Write([]byte(strings.Repeat("x", longestLine+1))); err != nil {
		t.Fatal(err)
	}
	if len(a.rest) != 0 {
		t.Error("a line without an end is kept without bound")
	}
}
