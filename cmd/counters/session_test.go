//go:build all

package main

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// line is a command that a page shows, and what it prints.
type line struct{ command, prints string }

// block is what a page shows of one terminal.
type block []line

// stays reports whether the block's last command keeps its terminal: the system, which runs until
// Ctrl-C.
func (b block) stays() bool { return strings.Contains(b[len(b)-1].command, "counters dev") }

// blocks are those of a page, in their order.
func blocks(t *testing.T, text string) (found []block) {
	t.Helper()
	for _, shown := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(text, -1) {
		var b block
		for text := range strings.Lines(shown[1]) {
			if command, is := strings.CutPrefix(text, "$ "); is {
				b = append(b, line{command: strings.TrimSuffix(command, "\n")})
			} else if len(b) == 0 {
				t.Fatalf("a session begins with %q", text)
			} else {
				b[len(b)-1].prints += text
			}
		}
		found = append(found, b)
	}
	return found
}

var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// TestSessions types what every page shows of terminals, into terminals that begin in an empty
// directory, and nothing else: a command that a reader needs and doesn't see fails here. Three
// things differ from what a reader does. Ports are any free ones, so that pages can run beside each
// other. What is installed or cloned is this tree and not what the network has. And a command that
// begins with a pause is repeated until the roll-up has come, which on a busy machine takes longer.
func TestSessions(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"bash", "curl", "git", "go"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	pages := 0
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return filepath.SkipDir
		case filepath.Ext(name) != ".md":
			return nil
		case d.Name() == "likes.md": // It takes npm, and a browser to click in: web/page.test.js types it.
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if found := blocks(t, string(text)); len(found) > 0 {
			pages++
			t.Run(filepath.Base(name), func(t *testing.T) {
				t.Parallel()
				typeBlocks(t, found, strings.Contains(string(text), "](installing.md)"))
			})
		}
		return nil
	})
	if err != nil || pages < 3 {
		t.Errorf("%d pages, %v", pages, err)
	}
}

// typeBlocks types a page's blocks, on a desk where the program is there if the page says that it has to be.
func typeBlocks(t *testing.T, blocks []block, installed bool) {
	d := newDesk(t)
	if installed {
		d.install(t)
	}
	var second *console
	for _, b := range blocks {
		if b.stays() {
			if strings.Contains(b[len(b)-1].command, "--rules") {
				needOfficialEmulator(t)
			}
			d.startSystem(t, b)
			continue
		}
		if second == nil {
			second = d.open(t)
		}
		for _, line := range b {
			want, deadline := timestamp.ReplaceAllString(line.prints, "TIME"), time.Now().Add(time.Minute)
			got := second.typed(t, line.command)
			for got != want && strings.HasPrefix(line.command, "sleep ") && time.Now().Before(deadline) {
				got = second.typed(t, line.command)
			}
			if got != want {
				t.Errorf("%s\nprints\n%s\nand is said to print\n%s", line.command, got, want)
			}
		}
	}
}

// desk is where a reader sits: an empty directory, and a path on which programs are installed.
type desk struct {
	dir, bin string
	environ  []string
	ports    *strings.Replacer // from those that pages show to those that the system has
	system   *program
}

func newDesk(t *testing.T) *desk {
	d := &desk{dir: t.TempDir(), bin: t.TempDir(), ports: strings.NewReplacer()}
	kept := []string{"HOME=", "TMPDIR=", "GOPATH=", "GOMODCACHE=", "GOCACHE=", "GOPROXY=", "GOFLAGS=", "CGO_ENABLED=", "GOSUMDB=", "GOTOOLCHAIN="}
	for _, v := range os.Environ() {
		if slices.ContainsFunc(kept, func(name string) bool { return strings.HasPrefix(v, name) }) {
			d.environ = append(d.environ, v)
		}
	}
	var path []string // without another version of the program
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, "counters")); err != nil {
			path = append(path, dir)
		}
	}
	d.environ = append(d.environ, "PATH="+strings.Join(append([]string{d.bin}, path...), string(os.PathListSeparator)), programVariable+"=1")
	return d
}

const repository = "https://github.com/firestore-counters/counters"

// install has the desk's shells find this program as counters, as docs/installing.md has it.
func (d *desk) install(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(d.bin, "counters"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// command is what is typed where a page shows a command.
func (d *desk) command(t *testing.T, shown string) string {
	t.Helper()
	switch {
	case strings.HasPrefix(shown, "git clone "+repository):
		d.cloneable(t)
	case strings.Contains(shown, "counters dev"):
		return "exec " + shown + " --port 0 --firestore-port 0"
	}
	return d.ports.Replace(shown)
}

// cloneable has git find this tree where the repository is.
func (d *desk) cloneable(t *testing.T) {
	t.Helper()
	repo := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"--git-dir", repo, "-c", "user.name=Reader", "-c", "user.email=reader@example.com"}, args...)...)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	git("init", "--quiet", "--bare")
	git("--work-tree", ".", "add", "--all")
	git("--work-tree", ".", "commit", "--quiet", "-m", "This tree")
	d.environ = append(d.environ, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+repo+".insteadOf", "GIT_CONFIG_VALUE_0="+repository)
}

// startSystem types the block of a first terminal, and returns once the system says "ready".
func (d *desk) startSystem(t *testing.T, b block) {
	t.Helper()
	var script string
	for _, line := range b {
		script += d.command(t, line.command) + "\n"
	}
	cmd := exec.Command("bash", "-e", "-c", script)
	cmd.Dir, cmd.Env = d.dir, d.environ
	d.system = startUntilReady(t, cmd)
	firestore := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(d.system.banner)
	gateway := strings.TrimPrefix(d.system.gateway, "http://")
	d.ports = strings.NewReplacer("localhost:8081", gateway, "127.0.0.1:8081", gateway, "localhost:8080", firestore, "127.0.0.1:8080", firestore)
	for text := range strings.Lines(b[len(b)-1].prints) {
		if !strings.Contains(d.system.banner+"ready\n", d.ports.Replace(text)) {
			t.Errorf("the system doesn't say %q, but\n%s", text, d.system.banner)
		}
	}
}

// console is a shell.
type console struct {
	desk   *desk
	stdin  io.Writer
	stdout *bufio.Reader
	stderr *lockedBuffer
}

func (d *desk) open(t *testing.T) *console {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash")
	cmd.Dir, cmd.Env = d.dir, d.environ
	term := &console{desk: d, stderr: &lockedBuffer{}}
	cmd.Stderr = term.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	term.stdin, term.stdout = stdin, bufio.NewReader(stdout)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	return term
}

// typed is what a command prints.
func (term *console) typed(t *testing.T, shown string) string {
	t.Helper()
	const end = "the command has ended: "
	command := term.desk.command(t, shown)
	if _, err := fmt.Fprintf(term.stdin, "{ %s\n} </dev/null; echo; echo '%s'$?\n", command, end); err != nil {
		t.Fatal(err)
	}
	var printed string
	for {
		text, err := term.stdout.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v\n%s%s", command, err, printed, term.stderr)
		}
		if code, is := strings.CutPrefix(text, end); is {
			if code != "0\n" {
				logs := ""
				if term.desk.system != nil {
					logs = term.desk.system.logs.String()
				}
				t.Fatalf("%s: exit code %s%s%s\n%s", command, code, printed, term.stderr, logs)
			}
			return timestamp.ReplaceAllString(strings.TrimSuffix(printed, "\n"), "TIME")
		}
		printed += text
	}
}
