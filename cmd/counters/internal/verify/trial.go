package verify

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/cmd/counters/internal/doctor"
	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// Prefix matches the prefixes of trials: what begins with one is a trial's, and may be taken away.
var Prefix = regexp.MustCompile(`^v-[0-9a-f]{6}$`)

// NewPrefix is a prefix for a new trial.
func NewPrefix() string {
	b := make([]byte, 3)
	_, _ = rand.Read(b) // never fails
	return "v-" + hex.EncodeToString(b)
}

// collection is where a trial's counters are: no other deployment has its counters there.
func collection(prefix string) string { return "verify_" + strings.TrimPrefix(prefix, "v-") }

// Trial is a trial of a deployment.
type Trial struct {
	Project  string
	Location string // of the database
	Region   string // of the functions; empty is deploy's default
	Database string
	Prefix   string        // see [NewPrefix]
	Most     float64       // US dollars of documents and requests; from there on nothing more is sent
	Edition  cost.Edition  // of the database; empty where that isn't known
	Hot      time.Duration // for which a document is written at each rate; sums are asked behind as much of 30,000 rewrites as it is of a minute
	Prices   cost.Prices
	Fake     bool // it isn't Google Cloud: the report says so
	Blind    bool // doctor would look at an emulator of Firestore alone, and isn't asked
	Version  string

	// Program runs a command of this program, such as "deploy", and shows what it prints.
	Program func(ctx context.Context, args ...string) error
	// Doctor looks at the deployment, and shows what it finds.
	Doctor func(ctx context.Context) (doctor.Report, error)
	// Gcloud runs gcloud, and returns what it prints.
	Gcloud    func(ctx context.Context, args ...string) (string, error)
	Resources string // address of Resource Manager's API, with a slash at its end
	Firestore *firestore.Client
	Out       io.Writer // progress

	uri   string // of Increment
	token string
	meter meter
	load  *load
	said  progress
	pause time.Duration // between looks into a log; see [lookInto]
}

// ErrFailed says that a check failed: the report says which.
var ErrFailed = errors.New("the trial failed")

// cleaning bounds how long it may take to take everything away. Deleting a function takes a minute or
// two, and there are three.
const cleaning = 20 * time.Minute

type step struct {
	name string
	do   func(context.Context, *Report) (result string, err error)
}

// Run runs the trial, takes everything away whatever happened, and returns the report. Errors, beside
// the report: [ErrFailed], or what kept it from taking everything away; the context's.
func (t *Trial) Run(ctx context.Context) (*Report, error) {
	r := &Report{Prefix: t.Prefix, Location: t.Location, Edition: t.Edition, Version: t.Version, Began: time.Now().UTC(), Fake: t.Fake}
	t.meter = meter{prices: t.Prices, most: t.Most}
	var failed error
	for i, s := range t.steps() {
		fmt.Fprintf(t.Out, "== %d of %d: %s\n", i+1, len(t.steps()), s.name)
		began, before := time.Now(), t.said.tooEarly()
		result, err := s.do(ctx, r)
		row := Row{Step: s.name, Took: time.Since(began), Retries: t.said.tooEarly() - before, Result: result, OK: err == nil}
		if err != nil {
			row.Result = err.Error()
			failed = fmt.Errorf("%w: %s: %w", ErrFailed, s.name, err)
		}
		r.Rows = append(r.Rows, row)
		fmt.Fprintf(t.Out, "   %s, %s\n", row.Result, row.Took.Round(100*time.Millisecond))
		if err != nil {
			break
		}
	}
	r.Spent = t.meter.dollars()
	if ctx.Err() != nil {
		fmt.Fprintln(t.Out, "== interrupted: all is taken away; Ctrl-C once more leaves it, and verify --clean finds it")
	}
	// What was deployed is billed, and callable, until it is gone: a caller who gives up is no reason
	// to leave it.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
	defer cancel()
	began := time.Now()
	left, err := Clean(clean, t, t.Prefix)
	row := Row{Step: "all is taken away", Took: time.Since(began), OK: err == nil && len(left) == 0, Result: "nothing is left"}
	switch {
	case err != nil:
		row.Result = err.Error()
	case len(left) > 0:
		row.Result = "left: " + strings.Join(left, ", ")
	}
	r.Rows = append(r.Rows, row)
	r.Stays = slices.DeleteFunc(t.said.left(), func(what string) bool { return strings.Contains(what, collection(t.Prefix)) }) // which Clean has taken away since
	fmt.Fprintf(t.Out, "== %s: %s, %s\n", row.Step, row.Result, row.Took.Round(time.Second))
	if !row.OK {
		failed = errors.Join(failed, fmt.Errorf("not all is taken away (%s): %s", row.Result, t.cleans()))
	}
	r.Took = time.Since(r.Began)
	return r, failed
}

