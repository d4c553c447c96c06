package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/api/monitoring/v3"
)

// week is the time whose use is compared. A shorter one may have been quiet all along.
const week = 7 * 24 * time.Hour

// sampled is how often Cloud Run writes down how many instances there are.
const sampled = time.Minute

// usage reads what each function has had in the last week.
func (r *Reader) usage(ctx context.Context, d *Deployment) error {
	there := d.Functions.all()
	if len(there) == 0 {
		return nil
	}
	denied := func(err error) error {
		return &unread{
			part: "what the functions have had in the last week", service: "monitoring.googleapis.com",
			permission: "monitoring.timeSeries.list", role: "roles/monitoring.viewer", err: err,
		}
	}
	client, err := monitoring.NewService(ctx, r.Monitoring...)
	if err != nil {
		return denied(err)
	}
	var had [3]map[string]sum
	for i, metric := range []string{"request_latencies", "container/billable_instance_time", "container/instance_count"} {
		if had[i], err = sums(ctx, client, d, metric); err != nil {
			return denied(err)
		}
	}
	for _, f := range there {
		key := f.Region + "/" + f.service()
		requests, billed, instances := had[0][key], had[1][key], had[2][key]
		f.Week = &Week{
			Requests: requests.count,
			InFlight: time.Duration(requests.total * float64(time.Millisecond)),
			Billed:   time.Duration(billed.total * float64(time.Second)),
			There:    time.Duration(instances.total * float64(sampled)),
		}
	}
	return nil
}

// sum is what the values of a metric come to; count is of those of a distribution.
type sum struct{ total, count float64 }

// sums reads what one of Cloud Run's metrics comes to for each service in the last week.
func sums(ctx context.Context, client *monitoring.Service, d *Deployment, metric string) (of map[string]sum, err error) {
	var services []string
	for _, f := range d.Functions.all() {
		services = append(services, fmt.Sprintf("%q", f.service()))
	}
	now := time.Now().UTC()
	of = map[string]sum{}
	err = client.Projects.TimeSeries.List("projects/"+d.Target.Project).
		Filter(fmt.Sprintf(`metric.type="run.googleapis.com/%s" AND resource.type="cloud_run_revision" AND resource.labels.service_name=one_of(%s)`,
			metric, strings.Join(services, ","))).
		IntervalStartTime(now.Add(-week).Format(time.RFC3339)).IntervalEndTime(now.Format(time.RFC3339)).
		AggregationAlignmentPeriod(fmt.Sprintf("%.0fs", week.Seconds())).AggregationPerSeriesAligner("ALIGN_SUM").
		AggregationCrossSeriesReducer("REDUCE_SUM").AggregationGroupByFields("resource.labels.location", "resource.labels.service_name").
		Pages(ctx, func(page *monitoring.ListTimeSeriesResponse) error {
			for _, series := range page.TimeSeries {
				if series.Resource == nil {
					continue
				}
				key := series.Resource.Labels["location"] + "/" + series.Resource.Labels["service_name"]
				for _, point := range series.Points {
					s := addedUp(point.Value)
					of[key] = sum{of[key].total + s.total, of[key].count + s.count}
				}
			}
			return nil
		})
	return of, err
}

func addedUp(v *monitoring.TypedValue) sum {
	switch {
	case v == nil:
		return sum{}
	case v.DistributionValue != nil:
		n := float64(v.DistributionValue.Count)
		return sum{n * v.DistributionValue.Mean, n}
	case v.Int64Value != nil:
		return sum{total: float64(*v.Int64Value)}
	case v.DoubleValue != nil:
		return sum{total: *v.DoubleValue}
	}
	return sum{}
}
