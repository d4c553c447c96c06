//go:build all

package terraform

import (
	"strings"
	"testing"
)

// The rules file names the default path and the default shards, in matches and in functions.
func TestRulesFollowThePath(t *testing.T) {
	t.Parallel()
	rules := planOne(t, vars{"counters": "teams/{team}/posts/{post}", "shards": "parts", "release_rules": true}).one("google_firebaserules_ruleset", "rules").text("source.files.content")
	for _, want := range []string{
		"match /teams/{team}/posts/{post} {",
		"return /databases/$(database)/documents/teams/$(team)/posts/$(post)/parts/$(n);",
		"return /databases/$(database)/documents/teams/$(team)/posts/$(post)/$(field + '_members')/$(request.auth.uid);",
		"match /parts/{n} {",
	} {
		if !strings.Contains(rules, want) {
			t.Errorf("the rules have no %s", want)
		}
	}
	for _, left := range []string{"/counters/", "/shards/", "$(counter)"} {
		if strings.Contains(rules, left) {
			t.Errorf("the rules still have %s", left)
		}
	}
}
