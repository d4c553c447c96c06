package settings_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/settings"
)

// What a ceiling says, and what it refuses.
func TestCeiling(t *testing.T) {
	t.Parallel()
	s, err := settings.Parse([]string{"CEILING=writes=40,reads=60,creates=1,bytes=20000"})
	if want := (settings.Ceiling{Writes: 40, Reads: 60, Creates: 1, Bytes: 20_000}); err != nil || s.Ceiling != want {
		t.Errorf("%+v, %v; want %+v", s.Ceiling, err, want)
	}
	if s, err = settings.Parse([]string{"CEILING=requests=100,logs=500"}); err != nil || s.Ceiling != (settings.Ceiling{Logs: 500, Requests: 100}) {
		t.Errorf("%+v, %v; want logs and requests bounded", s.Ceiling, err)
	}
	if s, err = settings.Parse([]string{"CEILING=creates=0.01"}); err != nil || s.Ceiling != (settings.Ceiling{Creates: 0.01}) {
		t.Errorf("%+v, %v; want only creations bounded", s.Ceiling, err)
	}
	for _, environ := range [][]string{nil, {"CEILING="}} {
		if s, err := settings.Parse(environ); err != nil || s.Ceiling.Set() || s.Ceiling.String() != "" {
			t.Errorf("%q: %+v, %v; want no ceiling", environ, s.Ceiling, err)
		}
	}
	for value, want := range map[string]string{
		"40":                   `"40" is no unit`,
		"writes":               "writes is 0.001 to",
		"writes=0":             "writes is 0.001 to", // nothing could be counted: it is no way to say "no bound"
		"writes=-1":            "writes is 0.001 to",
		"writes=NaN":           "writes is 0.001 to",
		"writes=Inf":           "writes is 0.001 to",
		"bytes=1000000001":     "bytes is 0.001 to",
		"writes=1,writes=2":    "writes comes twice",
		"writes=1,":            `"" is no unit`,
		"writes=1, reads=2":    `" reads" is no unit`,
		"5USD":                 `"5USD" is no unit`,
		"writes=1;reads=2":     "writes is 0.001 to",
		"Writes=1":             `"Writes" is no unit`,
		"writes=1,writes=2.5,": "writes comes twice",
	} {
		if _, err := settings.Parse([]string{"CEILING=" + value}); err == nil || !strings.Contains(err.Error(), "CEILING="+value+": want ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", value, err, want)
		}
	}
}

// A ceiling that was written is read again as it was.
func TestCeilingIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0.001, 1e9))
		want := settings.Ceiling{Writes: unit.Draw(t, "writes"), Reads: unit.Draw(t, "reads"), Creates: unit.Draw(t, "creates"), Bytes: unit.Draw(t, "bytes"), Logs: unit.Draw(t, "logs"), Requests: unit.Draw(t, "requests")}
		var got settings.Ceiling
		if err := got.UnmarshalText([]byte(want.String())); err != nil || got != want {
			t.Fatalf("%+v is written as %s, and read as %+v, %v", want, want, got, err)
		}
	})
}
