package terraform

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// A ceiling that can't be kept is refused before anything is made, with the least that can be kept.
func TestACeilingThatCantBeKept(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"request", "instance"} {
		with := func(dollars string) *module {
			return load(t, ".", vars("run_gcloud", cty.True, "increment_billing", cty.StringVal(way), "rollup_billing", cty.StringVal(way), "most_per_day", cty.StringVal(dollars)))
		}
		least, _ := with("1").local("least_per_day").AsBigFloat().Float64()
		if least < 4 || least > 6 {
			t.Errorf("the least by the %s is %v a day", way, least)
		}
		for dollars, kept := range map[string]bool{"1": false, fmt.Sprintf("%.2f", least-0.02): false, fmt.Sprintf("%.2f", least): true, "none": true} {
			condition, message := with(dollars).precondition("google_cloudfunctions2_function", "http", "keeps")
			if condition != kept {
				t.Errorf("most_per_day %s by the %s: it is taken: %v, want %v", dollars, way, condition, kept)
			}
			if want := fmt.Sprintf("want %v at least", least); !kept && !strings.Contains(message, want) {
				t.Errorf("most_per_day %s by the %s is refused with %q, want one that says %q", dollars, way, message, want)
			}
		}
	}
}

// precondition is what the precondition of a resource comes to that refers to a local value, and its error message.
func (m *module) precondition(kind, name, refers string) (kept bool, message string) {
	m.t.Helper()
	for _, b := range m.resources {
		if b.Type != "resource" || b.Labels[0] != kind || b.Labels[1] != name {
			continue
		}
		for _, lifecycle := range b.Body.Blocks {
			for _, inner := range lifecycle.Body.Blocks {
				if inner.Type != "precondition" {
					continue
				}
				condition := inner.Body.Attributes["condition"].Expr
				if slices.ContainsFunc(condition.Variables(), func(ref hcl.Traversal) bool {
					return ref.RootName() == "local" && ref[1].(hcl.TraverseAttr).Name == refers
				}) {
					return m.value(condition).True(), text(m.args(inner.Body, nil), "error_message")
				}
			}
		}
	}
	m.t.Fatalf("no precondition of %s.%s has %s", kind, name, refers)
	return false, ""
}
