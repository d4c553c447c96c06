package doctor

import (
	"fmt"
	"regexp"
)

// repositoryName takes apart where images go.
var repositoryName = regexp.MustCompile(`^projects/([^/]+)/locations/([^/]+)/repositories/([^/]+)$`)

// repository looks at where the functions' images go: each command that deploys one builds it.
func (f *findings) repository(d *Deployment) {
	for _, function := range d.Functions.all() {
		if parts := repositoryName.FindStringSubmatch(function.Text(ofImages)); parts != nil && d.NoImages {
			fix := d.made("repository", "the images of "+d.Target.Prefix+"-build")
			if parts[3] != d.Target.Prefix+"-functions" { // which is not the deployment's own
				fix = lines(line("gcloud", "artifacts", "repositories", "create", parts[3], "--project="+parts[1], "--location="+parts[2], "--repository-format=docker"), fix)
			}
			f.add("repository-missing", parts[3], fmt.Sprintf("there is no repository %s for the image of %s", function.Text(ofImages), function.Name), fix)
			return
		}
	}
}
