package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"google.golang.org/api/artifactregistry/v1"
	"google.golang.org/api/billingbudgets/v1"
	"google.golang.org/api/cloudbilling/v1"
	"google.golang.org/api/cloudresourcemanager/v1"
	"google.golang.org/api/cloudscheduler/v1"
	"google.golang.org/api/eventarc/v1"
	"google.golang.org/api/firebaserules/v1"
	"google.golang.org/api/iam/v1"
	"google.golang.org/api/logging/v2"
	"google.golang.org/api/monitoring/v3"
	"google.golang.org/api/option"
	"google.golang.org/api/pubsub/v1"
	"google.golang.org/api/run/v2"
	"google.golang.org/api/serviceusage/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// cloud is a project on a platform: it serves what it holds through the platform's own protocols.
type cloud struct {
	firestorepb.UnimplementedFirestoreServer

	functions   []*functionspb.Function
	runtimes    []*functionspb.ListRuntimesResponse_Runtime
	unreachable []string
	databases   []*adminpb.Database
	fields      map[string]*adminpb.Field // :: group.field → its own configuration
	services    map[string]*run.GoogleCloudRunV2Service
	policies    map[string]*run.GoogleIamV1Policy // :: service's name → who may call it
	access      *cloudresourcemanager.Policy
	since       time.Time // when the project was made
	jobs        []*cloudscheduler.Job
	triggers    map[string]*eventarc.Trigger    // :: its last name
	waiting     map[string]*pubsub.Subscription // :: its last name
	oldest      map[string]int64                // :: subscription's last name → seconds that its oldest event has waited
	indexes     []*adminpb.Index
	images      map[string]*artifactregistry.Policy // :: repository's last name
	ruleset     string                              // text of the rules that hold; empty for none
	metrics     []string
	alerts      map[string]bool     // :: displayed name → it is on
	channels    map[string][]string // :: displayed name → what it is sent to
	unbilled    bool
	accounts    map[string]*iam.ServiceAccount // :: email; one that isn't named is there
	budgets     []*billingbudgets.GoogleCloudBillingBudgetsV1Budget
	had         map[string]had // :: service's name → what it has had in a week

	refused  map[string]codes.Code // :: permission → how calls that need it are answered
	disabled map[string]bool       // :: API
}

// serve starts the platform's servers and returns a reader of them.
func (c *cloud) serve(t *testing.T) Reader {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	firestorepb.RegisterFirestoreServer(s, c)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /cloudfunctions/v2/projects/{project}/locations/{region}/functions", c.listFunctions)
	mux.HandleFunc("GET /cloudfunctions/v2/projects/{project}/locations/{region}/runtimes", c.listRuntimes)
	mux.HandleFunc("GET /firestore/v1/projects/{project}/databases/{database}", c.database)
	mux.HandleFunc("GET /firestore/v1/projects/{project}/databases/{database}/collectionGroups/{group}/fields/{field}", c.field)
	mux.HandleFunc("GET /firestore/v1/projects/{project}/databases/{database}/collectionGroups/{group}/indexes", c.listIndexes)
	mux.HandleFunc("GET /run/v2/projects/{project}/locations/{region}/services/{service}", c.service)
	mux.HandleFunc("GET /iam/v1/projects/{project}/serviceAccounts/{account}", c.account)
	mux.HandleFunc("POST /cloudresourcemanager/v1/projects/{project}", c.projectPolicy)
	mux.HandleFunc("GET /cloudresourcemanager/v1/projects/{project}", func(w http.ResponseWriter, _ *http.Request) {
		c.answer(w, "resourcemanager.projects.get", "cloudresourcemanager.googleapis.com", &cloudresourcemanager.Project{ProjectNumber: 1234, CreateTime: c.since.Format(time.RFC3339Nano)})
	})
	mux.HandleFunc("GET /cloudscheduler/v1/projects/{project}/locations/{region}/jobs", c.listJobs)
	mux.HandleFunc("GET /eventarc/v1/projects/{project}/locations/{region}/triggers/{trigger}", c.trigger)
	mux.HandleFunc("GET /eventarc/v1/projects/{project}/locations/{region}/triggers", c.listTriggers)
	mux.HandleFunc("GET /pubsub/v1/projects/{project}/subscriptions/{subscription}", c.subscription)
	mux.HandleFunc("GET /monitoring/v3/projects/{project}/timeSeries", c.timeSeries)
	mux.HandleFunc("GET /monitoring/v3/projects/{project}/alertPolicies", c.listAlerts)
	mux.HandleFunc("GET /logging/v2/projects/{project}/metrics/{metric}", c.metric)
	mux.HandleFunc("GET /serviceusage/v1/projects/{project}/services", c.apis)
	mux.HandleFunc("GET /artifactregistry/v1/projects/{project}/locations/{region}/repositories/{repository}", c.repositoryPolicy)
	mux.HandleFunc("GET /firebaserules/v1/projects/{project}/releases/{release...}", c.release)
	mux.HandleFunc("GET /firebaserules/v1/projects/{project}/rulesets/{ruleset}", c.rules)
	mux.HandleFunc("GET /cloudbilling/v1/projects/{project}/billingInfo", func(w http.ResponseWriter, _ *http.Request) {
		c.answer(w, "resourcemanager.projects.get", "cloudbilling.googleapis.com", &cloudbilling.ProjectBillingInfo{BillingAccountName: "billingAccounts/0-1-2", BillingEnabled: !c.unbilled})
	})
	mux.HandleFunc("GET /billingbudgets/v1/billingAccounts/{account}/budgets", func(w http.ResponseWriter, _ *http.Request) {
		c.answer(w, "billing.budgets.list", "billingbudgets.googleapis.com", &billingbudgets.GoogleCloudBillingBudgetsV1ListBudgetsResponse{Budgets: c.budgets})
	})
	return Reader{APIs: answers{mux}, Firestore: []option.ClientOption{
		option.WithEndpoint(l.Addr().String()), option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}}
}

