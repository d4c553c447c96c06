package doctor

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// functions reads the functions. It lists those of the 2nd generation: those of the 1st take one request at a time, and
// no such trigger.
func (r *Reader) functions(ctx context.Context, d *Deployment) error {
	regions := []string{"-"} // all
	if d.Target.Location != "" {
		regions = resources.Near(d.Target.Location)
	}
	var all []*Function
	var unreachable []string
	for _, region := range regions {
		list, err := r.get(ctx, "cloudfunctions/v2/projects/"+d.Target.Project+"/locations/"+region+"/functions")
		if err != nil {
			return err
		}
		unreachable = append(unreachable, texts(list["unreachable"])...)
		for _, f := range resources.Objects(list["functions"]) {
			if f.Text("environment") != "GEN_1" {
				all = append(all, decode(f))
			}
		}
	}
	slices.Sort(unreachable)
	d.Functions = pick(d.Target, all)
	if d.Functions.Unreachable = slices.Compact(unreachable); len(unreachable) > 0 {
		d.notChecked(NotChecked{Part: "functions in " + strings.Join(d.Functions.Unreachable, ", "), Why: "the platform could not list them; run doctor again later"})
	}
	return nil
}

// texts are those in a list.
func texts(list any) (all []string) {
	items, _ := list.([]any)
	for _, item := range items {
		if text, ok := item.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// textsBy are those of an object.
func textsBy(object any) map[string]string {
	by, _ := object.(map[string]any)
	all := map[string]string{}
	for key, value := range by {
		all[key], _ = value.(string)
	}
	return all
}

// number is what an API says in a path; 0 where it says nothing.
func number(o resources.Object, path string) float64 {
	n, _ := strconv.ParseFloat(o.Text(path), 64) // large ones are texts in JSON
	return n
}

// moment is a time that an API says in a path; zero, which is not compared, where it says none.
func moment(o resources.Object, path string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, o.Text(path))
	return t
}

// lasting is how long something lasts that an API says in a path; 0, which is not compared, where it says nothing.
func lasting(o resources.Object, path string) time.Duration {
	d, _ := time.ParseDuration(o.Text(path))
	return d
}

// Where a function says what several ask of it.
const (
	ofService = "serviceConfig.service"        // resource name of its Cloud Run service
	ofImages  = "buildConfig.dockerRepository" // resource name of where its images are
)

// has is a number of its configuration, such as maxInstanceCount; 0 where there is none.
func (f *Function) has(what string) int { return int(number(f.Object, "serviceConfig."+what)) }

// size is that of its instances.
func (f *Function) size() (cost.Size, error) {
	return cost.SizeOf(f.Text("serviceConfig.availableCpu"), f.Text("serviceConfig.availableMemory"))
}

func decode(o resources.Object) *Function {
	name := strings.Split(o.Text("name"), "/") // projects/p/locations/r/functions/f
	f := &Function{Object: o, Name: name[5], Region: name[3], EntryPoint: o.Text("buildConfig.entryPoint"), Env: textsBy(o.At("serviceConfig.environmentVariables"))}
	if o["eventTrigger"] != nil {
		f.Trigger = &Trigger{
			Name: o.Text("eventTrigger.trigger"), Region: o.Text("eventTrigger.triggerRegion"), Account: o.Text("eventTrigger.serviceAccountEmail"),
			Retry:   o.Text("eventTrigger.retryPolicy") == "RETRY_POLICY_RETRY",
			Filters: append(resources.Objects(o.At("eventTrigger.eventFilters")), resources.Object{"attribute": "type", "value": o.Text("eventTrigger.eventType")}),
		}
	}
	return f
}

// withConditions asks a policy for conditions as well.
const withConditions = ":getIamPolicy?options.requestedPolicyVersion=3"

// invokers reads who may call each function, and how it is billed.
func (r *Reader) invokers(ctx context.Context, d *Deployment) error {
	for _, f := range d.Functions.all() {
		policy, err := r.must(ctx, "run/v2/"+f.Text(ofService)+withConditions)
		if err != nil {
			return err
		}
		service, err := r.must(ctx, "run/v2/"+f.Text(ofService))
		if err != nil {
			return err
		}
		f.Open = service.Text("invokerIamDisabled") == "true"
		if o, says := service.At("template.containers.0.resources").(map[string]any); says {
			f.Billing = cost.ByInstance
			if o["cpuIdle"] == true {
				f.Billing = cost.ByRequest
			}
		}
		for _, to := range resources.Objects(service["traffic"]) {
			if to.Text("revision") != "" && number(to, "percent") > 0 {
				f.Pinned = path.Base(to.Text("revision"))
			}
		}
		f.Invokers = Policy(policy)
	}
	return nil
}

// images reads who may write the functions' images.
func (r *Reader) images(ctx context.Context, d *Deployment) error {
	for _, f := range d.Functions.all() {
		if !repositoryName.MatchString(f.Text(ofImages)) {
			continue // the platform's own, or of another kind
		}
		policy, err := r.get(ctx, "artifactregistry/v1/"+f.Text(ofImages)+withConditions)
		if err != nil {
			return err
		}
		d.Images, d.NoImages = Policy(policy), policy == nil
	}
	return nil
}

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