// cleans is the command that takes away what the trial leaves, where it was.
func (t *Trial) cleans() string {
	command := "counters verify --clean --project " + t.Project + " --location " + t.Location
	if t.Region != "" { // which a trial that has deployed knows
		command += " --region " + t.Region
	}
	if t.Database != defaultDatabase {
		command += " --database " + t.Database
	}
	return command
}

func (t *Trial) steps() []step {
	return []step{
		{"deploy", t.deploy},
		{"doctor", t.doctor},
		{"a first increment, all cold", t.first},
		{"smoke", t.smoke},
		{"paths that Cloud Run may keep to itself", t.paths},
		{fmt.Sprintf("%d increments of %d counters, one in %d sent twice", increments, counters, twice), t.exact},
		{"how soon a total shows an increment", t.lag},
		{fmt.Sprintf("a crowd: %d increments of a new counter at once", crowd), t.burst},
		{"a counted collection: 25 documents made, one deleted", t.counted},
		{fmt.Sprintf("a limit: %d want %d seats", takers, seats), t.limited},
		{"Scheduler's job finds no drift", t.reconcile},
		{fmt.Sprintf("one document is written ever faster, %s at each rate", t.Hot), t.hot},
		{fmt.Sprintf("sums of %d documents that are rewritten", parts), t.sums},
	}
}

// deploy deploys with at most two instances and one, for the caller alone, and without alerts.
func (t *Trial) deploy(ctx context.Context, r *Report) (string, error) {
	account, err := t.Gcloud(ctx, "config", "get-value", "account")
	if err != nil || account == "" {
		return "", fmt.Errorf("gcloud has no account (%w); log in with: gcloud auth login", err)
	}
	member := "user:" + account
	if strings.HasSuffix(account, ".gserviceaccount.com") {
		member = "serviceAccount:" + account
	}
	args := []string{
		"deploy", "--project", t.Project, "--location", t.Location, "--prefix", t.Prefix, "--invoker", member,
		"--increment-max-instances", "2", "--rollup-max-instances", "1", "--no-alerts", "--request-logs",
		"--set", "HOSTED=true", "--set", "LIMIT=any", "--set", "COUNTERS=" + t.path(), "--set", "FIELDS=" + fields,
	}
	if t.Region != "" {
		args = append(args, "--region", t.Region)
	}
	if t.Database != defaultDatabase {
		args = append(args, "--set", "DATABASE="+t.Database)
	}
	err = t.Program(ctx, args...)
	if r.Deployment = t.said.deployed(); err != nil {
		return "", err
	}
	where, err := t.where(ctx, t.Prefix)
	if err != nil {
		return "", err
	}
	t.Region = where
	if t.uri, err = t.Gcloud(ctx, "functions", "describe", t.Prefix+"-increment", "--gen2", "--project="+t.Project, "--region="+t.Region, "--format=value(serviceConfig.uri)"); err != nil {
		return "", err
	}
	if t.uri == "" {
		return "", errors.New("gcloud names no address of Increment")
	}
	r.Region = t.Region
	if r.Runtime, err = t.Gcloud(ctx, "functions", "describe", t.Prefix+"-increment", "--gen2", "--project="+t.Project, "--region="+t.Region, "--format=value(buildConfig.runtime)"); err != nil {
		return "", err
	}
	if t.token, err = t.identity(ctx); err != nil {
		return "", err
	}
	t.load = newLoad(t.uri, t.token, &t.meter)
	return "three functions in " + t.Region + " with " + r.Runtime, nil
}

// path and fields are where the trial's counters are, and what is counted: a sum of shards, and
// documents.
func (t *Trial) path() string { return collection(t.Prefix) + "/{counter}" }

const (
	fields          = "total=count,seats=limit(),comments=count(comments)"
	defaultDatabase = "(default)"
)

// identity is a token that Cloud Run takes. A service account's wants an audience, and a user's
// takes none.
func (t *Trial) identity(ctx context.Context) (string, error) {
	token, err := t.Gcloud(ctx, "auth", "print-identity-token")
	if err != nil {
		var other error
		if token, other = t.Gcloud(ctx, "auth", "print-identity-token", "--audiences="+t.uri); other != nil {
			return "", fmt.Errorf("no token to call Increment with: %w", errors.Join(err, other))
		}
	}
	return token, nil
}

// where is the region of a trial's functions.
func (t *Trial) where(ctx context.Context, prefix string) (string, error) {
	lines, err := t.list(ctx, "functions", "list", "--v2", "--project="+t.Project, "--format=value[separator=\" \"](name.basename(),name.segment(3))")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(lines) {
		if name, region, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(name, prefix+"-") {
			return region, nil
		}
	}
	return "", nil
}