// answers are those of all APIs, each of which is at an address that begins with its name.
type answers struct{ http.Handler }

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	api, google := strings.CutSuffix(r.URL.Host, ".googleapis.com")
	if !google {
		return nil, fmt.Errorf("%s is not Google's", r.URL)
	}
	r.URL.Path = "/" + api + r.URL.Path
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w.Result(), nil
}

// refusal is how the platform answers a call that needs a permission of an API.
func (c *cloud) refusal(permission, api string) (codes.Code, string, bool) {
	if c.disabled[api] {
		return codes.PermissionDenied, api + " has not been used in project 1234 before or it is disabled. Enable it by visiting https://console.example.com then retry.", true
	}
	code, ok := c.refused[permission]
	return code, fmt.Sprintf("Permission '%s' denied on resource (or it may not exist).", permission), ok
}

// check is a refusal by gRPC.
func (c *cloud) check(permission, api string) error {
	if code, message, refused := c.refusal(permission, api); refused {
		return status.Error(code, message)
	}
	return nil
}

// listFunctions sends a function a page: a reader that stops at the first page misses the rest.
func (c *cloud) listFunctions(w http.ResponseWriter, r *http.Request) {
	var there []*functionspb.Function
	for _, f := range c.functions {
		in := "projects/" + r.PathValue("project") + "/locations/" + strings.TrimSuffix(r.PathValue("region")+"/", "-/")
		if strings.HasPrefix(f.GetName(), in) {
			there = append(there, f)
		}
	}
	resp := &functionspb.ListFunctionsResponse{Unreachable: c.unreachable}
	resp.Functions, resp.NextPageToken = onePage(there, r)
	c.answer(w, "cloudfunctions.functions.list", "cloudfunctions.googleapis.com", resp)
}

// onePage is the page that a request asks for, with one item.
func onePage[T any](all []T, r *http.Request) (page []T, next string) {
	at, _ := strconv.Atoi(r.URL.Query().Get("pageToken"))
	if at < len(all) {
		page = all[at : at+1]
	}
	if at+1 < len(all) {
		next = strconv.Itoa(at + 1)
	}
	return page, next
}

func (c *cloud) listRuntimes(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("region") == "-" {
		http.Error(w, "want a location", http.StatusBadRequest)
		return
	}
	c.answer(w, "cloudfunctions.runtimes.list", "cloudfunctions.googleapis.com", &functionspb.ListRuntimesResponse{Runtimes: c.runtimes})
}

func (c *cloud) database(w http.ResponseWriter, r *http.Request) {
	for _, db := range c.databases {
		if db.GetName() == "projects/"+r.PathValue("project")+"/databases/"+r.PathValue("database") {
			c.answer(w, "datastore.databases.getMetadata", "firestore.googleapis.com", db)
			return
		}
	}
	c.missing(w)
}

func (c *cloud) field(w http.ResponseWriter, r *http.Request) {
	field := c.fields[r.PathValue("group")+"."+r.PathValue("field")]
	if field == nil {
		config := indexed()
		if r.PathValue("field") == "member" { // as it is deployed
			config.Indexes = append(config.Indexes, &adminpb.Index{QueryScope: adminpb.Index_COLLECTION_GROUP, State: adminpb.Index_READY, Fields: []*adminpb.Index_IndexField{{FieldPath: "member"}}})
		}
		field = &adminpb.Field{IndexConfig: config}
	}
	c.answer(w, "datastore.indexes.get", "firestore.googleapis.com", field)
}

