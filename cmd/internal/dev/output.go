package dev

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
)

// longestLine is how much of an unfinished line is kept back before it is printed as it is.
const longestLine = 256 << 10

// output prints the lines of several processes, each whole and behind the name of its process.
type output struct {
	width int // Of the names.

	mu sync.Mutex
	w  io.Writer
}

// newOutput returns an output whose prefixes are wide enough for the names of all functions.
func newOutput(w io.Writer, instances int) *output {
	return &output{w: w, width: len(prefix(incrementFunction, instances, instances))}
}

// prefix returns the name of a process, by which its lines differ from those of others.
func prefix(function string, number, instances int) string {
	if instances == 1 {
		return function
	}
	return fmt.Sprintf("%s %d", function, number)
}

// lines returns a writer for one process.
func (o *output) lines(name string) *lines {
	return &lines{output: o, prefix: fmt.Sprintf("%-*s | ", o.width, name)}
}

type lines struct {
	output *output
	prefix string
	rest   []byte // A line whose end hasn't come.
}

// Write implements [io.Writer]. Both streams of a process share one: [os/exec] calls it from one
// goroutine.
func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		if end < 0 {
			break
		}
		l.print(l.rest[:end])
		l.rest = l.rest[end+1:]
	}
	if len(l.rest) > longestLine {
		l.flush()
	}
	return len(p), nil
}

// flush prints what is left when the process has ended.
func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.print(l.rest)
		l.rest = nil
	}
}

func (l *lines) print(line []byte) {
	line = bytes.TrimRight(line, "\r\n")
	if len(line) == 0 {
		return // The framework separates requests by empty lines, for the sake of Cloud Logging.
	}
	text, ok := readable(line)
	if !ok {
		text = string(line)
	}
	l.output.mu.Lock()
	defer l.output.mu.Unlock()
	// A counter's id may be any text, and an error of a library has what it likes.
	fmt.Fprintf(l.output.w, "%s%s\n", l.prefix, terminal.Line(text))
}

// readable turns a line of structured log, a JSON object as Cloud Logging takes it, into one for
// people: time of day, severity and message first, then all other fields, in their order. It
// returns false for any other line.
func readable(line []byte) (string, bool) {
	if line[0] != '{' {
		return "", false
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if _, err := d.Token(); err != nil {
		return "", false
	}
	var at, severity, message string
	var fields strings.Builder
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return "", false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return "", false
		}
		var text string
		isText := json.Unmarshal(value, &text) == nil
		switch {
		case (key == "severity" || key == "level") && isText && severity == "":
			severity = text
			continue
		case (key == "message" || key == "msg") && isText && message == "":
			message = text
			continue
		case (key == "time" || key == "timestamp") && isText && at == "":
			if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
				at = t.Local().Format("15:04:05.000")
				continue
			}
		}
		if isText && text != "" && !strings.ContainsAny(text, " =\"\n\t\\") {
			fmt.Fprintf(&fields, " %s=%s", key, text)
		} else {
			fmt.Fprintf(&fields, " %s=%s", key, value)
		}
	}
	if _, err := d.Token(); err != nil {
		return "", false // The object was cut off.
	}
	if _, err := d.Token(); err != io.EOF {
		return "", false // More follows.
	}
	var words []string
	for _, word := range []string{at, severity, message, strings.TrimPrefix(fields.String(), " ")} {
		if word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, " "), true
}
