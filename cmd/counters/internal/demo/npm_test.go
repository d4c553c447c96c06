//go:build all

package demo

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/firestore-counters/counters/cmd/internal/dev"
	"github.com/firestore-counters/counters/web"
)

// Before any test: the systems that tests start have this program for their processes.
func init() { dev.ServeIfChild() }

// need skips the test where a program is missing, except in CI, and returns the program's path.
func need(t *testing.T, programs ...string) string {
	t.Helper()
	for _, program := range programs {
		if path, err := exec.LookPath(program); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("no %s on PATH, and CI=true", programs[0])
	}
	t.Skipf("no %s on PATH", programs[0])
	return ""
}

// modules is the directory of the web modules, with what their tests need.
const modules = "../../../../web"

// installed installs what the web modules' tests need, once, where that was not done yet.
var installed = sync.OnceValue(func() error {
	if sdkVersion(modules+"/node_modules") == web.FirebaseVersion() {
		return nil
	}
	npm := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	npm.Dir = modules
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return nil
})

// nodeModules returns a directory with the Firebase SDK.
func nodeModules(t *testing.T) string {
	t.Helper()
	need(t, "npm")
	if err := installed(); err != nil {
		t.Fatal(err)
	}
	return modules + "/node_modules"
}

// TestWebModules runs the tests of the web modules, which are in their own language, over a whole
// local system.
func TestWebModules(t *testing.T) {
	t.Parallel()
	npm, browser := need(t, "npm"), need(t, chromium...)
	nodeModules(t)
	s := startSystem(t, withoutSDK)
	cmd := exec.CommandContext(t.Context(), npm, "test")
	cmd.Dir = modules
	cmd.Env = append(os.Environ(), "COUNTERS_GATEWAY="+s.Gateway, "CHROMIUM="+browser)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("npm test: %v\n%s", err, out)
	}
}