// listIndexes sends an index a page: a reader that stops at the first page misses the rest.
func (c *cloud) listIndexes(w http.ResponseWriter, r *http.Request) {
	var there []*adminpb.Index
	for _, index := range c.indexes {
		if strings.Contains(index.GetName(), "/databases/"+r.PathValue("database")+"/collectionGroups/"+r.PathValue("group")+"/indexes/") {
			there = append(there, index)
		}
	}
	resp := &adminpb.ListIndexesResponse{}
	resp.Indexes, resp.NextPageToken = onePage(there, r)
	c.answer(w, "datastore.indexes.list", "firestore.googleapis.com", resp)
}

// indexed is the configuration of a field that nobody has configured.
func indexed() *adminpb.Field_IndexConfig {
	return &adminpb.Field_IndexConfig{
		Indexes:            []*adminpb.Index{{QueryScope: adminpb.Index_COLLECTION, State: adminpb.Index_READY}},
		UsesAncestorConfig: true,
	}
}

// ListDocuments refuses: what may be read is in an embedded Firestore.
func (c *cloud) ListDocuments(context.Context, *firestorepb.ListDocumentsRequest) (*firestorepb.ListDocumentsResponse, error) {
	if err := c.check("datastore.entities.list", "firestore.googleapis.com"); err != nil {
		return nil, err
	}
	return nil, status.Error(codes.Unimplemented, "there are no documents here")
}

func (c *cloud) service(w http.ResponseWriter, r *http.Request) {
	name, policy := strings.CutSuffix(r.PathValue("service"), ":getIamPolicy")
	permission := "run.services.get"
	if policy {
		permission = "run.services.getIamPolicy"
	}
	var answer any = c.services[name]
	if policy {
		if r.URL.Query().Get("options.requestedPolicyVersion") != "3" {
			http.Error(w, "conditions take version 3", http.StatusBadRequest)
			return
		}
		answer = c.policies[name]
	}
	c.answer(w, permission, "run.googleapis.com", answer)
}

func (c *cloud) projectPolicy(w http.ResponseWriter, r *http.Request) {
	var req cloudresourcemanager.GetIamPolicyRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.Options == nil || req.Options.RequestedPolicyVersion != 3 ||
		r.PathValue("project") != testProject+":getIamPolicy" {
		http.Error(w, "conditions take version 3", http.StatusBadRequest)
		return
	}
	c.answer(w, "resourcemanager.projects.getIamPolicy", "cloudresourcemanager.googleapis.com", c.access)
}

func (c *cloud) trigger(w http.ResponseWriter, r *http.Request) {
	trigger := c.triggers[r.PathValue("trigger")]
	if trigger == nil {
		c.missing(w)
		return
	}
	c.answer(w, "eventarc.triggers.get", "eventarc.googleapis.com", trigger)
}

// listTriggers sends a trigger a page: a reader that stops at the first page misses the rest.
func (c *cloud) listTriggers(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("region") != "-" {
		http.Error(w, "the triggers may be anywhere", http.StatusBadRequest)
		return
	}
	names, next := onePage(slices.Sorted(maps.Keys(c.triggers)), r)
	page := &eventarc.ListTriggersResponse{NextPageToken: next}
	for _, name := range names {
		page.Triggers = append(page.Triggers, c.triggers[name])
	}
	c.answer(w, "eventarc.triggers.list", "eventarc.googleapis.com", page)
}

func (c *cloud) subscription(w http.ResponseWriter, r *http.Request) {
	subscription := c.waiting[r.PathValue("subscription")]
	if _, refused := c.refused["pubsub.subscriptions.get"]; subscription == nil && !refused {
		c.missing(w)
		return
	}
	c.answer(w, "pubsub.subscriptions.get", "pubsub.googleapis.com", subscription)
}

func (c *cloud) account(w http.ResponseWriter, r *http.Request) {
	account, named := c.accounts[r.PathValue("account")]
	switch {
	case !named:
		account = &iam.ServiceAccount{Email: r.PathValue("account")}
	case account == nil:
		c.missing(w)
		return
	}
	c.answer(w, "iam.serviceAccounts.get", "iam.googleapis.com", account)
}

