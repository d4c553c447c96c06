//go:build all

package snippets

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/testbed/chance"
)

// schemathesisConfig says which answers a valid request may get: a key that Schemathesis happens to
// use twice, for two requests, is refused.
const schemathesisConfig = `
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", "404", "422", "5xx"]

# Where paths have several wildcards, a member's path may be a counter's: a POST to it is told what is wrong with the id.
[[operations]]
include-path = "/{counter}/{field}/{member}"
[operations.checks.unsupported_method]
enabled = false
# A hold is bounded, added up from its parts.
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", "400", "404", "422", "5xx"]

# A counter that has members keeps them.
[[operations]]
include-path = "/{counter}/reset"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "404", "409", "5xx"]

# Who holds no seat has none to confirm.
[[operations]]
include-path = "/{counter}/{field}/{member}/confirm"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "404", "409", "5xx"]

# What is held can't be again under an id that was given back, and only once for one amount; nor is it settled otherwise.
[[operations]]
include-path = "/{counter}/{field}/holds"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404", "409", "422", "5xx"]
[[operations]]
include-path = "/{counter}/{field}/holds/{hold}"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404", "409", "422", "5xx"]
[[operations]]
include-path = "/{counter}/{field}/holds/{hold}/settle"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "409", "5xx"]

# LIMIT is off: a limit that is set here would have other requests refused.
[[operations]]
include-path = "/{counter}/limit"
[operations.checks.positive_data_acceptance]
expected-statuses = ["400", "403", "404"]
`

// schemathesisHooks keep to what no schema can say: all that one request adds to a counter is
// bounded together, added up in its order.
const schemathesisHooks = `
import schemathesis

@schemathesis.hook
def filter_body(context, body):
    sums = {}
    try:
        for one in body["increments"]:
            by = one.get("by", 1)
            for field, n in (by if isinstance(by, dict) else {"likes": by}).items():
                sums[one["counter"], field] = sums.get((one["counter"], field), 0) + n
                if abs(sums[one["counter"], field]) > 1_000_000_000:
                    return False
        return True
    except (TypeError, KeyError, AttributeError):
        return True
`

// narrowedAPI is docs/openapi.yaml with what depends on settings as it is where FIELDS=likes,views
// and COUNTERS isn't set: which fields are counted, and that a counter's id is of one part.
func narrowedAPI(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	api := string(text)
	const part = `([^._/][^/]*|\.[^./][^/]*|\.\.[^/]+|_|_[^_/][^/]*|__|___|__[^/]*[^_/]_?)`
	for _, step := range []struct{ from, to string }{
		{"'^" + part + "(/" + part + ")*$'", "'^" + part + "$'"},
		{"        type: string\n        minLength: 1\n    memberInPath:", "        enum: [likes, views]\n    memberInPath:"},
		{"204 instead of 404.\n          schema:\n            type: string\n", "204 instead of 404.\n          schema:\n            enum: [likes, views, \"\"]\n"},
		{"          additionalProperties:\n            $ref: \"#/components/schemas/Number\"\n          example:",
			"          additionalProperties: false\n          properties: {likes: {$ref: \"#/components/schemas/Number\"}, views: {$ref: \"#/components/schemas/Number\"}}\n          example:"},
	} {
		if strings.Count(api, step.from) != 1 {
			t.Fatalf("docs/openapi.yaml has %q %d times, want once", step.from, strings.Count(api, step.from))
		}
		api = strings.Replace(api, step.from, step.to, 1)
	}
	return api
}

var schemathesisDir, schemathesisInstall = venv("python/schemathesis.txt")

// TestSchemathesis has Schemathesis find requests for which Increment is not what docs/openapi.yaml
// says. It leaves out OPTIONS, whose missing headers make it another request, and not a wrong one.
func TestSchemathesis(t *testing.T) {
	t.Parallel()
	tool := &toolchain{install: schemathesisInstall}
	tool.need(t)
	system, _ := startSystem(t, "FIELDS=likes,views", "RESET=any")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"schemathesis.toml": schemathesisConfig, "counters_hooks.py": schemathesisHooks, "openapi.yaml": narrowedAPI(t),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(schemathesisDir(), "bin", "schemathesis"), "--config-file", "schemathesis.toml",
		"run", "openapi.yaml", "--url", system.Gateway+"/increment", "--exclude-method", "OPTIONS", "--max-examples", "25", "--no-color",
		"--seed", fmt.Sprint(chance.Seed(t)))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SCHEMATHESIS_HOOKS=counters_hooks", "PYTHONPATH="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("schemathesis: %v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("Tested: 15")) {
		t.Errorf("it did not test all 15 operations:\n%s", out)
	}
}
