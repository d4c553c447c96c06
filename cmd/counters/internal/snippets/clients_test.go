//go:build all

package snippets

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

var generatorDir, generatorInstall = venv("python/openapi.txt")

// client is what OpenAPI Generator makes for a platform, and a program in openapi/ that counts
// with it.
type client struct {
	language string            // as docs/clients.md calls it
	have     func() error      // what it takes beside the generator
	sources  map[string]string // of openapi/: where they go; what is made is in made/
	build    func(dir string) error
	command  func(dir string, args ...string) *exec.Cmd
}

var clients = []client{
	{
		language: "Python", have: generatorInstall, sources: map[string]string{"client.py": "client.py"},
		command: func(dir string, args ...string) *exec.Cmd {
			cmd := exec.Command(filepath.Join(generatorDir(), "bin", "python"), append([]string{filepath.Join(dir, "client.py")}, args...)...)
			cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(dir, "made"))
			return cmd
		},
	},
	{
		language: "TypeScript", have: packages, sources: map[string]string{"client.ts": "client.ts"},
		build: func(dir string) error {
			return run(".", filepath.Join("node_modules", ".bin", "tsc"), "--strict", "--target", "es2022", "--lib", "es2022,dom",
				"--module", "commonjs", "--types", "", "--rootDir", dir, "--outDir", filepath.Join(dir, "out"), filepath.Join(dir, "client.ts"))
		},
		command: func(dir string, args ...string) *exec.Cmd {
			return exec.Command("node", append([]string{filepath.Join(dir, "out", "client.js")}, args...)...)
		},
	},
	{
		language: "Java", have: maven, sources: map[string]string{"JavaClient.java": "made/src/main/java/JavaClient.java"},
		build: func(dir string) error {
			return run(filepath.Join(dir, "made"), "mvn", "-q", "-B", "compile",
				"org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath", "-Dmdep.outputFile=../target/classpath")
		},
		command: inJVM("made/target/classes", "JavaClient"),
	},
	{
		language: "Kotlin", have: maven, sources: map[string]string{"pom.xml": "pom.xml", "KotlinClient.kt": "made/src/main/kotlin/KotlinClient.kt"},
		build:   func(dir string) error { return run(dir, "mvn", "-q", "-B", "compile") },
		command: inJVM("target/classes", "KotlinClientKt"),
	},
}

func maven() error { return have("Java", "javac", "mvn") }

// inJVM runs a class that Maven has compiled, with what it depends on: target/classpath says where
// that is.
func inJVM(classes, class string) func(dir string, args ...string) *exec.Cmd {
	return func(dir string, args ...string) *exec.Cmd {
		classpath, _ := os.ReadFile(filepath.Join(dir, "target", "classpath")) // java says what it misses
		return exec.Command("java", append([]string{"-cp", filepath.Join(dir, classes) + ":" + strings.TrimSpace(string(classpath)), class}, args...)...)
	}
}

