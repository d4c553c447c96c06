package doctor

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"google.golang.org/api/artifactregistry/v1"
	"google.golang.org/api/billingbudgets/v1"
	"google.golang.org/api/cloudresourcemanager/v1"
	"google.golang.org/api/cloudscheduler/v1"
	"google.golang.org/api/eventarc/v1"
	"google.golang.org/api/option"
	"google.golang.org/api/pubsub/v1"
	"google.golang.org/api/run/v2"
	"google.golang.org/genproto/googleapis/type/date"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/emulator"
	rules "github.com/firestore-counters/counters/firestore"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

const (
	testProject = "my-project"
	testRegion  = "us-central1"
)

func account(name string) string {
	return "counters-" + name + "@" + testProject + ".iam.gserviceaccount.com"
}

// eventarcsAgent is Google's.
const eventarcsAgent = "serviceAccount:service-1234@gcp-sa-eventarc.iam.gserviceaccount.com"

func member(name string) string { return "serviceAccount:" + account(name) }

// deployment is a healthy deployment: what terraform makes, with a Firestore that holds a counter.
type deployment struct {
	*cloud
	store *emulator.Instance
	ahead atomic.Int64 // how far the database's clock is ahead, in nanoseconds

	aggregation error // how the database refuses sums with conditions, where it does
}

