package doctor

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/api/eventarc/v1"
	"google.golang.org/api/pubsub/v1"
	"google.golang.org/grpc/codes"
)

// watches reads the triggers that call Rollup's service beside its own, and how long their events
// may wait.
func (r *Reader) watches(ctx context.Context, d *Deployment) error {
	if d.Functions == nil || d.Functions.Rollup == nil {
		return nil
	}
	denied := func(err error) error {
		return &unread{part: "the triggers of counted collections", service: "eventarc.googleapis.com", permission: "eventarc.triggers.list", role: "roles/eventarc.viewer", err: err}
	}
	client, err := eventarc.NewService(ctx, r.Eventarc...)
	if err != nil {
		return denied(err)
	}
	rollup := d.Functions.Rollup
	list := client.Projects.Locations.Triggers.List("projects/" + d.Target.Project + "/locations/-")
	if err := list.Pages(ctx, func(page *eventarc.ListTriggersResponse) error {
		for _, t := range page.Triggers {
			if t.Destination == nil || t.Destination.CloudRun == nil || t.Destination.CloudRun.Service != rollup.service() ||
				t.Destination.CloudRun.Region != rollup.Region || rollup.Trigger != nil && t.Name == rollup.Trigger.Name {
				continue
			}
			d.Watches = append(d.Watches, watch(t))
		}
		return nil
	}); err != nil {
		return denied(err)
	}
	d.Watched = true
	return nil
}

func watch(t *eventarc.Trigger) *Trigger {
	w := &Trigger{Name: t.Name, Account: path.Base(t.ServiceAccount), Retry: t.RetryPolicy == nil || t.RetryPolicy.MaxAttempts != 1}
	if parts := strings.Split(t.Name, "/"); len(parts) > 3 { // projects/p/locations/l/triggers/t
		w.Region = parts[3]
	}
	w.Created, _ = time.Parse(time.RFC3339Nano, t.CreateTime) // zero, which is not compared, where it can't be read
	for _, f := range t.EventFilters {
		if f.Attribute == "type" {
			w.EventType = f.Value
		}
		w.Filters = append(w.Filters, Filter{f.Attribute, f.Value, f.Operator})
	}
	if t.Transport != nil && t.Transport.Pubsub != nil {
		w.Subscription = t.Transport.Pubsub.Subscription
	}
	return w
}

// deletedTopic is what Pub/Sub names in the place of a topic that was deleted.
const deletedTopic = "_deleted-topic_"

// subscriptions reads how long events of all triggers may wait for their answer, and how long the
// subscriptions outlive a quiet time.
func (r *Reader) subscriptions(ctx context.Context, d *Deployment) error {
	denied := func(err error) error {
		return &unread{part: "how long events may wait", service: "pubsub.googleapis.com", permission: "pubsub.subscriptions.get", role: "roles/pubsub.viewer", err: err}
	}
	all := slices.DeleteFunc(d.triggers(), func(t *Trigger) bool { return t.Subscription == "" })
	if len(all) == 0 {
		return nil
	}
	client, err := pubsub.NewService(ctx, r.PubSub...)
	if err != nil {
		return denied(err)
	}
	for _, t := range all {
		subscription, err := client.Projects.Subscriptions.Get(t.Subscription).Context(ctx).Do()
		switch {
		case err != nil && isCode(err, codes.NotFound, 404):
			t.Lost = "its subscription is gone"
			continue
		case err != nil:
			return denied(err)
		case subscription.Topic == deletedTopic:
			t.Lost = "the topic of its subscription is gone"
		case subscription.Detached:
			t.Lost = "its subscription was detached from its topic"
		case subscription.PushConfig == nil || subscription.PushConfig.PushEndpoint == "":
			t.Lost = "its subscription pushes to nobody"
		}
		t.Keeps, _ = time.ParseDuration(subscription.MessageRetentionDuration) // 0, which is not compared, where it says nothing
		if policy := subscription.RetryPolicy; policy != nil {
			t.Backoff, _ = time.ParseDuration(policy.MinimumBackoff)
		}
		t.AckDeadline = time.Duration(subscription.AckDeadlineSeconds) * time.Second
		if policy := subscription.DeadLetterPolicy; policy != nil {
			t.DeadLetters, t.Attempts = policy.DeadLetterTopic, cmp.Or(policy.MaxDeliveryAttempts, 5)
		}
		if policy := subscription.ExpirationPolicy; policy != nil {
			t.Expires, _ = time.ParseDuration(policy.Ttl) // empty for one that never expires
		}
	}
	return nil
}

// trigger reads what Eventarc knows of Rollup's trigger.
func (r *Reader) trigger(ctx context.Context, d *Deployment) error {
	if d.Functions == nil || d.Functions.Rollup == nil || d.Functions.Rollup.Trigger == nil || d.Functions.Rollup.Trigger.Name == "" {
		return nil
	}
	denied := func(err error) error {
		return &unread{part: "the trigger", service: "eventarc.googleapis.com", permission: "eventarc.triggers.get", role: "roles/eventarc.viewer", err: err}
	}
	client, err := eventarc.NewService(ctx, r.Eventarc...)
	if err != nil {
		return denied(err)
	}
	t := d.Functions.Rollup.Trigger
	trigger, err := client.Projects.Locations.Triggers.Get(t.Name).Context(ctx).Do()
	switch {
	case err != nil && isCode(err, codes.NotFound, 404):
		t.Missing = true
		return nil
	case err != nil:
		return denied(err)
	}
	t.Created, _ = time.Parse(time.RFC3339Nano, trigger.CreateTime) // zero, which is not compared, where it can't be read
	if trigger.Transport != nil && trigger.Transport.Pubsub != nil {
		t.Subscription = trigger.Transport.Pubsub.Subscription
	}
	return nil
}
