// Package terminal makes text fit to be printed, whoever wrote it: ids of counters may be any text,
// and a terminal takes some text for commands, which set its title, say, or turn its writing round.
package terminal

import (
	"strconv"
	"strings"
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
