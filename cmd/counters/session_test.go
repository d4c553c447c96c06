package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// session is what a page shows of a terminal: commands, and what each prints.
type session []struct{ command, prints string }

// sessions are those of a page, in their order.
func sessions(t *testing.T, page string) (found []session) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		var s session
		for line := range strings.Lines(block[1]) {
			if command, is := strings.CutPrefix(line, "$ "); is {
				s = append(s, struct{ command, prints string }{command: command})
			} else {
				s[len(s)-1].prints += line
			}
		}
		found = append(found, s)
	}
	return found
}

var timestamp = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)

// Whoever types what a page shows sees what it shows. A command that begins with a pause is repeated until the roll-up has
// come: on a busy machine that takes longer.
func TestSessions(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "counters")); err != nil {
		t.Fatal(err)
	}
	for page, test := range map[string]struct {
		args   []string
		before []string // what is there, for each session
	}{
		"README.md": {nil, []string{""}},
		"docs/members.md": {nil, []string{"", `
			counters join post-123 total bob
			counters join post-123 total carol
			counters inc post-123 --by 3
			until [ "$(counters get post-123)" = 5 ]; do sleep 0.1; done`}},
		"docs/hosted.md": {[]string{"--counter-path", "posts/{post}", "--hosted", "--fields", "likes,views"}, []string{`
			curl -fsS -X PATCH 'localhost:8081/v1/projects/demo-counters/databases/(default)/documents/posts/post-1' -d '{"fields": {}}'`}},
	} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			p := startProgram(t, test.args...)
			environ := append(os.Environ(), programVariable+"=1", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			for _, export := range regexp.MustCompile(`(?m)^export (.*)$`).FindAllStringSubmatch(p.banner, -1) {
				environ = append(environ, strings.ReplaceAll(export[1], "'", ""))
			}
			typed := func(command string) string {
				cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(command, "localhost:8081", strings.TrimPrefix(p.gateway, "http://")))
				cmd.Env = environ
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%s: %v\n%s", command, err, p.logs)
				}
				return timestamp.ReplaceAllString(string(out), "TIME")
			}
			found := sessions(t, page)
			if len(found) != len(test.before) {
				t.Fatalf("%d sessions, want %d", len(found), len(test.before))
			}
			for i, session := range found {
				typed(test.before[i])
				for _, line := range session {
					want, deadline := timestamp.ReplaceAllString(line.prints, "TIME"), time.Now().Add(time.Minute)
					got := typed(line.command)
					for got != want && strings.HasPrefix(line.command, "sleep ") && time.Now().Before(deadline) {
						got = typed(line.command)
					}
					if got != want {
						t.Errorf("%sprints\n%s\nand is said to print\n%s", line.command, got, want)
					}
				}
			}
		})
	}
}
