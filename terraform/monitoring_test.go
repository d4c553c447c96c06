package terraform

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/firestore-counters/counters/functions"
)

// Metrics and alerts are made from log lines: each message and field that they look for has to be one that the
// functions log.
func TestMetricsReadWhatTheFunctionsLog(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, dir := range []string{"functions", "rollup", "shards"} {
		err := filepath.WalkDir(filepath.Join("..", dir), func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				content, err := os.ReadFile(path)
				source.Write(content)
				return err
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// The lines of code from a log call with this message to the end of what it logs.
	logs := func(message string) bool {
		if message == functions.LogPoison {
			return true
		}
		return regexp.MustCompile(`(?i)log\w*\.(Debug|Info|Warn|Error|LogAttrs)\w*\([^\n]*"` + regexp.QuoteMeta(message) + `"`).MatchString(source.String())
	}
	looked := 0
	for _, pattern := range []string{"monitoring/metrics/*.json", "monitoring/alerts/*.json"} {
		files, _ := filepath.Glob(pattern)
		for _, path := range files {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`jsonPayload\.message=\\"([^"\\]+)\\"`).FindAllStringSubmatch(string(content), -1) {
				looked++
				if !logs(m[1]) {
					t.Errorf("%s looks for the message %q, which no function logs", path, m[1])
				}
			}
			for _, m := range regexp.MustCompile(`EXTRACT\(jsonPayload\.(\w+)\)`).FindAllStringSubmatch(string(content), -1) {
				if !strings.Contains(source.String(), `"`+m[1]+`"`) {
					t.Errorf("%s reads the field %s, which no function logs", path, m[1])
				}
			}
		}
	}
	if looked < 9 {
		t.Errorf("looked at %d messages only", looked)
	}
}

// A dashboard and the alerts may only name metrics that are made.
func TestQueriesNameMetricsThatAreMade(t *testing.T) {
	t.Parallel()
	m := load(t, ".", vars())
	made := map[string]bool{}
	for _, i := range m.instances("google_logging_metric") {
		made[text(i.args, "name")] = true
	}
	queries := text(m.one("google_monitoring_dashboard", "dashboard"), "dashboard_json")
	for _, i := range m.instances("google_monitoring_alert_policy") {
		queries += compact(t, mustRead(t, "monitoring/alerts/"+i.key+".json"))
	}
	queries = strings.ReplaceAll(queries, "${prom_prefix}", "counters")
	used := map[string]bool{}
	for _, q := range regexp.MustCompile(`logging_googleapis_com:user_(\w+)`).FindAllStringSubmatch(queries, -1) {
		name := q[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		used[name] = true
		if !made[name] {
			t.Errorf("%s is queried, but not made", q[1])
		}
	}
	for name := range made {
		if !used[name] {
			t.Errorf("%s is made, and shown nowhere", name)
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
