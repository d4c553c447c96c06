package simulation

import (
	"net/url"
	"path"
	"strconv"
	"strings"
)

// Where counters are is drawn from a seed too: below teams, or at ids that are legal and that
// nobody would choose.
const (
	flatCounters   = "counters/{counter}"
	nestedCounters = "teams/{team}/posts/{post}"
)

// longest is how many bytes a document's id has at most.
const longestID = 1500

// longestReferred is about how long an id may be of a counter that documents name: a query compares
// with no more than 1,500 bytes, and a reference is longer than the id.
const longestReferred = 1400

// drawPaths draws what ids look like, from dice of its own.
func (p *Plan) drawPaths() {
	r := dice(p.Seed, "paths", 0)
	p.Counters = flatCounters
	if r.IntN(4) == 0 {
		p.Counters = nestedCounters
	}
	p.IDs = max(0, r.IntN(8)-4) // mostly plain ones
	p.Environ = append(p.Environ, "COUNTERS="+p.Counters)
}

// id is the API's name of a counter: what it is called, with whatever is odd about it.
func (p Plan) id(name string) string {
	team := "red"
	switch p.IDs {
	case 1:
		name, team = name+" 👍 é%2F?#&+=", "🚀 %"
	case 2:
		longest := longestID
		if p.refers() {
			longest = longestReferred
		}
		name += "-" + strings.Repeat("x", longest-1-len(name))
		team = "counter_rollup" // a collection of ours
	case 3:
		name, team = name+".shards", "shards"
	}
	if p.Counters == nestedCounters {
		return team + "/" + name
	}
	return name
}

// counterPath is that of a counter's document, below the database's documents.
func counterPath(id string) string {
	if team, post, nested := strings.Cut(id, "/"); nested {
		return "teams/" + team + "/posts/" + post
	}
	return "counters/" + id
}

// counterOf is the id of the counter that a path is of or below, and what of the path is below it.
func counterOf(p []string) (id string, below []string, ok bool) {
	switch {
	case len(p) >= 4 && p[0] == "teams" && p[2] == "posts":
		return p[1] + "/" + p[3], p[4:], true
	case len(p) >= 2 && p[0] == "counters":
		return p[1], p[2:], true
	}
	return "", nil, false
}

// sourceOf is the id of a document that a counter is imported from: it is in one collection.
func sourceOf(id string) string { return strings.ReplaceAll(id, "/", "|") }

// route is the path of a counter in requests.
func route(id string) string {
	var segments []string
	for segment := range strings.SplitSeq(id, "/") {
		segments = append(segments, url.PathEscape(segment))
	}
	return "/" + strings.Join(segments, "/")
}

// nested reports whether a counter's path has several wildcards.
func nested(id string) bool { return strings.Contains(id, "/") }

// called is what a counter is called, without its team.
func called(id string) string { return path.Base(id) }

// subject is the id of a counter by its number, from 1.
func (w *world) subject(n int) string {
	switch {
	case w.plan.Named && w.plan.Limits:
		return w.plan.id(signedNames + strconv.Itoa(n))
	case w.plan.Named:
		return w.plan.id("named-" + strconv.Itoa(n))
	}
	return w.plan.id("plain-" + strconv.Itoa(n))
}
