package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/api/cloudscheduler/v1"
	"google.golang.org/grpc/codes"
)

// jobs reads the Scheduler jobs of the functions' region.
func (r *Reader) jobs(ctx context.Context, d *Deployment) error {
	denied := func(err error) error {
		return &unread{part: "Scheduler jobs", service: "cloudscheduler.googleapis.com", permission: "cloudscheduler.jobs.list", role: "roles/cloudscheduler.viewer", err: err}
	}
	region := d.region()
	if region == "" {
		return &unread{part: "Scheduler jobs", err: errors.New("their region is not known: there is no function to go by. Name it with --location")}
	}
	client, err := cloudscheduler.NewService(ctx, r.Scheduler...)
	if err != nil {
		return denied(err)
	}
	s := &Scheduler{Region: region}
	err = client.Projects.Locations.Jobs.List("projects/"+d.Target.Project+"/locations/"+region).Pages(ctx, func(page *cloudscheduler.ListJobsResponse) error {
		for _, job := range page.Jobs {
			s.Jobs = append(s.Jobs, decodeJob(job))
		}
		return nil
	})
	if err != nil {
		return denied(err)
	}
	d.Scheduler = s
	return nil
}

func decodeJob(api *cloudscheduler.Job) Job {
	job := Job{Name: api.Name[strings.LastIndexByte(api.Name, '/')+1:], State: api.State, Schedule: api.Schedule}
	if target := api.HttpTarget; target != nil {
		job.URI, job.Method = target.Uri, target.HttpMethod
		if token := target.OidcToken; token != nil {
			job.Account, job.Audience = token.ServiceAccountEmail, token.Audience
		}
	}
	if s := api.Status; s != nil && s.Code != 0 {
		job.Failure = strings.TrimSuffix(fmt.Sprintf("%s: %s", codes.Code(s.Code), s.Message), ": ")
	}
	return job
}
