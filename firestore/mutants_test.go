//go:build all

package firestore

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutant is the rules without one condition, or without one way to be allowed.
type mutant struct {
	what   string // the condition, and where it is
	rules  string
	looser bool // it allows more: a case that is refused must pass. Otherwise one that is allowed must be refused
}

// untested are conditions whose absence no case can notice, and why they are there.
var untested = map[string]string{
	"request.resource.data.shard.matches('[0-9]{1,4}')": "the emulator finds no document by an id with a slash, and nothing says that production doesn't",

	"changes('likes')":     "saves a look at a membership, which is a billed read",
	"changes('bookmarks')": "saves the same",
	"changes('views')":     "saves the same",
	"request.resource.data.diff(resource.data).affectedKeys().hasAny([field])": "is what the three before say",
}

// statement is what decides: the body of a function that says yes or no, or an allow.
var statement = regexp.MustCompile(`(return|allow [a-z, ]+: if) ([^;]+);`)

// mutants takes out each condition of the rules in turn, and each alternative. Functions that
// return something else than yes or no have mutants of their own.
func mutants(rules string) (all []mutant) {
	replaced := func(start, end int, with string) string { return rules[:start] + with + rules[end:] }
	for _, m := range statement.FindAllStringSubmatchIndex(rules, -1) {
		kind, body := rules[m[2]:m[3]], rules[m[4]:m[5]]
		if body == "false" || kind == "return" && (strings.HasPrefix(body, "/") || strings.HasPrefix(body, "[")) {
			continue
		}
		where := within(rules[:m[0]])
		if kind != "return" {
			where += " " + strings.TrimSuffix(kind, ": if")
			all = append(all, mutant{where + ": all of it", replaced(m[4], m[5], "false"), false})
		}
		if body == "true" {
			continue
		}
		if _, choice, ok := strings.Cut(body, " ? "); ok {
			then, otherwise, _ := strings.Cut(choice, " : ")
			all = append(all,
				mutant{where + ": always " + then, replaced(m[4], m[5], then), false},
				mutant{where + ": always " + otherwise, replaced(m[4], m[5], otherwise), true})
			continue
		}
		for _, c := range split(body, "&&") {
			condition := body[c[0]:c[1]]
			all = append(all, mutant{where + ": " + condition, replaced(m[4]+c[0], m[4]+c[1], "true"), true})
			inner, open := strings.CutPrefix(condition, "(")
			start := m[4] + c[0]
			if open {
				inner = strings.TrimSuffix(inner, ")")
				start++
			}
			if ways := split(inner, "||"); len(ways) > 1 {
				for _, way := range ways {
					all = append(all, mutant{where + ": " + inner[way[0]:way[1]], replaced(start+way[0], start+way[1], "false"), false})
				}
			}
		}
	}
	return all
}

// within names the blocks and the function that the end of this text is in.
func within(text string) string {
	var stack []string
	for _, m := range regexp.MustCompile(`match (/\S+) \{\n|function (\w+)\(.*\{\n|\{|\}`).FindAllStringSubmatch(text, -1) {
		if m[0] == "}" {
			stack = stack[:len(stack)-1]
			continue
		}
		stack = append(stack, strings.TrimPrefix(m[1]+m[2], "/databases/{database}/documents"))
	}
	return strings.TrimSpace(strings.Join(stack, " "))
}

// split finds the parts of an expression between the operators that are in no parentheses, without
// the space around them.
func split(expression, operator string) (parts [][2]int) {
	depth, start := 0, 0
	part := func(end int) {
		text := expression[start:end]
		from := start + len(text) - len(strings.TrimLeft(text, " \n"))
		parts = append(parts, [2]int{from, from + len(strings.TrimSpace(text))})
	}
	for i := range len(expression) {
		switch {
		case strings.IndexByte("([{", expression[i]) >= 0:
			depth++
		case strings.IndexByte(")]}", expression[i]) >= 0:
			depth--
		case depth == 0 && strings.HasPrefix(expression[i:], operator):
			part(i)
			start = i + len(operator)
		}
	}
	part(len(expression))
	return parts
}

// Each condition is there for a case: without it, something passes that must not, and without each
// way to be allowed, something is refused that must pass.
func TestEachConditionIsNeeded(t *testing.T) {
	t.Parallel()
	_, clients := read(t)
	c := client{now: time.Now()}
	cases := c.attempts()
	all := mutants(clients)
	if len(all) < 40 {
		t.Errorf("only %d mutants: the rules are no longer written as they are read here", len(all))
	}
	const parts = 2
	for part := range parts {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			p := newProject(t, fmt.Sprint("rules-mutants-", part))
			p.release(t, withBlocks(clients, scratch))
			w := newWorld(t, p, c)
			for i := part; i < len(all); i += parts {
				m := all[i]
				_, condition, _ := strings.Cut(m.what, ": ")
				if reason := untested[condition]; reason != "" {
					t.Logf("%-120s (%s)", m.what, reason)
					continue
				}
				p.release(t, withBlocks(m.rules, scratch))
				if held := w.caughtBy(m, cases); held != "" {
					t.Logf("%-120s held by %q", m.what, held)
				} else {
					t.Errorf("%s: no case notices when it is taken out", m.what)
				}
			}
		})
	}
}

// caughtBy returns the case that a mutant answers otherwise than the rules do.
func (w world) caughtBy(m mutant, cases []attempt) string {
	w.t.Helper()
	// Those that are about the same documents, and do the same with them, are the likeliest to
	// notice.
	likely := func(a attempt) (score int) {
		text := fmt.Sprint(a.get, a.before, a.writes)
		for _, path := range []string{"counter_requests/", "posts/", "counters/", "likes_members", "bookmarks_members", "total_members"} {
			if strings.Contains(m.what, "/"+path) != strings.Contains(text, path) {
				score++
			}
		}
		for _, word := range []struct{ rule, write string }{{"delete", "delete"}, {"leaves", "delete"}, {"asks", "request"}, {"allow create", "setToServerValue"}, {"joins", "setToServerValue"}} {
			if strings.Contains(m.what, word.rule) && !strings.Contains(text, word.write) {
				score++
			}
		}
		if strings.Contains(m.what, "allow get") != (a.get != "") {
			score += 10
		}
		if a.before != nil {
			score++
		}
		return score
	}
	cases = slices.Clone(cases)
	slices.SortStableFunc(cases, func(a, b attempt) int { return likely(a) - likely(b) })
	for _, a := range cases {
		if a.clients == m.looser {
			continue
		}
		w.begin(a)
		status, answer := w.try(a)
		if status != http.StatusOK && status != http.StatusForbidden {
			w.t.Errorf("%s: %s: status %d: %s", m.what, a.name, status, answer)
		}
		if a.get == "" && (status == http.StatusOK || a.before != nil) {
			w.restore(a)
		}
		if status != wanted(a.clients) {
			return a.name
		}
	}
	return ""
}
