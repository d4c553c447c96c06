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

// weekly are the metrics of what a function has had, and how a point of one is added to it.
var weekly = map[string]func(w *Week, point resources.Object){
	"request_latencies": func(w *Week, point resources.Object) {
		n := number(point, "value.distributionValue.count")
		w.Requests += n
		w.InFlight += time.Duration(n * number(point, "value.distributionValue.mean") * float64(time.Millisecond))
	},
	"container/billable_instance_time": func(w *Week, point resources.Object) {
		w.Billed += time.Duration(number(point, "value.doubleValue") * float64(time.Second))
	},
	"container/instance_count": func(w *Week, point resources.Object) {
		w.There += time.Duration(number(point, "value.int64Value") * float64(sampled))
	},
}

// usage reads what each function has had in the last week.
func (r *Reader) usage(ctx context.Context, d *Deployment) error {
	var services []string
	weeks := map[string]*Week{} // :: region and name of a service
	for _, f := range d.Functions.all() {
		services = append(services, f.service())
		weeks[f.Region+"/"+f.service()] = &Week{}
	}
	if len(services) == 0 {
		return nil
	}
	for metric, add := range weekly {
		all, err := r.series(ctx, d, week, fmt.Sprintf(`metric.type="run.googleapis.com/%s" AND resource.type="cloud_run_revision" AND resource.labels.service_name=%s`, metric, oneOf(services)), url.Values{
			"aggregation.alignmentPeriod": {fmt.Sprintf("%.0fs", week.Seconds())}, "aggregation.perSeriesAligner": {"ALIGN_SUM"}, "aggregation.crossSeriesReducer": {"REDUCE_SUM"},
			"aggregation.groupByFields": {"resource.labels.location", "resource.labels.service_name"},
		})
		if err != nil {
			return err
		}
		for _, series := range all {
			w := weeks[series.Text("resource.labels.location")+"/"+series.Text("resource.labels.service_name")]
			for _, point := range resources.Objects(series["points"]) {
				if w != nil {
					add(w, point)
				}
			}
		}
	}
	for _, f := range d.Functions.all() {
		f.Week = weeks[f.Region+"/"+f.service()]
	}
	return nil
}
