package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/api/option"
	transport "google.golang.org/api/transport/http"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Reader reads deployments. Nothing has to be set where the default credentials are those to read with.
type Reader struct {
	APIs      http.RoundTripper     // by which the platform's APIs are read
	Firestore []option.ClientOption // gRPC; FIRESTORE_EMULATOR_HOST is respected when there are none

	// Progress is called with what is being read, when it is set.
	Progress func(what string)

	cloud *resources.Cloud
}

// patience is how long one part may take to be read.
const patience = 30 * time.Second

// Read reads a deployment. What can't be read is in NotChecked of the result. Errors: no project is
// given and none is found, nothing at all could be read, or the context's.
func (r *Reader) Read(ctx context.Context, t Target) (*Deployment, error) {
	if t.Project == "" {
		project, err := r.detect(ctx)
		if err != nil {
			return nil, fmt.Errorf("which project? Name it with --project: %w", err)
		}
		t.Project = project
	}
	d := &Deployment{Target: t}
	if t.Emulator == "" {
		r.cloud = resources.Reading(r.transport(ctx))
		r.read(ctx, d, "functions", r.functions)
	}
	d.Target = t.resolve(d.Functions)
	if t.Emulator == "" {
		in := "projects/" + d.Target.Project
		if region := d.region(); region != "" && d.Functions != nil { // no function, no runtime
			r.read(ctx, d, "when the runtimes end", r.one("cloudfunctions/v2/"+in+"/locations/"+region+"/runtimes", &d.Runtimes))
		}
		r.read(ctx, d, "the triggers", r.eventarc)
		r.read(ctx, d, "how long events may wait", r.subscriptions)
		r.read(ctx, d, "how long events have been waiting", r.backlog)
		r.read(ctx, d, "who may call the functions", r.invokers)
		r.read(ctx, d, "what the functions have had in the last week", r.usage)
		r.read(ctx, d, "who may do what in the project", r.one("cloudresourcemanager/v1/"+in+":getIamPolicy", (*resources.Object)(&d.Access)))
		r.read(ctx, d, "when the project was made", r.one("cloudresourcemanager/v1/"+in, &d.Project))
		r.read(ctx, d, "who may write the functions' images", r.images)
		r.read(ctx, d, "database", r.database)
		r.read(ctx, d, "security rules", r.rules)
		r.read(ctx, d, "Scheduler jobs", r.jobs)
		list := d.list(d.jobs())
		for _, part := range parts() {
			r.read(ctx, d, part, func(ctx context.Context, d *Deployment) error { return r.parts(ctx, d, part, list) })
		}
		r.read(ctx, d, "budget", r.budget)
	}
	r.read(ctx, d, "counters", r.counters)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d.Functions == nil && d.Access == nil && d.Database == nil && d.Jobs == nil && d.Counters == nil && d.NotChecked != nil {
		var why []error
		for _, n := range d.NotChecked {
			why = append(why, errors.New(strings.TrimSuffix(n.Part+": "+n.Why+"; "+n.Fix, "; ")))
		}
		return nil, errors.Join(append([]error{fmt.Errorf("nothing of project %s can be read", t.Project)}, why...)...)
	}
	return d, nil
}

func (r *Reader) read(ctx context.Context, d *Deployment, what string, read func(context.Context, *Deployment) error) {
	if r.Progress != nil {
		r.Progress(what)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := read(ctx, d); err != nil {
		n, off := notChecked(d.Target.Project, what, err)
		d.off(off)
		d.notChecked(n)
	}
}

// get reads an address of one of the platform's APIs; nil is that nothing is there.
func (r *Reader) get(ctx context.Context, address string) (resources.Object, error) {
	return r.cloud.Read(ctx, address, resources.Place{Address: address})
}

// must is get of something that has to be there.
func (r *Reader) must(ctx context.Context, address string) (resources.Object, error) {
	object, err := r.get(ctx, address)
	if err == nil && object == nil {
		err = &resources.Unread{Address: address, Err: &resources.Refused{Code: http.StatusNotFound, Message: address + " was not found"}}
	}
	return object, err
}

// one reads something that has to be there.
func (r *Reader) one(address string, to *resources.Object) func(context.Context, *Deployment) error {
	return func(ctx context.Context, _ *Deployment) (err error) {
		*to, err = r.must(ctx, address)
		return err
	}
}

// none is a transport without credentials.
type none struct{ err error }

func (n none) RoundTrip(*http.Request) (*http.Response, error) { return nil, n.err }

// transport sends requests with the default credentials, unless the reader has one.
func (r *Reader) transport(ctx context.Context) http.RoundTripper {
	if r.APIs != nil {
		return r.APIs
	}
	by, err := transport.NewTransport(ctx, http.DefaultTransport, option.WithScopes("https://www.googleapis.com/auth/cloud-platform"))
	if err != nil {
		return none{err} // which each part says that isn't read
	}
	return by
}

// detect finds the project that the credentials are of.
func (r *Reader) detect(ctx context.Context) (string, error) {
	db, err := store.Open(ctx, layout.Place{}, r.Firestore...)
	if err != nil {
		return "", err
	}
	defer db.Close()
	return db.Project(), nil
}

// notChecked adds a part that could not be read. What keeps several parts from being read, such as
// missing credentials, is said once.
func (d *Deployment) notChecked(n NotChecked) {
	for i, other := range d.NotChecked {
		if other.Why == n.Why && other.Fix == n.Fix {
			d.NotChecked[i].Part += ", " + n.Part
			return
		}
	}
	d.NotChecked = append(d.NotChecked, n)
}
