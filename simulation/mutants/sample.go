package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// sampledDirs are the packages whose every statement and operator may be drawn.
var sampledDirs = []string{"internal/book", "internal/escrow", "internal/hold", "internal/seats", "rollup", "shards"}

// change is one edit that an operator makes, by its place in the file.
type change struct {
	file     string
	line     int
	from, to int // bytes
	by       string
	operator string
	was      string
}

func (c change) String() string {
	return fmt.Sprintf("%s:%d %s: %s → %s", c.file, c.line, c.operator, oneLine(c.was), oneLine(c.by))
}

// mutant has the whole file for its text: that is there once.
func (c change) mutant() (mutant, error) {
	source, err := os.ReadFile(c.file)
	if err != nil {
		return mutant{}, err
	}
	return mutant{
		name: c.String(), dir: filepath.Dir(c.file),
		old: string(source), new: string(source[:c.from]) + c.by + string(source[c.to:]),
	}, nil
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return "nothing"
	}
	return s[:min(len(s), 60)]
}

// swaps are operators, each for another that is like it.
var swaps = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.ADD, token.QUO: token.MUL,
}

// changes are all that the operators make of a file: a condition is negated, or never or always true, or has a part left
// out, an operator is swapped, a statement removed, a number one more; a write is on no condition of a version. What only
// writes a log is left alone.
func changes(file string) ([]change, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, source, 0)
	if err != nil {
		return nil, err
	}
	var all []change
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	add := func(n ast.Node, from, to token.Pos, operator, by string) {
		all = append(all, change{
			file: file, line: set.Position(n.Pos()).Line, from: offset(from), to: offset(to), by: by, operator: operator,
			was: string(source[offset(from):offset(to)]),
		})
	}
	text := func(n ast.Node) string { return string(source[offset(n.Pos()):offset(n.End())]) }
	remove := func(n ast.Stmt) {
		switch s := n.(type) {
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				add(n, n.Pos(), n.End(), "removed", "")
			}
		case *ast.ExprStmt:
			if t := strings.ToLower(text(n)); !strings.Contains(t, "log.") && !strings.Contains(t, "logger.") {
				add(n, n.Pos(), n.End(), "removed", "")
			}
		case *ast.IncDecStmt, *ast.DeferStmt, *ast.BranchStmt, *ast.SendStmt:
			add(n, n.Pos(), n.End(), "removed", "")
		}
	}
	constant := func(condition ast.Expr) {
		add(condition, condition.Pos(), condition.End(), "never", "false")
		add(condition, condition.Pos(), condition.End(), "always", "true")
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok == token.VAR // constants are limits and names
		case *ast.BlockStmt:
			for _, s := range n.List {
				remove(s)
			}
		case *ast.CaseClause:
			for _, s := range n.Body {
				remove(s)
			}
		case *ast.CommClause:
			for _, s := range n.Body {
				remove(s)
			}
		case *ast.IfStmt:
			add(n.Cond, n.Cond.Pos(), n.Cond.End(), "negated", "!("+text(n.Cond)+")")
			constant(n.Cond)
		case *ast.SwitchStmt:
			for _, s := range n.Body.List {
				if n.Tag == nil && len(s.(*ast.CaseClause).List) == 1 {
					constant(s.(*ast.CaseClause).List[0])
				}
			}
		case *ast.BinaryExpr:
			if by, ok := swaps[n.Op]; ok {
				add(n, n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), "swapped in "+oneLine(text(n)), by.String())
			}
			if n.Op == token.LAND || n.Op == token.LOR {
				add(n, n.Pos(), n.End(), "left out", text(n.X))
				add(n, n.Pos(), n.End(), "left out", text(n.Y))
			}
		case *ast.CallExpr:
			if text(n.Fun) == "store.IfVersion" {
				add(n, n.Pos(), n.End(), "whatever version", "store.Exists(true)")
			}
		case *ast.BasicLit:
			if i, err := strconv.Atoi(n.Value); err == nil {
				add(n, n.Pos(), n.End(), "one more", strconv.Itoa(i+1))
			}
		}
		return true
	})
	return all, nil
}

