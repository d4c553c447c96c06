package doctor

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/firestore-counters/counters/internal/store"
)

// What the trigger of Rollup should say.
const (
	eventType = "google.cloud.firestore.document.v1.written"
	matchPath = "match-path-pattern"
)

// pattern is the path of the documents that Rollup is called for.
func (d *Deployment) pattern() string {
	return d.Target.Collection + "/{counter}/" + store.Shards + "/{shard}"
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
	parts := strings.Split(document.Value, "/")
	switch {
	case len(parts) != 4 || anyID.MatchString(parts[0]) || !anyID.MatchString(parts[1]) || parts[2] != store.Shards || !anyID.MatchString(parts[3]):
		f.add("trigger-document", rollup.Name, fmt.Sprintf("it is for documents %q, not %s", document.Value, d.pattern()), mend)
	case document.Operator != matchPath:
		f.add("trigger-operator", rollup.Name, fmt.Sprintf("its operator is %q, not %s", document.Operator, matchPath), mend)
	case parts[0] != d.Target.Collection:
		f.add("trigger-collection", rollup.Name, fmt.Sprintf("it is for collection %s, and COLLECTION is %s", parts[0], d.Target.Collection), mend)
	}
}
