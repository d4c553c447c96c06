package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	apiv2 "cloud.google.com/go/functions/apiv2"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"google.golang.org/api/iterator"
	"google.golang.org/genproto/googleapis/type/date"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

const functionsAPI = "cloudfunctions.googleapis.com"

// functions reads the functions, and when their runtimes end.
func (r *Reader) functions(ctx context.Context, d *Deployment) error {
	denied := func(part, permission string, err error) error {
		return &unread{part: part, service: functionsAPI, permission: permission, role: "roles/cloudfunctions.viewer", err: err}
	}
	client, err := apiv2.NewFunctionClient(ctx, r.Functions...)
	if err != nil {
		return denied("functions", "cloudfunctions.functions.list", err)
	}
	defer client.Close()
	all, unreachable, err := list(ctx, client, d.Target)
	if err != nil {
		return denied("functions", "cloudfunctions.functions.list", err)
	}
	d.Functions = pick(d.Target, all)
	d.Functions.Unreachable = unreachable
	if err := r.runtimes(ctx, client, d); err != nil {
		return denied("when the runtimes end", "cloudfunctions.runtimes.list", err)
	}
	if len(unreachable) > 0 {
		return &unread{part: "functions in " + strings.Join(unreachable, ", "), err: errors.New("the platform could not list them; run doctor again later")}
	}
	return nil
}

// list lists the functions of the 2nd generation: those of the 1st take one request at a time, and
// no such trigger.
func list(ctx context.Context, client *apiv2.FunctionClient, t Target) (all []*Function, unreachable []string, err error) {
	regions := []string{"-"} // all
	if t.Location != "" {
		regions = resources.Near(t.Location)
	}
	for _, region := range regions {
		it := client.ListFunctions(ctx, &functionspb.ListFunctionsRequest{Parent: "projects/" + t.Project + "/locations/" + region})
		for {
			f, err := it.Next()
			if page, ok := it.Response.(*functionspb.ListFunctionsResponse); ok {
				for _, name := range page.GetUnreachable() {
					if !slices.Contains(unreachable, name) {
						unreachable = append(unreachable, name)
					}
				}
			}
			if errors.Is(err, iterator.Done) {
				break
			}
			if err != nil {
				return nil, nil, err
			}
			if f.GetEnvironment() != functionspb.Environment_GEN_1 {
				all = append(all, decode(f))
			}
		}
	}
	return all, unreachable, nil
}

func decode(pb *functionspb.Function) *Function {
	build, service := pb.GetBuildConfig(), pb.GetServiceConfig()
	name := strings.Split(pb.GetName(), "/") // projects/p/locations/r/functions/f
	f := &Function{
		Name:           name[len(name)-1],
		EntryPoint:     build.GetEntryPoint(),
		State:          pb.GetState().String(),
		Runtime:        build.GetRuntime(),
		Version:        pb.GetLabels()["counters-source"],
		Concurrency:    service.GetMaxInstanceRequestConcurrency(),
		MinInstances:   service.GetMinInstanceCount(),
		MaxInstances:   service.GetMaxInstanceCount(),
		TimeoutSeconds: service.GetTimeoutSeconds(),
		CPU:            service.GetAvailableCpu(),
		Memory:         service.GetAvailableMemory(),
		Account:        service.GetServiceAccountEmail(),
		BuildAccount:   build.GetServiceAccount(),
		Env:            service.GetEnvironmentVariables(),
		Service:        service.GetService(),
		Ingress:        service.GetIngressSettings().String(),
		Updated:        pb.GetUpdateTime().AsTime(),
		Labels:         pb.GetLabels(),
		Key:            pb.GetKmsKeyName(),
		Repository:     build.GetDockerRepository(),
	}
	if len(name) > 3 {
		f.Region = name[3]
	}
	for _, message := range pb.GetStateMessages() {
		f.Messages = append(f.Messages, message.GetMessage())
	}
	if source := build.GetSource().GetStorageSource(); source.GetObject() != "" {
		f.Source = "gs://" + source.GetBucket() + "/" + source.GetObject()
	}
	for _, url := range []string{service.GetUri(), pb.GetUrl()} {
		if url != "" {
			f.URLs = append(f.URLs, url)
		}
	}
	if t := pb.GetEventTrigger(); t != nil {
		f.Trigger = &Trigger{
			Name:      t.GetTrigger(),
			Region:    t.GetTriggerRegion(),
			EventType: t.GetEventType(),
			Retry:     t.GetRetryPolicy() == functionspb.EventTrigger_RETRY_POLICY_RETRY,
			Account:   t.GetServiceAccountEmail(),
		}
		for _, filter := range t.GetEventFilters() {
			f.Trigger.Filters = append(f.Trigger.Filters, Filter{filter.GetAttribute(), filter.GetValue(), filter.GetOperator()})
		}
	}
	return f
}

// runtimes asks the platform when its runtimes end.
func (r *Reader) runtimes(ctx context.Context, client *apiv2.FunctionClient, d *Deployment) error {
	region := d.region()
	if region == "" {
		return nil // no function, no runtime
	}
	resp, err := client.ListRuntimes(ctx, &functionspb.ListRuntimesRequest{Parent: "projects/" + d.Target.Project + "/locations/" + region})
	if err != nil {
		return err
	}
	d.Runtimes = map[string]Runtime{}
	for _, runtime := range resp.GetRuntimes() {
		if runtime.GetEnvironment() != functionspb.Environment_GEN_1 {
			d.Runtimes[runtime.GetName()] = Runtime{
				Stable:     runtime.GetStage() == functionspb.ListRuntimesResponse_GA,
				Deprecated: day(runtime.GetDeprecationDate()), Decommissioned: day(runtime.GetDecommissionDate()),
			}
		}
	}
	return nil
}

func day(d *date.Date) time.Time {
	if d.GetYear() == 0 {
		return time.Time{}
	}
	return time.Date(int(d.GetYear()), time.Month(d.GetMonth()), int(d.GetDay()), 0, 0, 0, 0, time.UTC)
}
