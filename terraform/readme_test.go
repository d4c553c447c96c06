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
	m, written := parse(t, "."), mustRead(t, "README.md")
	readme := written
	for _, made := range []struct{ what, text string }{
		{"requirements", m.requirementsTable()},
		{"variables", m.variablesTable()},
		{"outputs", m.outputsTable()},
	} {
		before, rest, begins := strings.Cut(readme, "<!-- "+made.what+": made by go generate ./terraform -->\n")
		_, after, ends := strings.Cut(rest, "<!-- end of "+made.what+" -->\n")
		if !begins || !ends {
			t.Fatalf("README.md has no place for its table of %s", made.what)
		}
		readme = before + "<!-- " + made.what + ": made by go generate ./terraform -->\n" + made.text + "<!-- end of " + made.what + " -->\n" + after
	}
	if readme == written {
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

// variablesTable is of the variables, with the defaults as they are written. The settings' table is docs/settings.md.
func (m *module) variablesTable() string {
	rows := "| name | default | |\n| --- | --- | --- |\n"
	for _, b := range allBut(m.variables, "settings.tf") {
		def := "required"
		if attr, ok := b.Body.Attributes["default"]; ok {
			def = "`" + strings.Join(strings.Fields(source(m.t, attr.Expr)), " ") + "`"
		}
		rows += fmt.Sprintf("| `%s` | %s | %s |\n", b.Labels[0], cell(def), cell(m.value(b.Body.Attributes["description"]).AsString()))
	}
	return rows
}

func (m *module) outputsTable() string {
	rows := "| name | |\n| --- | --- |\n"
	for _, b := range allBut(m.outputs, "") {
		rows += fmt.Sprintf("| `%s` | %s |\n", b.Labels[0], cell(m.value(b.Body.Attributes["description"]).AsString()))
	}
	return rows
}

// cell is text that stays in its cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// allBut are the blocks in the order in which they are written, but for those of a file.
func allBut(blocks map[string]*hclsyntax.Block, file string) []*hclsyntax.Block {
	list := slices.DeleteFunc(slices.Collect(maps.Values(blocks)), func(b *hclsyntax.Block) bool {
		return filepath.Base(b.TypeRange.Filename) == file
	})
	slices.SortFunc(list, func(a, b *hclsyntax.Block) int { return cmp.Compare(a.TypeRange.Start.Byte, b.TypeRange.Start.Byte) })
	return list
}

func inOrder(attributes hclsyntax.Attributes) []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(attributes), func(a, b *hclsyntax.Attribute) int {
		return cmp.Compare(a.SrcRange.Start.Byte, b.SrcRange.Start.Byte)
	})
}