// doctor wants no error, and nothing that it could not check.
func (t *Trial) doctor(ctx context.Context, _ *Report) (string, error) {
	if t.Blind {
		return "not run: Firestore is an emulator, and doctor would read that alone", nil
	}
	found, err := t.Doctor(ctx)
	if err != nil {
		return "", err
	}
	var named, unchecked []string
	for _, f := range found.Findings {
		named = append(named, f.Name)
	}
	for _, n := range found.NotChecked {
		if n.Part != "budget" { // is the billing account's, and not everybody's to read
			unchecked = append(unchecked, n.Part)
		}
	}
	switch {
	case found.Errors > 0:
		return "", fmt.Errorf("%d errors: see above", found.Errors)
	case len(unchecked) > 0:
		return "", fmt.Errorf("it could not check %s: see above", strings.Join(unchecked, ", "))
	case len(named) > 0:
		return "no error, nothing unchecked; noted: " + strings.Join(named, ", "), nil
	}
	return "no error, nothing unchecked", nil
}

func (t *Trial) smoke(ctx context.Context, _ *Report) (string, error) {
	if err := t.make(ctx, "smoke"); err != nil {
		return "", err
	}
	return "all green", t.Program(ctx, "smoke", t.uri, "--token", t.token, "--counter", "smoke")
}

// reconcile has Scheduler call Reconcile as it does each hour, and wants all totals to be what they were.
func (t *Trial) reconcile(ctx context.Context, _ *Report) (string, error) {
	before, err := t.settled(ctx)
	if err != nil {
		return "", err
	}
	job, began := t.Prefix+"-reconcile", time.Now().UTC()
	at := []string{"--project=" + t.Project, "--location=" + t.Region}
	if _, err := t.Gcloud(ctx, append([]string{"scheduler", "jobs", "run", job}, at...)...); err != nil {
		return "", err
	}
	for {
		said, err := t.Gcloud(ctx, append([]string{"scheduler", "jobs", "describe", job, "--format=value[separator=\" \"](lastAttemptTime,status.code)"}, at...)...)
		if err != nil {
			return "", err
		}
		last, code, _ := strings.Cut(said, " ")
		attempted, _ := time.Parse(time.RFC3339Nano, last)
		if attempted.After(began.Add(-time.Minute)) && code != "" && code != "0" {
			return "", fmt.Errorf("the job %s ended with the code %s: see its log", job, code)
		}
		if attempted.After(began.Add(-time.Second)) {
			break
		}
		if time.Since(began) > 3*time.Minute {
			return "", fmt.Errorf("the job %s has not run within three minutes", job)
		}
		if err := sleep(ctx, 2*time.Second); err != nil {
			return "", err
		}
	}
	after, err := t.totals(ctx)
	if err != nil {
		return "", err
	}
	if before != after {
		return "", fmt.Errorf("totals were %s, and are %s", before, after)
	}
	return "all totals are what they were", nil
}

// settled are the totals once they have stood still for two seconds: the last events are on their way before.
func (t *Trial) settled(ctx context.Context) (string, error) {
	for until, last := time.Now().Add(time.Minute), ""; ; {
		now, err := t.totals(ctx)
		if err != nil || now == last || time.Now().After(until) {
			return now, err
		}
		last = now
		if err := sleep(ctx, 2*time.Second); err != nil {
			return "", err
		}
	}
}

// totals are those of the trial's counters, as one text.
func (t *Trial) totals(ctx context.Context) (string, error) {
	docs, err := t.Firestore.Collection(collection(t.Prefix)).Documents(ctx).GetAll()
	if err != nil {
		return "", fmt.Errorf("read the totals: %w", err)
	}
	t.meter.add(cost.Usage{Reads: float64(len(docs))})
	var all []string
	for _, doc := range docs {
		all = append(all, fmt.Sprintf("%s: %v, %v", doc.Ref.ID, doc.Data()["total"], doc.Data()["comments"]))
	}
	return strings.Join(all, "; "), nil
}

// make makes a document of the app's, which is counted from then on.
func (t *Trial) make(ctx context.Context, id string) error {
	if _, err := t.doc(id).Set(ctx, map[string]any{"title": id}); err != nil {
		return fmt.Errorf("make the document %s: %w", id, err)
	}
	t.meter.add(cost.Usage{Writes: 1, Deletes: 1})
	return nil
}

func (t *Trial) doc(id string) *firestore.DocumentRef {
	return t.Firestore.Collection(collection(t.Prefix)).Doc(id)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
