package doctor

import (
	"context"
	"path"
	"time"

	"google.golang.org/api/cloudresourcemanager/v3"
	"google.golang.org/api/run/v2"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// policyVersion is the least one with conditions.
const policyVersion = 3

// invokers reads who may call each function, and how it is billed.
func (r *Reader) invokers(ctx context.Context, d *Deployment) error {
	there := d.Functions.all()
	if len(there) == 0 {
		return nil
	}
	denied := func(permission string, err error) error {
		return &unread{part: "who may call the functions", service: "run.googleapis.com", permission: permission, role: "roles/run.viewer", err: err}
	}
	client, err := run.NewService(ctx, r.Run...)
	if err != nil {
		return denied("run.services.getIamPolicy", err)
	}
	for _, f := range there {
		policy, err := client.Projects.Locations.Services.GetIamPolicy(f.Service).OptionsRequestedPolicyVersion(policyVersion).Context(ctx).Do()
		if err != nil {
			return denied("run.services.getIamPolicy", err)
		}
		service, err := client.Projects.Locations.Services.Get(f.Service).Context(ctx).Do()
		if err != nil {
			return denied("run.services.get", err)
		}
		f.Open = service.InvokerIamDisabled
		f.Billing = billing(service)
		for _, to := range service.Traffic {
			if to.Revision != "" && to.Percent > 0 {
				f.Pinned = path.Base(to.Revision)
			}
		}
		f.Invokers = &Policy{}
		for _, b := range policy.Bindings {
			binding := Binding{Role: b.Role, Members: b.Members}
			if b.Condition != nil {
				binding.Condition = b.Condition.Expression
			}
			f.Invokers.Bindings = append(f.Invokers.Bindings, binding)
		}
	}
	return nil
}

// billing is how a service is billed; empty where it does not say.
func billing(s *run.GoogleCloudRunV2Service) cost.Billing {
	if s.Template == nil || len(s.Template.Containers) == 0 || s.Template.Containers[0].Resources == nil {
		return ""
	}
	if s.Template.Containers[0].Resources.CpuIdle {
		return cost.ByRequest
	}
	return cost.ByInstance
}

// access reads who may do what in the project.
func (r *Reader) access(ctx context.Context, d *Deployment) error {
	denied := func(err error) error {
		return &unread{
			part: "who may do what in the project", service: "cloudresourcemanager.googleapis.com",
			permission: "resourcemanager.projects.getIamPolicy", role: "roles/iam.securityReviewer", err: err,
		}
	}
	client, err := cloudresourcemanager.NewService(ctx, r.Projects...)
	if err != nil {
		return denied(err)
	}
	policy, err := client.Projects.GetIamPolicy("projects/"+d.Target.Project, &cloudresourcemanager.GetIamPolicyRequest{
		Options: &cloudresourcemanager.GetPolicyOptions{RequestedPolicyVersion: policyVersion},
	}).Context(ctx).Do()
	if err != nil {
		return denied(err)
	}
	d.Access = &Policy{}
	for _, b := range policy.Bindings {
		binding := Binding{Role: b.Role, Members: b.Members}
		if b.Condition != nil {
			binding.Condition = b.Condition.Expression
		}
		d.Access.Bindings = append(d.Access.Bindings, binding)
	}
	project, err := client.Projects.Get("projects/" + d.Target.Project).Context(ctx).Do()
	if err != nil {
		return &unread{part: "when the project was made", service: "cloudresourcemanager.googleapis.com", permission: "resourcemanager.projects.get", role: "roles/browser", err: err}
	}
	d.Number = project.Name
	d.Since, _ = time.Parse(time.RFC3339Nano, project.CreateTime) // zero, which is not compared, where it can't be read
	return nil
}