// pushing is a subscription as Eventarc makes it.
func pushing(deadline int64) *pubsub.Subscription {
	return &pubsub.Subscription{
		Topic: "projects/" + testProject + "/topics/eventarc-nam5", AckDeadlineSeconds: deadline, ExpirationPolicy: &pubsub.ExpirationPolicy{}, MessageRetentionDuration: "86400s",
		PushConfig:  &pubsub.PushConfig{PushEndpoint: "https://counters-rollup-abc.a.run.app"},
		RetryPolicy: &pubsub.RetryPolicy{MinimumBackoff: "10s", MaximumBackoff: "600s"},
	}
}

// had is what a service has had in a week.
type had struct {
	requests int64
	mean     float64 // milliseconds that one took
	billed   float64 // seconds of instances
	counted  int64   // instances, added up every minute
}

// timeSeries sends a service's sum a page: a reader that stops at the first page misses the rest.
func (c *cloud) timeSeries(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if strings.Contains(q.Get("filter"), "pubsub.googleapis.com/subscription/") {
		c.ages(w, q.Get("filter"))
		return
	}
	from, _ := time.Parse(time.RFC3339, q.Get("interval.startTime"))
	to, _ := time.Parse(time.RFC3339, q.Get("interval.endTime"))
	if q.Get("aggregation.alignmentPeriod") != "604800s" || to.Sub(from) != 7*24*time.Hour || q.Get("aggregation.perSeriesAligner") != "ALIGN_SUM" ||
		q.Get("aggregation.crossSeriesReducer") != "REDUCE_SUM" || !slices.Equal(q["aggregation.groupByFields"], []string{"resource.labels.location", "resource.labels.service_name"}) {
		http.Error(w, "that is no sum of a week by service", http.StatusBadRequest)
		return
	}
	filter := strings.Split(q.Get("filter"), " AND ")
	metric, names := strings.TrimPrefix(filter[0], `metric.type="run.googleapis.com/`), []string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(filter[len(filter)-1], "resource.labels.service_name=one_of("), ")"), ",") {
		names = append(names, strings.Trim(name, `"`))
	}
	page := &monitoring.ListTimeSeriesResponse{}
	at, _ := strconv.Atoi(q.Get("pageToken"))
	if at+1 < len(names) {
		page.NextPageToken = strconv.Itoa(at + 1)
	}
	if h, ok := c.had[names[at]]; ok {
		value := map[string]*monitoring.TypedValue{
			`request_latencies"`:                {DistributionValue: &monitoring.Distribution{Count: h.requests, Mean: h.mean}},
			`container/billable_instance_time"`: {DoubleValue: &h.billed},
			`container/instance_count"`:         {Int64Value: &h.counted},
		}[metric]
		page.TimeSeries = []*monitoring.TimeSeries{{
			Resource: &monitoring.MonitoredResource{Type: "cloud_run_revision", Labels: map[string]string{"location": testRegion, "service_name": names[at]}},
			Points:   []*monitoring.Point{{Value: value}},
		}}
	}
	c.answer(w, "monitoring.timeSeries.list", "monitoring.googleapis.com", page)
}

// ages sends what Pub/Sub has written down of subscriptions, a point each.
func (c *cloud) ages(w http.ResponseWriter, filter string) {
	list := &monitoring.ListTimeSeriesResponse{}
	for name, age := range c.oldest {
		if strings.Contains(filter, strconv.Quote(name)) {
			value := age
			if strings.Contains(filter, "num_undelivered_messages") {
				value = 12
			}
			list.TimeSeries = append(list.TimeSeries, &monitoring.TimeSeries{
				Resource: &monitoring.MonitoredResource{Type: "pubsub_subscription", Labels: map[string]string{"subscription_id": name}},
				Points:   []*monitoring.Point{{Value: &monitoring.TypedValue{Int64Value: &value}}, {Value: &monitoring.TypedValue{Int64Value: new(int64)}}},
			})
		}
	}
	c.answer(w, "monitoring.timeSeries.list", "monitoring.googleapis.com", list)
}

func (c *cloud) listAlerts(w http.ResponseWriter, _ *http.Request) {
	list := &monitoring.ListAlertPoliciesResponse{}
	for i, name := range slices.Sorted(maps.Keys(c.alerts)) {
		list.AlertPolicies = append(list.AlertPolicies, &monitoring.AlertPolicy{Name: fmt.Sprintf("projects/%s/alertPolicies/%d", testProject, i), DisplayName: name, Enabled: c.alerts[name], NotificationChannels: c.channels[name]})
	}
	c.answer(w, "monitoring.alertPolicies.list", "monitoring.googleapis.com", list)
}

func (c *cloud) metric(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(c.metrics, r.PathValue("metric")) {
		c.missing(w)
		return
	}
	c.answer(w, "logging.logMetrics.get", "logging.googleapis.com", &logging.LogMetric{Name: r.PathValue("metric")})
}

