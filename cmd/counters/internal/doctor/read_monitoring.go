package doctor

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"google.golang.org/api/logging/v2"
	"google.golang.org/api/monitoring/v3"
)

// metrics reads the project's log-based metrics.
func (r *Reader) metrics(ctx context.Context, d *Deployment) error {
	denied := func(err error) error {
		return &unread{part: "log-based metrics", service: "logging.googleapis.com", permission: "logging.logMetrics.list", role: "roles/logging.viewer", err: err}
	}
	client, err := logging.NewService(ctx, r.Logging...)
	if err != nil {
		return denied(err)
	}
	names := []string{}
	if err := client.Projects.Metrics.List("projects/"+d.Target.Project).Pages(ctx, func(page *logging.ListLogMetricsResponse) error {
		for _, metric := range page.Metrics {
			names = append(names, path.Base(metric.Name))
		}
		return nil
	}); err != nil {
		return denied(err)
	}
	d.Metrics = names
	return nil
}

// alerts reads the project's alert policies.
func (r *Reader) alerts(ctx context.Context, d *Deployment) error {
	denied := func(err error) error {
		return &unread{part: "alert policies", service: "monitoring.googleapis.com", permission: "monitoring.alertPolicies.list", role: "roles/monitoring.viewer", err: err}
	}
	client, err := monitoring.NewService(ctx, r.Monitoring...)
	if err != nil {
		return denied(err)
	}
	alerts := map[string]Alert{}
	if err := client.Projects.AlertPolicies.List("projects/"+d.Target.Project).Pages(ctx, func(page *monitoring.ListAlertPoliciesResponse) error {
		for _, policy := range page.AlertPolicies {
			alerts[policy.DisplayName] = Alert{Name: policy.Name, On: policy.Enabled, Channels: policy.NotificationChannels}
		}
		return nil
	}); err != nil {
		return denied(err)
	}
	d.Alerts = alerts
	return nil
}

// lately is how far back the last point of a metric is looked for: they come minutes late.
const lately = 10 * time.Minute

// backlog reads for how long the oldest event of each trigger has been waiting.
func (r *Reader) backlog(ctx context.Context, d *Deployment) error {
	of := map[string]*Trigger{} // :: subscription's id
	var quoted []string
	for _, t := range d.triggers() {
		if t.Subscription != "" {
			of[path.Base(t.Subscription)] = t
			quoted = append(quoted, fmt.Sprintf("%q", path.Base(t.Subscription)))
		}
	}
	if len(of) == 0 {
		return nil
	}
	denied := func(err error) error {
		return &unread{part: "how long events have been waiting", service: "monitoring.googleapis.com", permission: "monitoring.timeSeries.list", role: "roles/monitoring.viewer", err: err}
	}
	client, err := monitoring.NewService(ctx, r.Monitoring...)
	if err != nil {
		return denied(err)
	}
	last := func(metric string, set func(*Trigger, int64)) error {
		now := time.Now().UTC()
		return client.Projects.TimeSeries.List("projects/"+d.Target.Project).
			Filter(fmt.Sprintf(`metric.type="pubsub.googleapis.com/subscription/%s" AND resource.type="pubsub_subscription" AND resource.labels.subscription_id=one_of(%s)`,
				metric, strings.Join(quoted, ","))).
			IntervalStartTime(now.Add(-lately).Format(time.RFC3339)).IntervalEndTime(now.Format(time.RFC3339)).
			Pages(ctx, func(page *monitoring.ListTimeSeriesResponse) error {
				for _, series := range page.TimeSeries {
					if series.Resource == nil || len(series.Points) == 0 || series.Points[0].Value == nil || series.Points[0].Value.Int64Value == nil {
						continue
					}
					if t := of[series.Resource.Labels["subscription_id"]]; t != nil {
						set(t, *series.Points[0].Value.Int64Value) // the newest is the first
					}
				}
				return nil
			})
	}
	if err := last("oldest_unacked_message_age", func(t *Trigger, n int64) { t.Oldest = time.Duration(n) * time.Second }); err != nil {
		return denied(err)
	}
	if err := last("num_undelivered_messages", func(t *Trigger, n int64) { t.Waiting = n }); err != nil {
		return denied(err)
	}
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
