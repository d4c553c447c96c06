//go:build all

package snippets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// toolchain is what a language's snippets run with.
type toolchain struct {
	install func() error // Once, and only where it was not done yet.
	command func(args ...string) *exec.Cmd
}

// errNoToolchain means that a language isn't there, which only CI holds to be an error.
var errNoToolchain = errors.New("needs a toolchain that isn't here")

// run runs a snippet against a Firestore, and returns what it prints.
func (tc *toolchain) run(ctx context.Context, address, project string, args ...string) (string, error) {
	command := tc.command(args...)
	cmd := exec.CommandContext(ctx, command.Path, command.Args[1:]...)
	cmd.Dir = command.Dir
	cmd.Env = append(os.Environ(), "FIRESTORE_EMULATOR_HOST="+address, "GOOGLE_CLOUD_PROJECT="+project,
		// Or the libraries look whether they run in the cloud.
		"METADATA_SERVER_DETECTION=none", "NO_GCE_CHECK=true",
	)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, out, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}

// need skips a test where the toolchain isn't to be had, but not in CI.
func (tc *toolchain) need(t *testing.T) {
	t.Helper()
	err := tc.install()
	if errors.Is(err, errNoToolchain) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// have returns an error unless all programs are there.
func have(language string, programs ...string) error {
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: %s: %w", errNoToolchain, language, err)
		}
	}
	return nil
}

// installing bounds an installation, on a machine that is busy with other things and has nothing
// cached.
const installing = 5 * time.Minute

func run(dir, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), installing)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

// inNode runs JavaScript with these options of Node.js.
func inNode(options ...string) *toolchain {
	return &toolchain{
		install: packages,
		command: func(args ...string) *exec.Cmd { return exec.Command("node", append(options, args...)...) },
	}
}

var packages = sync.OnceValue(func() error {
	if err := have("JavaScript", "node", "npm"); err != nil {
		return err
	}
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		return err
	}
	complete := filepath.Join("node_modules", fmt.Sprintf(".complete-%x", sha256.Sum256(lock))[:20])
	if _, err := os.Stat(complete); err == nil {
		return nil
	}
	if err := run(".", "npm", "ci", "--no-audit", "--no-fund"); err != nil {
		return err
	}
	return os.WriteFile(complete, nil, 0o600)
})

// venv is a virtual environment of Python, beside other caches of the user's, with the requirements
// in a file. It is made anew when those have changed.
func venv(requirements string) (dir func() string, install func() error) {
	path := sync.OnceValues(func() (string, error) {
		text, err := os.ReadFile(requirements)
		if err != nil {
			return "", err
		}
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		return filepath.Join(cache, "firestore-counters", fmt.Sprintf("python-%x", sha256.Sum256(text))[:20]), nil
	})
	install = sync.OnceValue(func() error {
		if err := have("Python", "python3"); err != nil {
			return err
		}
		dir, err := path()
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
			return nil
		}
		if err := run(".", "python3", "-m", "venv", "--clear", dir); err != nil {
			// Debian has its venv in a package of its own.
			return fmt.Errorf("%w: Python: %w", errNoToolchain, err)
		}
		if err := run(".", filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "-r", requirements); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "complete"), nil, 0o600)
	})
	dir = func() string {
		dir, _ := path() // Its error has stopped install.
		return dir
	}
	return dir, install
}

var pythonDir, pythonInstall = venv("python/requirements.txt")

var inPython = &toolchain{
	install: pythonInstall,
	command: func(args ...string) *exec.Cmd {
		return exec.Command(filepath.Join(pythonDir(), "bin", "python"), append([]string{"python/run.py"}, args...)...)
	},
}

// onJVM runs Java and Kotlin, which Maven compiles in a folder of the user's cache that is named after what goes in:
// Maven takes half a minute, also to find that there is nothing to do.
var onJVM = &toolchain{
	install: func() error { _, err := jvm(); return err },
	command: func(args ...string) *exec.Cmd {
		dir, _ := jvm() // Its error has stopped install.
		// Without it, java says which class it misses.
		classpath, _ := os.ReadFile(filepath.Join(dir, "target", "classpath"))
		return exec.Command("java", append([]string{"-cp", filepath.Join(dir, "target", "classes") + ":" + strings.TrimSpace(string(classpath)), "Run"}, args...)...)
	},
}

var jvm = sync.OnceValues(func() (dir string, err error) {
	if err := have("Java", "java", "javac", "mvn"); err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sources := map[string][]byte{}
	hash := sha256.New()
	for _, source := range []string{"pom.xml", "src/main/java/JavaCounter.java", "src/main/java/Run.java", "src/main/kotlin/KotlinCounter.kt"} {
		text, err := os.ReadFile(filepath.Join("jvm", source))
		if err != nil {
			return "", err
		}
		sources[source] = text
		fmt.Fprintf(hash, "%d:%s", len(text), text)
	}
	dir = filepath.Join(cache, "firestore-counters", fmt.Sprintf("jvm-%x", hash.Sum(nil))[:20])
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return dir, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	for source, text := range sources {
		file := filepath.Join(dir, source)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, text, 0o600)); err != nil {
			return "", err
		}
	}
	if err := run(dir, "mvn", "-q", "-B", "compile"); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "complete"), nil, 0o600)
})
