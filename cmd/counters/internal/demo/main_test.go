package demo

import (
	"os"
	"os/exec"
	"testing"

	"github.com/firestore-counters/counters/cmd/counters/internal/dev"
)

func TestMain(m *testing.M) {
	dev.ServeIfChild()
	os.Exit(m.Run())
}

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

// nodeModules returns a directory with the Firebase SDK, which it installs where that was not done yet.
func nodeModules(t *testing.T) string {
	t.Helper()
	if sdkVersion("node_modules") != pinnedVersion() {
		npm := exec.Command(need(t, "npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund")
		if out, err := npm.CombinedOutput(); err != nil {
			t.Fatalf("install the Firebase SDK: %v\n%s", err, out)
		}
	}
	return "node_modules"
}

// TestModule runs the tests of counter.js, which are in its own language.
func TestModule(t *testing.T) {
	node := need(t, "node")
	nodeModules(t)
	out, err := exec.Command(node, "--test", "counter.test.js").CombinedOutput()
	if err != nil {
		t.Errorf("node --test: %v\n%s", err, out)
	}
}