// conn is a connection to the database.
func (d *deployment) conn(t *testing.T) *grpc.ClientConn {
	t.Helper()
	if d.aggregation == nil {
		return d.store.Conn(t)
	}
	conn, err := grpc.NewClient(d.store.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(owner{}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := streamer(ctx, desc, cc, method, opts...)
			return refusing{stream, d.aggregation}, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{cloud: healthyCloud()}
	d.store = emulator.StartWith(t, emulator.Options{
		Now: func() time.Time { return time.Now().Add(time.Duration(d.ahead.Load())) },
	})
	counter := d.counter(t, "visits")
	if err := counter.Create(t.Context(), shards.CreateOptions{Shards: 3, Total: 100}); err != nil {
		t.Fatal(err)
	}
	d.add(t, "visits", 5)
	d.reconcile(t, "visits")
	return d
}

// refusing refuses sums with a condition.
type refusing struct {
	grpc.ClientStream
	err error
}

func (s refusing) SendMsg(m any) error {
	if req, ok := m.(*firestorepb.RunAggregationQueryRequest); ok {
		query := req.GetStructuredAggregationQuery()
		for _, a := range query.GetAggregations() {
			if a.GetSum() != nil && query.GetStructuredQuery().GetWhere() != nil {
				return s.err
			}
		}
	}
	return s.ClientStream.SendMsg(m)
}

// owner is what clients of an emulator send for credentials.
type owner struct{}

func (owner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

func (owner) RequireTransportSecurity() bool { return false }

// read reads the deployment and judges it, as the command does.
func (d *deployment) read(t *testing.T, target Target) (*Deployment, []Finding) {
	t.Helper()
	reader := d.serve(t)
	reader.Firestore = []option.ClientOption{option.WithGRPCConn(d.conn(t))}
	target.Project = testProject
	if target.Most == 0 {
		target.Most = 100
	}
	read, err := reader.Read(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	return read, Check(read, today)
}

func (d *deployment) db(t *testing.T) *firestore.Client { return d.store.Client(t, testProject) }

func (d *deployment) counter(t *testing.T, id string) shards.Counter {
	t.Helper()
	return d.counterOf(t, shards.Config{}, id)
}

func (d *deployment) counterOf(t *testing.T, cfg shards.Config, id string) shards.Counter {
	t.Helper()
	cfg.Project = testProject
	client, err := shards.Open(t.Context(), cfg, option.WithGRPCConn(d.store.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	counter, err := client.Counter(id)
	if err != nil {
		t.Fatal(err)
	}
	return counter
}

// add increments a counter; no event comes of it.
func (d *deployment) add(t *testing.T, id string, by int64) {
	t.Helper()
	if err := d.counter(t, id).Add(t.Context(), by); err != nil {
		t.Fatal(err)
	}
}

func (d *deployment) reconcile(t *testing.T, id string) {
	t.Helper()
	d.reconcileOf(t, rollup.Config{}, id)
}

func (d *deployment) reconcileOf(t *testing.T, cfg rollup.Config, id string) {
	t.Helper()
	cfg.Project = testProject
	client, err := rollup.Open(t.Context(), cfg, option.WithGRPCConn(d.store.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Reconcile(t.Context(), id, rollup.ReconcileOptions{}); err != nil {
		t.Fatal(err)
	}
}

// serves lets all functions and the trigger serve other counters, with the exemptions that they
// need.
func (d *deployment) serves(path, fields string, hosted bool) {
	collection := path[:strings.LastIndexByte(path, '/')]
	collection = collection[strings.LastIndexByte(collection, '/')+1:]
	for _, f := range d.functions[:3] {
		env := f.ServiceConfig.EnvironmentVariables
		env["COUNTERS"], env["FIELDS"], env["HOSTED"] = path, fields, strconv.FormatBool(hosted)
	}
	d.function("counters-rollup").EventTrigger.EventFilters[1].Value = path + "/shards/{shard}"
	for _, name := range []string{"updated_at", "created_at", "counter_rollup"} {
		d.fields[collection+"."+name] = d.fields["counter_rollup.base"]
	}
}

// count lets the deployment count the documents of two collections, with a trigger for each, and 2
// comments of "visits".
func (d *deployment) count(t *testing.T) {
	t.Helper()
	d.serves("counters/{counter}", countedFields, false)
	for collection, account := range map[string]string{"comments": account("eventarc"), "ratings": account("eventarc")} {
		name := "counters-watch-" + collection
		d.triggers[name] = &eventarc.Trigger{
			Name: "projects/" + testProject + "/locations/nam5/triggers/" + name, CreateTime: today.AddDate(0, -5, 0).Format(time.RFC3339Nano),
			ServiceAccount: "projects/-/serviceAccounts/" + account,
			Destination:    &eventarc.Destination{CloudRun: &eventarc.CloudRun{Service: "counters-rollup", Region: testRegion}},
			EventFilters: []*eventarc.EventFilter{
				{Attribute: "type", Value: "google.cloud.firestore.document.v1.written"}, {Attribute: "database", Value: "(default)"},
				{Attribute: "document", Value: "counters/{counter}/" + collection + "/{any}", Operator: "match-path-pattern"},
			},
			Transport: &eventarc.Transport{Pubsub: &eventarc.Pubsub{Subscription: "projects/" + testProject + "/subscriptions/of-" + name}},
		}
		d.waiting["of-"+name] = pushing(70)
	}
	d.indexes = append(d.indexes, composite("ratings", "of.stars"), composite("ratings", "public", "of.stars"))
	d.set(t, "counters/visits/comments/a", map[string]any{"text": "first"})
	d.set(t, "counters/visits/comments/b", map[string]any{"text": "second"})
	d.set(t, "counters/visits/ratings/a", map[string]any{"of": map[string]any{"stars": 4}, "public": true})
	d.reconcileOf(t, rollup.Config{Place: rollup.Place{Fields: countedFields}}, "visits")
}

// composite is an index that is there.
func composite(group string, fields ...string) *adminpb.Index {
	index := &adminpb.Index{
		Name:       "projects/" + testProject + "/databases/(default)/collectionGroups/" + group + "/indexes/" + strings.Join(fields, "-"),
		QueryScope: adminpb.Index_COLLECTION, State: adminpb.Index_READY,
	}
	for _, field := range append(fields, "__name__") {
		index.Fields = append(index.Fields, &adminpb.Index_IndexField{FieldPath: field, ValueMode: &adminpb.Index_IndexField_Order_{Order: adminpb.Index_IndexField_ASCENDING}})
	}
	return index
}

const countedFields = "total=count,comments=count(comments),stars=sum(ratings.of.stars),shown=sum(ratings.of.stars where public==true)"

// host lets the deployment count likes and views of posts, which are the app's, with 7 likes of the
// post "a".
func (d *deployment) host(t *testing.T) {
	t.Helper()
	d.serves(hostedConfig.Counters, hostedConfig.Fields, true)
	d.set(t, "posts/a", map[string]any{"title": "A"})
	d.set(t, "posts/b", map[string]any{"title": "B"}) // of which nothing was counted
	if err := d.counterOf(t, hostedConfig, "a").Add(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	d.reconcileHosted(t, "a")
}

// succeed lets the deployment take over what clients of Firebase's extension count.
func (d *deployment) succeed(t *testing.T) {
	t.Helper()
	d.count(t)
	delete(d.triggers, "counters-watch-ratings")
	trigger := d.triggers["counters-watch-comments"]
	delete(d.triggers, "counters-watch-comments")
	trigger.Name = strings.Replace(trigger.Name, "comments", "extension", 1)
	trigger.EventFilters[2].Value = hostedConfig.Counters + "/_counter_shards_/{any}"
	d.triggers["counters-watch-extension"] = trigger
	d.host(t)
	for _, f := range d.functions[:3] {
		f.ServiceConfig.EnvironmentVariables["EXTENSION"] = "true"
	}
	d.ruleset = strings.Replace(rules.Rules, "match /databases/{database}/documents {", "match /databases/{database}/documents {\n    match /posts/{post}/_counter_shards_/{shard} { allow get, write: if true; }", 1)
}

// countUsers lets the deployment count all users, and nothing else, in one counter that isn't
// there.
func (d *deployment) countUsers(t *testing.T) {
	t.Helper()
	d.count(t)
	d.serves(usersConfig.Counters, usersConfig.Fields, false)
	delete(d.triggers, "counters-watch-ratings")
	d.triggers["counters-watch-comments"].EventFilters[2].Value = "users/{document}"
	d.set(t, "users/ada", map[string]any{"name": "Ada"})
}

var usersConfig = shards.Config{Place: shards.Place{Counters: "stats/site", Fields: "users=count(/users)"}}

var hostedConfig = shards.Config{Place: shards.Place{Counters: "posts/{post}", Fields: "likes,views", Hosted: true}}

func (d *deployment) reconcileHosted(t *testing.T, id string) {
	t.Helper()
	d.reconcileOf(t, rollup.Config{Place: rollup.Place{Counters: hostedConfig.Counters, Fields: hostedConfig.Fields, Hosted: true}}, id)
}

func (d *deployment) set(t *testing.T, path string, data map[string]any) {
	t.Helper()
	if _, err := d.db(t).Doc(path).Set(context.Background(), data, firestore.MergeAll); err != nil {
		t.Fatal(err)
	}
}

func (d *deployment) remove(t *testing.T, path string) {
	t.Helper()
	if _, err := d.db(t).Doc(path).Delete(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// pass lets time go by in the database.
func (d *deployment) pass(by time.Duration) { d.ahead.Add(int64(by)) }

func healthyCloud() *cloud {
	c := &cloud{
		runtimes: []*functionspb.ListRuntimesResponse_Runtime{
			{Name: "go126", Environment: functionspb.Environment_GEN_2, Stage: functionspb.ListRuntimesResponse_GA},
			{Name: "go127", Environment: functionspb.Environment_GEN_2, Stage: functionspb.ListRuntimesResponse_GA},
			{Name: "go128", Environment: functionspb.Environment_GEN_2, Stage: functionspb.ListRuntimesResponse_BETA},
			{Name: "nodejs24", Environment: functionspb.Environment_GEN_2, Stage: functionspb.ListRuntimesResponse_GA},
			{Name: "go126", Environment: functionspb.Environment_GEN_1, DecommissionDate: &date.Date{Year: 2020, Month: 1, Day: 1}},
			{Name: "go124", Environment: functionspb.Environment_GEN_2, DeprecationDate: &date.Date{Year: 2026, Month: 10, Day: 31}, DecommissionDate: &date.Date{Year: 2027, Month: 4, Day: 30}},
			{Name: "go121", Environment: functionspb.Environment_GEN_2, DeprecationDate: &date.Date{Year: 2025, Month: 5, Day: 1}, DecommissionDate: &date.Date{Year: 2026, Month: 10, Day: 31}},
		},
		databases: []*adminpb.Database{{
			Name: "projects/" + testProject + "/databases/(default)", LocationId: "nam5", Type: adminpb.Database_FIRESTORE_NATIVE,
			DatabaseEdition: adminpb.Database_STANDARD, CreateTime: timestamppb.New(today.AddDate(0, -6, 0)),
		}},
		fields: map[string]*adminpb.Field{
			"counter_requests.expire_at": {IndexConfig: &adminpb.Field_IndexConfig{}, TtlConfig: &adminpb.Field_TtlConfig{State: adminpb.Field_TtlConfig_ACTIVE}},
			"counter_rollup.base":        {IndexConfig: &adminpb.Field_IndexConfig{}},
			"counter_rollup.replaced":    {IndexConfig: &adminpb.Field_IndexConfig{}},
			"counter_rollup.imported":    {IndexConfig: &adminpb.Field_IndexConfig{}},
			"counters.counter_rollup":    {IndexConfig: &adminpb.Field_IndexConfig{}},
			"counters.updated_at":        {IndexConfig: &adminpb.Field_IndexConfig{}},
			"counters.created_at":        {IndexConfig: &adminpb.Field_IndexConfig{}},
		},
		services: map[string]*run.GoogleCloudRunV2Service{},
		had:      map[string]had{},
		policies: map[string]*run.GoogleIamV1Policy{},
		access:   &cloudresourcemanager.Policy{},
		since:    today.AddDate(-3, 0, 0),
		refused:  map[string]codes.Code{},
		disabled: map[string]bool{},
	}
	c.deploy("increment", "Increment", 500, "user:web@example.com")
	c.deploy("reconcile", "Reconcile", 100, member("scheduler"))
	c.deploy("rollup", "Rollup", 1000, member("eventarc"))
	for _, name := range []string{"counters-rollup", "counters-reconcile"} {
		c.function(name).ServiceConfig.IngressSettings = functionspb.ServiceConfig_ALLOW_INTERNAL_ONLY
	}
	c.triggers = map[string]*eventarc.Trigger{"counters-rollup-1": {
		Name:       "projects/" + testProject + "/locations/nam5/triggers/counters-rollup-1",
		CreateTime: today.AddDate(0, -5, 0).Format(time.RFC3339Nano),
		Transport:  &eventarc.Transport{Pubsub: &eventarc.Pubsub{Subscription: "projects/" + testProject + "/subscriptions/of-counters-rollup"}},
	}}
	c.waiting = map[string]*pubsub.Subscription{"of-counters-rollup": pushing(600)}
	c.function("counters-rollup").EventTrigger = &functionspb.EventTrigger{
		Trigger:             "projects/" + testProject + "/locations/nam5/triggers/counters-rollup-1",
		TriggerRegion:       "nam5",
		EventType:           "google.cloud.firestore.document.v1.written",
		RetryPolicy:         functionspb.EventTrigger_RETRY_POLICY_RETRY,
		ServiceAccountEmail: account("eventarc"),
		EventFilters: []*functionspb.EventFilter{
			{Attribute: "database", Value: "(default)"},
			{Attribute: "document", Value: "counters/{counter}/shards/{shard}", Operator: "match-path-pattern"},
		},
	}
	// Another program's, of the 1st generation and of the 2nd.
	c.functions = append(c.functions,
		&functionspb.Function{Name: "projects/" + testProject + "/locations/europe-west1/functions/rollup", Environment: functionspb.Environment_GEN_1, BuildConfig: &functionspb.BuildConfig{EntryPoint: "Rollup"}},
		&functionspb.Function{Name: "projects/" + testProject + "/locations/europe-west1/functions/thumbnail", Environment: functionspb.Environment_GEN_2, BuildConfig: &functionspb.BuildConfig{EntryPoint: "Thumbnail"}})

	c.function("counters-increment").ServiceConfig.MaxInstanceCount = 10
	c.function("counters-increment").ServiceConfig.TimeoutSeconds = 75
	c.function("counters-reconcile").ServiceConfig.TimeoutSeconds = 300
	c.images = map[string]*artifactregistry.Policy{"counters-functions": {Bindings: []*artifactregistry.Binding{{Role: "roles/artifactregistry.writer", Members: []string{member("build")}}}}}
	c.grant("roles/logging.logWriter", "", member("build"))
	c.grant("roles/storage.objectViewer", resources.SourcesOnly, member("build"))
	c.ruleset = rules.Rules
	c.alerts = map[string]bool{"a policy of others": false}
	c.oldest = map[string]int64{"of-counters-rollup": 2}
	for _, prefix := range []string{"counters", "likes"} {
		d := Deployment{Target: Target{Place: layout.Place{Project: testProject}, Prefix: prefix}.resolve(nil)}
		for _, r := range d.list(nil) {
			if metric, is := strings.CutPrefix(r.Name, "metric "); is {
				c.metrics = append(c.metrics, metric)
			}
			if alert, is := strings.CutPrefix(r.Name, "alert "); is {
				c.alerts[alert] = true
			}
		}
	}
	c.budgets = []*billingbudgets.GoogleCloudBillingBudgetsV1Budget{
		{Name: "billingAccounts/0-1-2/budgets/1", BudgetFilter: &billingbudgets.GoogleCloudBillingBudgetsV1Filter{Projects: []string{"projects/5678"}}},
		{Name: "billingAccounts/0-1-2/budgets/2", BudgetFilter: &billingbudgets.GoogleCloudBillingBudgetsV1Filter{Projects: []string{"projects/1234"}}},
	}

	condition := `resource.name == "projects/` + testProject + `/databases/(default)"`
	c.grant("roles/datastore.user", condition, member("increment"), member("rollup"), member("reconcile"))
	c.grant("roles/eventarc.eventReceiver", "", member("eventarc"))
	c.grant("roles/eventarc.serviceAgent", "", eventarcsAgent)
	c.jobs = []*cloudscheduler.Job{{
		Name: "projects/" + testProject + "/locations/" + testRegion + "/jobs/counters-reconcile", State: "ENABLED",
		HttpTarget: &cloudscheduler.HttpTarget{
			Uri:       "https://counters-reconcile-abc.a.run.app",
			OidcToken: &cloudscheduler.OidcToken{ServiceAccountEmail: account("scheduler"), Audience: "https://counters-reconcile-abc.a.run.app"},
		},
	}}
	return c
}

func (c *cloud) deploy(name, entryPoint string, concurrency int32, invoker string) {
	full := "counters-" + name
	service := "projects/" + testProject + "/locations/" + testRegion + "/services/" + full
	c.functions = append(c.functions, &functionspb.Function{
		Labels:      map[string]string{resources.LabelOfCeiling: "none"},
		Name:        "projects/" + testProject + "/locations/" + testRegion + "/functions/" + full,
		State:       functionspb.Function_ACTIVE,
		Environment: functionspb.Environment_GEN_2,
		UpdateTime:  timestamppb.New(today.AddDate(0, -1, len(c.functions))), // one after the other
		Url:         "https://" + testRegion + "-" + testProject + ".cloudfunctions.net/" + full,
		BuildConfig: &functionspb.BuildConfig{
			Runtime: "go126", EntryPoint: entryPoint, ServiceAccount: "projects/" + testProject + "/serviceAccounts/" + account("build"),
			Source:           &functionspb.Source{Source: &functionspb.Source_StorageSource{StorageSource: &functionspb.StorageSource{Bucket: "source", Object: full + ".zip"}}},
			DockerRepository: "projects/" + testProject + "/locations/" + testRegion + "/repositories/counters-functions",
		},
		ServiceConfig: &functionspb.ServiceConfig{
			Service: service, Uri: "https://" + full + "-abc.a.run.app", ServiceAccountEmail: account(name),
			MaxInstanceRequestConcurrency: concurrency, MaxInstanceCount: 2, AvailableCpu: "1", AvailableMemory: "512Mi", TimeoutSeconds: 60,
			EnvironmentVariables: map[string]string{
				"GOOGLE_CLOUD_PROJECT": testProject, "DATABASE": "(default)", "COUNTERS": "counters/{counter}", "FIELDS": "total=count",
				"AUTH": "none", "CACHE_TTL": "60s", "PROJECT_NUMBER": "1234", "ALLOWED_ORIGINS": "", "LOG_EXECUTION_ID": "true",
			},
		},
	})
	c.services[full] = &run.GoogleCloudRunV2Service{Name: service}
	c.billed(full, true)
	c.had[full] = had{requests: 20_000, mean: 50, billed: 1_500, counted: 3_000} // 2 a minute
	c.policies[full] = &run.GoogleIamV1Policy{Bindings: []*run.GoogleIamV1Binding{{Role: "roles/run.invoker", Members: []string{invoker}}}}
}

// billed lets a service be billed by the request, or by the instance.
func (c *cloud) billed(service string, byRequest bool) {
	c.services[service].Template = &run.GoogleCloudRunV2RevisionTemplate{Containers: []*run.GoogleCloudRunV2Container{{
		Resources: &run.GoogleCloudRunV2ResourceRequirements{CpuIdle: byRequest, Limits: map[string]string{"cpu": "1", "memory": "512Mi"}},
	}}}
}