// apis sends an API a page: a reader that stops at the first page misses the rest.
func (c *cloud) apis(w http.ResponseWriter, r *http.Request) {
	page := &serviceusage.ListServicesResponse{}
	on := slices.DeleteFunc(resources.APIs(), func(api string) bool { return c.disabled[api] })
	names, next := onePage(on, r)
	if r.URL.Query().Get("filter") != "state:ENABLED" {
		http.Error(w, "of all that there are?", http.StatusBadRequest)
	}
	for _, name := range names {
		page.Services = append(page.Services, &serviceusage.GoogleApiServiceusageV1Service{Name: "projects/1234/services/" + name, State: "ENABLED", Config: &serviceusage.GoogleApiServiceusageV1ServiceConfig{Name: name}})
	}
	page.NextPageToken = next
	c.answer(w, "serviceusage.services.list", "serviceusage.googleapis.com", page)
}

func (c *cloud) repositoryPolicy(w http.ResponseWriter, r *http.Request) {
	name, _ := strings.CutSuffix(r.PathValue("repository"), ":getIamPolicy")
	policy := c.images[name]
	if policy == nil {
		c.missing(w)
		return
	}
	c.answer(w, "artifactregistry.repositories.getIamPolicy", "artifactregistry.googleapis.com", policy)
}

func (c *cloud) release(w http.ResponseWriter, r *http.Request) {
	if c.ruleset == "" || r.PathValue("release") != "cloud.firestore" {
		c.missing(w)
		return
	}
	c.answer(w, "firebaserules.releases.get", "firebaserules.googleapis.com", &firebaserules.Release{
		RulesetName: "projects/" + testProject + "/rulesets/r1", UpdateTime: today.AddDate(0, -2, 0).Format(time.RFC3339Nano),
	})
}

func (c *cloud) rules(w http.ResponseWriter, _ *http.Request) {
	c.answer(w, "firebaserules.rulesets.get", "firebaserules.googleapis.com", &firebaserules.Ruleset{
		Source: &firebaserules.Source{Files: []*firebaserules.File{{Name: "firestore.rules", Content: c.ruleset}}},
	})
}

// missing is how Google's REST APIs answer for what isn't there.
func (c *cloud) missing(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, `{"error":{"code":404,"message":"Resource was not found","status":"NOT_FOUND"}}`)
}

func (c *cloud) listJobs(w http.ResponseWriter, r *http.Request) {
	jobs := &cloudscheduler.ListJobsResponse{}
	for _, job := range c.jobs {
		if strings.HasPrefix(job.Name, "projects/"+r.PathValue("project")+"/locations/"+r.PathValue("region")+"/") {
			jobs.Jobs = append(jobs.Jobs, job)
		}
	}
	c.answer(w, "cloudscheduler.jobs.list", "cloudscheduler.googleapis.com", jobs)
}

// answer sends JSON, or the error that Google's REST APIs send.
func (c *cloud) answer(w http.ResponseWriter, permission, api string, body any) {
	w.Header().Set("Content-Type", "application/json")
	if code, message, refused := c.refusal(permission, api); refused {
		httpCode := map[codes.Code]int{codes.PermissionDenied: 403, codes.NotFound: 404, codes.Unauthenticated: 401}[code]
		refusal := map[string]any{"code": httpCode, "message": message, "status": "PERMISSION_DENIED"}
		if c.disabled[api] {
			refusal["details"] = []any{map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED", "domain": "googleapis.com"}}
		}
		w.WriteHeader(httpCode)
		body = map[string]any{"error": refusal}
	}
	if message, is := body.(proto.Message); is {
		text, _ := protojson.Marshal(message)
		_, _ = w.Write(text)
		return
	}
	_ = json.NewEncoder(w).Encode(body)
}

// grant gives a member a role in the project.
func (c *cloud) grant(role, condition string, members ...string) {
	b := &cloudresourcemanager.Binding{Role: role, Members: members}
	if condition != "" {
		b.Condition = &cloudresourcemanager.Expr{Expression: condition}
	}
	c.access.Bindings = append(c.access.Bindings, b)
}

// revoke takes everything from a member that it has in the project.
func (c *cloud) revoke(member string) {
	for _, b := range c.access.Bindings {
		b.Members = slices.DeleteFunc(b.Members, func(m string) bool { return m == member })
	}
}

func (c *cloud) function(name string) *functionspb.Function {
	return c.functions[slices.IndexFunc(c.functions, func(f *functionspb.Function) bool {
		return strings.HasSuffix(f.GetName(), "/"+name)
	})]
}

// today is the day on which the tests judge.
var today = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
