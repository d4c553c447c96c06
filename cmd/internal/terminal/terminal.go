// Package terminal makes text fit to be printed, whoever wrote it. Ids of counters may be any text: a terminal obeys
// some, which sets its title or turns its writing round, and a person may obey what looks like advice of ours. What
// several packages say in the same words is here, too.
package terminal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Line writes text as a part of one line: what isn't printable, and the ends of its own lines, as in a Go string. Tabs
// stay.
func Line(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\t' || strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// Quote is a name that comes from outside, such as a counter's id, as a word of a line. It is quoted unless it is one
// printable word.
func Quote(name string) string {
	if name == "" || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r == ' ' || r == '"' || r == '\\' || !strconv.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// Count is a number of things, such as "1 shard" and "2 shards".
func Count[N int | int64 | float64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%v %ss", n, thing)
}

// Number is a double, or null, as the average of none is.
func Number(f *float64) string {
	if f == nil {
		return "null"
	}
	return strconv.FormatFloat(*f, 'g', -1, 64)
}

// Error is an error's text, in one line for each of those that [errors.Join] made one of.
func Error(err error) string {
	text := err.Error()
	for all := []error{err}; len(all) > 0; all = all[1:] {
		switch e := all[0].(type) {
		case interface{ Unwrap() error }:
			if within := e.Unwrap(); within != nil {
				all = append(all, within)
			}
		case interface{ Unwrap() []error }:
			joined := e.Unwrap()
			before, after, is := strings.Cut(text, fmt.Sprint(errors.Join(joined...)))
			if !is { // of several %w
				all = append(all, joined...)
				continue
			}
			lines := make([]string, len(joined))
			for i, one := range joined {
				lines[i] = Error(one)
			}
			return Line(before) + strings.Join(lines, "\n") + Line(after)
		}
	}
	return Line(text)
}

// WriteJSON writes a value as a line of JSON, with everything in it that isn't printable in JSON's
// own escapes: whoever reads that gets it as it is. Errors: [json.Marshal]'s, or the writer's.
func WriteJSON(w io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range string(text) {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	_, err = io.WriteString(w, b.String()+"\n")
	return err
}
