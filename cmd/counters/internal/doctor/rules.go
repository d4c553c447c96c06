package doctor

import (
	"regexp"
	"slices"
	"strings"
	"time"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/firestore"
	"github.com/firestore-counters/counters/internal/layout"
)

// Rules are the security rules that hold for the database: a release, and the ruleset that it released; both are nil
// where none ever was.
type Rules struct{ Release, Set resources.Object }

// comment matches a comment of rules.
var comment = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)

// letsAnybody matches rules that let anybody write every document: those that a console begins
// with, "in test mode".
var letsAnybody = regexp.MustCompile(`match\s+/\{\w+=\*\*\}\s*\{\s*allow\s+(?:read\s*,\s*write|write|read\s*,\s*create[^:;]*)\s*(?:;|:\s*if\s+(?:true|request\.time\s*<\s*timestamp\.date\([^)]*\))\s*;)`)

// ofAll matches a rule for the writes of all documents below some path.
var ofAll = regexp.MustCompile(`\{\w+=\*\*\}\s*\{[^}]*allow[^:;]*write[^;]*;`)

// letsSome reports whether such a rule lets somebody write.
func letsSome(text string) bool {
	return slices.ContainsFunc(ofAll.FindAllString(text, -1), func(rule string) bool { return !strings.Contains(rule, "if false") })
}

// ours reports whether rules are those of this version, with or without the lines for clients that
// count by themselves: comments and spaces don't matter.
func ours(text string) bool {
	plain := func(text string) string { return strings.Join(strings.Fields(comment.ReplaceAllString(text, "")), " ") }
	clients := forClients.ReplaceAllString(firestore.Rules, "$1")
	return plain(text) == plain(firestore.Rules) || plain(text) == plain(clients)
}

// forClients begins such a line.
var forClients = regexp.MustCompile(`(?m)^(\s*)//\+ `)

func (f *findings) rules(d *Deployment) {
	r := d.Rules
	if r == nil || r.Release == nil {
		return // then clients that go by rules may do nothing
	}
	written := ""
	for _, file := range resources.Objects(r.Set.At("source.files")) {
		written += file.Text("content")
	}
	look := d.curl() + line("https://firebaserules.googleapis.com/v1/"+r.Release.Text("rulesetName"))
	text, seen := comment.ReplaceAllString(written, ""), "the rules that were released on "+moment(r.Release, "updateTime").Format(time.DateOnly)
	switch {
	case letsAnybody.MatchString(text):
		f.add("rules-open", d.Target.Database, seen+" let anybody write every document", look)
	case d.Target.Extension && (strings.Contains(text, layout.ExtensionShards) || letsSome(text)): // they are the app's own
	case d.Target.Extension:
		f.add("rules-extension", d.Target.Database, seen+" don't name "+layout.ExtensionShards, look)
	case !ours(written) && !resources.OursByName(r.Set.Text("source.files.0.name")):
		f.add("rules-others", d.Target.Database, seen+" are not firestore.rules of this version", look)
	}
}
