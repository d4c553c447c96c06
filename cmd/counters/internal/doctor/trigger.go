package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// What the trigger of Rollup should say.
const (
	eventType = "google.cloud.firestore.document.v1.written"
	matchPath = "match-path-pattern"
)

// pattern is the path of the documents that Rollup is called for.
func (d *Deployment) pattern() string {
	return d.Target.Path + "/" + d.Target.Shards + "/{shard}"
}

// anyID matches what a pattern has in the place of one id.
var anyID = regexp.MustCompile(`^(\*|\{[A-Za-z_][A-Za-z0-9_]*(=\*)?\})$`)

func (f *findings) trigger(d *Deployment) {
	if d.Functions == nil || d.Functions.Rollup == nil {
		return
	}
	rollup := d.Functions.Rollup
	trigger := rollup.Trigger
	if trigger == nil {
		f.add("trigger-missing", rollup.Name, "it has no event trigger", d.redeploy(rollup, d.triggerFlags(d.account("eventarc"))...))
		return
	}
	if trigger.Missing {
		f.add("trigger-missing", rollup.Name, "Eventarc has no "+trigger.Name, d.recreate(rollup))
		return
	}
	if db := d.Database; db != nil && !trigger.Created.IsZero() && trigger.Created.Before(db.Created) {
		f.add("trigger-older", rollup.Name, fmt.Sprintf("it was made on %s, and the database on %s",
			trigger.Created.Format(time.RFC3339), db.Created.Format(time.RFC3339)), d.recreate(rollup))
	}
	mend := d.redeploy(rollup, d.triggerFlags(trigger.Account)...)
	// With authentication context the same writes arrive, and Rollup takes them.
	if trigger.EventType != eventType && trigger.EventType != eventType+".withAuthContext" {
		f.add("trigger-event-type", rollup.Name, fmt.Sprintf("its type is %s, not %s", trigger.EventType, eventType), mend)
	}
	if got := trigger.filter("database").Value; got != d.Target.Database {
		f.add("trigger-database", rollup.Name, fmt.Sprintf("it is for database %q, and the counters are in %q", got, d.Target.Database), mend)
	}
	if !trigger.Retry {
		f.add("trigger-retry-off", rollup.Name, "events are not delivered again", d.redeploy(rollup, "--retry"))
	}
	document := trigger.filter("document")
	switch {
	case !samePattern(document.Value, d.pattern()):
		f.add("trigger-document", rollup.Name, fmt.Sprintf("it is for documents %q, not %s", document.Value, d.pattern()), mend)
	case document.Operator != matchPath:
		f.add("trigger-operator", rollup.Name, fmt.Sprintf("its operator is %q, not %s", document.Operator, matchPath), mend)
	}
}

// samePattern reports whether two path patterns match the same documents: what their wildcards are called doesn't matter.
func samePattern(a, b string) bool {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	return slices.EqualFunc(as, bs, func(a, b string) bool { return a == b || anyID.MatchString(a) && anyID.MatchString(b) })
}
