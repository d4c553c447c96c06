// Package terminal makes text fit to be printed, whoever wrote it: ids of counters may be any text,
// and a terminal takes some text for commands, which set its title, say, or turn its writing round.
package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Escape writes everything in text that isn't printable out as in a Go string, but for ends of
// lines and tabs.
func Escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || r == '\t' || strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
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
