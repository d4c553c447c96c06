package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Ceiling is what one instance of a function may spend a second, on average, in units of what is billed. 0 is no bound.
type Ceiling struct {
	Writes   float64 // documents that are written or deleted
	Reads    float64 // as Firestore bills them
	Creates  float64 // counters that increments make, whose documents are writes, too
	Bytes    float64 // of answers, with their headers
	Logs     float64 // bytes of log lines
	Requests float64 // that are begun
}

// What one unit of a ceiling may be a second.
const minCeiling, maxCeiling = 0.001, 1e9

// units are the ceiling's units by their names, in the order in which they are written.
func (c *Ceiling) units() []ceilingUnit {
	return []ceilingUnit{{"writes", &c.Writes}, {"reads", &c.Reads}, {"creates", &c.Creates}, {"bytes", &c.Bytes}, {"logs", &c.Logs}, {"requests", &c.Requests}}
}

type ceilingUnit struct {
	name   string
	second *float64
}

// Set reports whether the ceiling bounds anything.
func (c Ceiling) Set() bool { return c != Ceiling{} }

// UnmarshalText reads units a second, such as writes=40,reads=60,creates=1,bytes=20000. A unit that is left out has no
// bound; an empty text has none at all.
func (c *Ceiling) UnmarshalText(text []byte) error {
	var read Ceiling
	for item := range strings.SplitSeq(string(text), ",") {
		if len(text) == 0 {
			break
		}
		name, value, _ := strings.Cut(item, "=")
		var at *float64
		for _, u := range read.units() {
			if u.name == name {
				at = u.second
			}
		}
		if at == nil {
			return fmt.Errorf("%q is no unit: there are writes, reads, creates, bytes, logs and requests", name)
		}
		if *at != 0 {
			return fmt.Errorf("%s comes twice", name)
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || !(n >= minCeiling && n <= maxCeiling) {
			return errors.New(name + " is 0.001 to 1000000000 a second; leave it out for no bound")
		}
		*at = n
	}
	*c = read
	return nil
}

// MarshalText is the setting as [Ceiling.UnmarshalText] reads it.
func (c Ceiling) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// String is the setting as [Ceiling.UnmarshalText] reads it.
func (c Ceiling) String() string {
	var items []string
	for _, u := range c.units() {
		if *u.second > 0 {
			items = append(items, u.name+"="+strconv.FormatFloat(*u.second, 'f', -1, 64))
		}
	}
	return strings.Join(items, ",")
}
