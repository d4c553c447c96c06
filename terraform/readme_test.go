package terraform

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

//go:generate go test . -run TestREADME -update

var update = flag.Bool("update", false, "write README.md's tables, as `go generate ./terraform` does")

// TestREADME makes the README's tables of what is in the .tf files, in their order, and compares.
// The registry shows variables and outputs in the alphabet's order, and without what they are for.
func TestREADME(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	m := parse(t, ".")
	readme := string(content)
	for _, made := range []struct{ what, text string }{
		{"requirements", m.requirementsTable()},
		{"variables", m.variablesTable("variables.tf")},
		{"outputs", m.outputsTable()},
	} {
		before, rest, begins := strings.Cut(readme, "<!-- "+made.what+": made by go generate ./terraform -->\n")
		_, after, ends := strings.Cut(rest, "<!-- end of "+made.what+" -->\n")
		if !begins || !ends {
			t.Fatalf("README.md has no place for its table of %s", made.what)
		}
		readme = before + "<!-- " + made.what + ": made by go generate ./terraform -->\n" + made.text + "<!-- end of " + made.what + " -->\n" + after
	}
	if readme == string(content) {
		return
	}
	if !*update {
		t.Fatal("README.md is not what the .tf files say: run go generate ./terraform")
	}
	if err := os.WriteFile("README.md", []byte(readme), 0o644); err != nil {
		t.Fatal(err)
	}
}

// requirementsTable is of terraform itself and the providers.
func (m *module) requirementsTable() string {
	required := m.terraform.Body
	rows := []string{"| Terraform or OpenTofu | `" + m.value(required.Attributes["required_version"]).AsString() + "` |\n"}
	for _, attr := range inOrder(required.Blocks[0].Body.Attributes) {
		provider := m.value(attr).AsValueMap()
		rows = append(rows, fmt.Sprintf("| the provider `%s` | `%s` |\n", provider["source"].AsString(), provider["version"].AsString()))
	}
	return "| | version |\n| --- | --- |\n" + strings.Join(rows, "")
}

// variablesTable is of a file's variables, with the defaults as they are written there.
func (m *module) variablesTable(file string) string {
	rows := "| name | default | |\n| --- | --- | --- |\n"
	for _, b := range ofFile(m.variables, file) {
		def := "required"
		if attr, ok := b.Body.Attributes["default"]; ok {
			src, err := os.ReadFile(file)
			if err != nil {
				m.t.Fatal(err)
			}
			def = "`" + strings.Join(strings.Fields(string(attr.Expr.Range().SliceBytes(src))), " ") + "`"
		}
		rows += fmt.Sprintf("| `%s` | %s | %s |\n", b.Labels[0], cell(def), cell(m.value(b.Body.Attributes["description"]).AsString()))
	}
	return rows
}

func (m *module) outputsTable() string {
	rows := "| name | |\n| --- | --- |\n"
	for _, b := range ofFile(m.outputs, "outputs.tf") {
		rows += fmt.Sprintf("| `%s` | %s |\n", b.Labels[0], cell(m.value(b.Body.Attributes["description"]).AsString()))
	}
	return rows
}

// cell is text that stays in its cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// ofFile are the blocks of a file, from its beginning to its end.
func ofFile(blocks map[string]*hclsyntax.Block, file string) []*hclsyntax.Block {
	list := slices.DeleteFunc(slices.Collect(maps.Values(blocks)), func(b *hclsyntax.Block) bool {
		return filepath.Base(b.TypeRange.Filename) != file
	})
	slices.SortFunc(list, func(a, b *hclsyntax.Block) int { return cmp.Compare(a.TypeRange.Start.Byte, b.TypeRange.Start.Byte) })
	return list
}

func inOrder(attributes hclsyntax.Attributes) []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(attributes), func(a, b *hclsyntax.Attribute) int {
		return cmp.Compare(a.SrcRange.Start.Byte, b.SrcRange.Start.Byte)
	})
}

// The tables have a row for all of them: none is in a file that has no table. The settings' table is
// docs/settings.md.
func TestEveryVariableAndOutputHasARow(t *testing.T) {
	t.Parallel()
	m := parse(t, ".")
	for name, b := range m.variables {
		if file := filepath.Base(b.TypeRange.Filename); file != "variables.tf" && file != "settings.tf" {
			t.Errorf("the variable %s is in %s: README.md has no table for that file", name, file)
		}
	}
	for name, b := range m.outputs {
		if file := filepath.Base(b.TypeRange.Filename); file != "outputs.tf" {
			t.Errorf("the output %s is in %s: README.md has no table for that file", name, file)
		}
	}
}
