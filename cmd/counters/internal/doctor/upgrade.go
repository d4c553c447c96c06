package doctor

import (
	"fmt"
	"strings"
	"time"
)

// upgrade looks for a deployment that ended before it came to all functions, and reports whether
// there is one. Rollup comes last in every deployment: what is newer than it, and has other
// settings or another source, is of one that it hasn't had yet. Which of two values is right is no
// question of how many functions have it then: the later one is what is wanted, and to go back is
// not for doctor to say.
func (f *findings) upgrade(d *Deployment) bool {
	if d.Functions == nil || d.Functions.Increment == nil || d.Functions.Rollup == nil || d.Functions.Reconcile == nil {
		return false
	}
	newest, rollup := d.Functions.Increment, d.Functions.Rollup
	if d.Functions.Reconcile.updated().After(newest.updated()) {
		newest = d.Functions.Reconcile
	}
	if _, err := parse(newest.Env); err != nil || !newest.updated().After(rollup.updated()) {
		return false
	}
	var differ []string
	settings, before := settingsOf(newest.Env), settingsOf(rollup.Env)
	for i, s := range settings {
		if s.value != before[i].value && s.name != "CEILING" { // of which each has its own
			differ = append(differ, fmt.Sprintf("%s=%s after %s", s.name, s.raw, before[i].raw))
		}
	}
	// An earlier version's deployment has no such label.
	if after, before := newest.label("counters-source"), rollup.label("counters-source"); after != "" && before != "" && after != before {
		differ = append(differ, fmt.Sprintf("source %s after %s", after, before))
	}
	if len(differ) == 0 {
		return false
	}
	f.add("upgrade-unfinished", rollup.Name, fmt.Sprintf("%s was deployed on %s with %s, and %s is of %s", newest.Name, newest.updated().Format(time.RFC3339),
		strings.Join(differ, ", "), rollup.Name, rollup.updated().Format(time.RFC3339)), asking(d.like(newest.Env, newest.Region)))
	return true
}

// updated is when it was deployed last.
func (f *Function) updated() time.Time { return moment(f.Object, "updateTime") }