// readClientsPage reads docs/clients.md: what the generator's command is, for each language.
func readClientsPage(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("(?m)^\\| for \\| `(openapi-generator-cli generate .*) …` \\|").FindSubmatch(page)
	if command == nil {
		t.Fatal("docs/clients.md has no command of the generator")
	}
	commands := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| ([A-Z]\\w+) \\| `([^`]+)` \\|").FindAllSubmatch(page, -1) {
		commands[string(row[1])] = string(command[1]) + " " + string(row[2])
	}
	requirements, err := os.ReadFile("python/openapi.txt")
	if err != nil {
		t.Fatal(err)
	}
	if install, _, _ := strings.Cut(string(requirements), "\n"); !strings.Contains(string(page), "`pip install "+install+"`") {
		t.Errorf("docs/clients.md doesn't install %s, which is what is run here", install)
	}
	return commands
}

// generate runs the page's command, in a folder of the user's cache that is named after all that
// goes in, and is complete once it has a file that says so: a JVM and a compiler take seconds.
func generate(t *testing.T, command string, sources map[string]string, build func(dir string) error) (dir string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.New()
	fmt.Fprintln(hash, command)
	files := []string{"../../../../docs/openapi.yaml", "python/openapi.txt", "package-lock.json", "clients_test.go"}
	for _, source := range slices.Sorted(maps.Keys(sources)) {
		files = append(files, filepath.Join("openapi", source))
	}
	content := map[string][]byte{}
	for _, file := range files {
		if content[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(hash, "%d:%s", len(content[file]), content[file])
	}
	dir = filepath.Join(cache, "firestore-counters", fmt.Sprintf("client-%x", hash.Sum(nil))[:20])
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return dir
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "docs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "docs", "openapi.yaml"), content[files[0]], 0o600); err != nil {
		t.Fatal(err)
	}
	command = filepath.Join(generatorDir(), "bin") + "/" + strings.Replace(command, " -o client ", " -o made ", 1)
	if err := run(dir, "sh", "-c", command); err != nil {
		t.Fatal(err)
	}
	for source, to := range sources {
		if err := os.WriteFile(filepath.Join(dir, to), content[filepath.Join("openapi", source)], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if build != nil {
		if err := build(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "complete"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// needGenerator skips a test where OpenAPI Generator, or what else it takes, isn't to be had, but
// not in CI.
func needGenerator(t *testing.T, and func() error) {
	t.Helper()
	both := &toolchain{install: func() error {
		if err := have("OpenAPI Generator", "java", "sh"); err != nil {
			return err
		}
		return errors.Join(generatorInstall(), and())
	}}
	both.need(t)
}

// TestClients has each client that docs/clients.md says is run count by the local system: a request
// that is repeated, one whose key was used for another, and one that is first turned away, and then
// loses its answer. Each counts once.
func TestClients(t *testing.T) {
	t.Parallel()
	commands := readClientsPage(t)
	system, _ := startSystem(t, "FIELDS=likes,views,seats=limit()", "LIMIT=any")
	for _, client := range clients {
		t.Run(client.language, func(t *testing.T) {
			t.Parallel()
			needGenerator(t, client.have)
			dir := generate(t, commands[client.language], client.sources, client.build)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			gateway := system.Gateway + "/increment"
			counter := "of " + client.language // is percent-encoded
			command := client.command(dir, counter, gateway, unsteady(t, system.Gateway)+"/increment")
			cmd := exec.CommandContext(ctx, command.Path, command.Args[1:]...)
			cmd.Env = command.Env
			cmd.Stderr = t.Output()
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got := strings.TrimSpace(string(out)); got != "6 3" {
				t.Errorf("it reads %q, want 6 likes and 3 views", got)
			}
			answer, err := http.Get(gateway + "/" + url.PathEscape(counter) + "?exact=true")
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			var got struct{ Totals map[string]int64 }
			if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || got.Totals["likes"] != 6 || got.Totals["views"] != 3 {
				t.Errorf("%v, %v: want 6 likes and 3 views", got, err)
			}
			followsDots(ctx, t, client, dir)
		})
	}
}

// TestClientsSample types the sample of docs/clients.md: the client is made by the page's command, and
// the gateway's port is another.
func TestClientsSample(t *testing.T) {
	t.Parallel()
	python := clients[0]
	needGenerator(t, python.have)
	page, err := os.ReadFile("../../../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	command := readClientsPage(t)[python.language]
	if !strings.Contains(string(page), "```sh\n"+command+"\n") {
		t.Errorf("docs/clients.md has not %q for its sample", command)
	}
	sample := regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(page)
	if sample == nil {
		t.Fatal("docs/clients.md has no sample in Python")
	}
	system, _ := startSystem(t)
	dir := generate(t, command, python.sources, python.build)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	file := filepath.Join(t.TempDir(), "sample.py")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(sample[1]), "http://127.0.0.1:8081", system.Gateway)), 0o600); err != nil {
		t.Fatal(err)
	}
	made := python.command(dir)
	cmd := exec.CommandContext(ctx, made.Path, file)
	cmd.Env = made.Env
	out, err := cmd.CombinedOutput()
	if want := regexp.MustCompile(`print\(.*# (\d+)`).FindSubmatch(sample[1]); err != nil || want == nil || strings.TrimSpace(string(out)) != string(want[1]) {
		t.Errorf("it prints %q, %v; the page says %q", out, err, want)
	}
}

// followsDots holds what docs/clients.md warns of: a client that is made checks no id, and its HTTP
// library takes .. for a step to another path.
func followsDots(ctx context.Context, t *testing.T, c client, dir string) {
	t.Helper()
	paths := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths <- r.RequestURI
		w.WriteHeader(http.StatusBadRequest) // which ends it
	}))
	defer server.Close()
	command := c.command(dir, "..", server.URL+"/site/increment", server.URL)
	cmd := exec.CommandContext(ctx, command.Path, command.Args[1:]...)
	cmd.Env = command.Env
	out, err := cmd.CombinedOutput()
	select {
	case path := <-paths:
		if strings.HasPrefix(path, "/site/increment/.") {
			t.Errorf("it sends to %s: docs/clients.md says that it follows ..", path)
		}
	default:
		t.Errorf("it sends nothing (%v: %s): docs/clients.md says that it does", err, out)
	}
}

// unsteady stands before a system: of the requests with the same key, the first is turned away, and
// the second is passed on and its answer lost. It wants three.
func unsteady(t *testing.T, target string) (address string) {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport}
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		mu.Lock()
		seen[key]++
		n := seen[key]
		mu.Unlock()
		switch n {
		case 1:
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"title":"Service Unavailable","status":503}`)
		case 2:
			lost := httptest.NewRecorder()
			forward.ServeHTTP(lost, r)
			if lost.Code != http.StatusOK {
				t.Errorf("the answer that is lost: %d %s", lost.Code, lost.Body)
			}
			panic(http.ErrAbortHandler)
		default:
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
		if len(seen) != 1 || slices.Collect(maps.Values(seen))[0] != 3 {
			t.Errorf("requests by key: %v, want 3 of one", seen)
		}
	})
	return server.URL
}

// TestClientsThatAreOnlyMade makes those for which no compiler is here, and looks at what an amount
// is in them: what docs/clients.md has the generator map it to, and not a class without a field.
func TestClientsThatAreOnlyMade(t *testing.T) {
	t.Parallel()
	commands := readClientsPage(t)
	for language, look := range map[string]struct{ file, amount string }{
		"Swift": {"Sources/OpenAPIClient/Models/By.swift", "public var by: JSONValue?"},
		"Dart":  {"lib/model/by.dart", "Object? by;"},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			needGenerator(t, func() error { return nil })
			dir := generate(t, commands[language], nil, nil)
			text, err := os.ReadFile(filepath.Join(dir, "made", look.file))
			if err != nil || !strings.Contains(string(text), look.amount) {
				t.Errorf("%s, %v: want %s", text, err, look.amount)
			}
		})
	}
	if want := len(clients) + 2; len(commands) != want {
		t.Errorf("docs/clients.md has %d clients, want %d: each is run, or made, here", len(commands), want)
	}
}
