// Package terraform holds nothing but tests: of the module's syntax, names and agreement with what
// it deploys.
package terraform

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// A module is terraform's configuration in a folder, as it is written. What it comes to terraform says: see
// plan_test.go.
type module struct {
	t         *testing.T
	variables map[string]*hclsyntax.Block
	outputs   map[string]*hclsyntax.Block
	resources []*hclsyntax.Block // resource and data
	terraform *hclsyntax.Block   // the version and the providers it takes
}

func parse(t *testing.T, dir string) *module {
	t.Helper()
	m := &module{
		t: t, variables: map[string]*hclsyntax.Block{}, outputs: map[string]*hclsyntax.Block{},
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.tf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no .tf files in %s: %v", dir, err)
	}
	parser := hclparse.NewParser()
	for _, path := range files {
		f, diags := parser.ParseHCLFile(path)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		for _, b := range f.Body.(*hclsyntax.Body).Blocks {
			switch b.Type {
			case "variable":
				m.variables[b.Labels[0]] = b
			case "output":
				m.outputs[b.Labels[0]] = b
			case "resource", "data":
				m.resources = append(m.resources, b)
			case "terraform":
				m.terraform = b
			}
		}
	}
	return m
}

// value is that of an attribute that is written out.
func (m *module) value(attr *hclsyntax.Attribute) cty.Value {
	m.t.Helper()
	v, diags := attr.Expr.Value(nil)
	if diags.HasErrors() {
		m.t.Fatal(diags)
	}
	return v
}

// source is an expression as it is written.
func source(t *testing.T, expr hcl.Expression) string {
	t.Helper()
	return string(expr.Range().SliceBytes([]byte(mustRead(t, expr.Range().Filename))))
}

func TestFormatting(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"*.tf", "examples/*/*.tf", "tests/*.tftest.hcl"} {
		found, _ := filepath.Glob(pattern)
		files = append(files, found...)
	}
	if len(files) < 10 {
		t.Fatalf("found only %d files", len(files))
	}
	for _, path := range files {
		src := []byte(mustRead(t, path))
		if _, diags := hclsyntax.ParseConfig(src, path, hcl.Pos{Line: 1, Column: 1}); diags.HasErrors() {
			t.Error(diags)
		}
		if !bytes.Equal(hclwrite.Format(src), src) {
			t.Errorf("%s is not as `terraform fmt` leaves it", path)
		}
	}
}

func TestVariablesAndOutputsAreDocumentedAndChecked(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{".", "examples/basic"} {
		m := parse(t, dir)
		for name, b := range m.variables {
			for _, attr := range []string{"type", "description", "nullable"} {
				if b.Body.Attributes[attr] == nil {
					t.Fatalf("%s: variable %s has no %s", dir, name, attr)
				}
			}
			checked := source(t, b.Body.Attributes["type"].Expr) == "bool" // which says it all
			for _, inner := range b.Body.Blocks {
				if inner.Type == "validation" {
					checked = true
					if msg := source(t, inner.Body.Attributes["error_message"].Expr); !strings.HasPrefix(msg, `"`+name+" must ") {
						t.Errorf("%s: variable %s: its error message should begin with its name and what it must be: %s", dir, name, msg)
					}
				}
			}
			if !checked {
				t.Errorf("%s: variable %s has no validation", dir, name)
			}
		}
		for name, b := range m.outputs {
			if b.Body.Attributes["description"] == nil {
				t.Errorf("%s: output %s has no description", dir, name)
			}
		}
	}
}

// terraform's own tests, which check.sh runs, have a value for each variable that it refuses.
func TestEveryValidationIsTried(t *testing.T) {
	t.Parallel()
	var refused []string
	for _, list := range regexp.MustCompile(`expect_failures = \[([^]]*)\]`).FindAllStringSubmatch(mustRead(t, "tests/plan.tftest.hcl"), -1) {
		refused = append(refused, strings.FieldsFunc(list[1], func(r rune) bool { return r == ',' || unicode.IsSpace(r) })...)
	}
	m := parse(t, ".")
	for name, b := range m.variables {
		validated := slices.ContainsFunc(b.Body.Blocks, func(inner *hclsyntax.Block) bool { return inner.Type == "validation" })
		if validated && !slices.Contains(refused, "var."+name) {
			t.Errorf("no run of tests/plan.tftest.hcl has a value of %s that is refused", name)
		}
	}
}
