package doctor

import (
	"context"
	"regexp"

	"google.golang.org/api/artifactregistry/v1"
	"google.golang.org/grpc/codes"
)

// repositoryName takes apart where images go.
var repositoryName = regexp.MustCompile(`^projects/([^/]+)/locations/([^/]+)/repositories/([^/]+)$`)

// images reads who may write the functions' images.
func (r *Reader) images(ctx context.Context, d *Deployment) error {
	denied := func(err error) error {
		return &unread{
			part: "who may write the functions' images", service: "artifactregistry.googleapis.com",
			permission: "artifactregistry.repositories.getIamPolicy", role: "roles/iam.securityReviewer", err: err,
		}
	}
	client, err := artifactregistry.NewService(ctx, r.Artifacts...)
	if err != nil {
		return denied(err)
	}
	read := map[string]*Policy{}
	for _, f := range d.Functions.all() {
		if !repositoryName.MatchString(f.Repository) {
			continue // the platform's own, or of another kind
		}
		if read[f.Repository] == nil {
			policy, err := client.Projects.Locations.Repositories.GetIamPolicy(f.Repository).OptionsRequestedPolicyVersion(policyVersion).Context(ctx).Do()
			switch {
			case err != nil && isCode(err, codes.NotFound, 404):
				read[f.Repository] = &Policy{Missing: true}
			case err != nil:
				return denied(err)
			default:
				read[f.Repository] = &Policy{}
				for _, b := range policy.Bindings {
					read[f.Repository].Bindings = append(read[f.Repository].Bindings, Binding{Role: b.Role, Members: b.Members})
				}
			}
		}
		f.Images = read[f.Repository]
	}
	return nil
}