// catchers are what a sampled mutant of a package has to pass, one after the other: its own tests, if it has some; of
// what lies below shards those of shards; and the simulation.
func catchers(dir string) (tests []killer) {
	if own, _ := filepath.Glob(filepath.Join(dir, "*_test.go")); len(own) > 0 {
		tests = append(tests, killer{what: "tests of " + dir, pkg: dir})
	}
	if strings.HasPrefix(dir, "internal/") {
		tests = append(tests, killer{what: "tests of shards", pkg: "shards"})
	}
	return append(tests, simulation)
}

// errBroken is that a mutant doesn't compile.
var errBroken = errors.New("it doesn't compile")

// sample draws so many mutants that compile from all that the operators make, prints what became of
// each, and returns the exit code: 0, because one that lives may be no other program.
func sample(ctx context.Context, n, parallel int, limit time.Duration, seed uint64) int {
	began := time.Now()
	var all []change
	for _, dir := range sampledDirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			panic(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			of, err := changes(file)
			if err != nil {
				fmt.Fprintln(os.Stderr, "mutants:", err)
				return 1
			}
			all = append(all, of...)
		}
	}
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	fmt.Printf("%d mutants can be made of %s; %d are drawn with seed %d\n", len(all), strings.Join(sampledDirs, ", "), n, seed)
	var (
		mu       sync.Mutex
		next     int
		broken   int
		taken    int // that compile, or may yet
		verdicts []verdict
		procs    sync.WaitGroup
	)
	for range parallel {
		procs.Go(func() {
			for {
				mu.Lock()
				if taken == n || next == len(all) || ctx.Err() != nil {
					mu.Unlock()
					return
				}
				c := all[next]
				next++
				taken++
				mu.Unlock()
				m, err := c.mutant()
				if err != nil {
					panic(err) // it was there a moment ago
				}
				v := m.survive(ctx, limit, max(1, runtime.GOMAXPROCS(0)/parallel))
				mu.Lock()
				switch {
				case ctx.Err() != nil:
				case errors.Is(v.err, errBroken):
					broken++
					taken--
				default:
					verdicts = append(verdicts, v)
					how := v.how
					if v.err != nil {
						how = "LIVES"
					}
					fmt.Printf("%3d of %d  %-110s %5.1fs  %s\n", len(verdicts), n, m.name, v.took.Seconds(), how[:min(len(how), 120)])
				}
				mu.Unlock()
			}
		})
	}
	procs.Wait()
	slices.SortFunc(verdicts, func(a, b verdict) int { return strings.Compare(a.name, b.name) })
	by := map[string]int{}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nlives")
	for _, v := range verdicts {
		if v.err != nil {
			by["live"]++
			fmt.Fprintln(w, v.name)
			continue
		}
		by[v.by.what]++
	}
	_ = w.Flush()
	fmt.Printf("of %d sampled mutants (%d more didn't compile) %d live; caught by %v; in %s\n", len(verdicts), broken, by["live"], by, time.Since(began).Round(time.Second))
	if ctx.Err() != nil {
		return 130
	}
	return 0
}

// survive has a mutant pass its catchers until one catches it.
func (m mutant) survive(ctx context.Context, limit time.Duration, cores int) verdict {
	v := verdict{mutant: m}
	for _, by := range catchers(m.dir) {
		m.by = by
		how, took, err := m.kill(ctx, limit, 1, cores)
		v.mutant, v.how, v.took, v.err = m, how, v.took+took, err
		switch {
		case err == nil || errors.Is(err, errBroken):
			return v
		case errors.Is(err, errNoEnd) && by.what != simulation.what:
			// a loop without an end, or a lock that is kept; look at it where the machine is busy
			v.how, v.by.what, v.err = err.Error(), "tests that don't end", nil
			return v
		}
	}
	return v
}
