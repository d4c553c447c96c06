package doctor

import (
	"context"
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
