package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Reader reads deployments. Its fields are options for the clients of the APIs that it reads; none
// are needed where the default credentials are those to read with.
type Reader struct {
	Functions  []option.ClientOption // Cloud Functions, gRPC
	Run        []option.ClientOption // Cloud Run, REST
	Monitoring []option.ClientOption // REST
	Projects   []option.ClientOption // Resource Manager, REST
	Admin      []option.ClientOption // Firestore's administration, gRPC
	Eventarc   []option.ClientOption // REST
	PubSub     []option.ClientOption // REST
	Scheduler  []option.ClientOption // Cloud Scheduler, REST
	Services   []option.ClientOption // Service Usage, REST
	Artifacts  []option.ClientOption // Artifact Registry, REST
	Accounts   []option.ClientOption // IAM, REST
	Rules      []option.ClientOption // Firebase Rules, REST
	Logging    []option.ClientOption // REST
	Billing    []option.ClientOption // Cloud Billing, REST
	Budgets    []option.ClientOption // REST
	Firestore  []option.ClientOption // gRPC; FIRESTORE_EMULATOR_HOST is respected when there are none

	// Progress is called with what is being read, when it is set.
	Progress func(what string)
}

// patience is how long one API may take to answer.
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
	d := &Deployment{Target: t, Fields: map[FieldName]*Field{}}
	if t.Emulator == "" {
		r.read(ctx, d, "which APIs are turned on", r.apis)
		r.read(ctx, d, "functions", r.functions)
		r.read(ctx, d, "the trigger", r.trigger)
		r.read(ctx, d, "the triggers of counted collections", r.watches)
		r.read(ctx, d, "how long events may wait", r.subscriptions)
		r.read(ctx, d, "how long events have been waiting", r.backlog)
		r.read(ctx, d, "who may call the functions", r.invokers)
		r.read(ctx, d, "what the functions have had in the last week", r.usage)
		r.read(ctx, d, "who may do what in the project", r.access)
		r.read(ctx, d, "who may write the functions' images", r.images)
	}
	d.Target = t.resolve(d.Functions)
	if t.Emulator == "" {
		r.read(ctx, d, "database", r.database)
		r.read(ctx, d, "security rules", r.rules)
		r.read(ctx, d, "Scheduler jobs", r.jobs)
		r.read(ctx, d, "accounts", r.accounts)
		r.read(ctx, d, "log-based metrics", r.metrics)
		r.read(ctx, d, "alert policies", r.alerts)
		r.read(ctx, d, "budget", r.budget)
	}
	r.read(ctx, d, "counters", r.counters)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d.Functions == nil && d.Access == nil && d.Database == nil && d.Scheduler == nil && d.Counters == nil && d.NotChecked != nil {
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
		var u *unread
		if !errors.As(err, &u) {
			u = &unread{part: what, err: err}
		}
		if disabled(u.err) {
			d.off(u.service)
		}
		d.notChecked(u.notChecked(d.Target.Project))
	}
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
