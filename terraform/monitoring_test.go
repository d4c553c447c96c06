package terraform

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/firestore-counters/counters/functions"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// Metrics and alerts are made from log lines: each message that they look for has to be one that
// the functions log, and each field one that the functions write.
func TestMetricsReadWhatTheFunctionsLog(t *testing.T) {
	t.Parallel()
	looked := map[string]bool{}
	for _, message := range []string{
		functions.LogPoison, functions.LogCeiling, rollup.LogRollup, rollup.LogContention, rollup.LogDrift, rollup.LogNoted, shards.LogAmbiguous, shards.LogContention,
	} {
		looked[message] = false
	}
	var source strings.Builder
	for _, dir := range []string{"functions", "rollup", "shards"} {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no source of %s: %v", dir, err)
		}
		for _, path := range files {
			if !strings.HasSuffix(path, "_test.go") {
				source.WriteString(mustRead(t, path))
			}
		}
	}
	for _, pattern := range []string{"monitoring/metrics/*.json", "monitoring/alerts/*.json"} {
		files, _ := filepath.Glob(pattern)
		for _, path := range files {
			content := mustRead(t, path)
			for _, m := range regexp.MustCompile(`jsonPayload\.message=\\"([^"\\]+)\\"`).FindAllStringSubmatch(content, -1) {
				if _, ok := looked[m[1]]; !ok {
					t.Errorf("%s looks for the message %q, which no function logs", path, m[1])
				}
				looked[m[1]] = true
			}
			for _, m := range regexp.MustCompile(`EXTRACT\(jsonPayload\.(\w+)\)`).FindAllStringSubmatch(content, -1) {
				if !strings.Contains(source.String(), `"`+m[1]+`"`) {
					t.Errorf("%s reads the field %s, which no function logs", path, m[1])
				}
			}
		}
	}
	for message, ok := range looked {
		if !ok {
			t.Errorf("no metric looks for the message %q", message)
		}
	}
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Every alert can be fired as a test: docs/operations.md says how, with log entries that the alerts'
// own filters look for.
func TestEveryAlertCanBeFired(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(mustRead(t, "../docs/operations.md"), "**Fire each alert once**")
	section, _, _ = strings.Cut(section, "\n## ")
	files, err := filepath.Glob("monitoring/alerts/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%q, %v", files, err)
	}
	entry := regexp.MustCompile(`service_name=.*jsonPayload\.message="([^"]+)"`)
	for _, file := range files {
		var alert map[string]any
		if err := json.Unmarshal([]byte(mustRead(t, file)), &alert); err != nil {
			t.Fatal(err)
		}
		how := map[string]string{"lag.json": `"lag_ms": 60000`, "ceiling_half.json": `"held": 0, "most": 0.9`, "reconcile_missing.json": "gcloud scheduler jobs pause counters-reconcile", "rollup_errors.json": "*Roll-ups fail*"}[filepath.Base(file)]
		for _, condition := range alert["conditions"].([]any) {
			if log, ok := condition.(map[string]any)["conditionMatchedLog"].(map[string]any); ok {
				how = `"message": "` + entry.FindStringSubmatch(log["filter"].(string))[1] + `"`
			}
		}
		if how == "" || !strings.Contains(section, how) {
			t.Errorf("%s: docs/operations.md doesn't say how to fire it (%s)", file, how)
		}
	}
}
