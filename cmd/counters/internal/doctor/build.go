package doctor

import (
	"fmt"
	"path"
	"regexp"
	"slices"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// Roles that are enough for a build, the narrowest first.
var (
	logRoles    = []string{"roles/logging.logWriter", "roles/logging.admin", "roles/cloudbuild.builds.builder", "roles/editor", "roles/owner"}
	sourceRoles = []string{
		"roles/storage.objectViewer", "roles/storage.objectUser", "roles/storage.objectAdmin", "roles/storage.admin", "roles/cloudbuild.builds.builder",
		"roles/editor", "roles/owner",
	}
	imageRoles = []string{
		"roles/artifactregistry.writer", "roles/artifactregistry.createOnPushWriter", "roles/artifactregistry.repoAdmin", "roles/artifactregistry.admin",
		"roles/cloudbuild.builds.builder", "roles/editor", "roles/owner",
	}
)

// repositoryName takes apart where images go.
var repositoryName = regexp.MustCompile(`^projects/([^/]+)/locations/([^/]+)/repositories/([^/]+)$`)

// builds looks at who builds the functions, and where the images go: each command that deploys
// one builds it.
func (f *findings) builds(d *Deployment) {
	var accounts, repositories []string
	for _, function := range d.Functions.all() {
		if account := path.Base(function.BuildAccount); function.BuildAccount != "" && !slices.Contains(accounts, account) {
			accounts = append(accounts, account)
			f.builder(d, account, "writes the log of", logRoles, "")
			f.builder(d, account, "reads the source of", sourceRoles, resources.SourcesOnly)
		}
		if (function.Images != nil || function.NoImages) && !slices.Contains(repositories, function.Repository) {
			repositories = append(repositories, function.Repository)
			f.images(d, function)
		}
	}
}

// builder looks at one of the roles that an account needs in the project.
func (f *findings) builder(d *Deployment, account, does string, roles []string, condition string) {
	if condition != "" {
		condition = "expression=" + condition + ",title=" + d.Target.Prefix + "-source"
	}
	f.role(d, "build-role-missing", account, fmt.Sprintf("it %s each build, and has no %s", does, roles[0]), roles, nil, always, d.grant("serviceAccount:"+account, roles[0], condition))
}

// images looks at the repository that a function's image goes to. The role may be given there or on
// the project.
func (f *findings) images(d *Deployment, function *Function) {
	parts := repositoryName.FindStringSubmatch(function.Repository)
	if parts == nil {
		return
	}
	where := []string{parts[3], "--project=" + parts[1], "--location=" + parts[2]}
	member := "serviceAccount:" + path.Base(function.BuildAccount)
	allow := line(slices.Concat([]string{"gcloud", "artifacts", "repositories", "add-iam-policy-binding"}, where, []string{"--member=" + member, "--role=" + imageRoles[0]})...)
	if function.NoImages {
		fix := line(slices.Concat([]string{"gcloud", "artifacts", "repositories", "create"}, where, []string{"--repository-format=docker"})...)
		if function.BuildAccount != "" {
			fix = lines(fix, allow)
		}
		f.add("repository-missing", parts[3], fmt.Sprintf("there is no repository %s for the image of %s", function.Repository, function.Name), fix)
		return
	}
	if account := path.Base(function.BuildAccount); function.BuildAccount != "" {
		f.role(d, "build-role-missing", account, fmt.Sprintf("it writes the image of each build, and has no %s on %s", imageRoles[0], parts[3]), imageRoles, function.Images, always, allow)
	}
}
