//go:build all

package firestore

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/counted.md has rules for a collection that is summed up: what they take is an integer,
// whoever writes it.
func TestRulesOfCountedCollections(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/counted.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```\n(match /posts/.*?)```").FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("docs/counted.md has no block of rules")
	}
	plain, _ := read(t)
	p := newProject(t, "rules-counted")
	p.release(t, withBlocks(plain, block[1]))
	rating := "posts/p/ratings/" + alice
	for _, c := range []struct {
		name    string
		user    string
		write   write
		allowed bool
	}{
		{"a rating", alice, set(rating, fields{"stars": 5}), true},
		{"another rating", alice, update(rating, fields{"stars": 1, "text": "t"}), true},
		{"half a star", alice, update(rating, fields{"stars": 0.5}), false},
		{"four and a half", alice, update(rating, fields{"stars": 4.5}), false},
		{"a whole double", alice, update(rating, fields{"stars": 5.0}), false},
		{"the number that it has, as a double", alice, update(rating, fields{"stars": 1.0}), false},
		{"an increment by a fraction", alice, add(rating, "stars", 0.5), false},
		{"an increment by 0.0, which makes it a double", alice, add(rating, "stars", 0.0), false},
		{"an increment", alice, add(rating, "stars", 1), true},
		{"too many", alice, update(rating, fields{"stars": 6}), false},
		{"a text", alice, update(rating, fields{"stars": "5"}), false},
		{"no stars", alice, set(rating, fields{"text": "t"}), false},
		{"another's", bob, update(rating, fields{"stars": 1}), false},
		{"not signed in", nobody, update(rating, fields{"stars": 1}), false},
		{"take it back", alice, remove(rating), true},
	} {
		status, answer := p.commit(t, c.user, []write{c.write})
		if want := wanted(c.allowed); status != want && (c.allowed || status == http.StatusOK) || strings.Contains(answer, "Null value error") && c.allowed {
			t.Errorf("%s: %d %s, want %d", c.name, status, answer, want)
		}
	}
}
