package settings

import (
	"fmt"
	"strconv"
	"strings"
)

// AutoCreate is whether increments make counters that don't exist yet, and how many of one caller.
type AutoCreate struct {
	On        bool
	PerMinute int // at most so many a minute and caller; 0 where AUTO_CREATE says no number
}

// peopleMake is how many counters a caller may make a minute where callers are people and
// AUTO_CREATE says no number: more than anybody begins by hand, and of ten shards each a few cents
// a day.
const peopleMake = 60

// maxAutoCreate is the largest number that AUTO_CREATE takes.
const maxAutoCreate = 100_000

// UnmarshalText reads true, false, or how many counters a minute and caller.
func (a *AutoCreate) UnmarshalText(text []byte) error {
	switch value := string(text); strings.ToLower(value) {
	case "true":
		*a = AutoCreate{On: true}
	case "false", "0":
		*a = AutoCreate{}
	default:
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxAutoCreate || strconv.Itoa(n) != value {
			return fmt.Errorf("a number of counters is a whole one, 1 to %d", maxAutoCreate)
		}
		*a = AutoCreate{On: true, PerMinute: n}
	}
	return nil
}

// String is the setting as [AutoCreate.UnmarshalText] reads it.
func (a AutoCreate) String() string {
	if a.PerMinute > 0 {
		return strconv.Itoa(a.PerMinute)
	}
	return strconv.FormatBool(a.On)
}

// NewCounters is how many counters the increments of one caller may make a minute, on one instance;
// 0 is no bound.
func (s Settings) NewCounters() int {
	if s.AutoCreate.PerMinute == 0 && s.Auth != "none" {
		return peopleMake
	}
	return s.AutoCreate.PerMinute
}

// MakesForAnybody reports whether increments make as many counters as are asked for, whoever asks:
// then IAM has to say who may.
func (s Settings) MakesForAnybody() bool { return s.AutoCreate.On && s.NewCounters() == 0 }
