package doctor

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/terminal"
)

// pattern is the path of the documents that Rollup is called for.
func (d *Deployment) pattern() string {
	return d.Target.Counters + "/" + d.Target.Shards + "/{shard}"
}

func (f *findings) trigger(d *Deployment) {
	if d.Functions == nil || d.Functions.Rollup == nil {
		return
	}
	rollup := d.Functions.Rollup
	trigger := rollup.Trigger
	if trigger == nil {
		f.add("trigger-missing", rollup.Name, "it has no event trigger", d.deploy())
		return
	}
	if trigger.Missing {
		f.add("trigger-missing", rollup.Name, "Eventarc has no "+trigger.Name, d.recreate(rollup))
		return
	}
	f.events(d, trigger, rollup.Name, d.pattern(), d.deploy(), d.recreate(rollup))
	if s, err := parse(rollup.Env); err == nil {
		f.subscription(d, trigger, rollup.Name, "trigger-ack-deadline", s.RequestTimeout, d.recreate(rollup))
	}
}

// ofEvents are what is found where a trigger has another filter than it would be made with.
var ofEvents = map[string]string{"type": "trigger-event-type", "database": "trigger-database", "document": "trigger-document"}

// events looks at whether a trigger brings the events that it would be made for. One command mends it, and another
// makes it anew, which a trigger that is older than its database takes.
func (f *findings) events(d *Deployment, t *Trigger, name, documents, mend, anew string) {
	if d.Database != nil && !t.Created.IsZero() {
		if since := moment(d.Database.Object, "createTime"); t.Created.Before(since) {
			f.add("trigger-older", name, fmt.Sprintf("it was made on %s, and the database on %s", t.Created.Format(time.RFC3339), since.Format(time.RFC3339)), anew)
		}
	}
	for _, want := range resources.Events(d.Target.Database, documents) {
		attribute, value := want.Text("attribute"), want.Text("value")
		got := t.filter(attribute)
		if has := got.Text("value"); plain(has) != plain(value) {
			f.add(ofEvents[attribute], name, fmt.Sprintf("its %s is %q, not %s", attribute, has, value), mend)
		}
		if has, operator := got.Text("operator"), want.Text("operator"); operator != "" && has != operator {
			f.add("trigger-operator", name, fmt.Sprintf("its operator is %q, not %s", has, operator), mend)
		}
	}
	if !t.Retry {
		f.add("trigger-retry-off", name, "events are not delivered again", mend)
	}
}

// anyID and anyIDs match what a pattern has in the place of one id, and of any number of ids.
var (
	anyID  = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_]*(=\*)?\}`)
	anyIDs = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_]*=\*\*\}`)
)

// plain is a filter's value without what makes no difference: what its wildcards are called, and authentication
// context, with which the same writes arrive, and Rollup takes them.
func plain(value string) string {
	return strings.TrimSuffix(anyID.ReplaceAllString(anyIDs.ReplaceAllString(value, "**"), "*"), ".withAuthContext")
}

// subscription looks at where a trigger's events wait: it is not to go away, and is to wait for an
// answer for as long as one may take. A command makes the trigger anew, and with it its subscription.
func (f *findings) subscription(d *Deployment, t *Trigger, name, slow string, least time.Duration, anew string) {
	if lost := t.lost(); lost != "" {
		f.add("subscription-broken", name, lost, anew)
		return
	}
	update := func(flags ...string) string {
		return line(append([]string{"gcloud", "pubsub", "subscriptions", "update", t.Subscription, "--project=" + d.Target.Project}, flags...)...)
	}
	if topic := t.Waits.Text("deadLetterPolicy.deadLetterTopic"); topic != "" {
		failures := cmp.Or(number(t.Waits, "deadLetterPolicy.maxDeliveryAttempts"), 5)
		f.add("subscription-dead-letters", name, fmt.Sprintf("after %.0f failures an event goes to %s", failures, topic), update("--clear-dead-letter-policy"))
	}
	if t.Oldest > backlog {
		rollup := d.Functions.Rollup
		f.add("events-waiting", name, fmt.Sprintf("%s wait, the oldest for %s", terminal.Count(int(t.Waiting), "event"), t.Oldest.Round(time.Second)),
			line("gcloud", "functions", "logs", "read", rollup.Name, "--gen2", "--project="+d.Target.Project, "--region="+rollup.Region, "--limit=50"))
	}
	if deadline := time.Duration(number(t.Waits, "ackDeadlineSeconds")) * time.Second; deadline > 0 && deadline < least {
		f.add(slow, name, fmt.Sprintf("its events may wait for %s, and an answer may take %s", deadline, least), update(fmt.Sprintf("--ack-deadline=%.0f", watchDeadline.Seconds())))
	}
	if keeps := lasting(t.Waits, "messageRetentionDuration"); keeps > 0 && keeps < 24*time.Hour {
		f.add("subscription-forgets", name, "its subscription keeps an event for "+keeps.String(), update("--message-retention-duration=1d"))
	}
	if backoff := lasting(t.Waits, "retryPolicy.minimumBackoff"); backoff > time.Minute {
		f.add("subscription-slow", name, "an event that failed comes again after "+backoff.String()+" at the earliest", update("--min-retry-delay=10s", "--max-retry-delay=600s"))
	}
	if expires := lasting(t.Waits, "expirationPolicy.ttl"); expires > 0 { // empty for one that never expires
		f.add("subscription-expires", name, fmt.Sprintf("its subscription is deleted when nothing has come through it for %d days", expires/(24*time.Hour)), update("--expiration-period=never"))
	}
}

