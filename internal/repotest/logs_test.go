package repotest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// What the functions log is in docs/operations.md, each message with what it means, and nothing
// else is.
func TestLogMessagesInDocs(t *testing.T) {
	atRoot(t)
	page, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## What the log says")
	table, _, _ = strings.Cut(table, "\n## ")
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?`) \\|").FindAllStringSubmatch(table, -1) {
		for message := range strings.SplitSeq(row[1], ", ") {
			listed[strings.Trim(message, "`")] = true
		}
	}
	logged := map[string]bool{}
	for _, dir := range []string{"functions", "rollup", "shards", "internal/store", "internal/book"} {
		for message := range messages(t, dir) {
			logged[message] = true
			if !listed[message] {
				t.Errorf("%s logs %q, of which docs/operations.md says nothing", dir, message)
			}
		}
	}
	for message := range listed {
		if !logged[message] {
			t.Errorf("docs/operations.md has %q, which nothing logs", message)
		}
	}
}

// messages are those that the package in a directory logs, wherever it calls a method by one of
// slog's names.
func messages(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]string{}
	var parsed []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				for i, value := range spec.Values {
					if text, ok := literal(value); ok {
						constants[spec.Names[i].Name] = text
					}
				}
			}
			return true
		})
	}
	found := map[string]bool{}
	at := map[string]int{
		"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1,
		"Log": 2, "LogAttrs": 2,
	}
	for _, file := range parsed {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if arg, logs := at[method.Sel.Name]; logs && len(call.Args) > arg {
				switch message := call.Args[arg].(type) {
				case *ast.Ident:
					found[constants[message.Name]] = true
				default:
					if text, ok := literal(message); ok {
						found[text] = true
					}
				}
			}
			return true
		})
	}
	return found
}

// literal is a string that stands in the source.
func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
