package doctor

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// week is the time whose use is compared. A shorter one may have been quiet all along.
const week = 7 * 24 * time.Hour

// sampled is how often Cloud Run writes down how many instances there are.
const sampled = time.Minute

// series are the time series of a metric that a filter has, for so long until now.
func (r *Reader) series(ctx context.Context, d *Deployment, long time.Duration, filter string, with url.Values) ([]resources.Object, error) {
	now := time.Now().UTC()
	query := url.Values{"filter": {filter}, "interval.startTime": {now.Add(-long).Format(time.RFC3339)}, "interval.endTime": {now.Format(time.RFC3339)}}
	maps.Copy(query, with)
	list, err := r.get(ctx, "monitoring/v3/projects/"+d.Target.Project+"/timeSeries?"+query.Encode())
	return resources.Objects(list["timeSeries"]), err
}

// oneOf is a filter's value that is one of these.
func oneOf(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return "one_of(" + strings.Join(quoted, ",") + ")"
}

// usage reads what each function has had in the last week.
func (r *Reader) usage(ctx context.Context, d *Deployment) error {
	there := d.Functions.all()
	var services []string
	for _, f := range there {
		services = append(services, f.service())
	}
	var had [3]map[string]sum
	for i, metric := range []string{"request_latencies", "container/billable_instance_time", "container/instance_count"} {
		if len(there) == 0 {
			return nil
		}
		all, err := r.series(ctx, d, week, fmt.Sprintf(`metric.type="run.googleapis.com/%s" AND resource.type="cloud_run_revision" AND resource.labels.service_name=%s`, metric, oneOf(services)), url.Values{
			"aggregation.alignmentPeriod": {fmt.Sprintf("%.0fs", week.Seconds())}, "aggregation.perSeriesAligner": {"ALIGN_SUM"}, "aggregation.crossSeriesReducer": {"REDUCE_SUM"},
			"aggregation.groupByFields": {"resource.labels.location", "resource.labels.service_name"},
		})
		if err != nil {
			return err
		}
		had[i] = map[string]sum{}
		for _, series := range all {
			key := series.Text("resource.labels.location") + "/" + series.Text("resource.labels.service_name")
			for _, point := range resources.Objects(series["points"]) {
				s := addedUp(point)
				had[i][key] = sum{had[i][key].total + s.total, had[i][key].count + s.count}
			}
		}
	}
	for _, f := range there {
		key := f.Region + "/" + f.service()
		f.Week = &Week{
			Requests: had[0][key].count,
			InFlight: time.Duration(had[0][key].total * float64(time.Millisecond)),
			Billed:   time.Duration(had[1][key].total * float64(time.Second)),
			There:    time.Duration(had[2][key].total * float64(sampled)),
		}
	}
	return nil
}

// sum is what the values of a metric come to; count is of those of a distribution.
type sum struct{ total, count float64 }

func addedUp(point resources.Object) sum {
	if n := number(point, "value.distributionValue.count"); n > 0 {
		return sum{n * number(point, "value.distributionValue.mean"), n}
	}
	return sum{total: number(point, "value.int64Value") + number(point, "value.doubleValue")}
}
