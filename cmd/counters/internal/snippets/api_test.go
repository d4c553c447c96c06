package snippets

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// schemathesisConfig says which answers a valid request may get: a key that Schemathesis happens to use twice, for two
// requests, is refused.
const schemathesisConfig = `
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", "404", "422", "5xx"]
`

// schemathesisHooks keep to what no schema can say: 5.0 is an integer to JSON Schema and not to this API, and all that one
// request adds to a counter is bounded together.
const schemathesisHooks = `
import schemathesis

@schemathesis.hook
def map_body(context, body):
    return whole(body)

@schemathesis.hook
def filter_body(context, body):
    sums = {}
    try:
        for one in body["increments"]:
            sums[one["counter"]] = sums.get(one["counter"], 0) + one.get("by", 1)
        return all(abs(total) <= 1_000_000_000 for total in sums.values())
    except (TypeError, KeyError, AttributeError):
        return True

def whole(value):
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return value
`

var schemathesisDir, schemathesisInstall = venv("python/schemathesis.txt")

// TestSchemathesis has Schemathesis find requests for which Increment is not what docs/openapi.yaml says. It leaves out
// OPTIONS, whose missing headers make it another request, and not a wrong one.
func TestSchemathesis(t *testing.T) {
	t.Parallel()
	tool := &toolchain{install: schemathesisInstall}
	tool.need(t)
	system, _ := startSystem(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"schemathesis.toml": schemathesisConfig, "counters_hooks.py": schemathesisHooks} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	document, err := filepath.Abs("../../../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(schemathesisDir(), "bin", "schemathesis"), "--config-file", "schemathesis.toml",
		"run", document, "--url", system.Gateway+"/increment", "--exclude-method", "OPTIONS", "--max-examples", "25", "--no-color")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SCHEMATHESIS_HOOKS=counters_hooks", "PYTHONPATH="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("schemathesis: %v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("Tested: 4")) {
		t.Errorf("it did not test all four operations:\n%s", out)
	}
}
