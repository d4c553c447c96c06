package firestore

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// read returns firestore.rules, and the same with the lines for clients that count by themselves.
// Comments are left out of both.
func read(t *testing.T) (plain, clients string) {
	t.Helper()
	content, err := os.ReadFile("firestore.rules")
	if err != nil {
		t.Fatal(err)
	}
	comment := regexp.MustCompile(`//.*`)
	clients = regexp.MustCompile(`(?m)^(\s*)//\+ `).ReplaceAllString(string(content), "$1")
	return comment.ReplaceAllString(string(content), ""), comment.ReplaceAllString(clients, "")
}

// Without the emulator this much is sure: the file as it stands allows one thing, which is to get a
// counter.
func TestRulesAllowOneThing(t *testing.T) {
	t.Parallel()
	plain, clients := read(t)
	count := func(rules string) (allowed []string) {
		for _, m := range regexp.MustCompile(`allow ([a-z, ]+): if ([^;]+);`).FindAllStringSubmatch(rules, -1) {
			if m[2] != "false" {
				allowed = append(allowed, m[1])
			}
		}
		return allowed
	}
	if got := count(plain); !slices.Equal(got, []string{"get"}) {
		t.Errorf("the rules allow %q", got)
	}
	if got := count(clients); len(got) < 10 {
		t.Errorf("the lines for clients allow only %q", got)
	}
	for _, rules := range []string{plain, clients} {
		if strings.Count(rules, "{") != strings.Count(rules, "}") {
			t.Error("unbalanced braces")
		}
	}
}

// Rules have no way to share functions that name paths: the two blocks have their own, which must
// not drift apart.
func TestBlocksHaveTheSameFunctions(t *testing.T) {
	t.Parallel()
	_, clients := read(t)
	of := func(path string) (functions []string) {
		_, block, found := strings.Cut(clients, "match /"+path+"/{")
		if !found {
			t.Fatalf("no block for %s", path)
		}
		for _, name := range []string{"shard", "membership", "home", "joins", "leaves", "asks"} {
			start := strings.Index(block, "function "+name+"(")
			if start < 0 {
				t.Fatalf("%s has no function %s", path, name)
			}
			function, _, _ := strings.Cut(block[start:], "\n      }")
			function = regexp.MustCompile(`\s+`).ReplaceAllString(function, " ")
			functions = append(functions, regexp.MustCompile(path+`/\$\(\w+\)`).ReplaceAllString(function, "HERE"))
		}
		return functions
	}
	if a, b := of("counters"), of("posts"); !slices.Equal(a, b) {
		t.Errorf("%q\n%q", a, b)
	}
}
