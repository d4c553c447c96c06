package doctor

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// eventarc reads the triggers that call Rollup's service: what Eventarc knows of its own, and those beside it.
func (r *Reader) eventarc(ctx context.Context, d *Deployment) error {
	if d.Functions == nil || d.Functions.Rollup == nil {
		return nil
	}
	rollup, own := d.Functions.Rollup, &Trigger{}
	if rollup.Trigger != nil && rollup.Trigger.Name != "" {
		own = rollup.Trigger
	}
	list, err := r.get(ctx, "eventarc/v1/projects/"+d.Target.Project+"/locations/-/triggers")
	if err != nil {
		return err
	}
	own.Missing = list["unreachable"] == nil // until it is found
	for _, t := range resources.Objects(list["triggers"]) {
		w := &Trigger{
			Name: t.Text("name"), Created: moment(t, "createTime"), Account: path.Base(t.Text("serviceAccount")), Retry: number(t, "retryPolicy.maxAttempts") != 1,
			Filters: resources.Objects(t["eventFilters"]), Subscription: t.Text("transport.pubsub.subscription"),
		}
		if parts := strings.Split(w.Name, "/"); len(parts) > 3 { // projects/p/locations/l/triggers/t
			w.Region = parts[3]
		}
		switch {
		case w.Name == own.Name:
			own.Missing, own.Created, own.Subscription = false, w.Created, w.Subscription
		case t.Text("destination.cloudRun.service") == rollup.service() && t.Text("destination.cloudRun.region") == rollup.Region:
			d.Watches = append(d.Watches, w)
		}
	}
	d.Watched = true
	return nil
}

// triggers are all that call Rollup.
func (d *Deployment) triggers() []*Trigger {
	all := append([]*Trigger{}, d.Watches...)
	if d.Functions != nil && d.Functions.Rollup != nil && d.Functions.Rollup.Trigger != nil {
		all = append(all, d.Functions.Rollup.Trigger)
	}
	return all
}

// subscriptions reads how long events of all triggers may wait for their answer, and how long the
// subscriptions outlive a quiet time.
func (r *Reader) subscriptions(ctx context.Context, d *Deployment) error {
	for _, t := range d.triggers() {
		if t.Subscription == "" {
			continue
		}
		there, err := r.get(ctx, "pubsub/v1/"+t.Subscription)
		if err != nil {
			return err
		}
		t.Waits, t.Gone = there, there == nil
	}
	return nil
}

// lately is how far back the last point of a metric is looked for: they come minutes late.
const lately = 10 * time.Minute

// backlog reads for how long the oldest event of each trigger has been waiting.
func (r *Reader) backlog(ctx context.Context, d *Deployment) error {
	of := map[string]*Trigger{} // :: subscription's id
	var ids []string
	for _, t := range d.triggers() {
		if t.Subscription != "" {
			ids = append(ids, path.Base(t.Subscription))
			of[path.Base(t.Subscription)] = t
		}
	}
	if len(of) == 0 {
		return nil
	}
	for metric, set := range map[string]func(*Trigger, float64){
		"oldest_unacked_message_age": func(t *Trigger, n float64) { t.Oldest = time.Duration(n) * time.Second },
		"num_undelivered_messages":   func(t *Trigger, n float64) { t.Waiting = int64(n) },
	} {
		all, err := r.series(ctx, d, lately, fmt.Sprintf(`metric.type="pubsub.googleapis.com/subscription/%s" AND resource.type="pubsub_subscription" AND resource.labels.subscription_id=%s`, metric, oneOf(ids)), nil)
		if err != nil {
			return err
		}
		for _, series := range all {
			if t := of[series.Text("resource.labels.subscription_id")]; t != nil {
				set(t, number(series, "points.0.value.int64Value")) // the newest is the first
			}
		}
	}
	return nil
}