// deletedTopic is what Pub/Sub names in the place of a topic that was deleted.
const deletedTopic = "_deleted-topic_"

// lost is why events never come out of a trigger's subscription; empty where they do, or that could not be read.
func (t *Trigger) lost() string {
	switch {
	case t.Gone:
		return "its subscription is gone"
	case t.Waits == nil:
		return ""
	case t.Waits.Text("topic") == deletedTopic:
		return "the topic of its subscription is gone"
	case t.Waits.Text("detached") == "true":
		return "its subscription was detached from its topic"
	case t.Waits.Text("pushConfig.pushEndpoint") == "":
		return "its subscription pushes to nobody"
	}
	return ""
}

// backlog is for how long an event waits before doctor says so: one may wait for a minute until
// counting is worth its price, and one that failed for ten.
const backlog = 10 * time.Minute

// watchDeadline is how long the events of a counted collection have to wait for their answer at
// least: Rollup gives one within 60 s.
const watchDeadline = 70 * time.Second

// watches looks at the triggers that call Rollup's service beside its own: one for each collection
// that is counted.
func (f *findings) watches(d *Deployment) {
	if d.Functions == nil || d.Functions.Rollup == nil || !d.Watched {
		return
	}
	there := map[string]bool{} // :: collection → it has a trigger
	for _, t := range d.Watches {
		document := t.filter("document").Text("value")
		i := slices.IndexFunc(d.layout().Collections(), func(collection string) bool { return plain(document) == plain(d.watched(collection)) })
		name := path.Base(t.Name)
		if i < 0 {
			why := "which FIELDS doesn't count"
			if plain(document) == plain(d.pattern()) {
				why = "which Rollup's own trigger brings as well"
			}
			f.add("watch-unneeded", name, fmt.Sprintf("it is for documents %q, %s", document, why), d.unwatch(t))
			continue
		}
		collection := d.layout().Collections()[i]
		there[collection] = true
		mend := then(d.unwatch(t), d.watch(collection))
		f.events(d, t, name, document, mend, mend)
		f.subscription(d, t, name, "watch-ack-deadline", time.Minute, mend)
		if own := d.Functions.Rollup.Trigger; own == nil || t.Account != own.Account {
			f.grants(d, map[string]string{"eventarc": t.Account})
		}
	}
	for _, collection := range d.layout().Collections() {
		if !there[collection] {
			f.add("watch-missing", collection, "no trigger calls Rollup for documents "+d.watched(collection), d.watch(collection))
		}
	}
}

// watched is the path of the documents of a counted collection.
func (d *Deployment) watched(collection string) string {
	return d.layout().PatternOf(collection)
}

// watch makes the trigger of a counted collection, and has its events wait.
func (d *Deployment) watch(collection string) string {
	w := resources.Wanted{Prefix: d.Target.Prefix, Region: d.region()}
	w.Settings.Database, w.Settings.Counters = d.Target.Database, d.Target.Counters
	name := w.WatchName(collection)
	return d.made("trigger "+name, "subscription of "+name)
}

// unwatch deletes a trigger.
func (d *Deployment) unwatch(t *Trigger) string {
	return line("gcloud", "eventarc", "triggers", "delete", path.Base(t.Name), "--project="+d.Target.Project, "--location="+t.Region)
}
