package repotest

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A package's comment lists its files in the order in which they are read: each uses what those below it declare.
// An arrow leads from a file to each other one of which it uses something: a function, a method, a type, a field, a
// constant or a variable of the package. So many may lead back up. Of a package whose files are rooms of one type's
// methods, only the list is held.
var arrowsUp = map[string]int{
	"./functions": rooms, "./shards": 2, "./rollup": 1,
	"./internal/book": 0, "./internal/store": 0, "./internal/layout": 1,
}

const rooms = 1000

func TestFilesReadFromTopToBottom(t *testing.T) {
	atRoot(t)
	for dir, p := range checked(t, slices.Sorted(maps.Keys(arrowsUp))...) {
		order := p.order(t)
		var up []string
		for _, a := range p.arrows() {
			if slices.Index(order, a.from) > slices.Index(order, a.to) {
				up = append(up, fmt.Sprintf("%s uses of %s: %s", a.from, a.to, strings.Join(a.names, ", ")))
			}
		}
		if len(up) > arrowsUp[dir] {
			t.Errorf("%s: %d arrows lead up, and %d may: move what both files use below them, or change the order in the package's comment\n\t%s",
				dir, len(up), arrowsUp[dir], strings.Join(up, "\n\t"))
		}
	}
}

// What calls itself may not end, and hides how much it does: it returns what is needed, and the caller
// does that.
func TestNoFunctionCallsItself(t *testing.T) {
	atRoot(t)
	for dir, p := range checked(t, slices.Sorted(maps.Keys(arrowsUp))...) {
		for _, file := range p.files {
			for _, decl := range file.Decls {
				f, is := decl.(*ast.FuncDecl)
				if !is {
					continue
				}
				ast.Inspect(f, func(n ast.Node) bool {
					if id, is := n.(*ast.Ident); is && id != f.Name {
						if used, is := p.Uses[id].(*types.Func); is && used.Origin() == p.Defs[f.Name] {
							t.Errorf("%s: %s calls itself", dir, f.Name.Name)
						}
					}
					return true
				})
			}
		}
	}
}

// checkedPackage is a package of this module, without its tests.
type checkedPackage struct {
	*types.Package
	types.Info
	fset  *token.FileSet
	files []*ast.File
}

// checked are packages, by their folders. What they import is read from the build's cache.
func checked(t *testing.T, dirs ...string) map[string]*checkedPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles,DepOnly"}, dirs...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports, all := map[string]string{}, map[string]*checkedPackage{}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for list := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Export, Dir string
			GoFiles                 []string
			DepOnly                 bool
		}
		if err := list.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export // which comes after those of all that it imports
		at := slices.IndexFunc(dirs, func(dir string) bool { return strings.HasSuffix(p.ImportPath, dir[1:]) })
		if p.DepOnly || at < 0 {
			continue
		}
		c := &checkedPackage{fset: fset, Info: types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			c.files = append(c.files, file)
		}
		if c.Package, err = (&types.Config{Importer: imports}).Check(p.ImportPath, fset, c.files, &c.Info); err != nil {
			t.Fatal(err)
		}
		all[dirs[at]] = c
	}
}

// fileAt is the file's name that something is in.
func (p *checkedPackage) fileAt(pos token.Pos) string {
	return filepath.Base(p.fset.Position(pos).Filename)
}

var listed = regexp.MustCompile(`(?m)^//\t(\w+\.go)\s`)

// order is that of the package's files, as a comment lists them, each once.
func (p *checkedPackage) order(t *testing.T) (order []string) {
	t.Helper()
	var files []string
	for _, file := range p.files {
		if name := p.fileAt(file.Pos()); name != "doc.go" {
			files = append(files, name)
		}
		for _, group := range file.Comments {
			for _, line := range group.List {
				if m := listed.FindStringSubmatch(line.Text + " "); m != nil {
					order = append(order, m[1])
				}
			}
		}
	}
	if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, files) {
		t.Errorf("%s: a comment lists %v, and there are %v", p.Path(), sorted, files)
	}
	return order
}

// arrow leads from a file to another one of which it uses something.
type arrow struct {
	from, to string
	names    []string
}

func (p *checkedPackage) arrows() (arrows []arrow) {
	type pair struct{ from, to string }
	found := map[pair]map[string]bool{}
	for id, used := range p.Uses {
		if used.Pkg() != p.Package {
			continue
		}
		if used.Parent() != nil && used.Parent() != p.Scope() {
			continue // a function's own; fields and methods have no scope
		}
		if at := (pair{p.fileAt(id.Pos()), p.fileAt(used.Pos())}); at.from != at.to {
			if found[at] == nil {
				found[at] = map[string]bool{}
			}
			found[at][used.Name()] = true
		}
	}
	for at, names := range found {
		arrows = append(arrows, arrow{at.from, at.to, slices.Sorted(maps.Keys(names))})
	}
	slices.SortFunc(arrows, func(a, b arrow) int { return strings.Compare(a.from+a.to, b.from+b.to) })
	return arrows
}
