package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
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
	for pattern, a := range c.replies() {
		mux.HandleFunc("/"+pattern, func(w http.ResponseWriter, r *http.Request) {
			api, _, _ := strings.Cut(pattern, "/")
			c.answer(w, r, a.permission, api+".googleapis.com", a.body(r))
		})
	}
	return Reader{APIs: platform{mux}, Firestore: []option.ClientOption{
		option.WithEndpoint(l.Addr().String()), option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}}
}

// platform answers for all APIs, each of which is at an address that begins with its name.
type platform struct{ http.Handler }

func (a platform) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	api, google := strings.CutSuffix(r.URL.Host, ".googleapis.com")
	if !google {
		return nil, fmt.Errorf("%s is not Google's", r.URL)
	}
	r.URL.Path = "/" + api + r.URL.Path
	if of, is := strings.CutSuffix(r.URL.Path, ":getIamPolicy"); is { // which no pattern of the standard library ends with
		r.URL.Path = path.Join(path.Dir(path.Dir(of)), "policies", path.Base(of))
	}
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

// reply is what an address answers: nothing where nothing is there, and an error to a bad request.
type reply struct {
	permission string // that it takes
	body       func(*http.Request) any
}

// replies are those of all APIs, by their addresses.
func (c *cloud) replies() map[string]reply {
	const in, inRegion, inDatabase = "/projects/{project}", "/projects/{project}/locations/{region}", "/projects/{project}/databases/{database}"
	return map[string]reply{
		"cloudfunctions/v2" + inRegion + "/functions": {"cloudfunctions.functions.list", func(r *http.Request) any {
			resp := &functionspb.ListFunctionsResponse{Unreachable: c.unreachable}
			for _, f := range c.functions {
				if strings.HasPrefix(f.GetName(), "projects/"+r.PathValue("project")+"/locations/"+strings.TrimSuffix(r.PathValue("region")+"/", "-/")) {
					resp.Functions = append(resp.Functions, f)
				}
			}
			return resp
		}},
		"cloudfunctions/v2" + inRegion + "/runtimes": {"cloudfunctions.runtimes.list", func(r *http.Request) any {
			if r.PathValue("region") == "-" {
				return errors.New("want a location")
			}
			return &functionspb.ListRuntimesResponse{Runtimes: c.runtimes}
		}},
		"firestore/v1" + inDatabase: {"datastore.databases.getMetadata", func(r *http.Request) any {
			for _, db := range c.databases {
				if db.GetName() == "projects/"+r.PathValue("project")+"/databases/"+r.PathValue("database") {
					return db
				}
			}
			return nil
		}},
		"firestore/v1" + inDatabase + "/collectionGroups/{group}/fields/{field}": {"datastore.indexes.get", func(r *http.Request) any {
			if field := c.fields[r.PathValue("group")+"."+r.PathValue("field")]; field != nil {
				return field
			}
			config := indexed()
			if r.PathValue("field") == "member" { // as it is deployed
				config.Indexes = append(config.Indexes, &adminpb.Index{QueryScope: adminpb.Index_COLLECTION_GROUP, State: adminpb.Index_READY, Fields: []*adminpb.Index_IndexField{{FieldPath: "member"}}})
			}
			return &adminpb.Field{IndexConfig: config}
		}},
		"firestore/v1" + inDatabase + "/collectionGroups/{group}/indexes": {"datastore.indexes.list", func(r *http.Request) any {
			resp := &adminpb.ListIndexesResponse{}
			for _, index := range c.indexes {
				if strings.Contains(index.GetName(), "/databases/"+r.PathValue("database")+"/collectionGroups/"+r.PathValue("group")+"/indexes/") {
					resp.Indexes = append(resp.Indexes, index)
				}
			}
			return resp
		}},
		"run/v2" + inRegion + "/services/{service}": {"run.services.get", func(r *http.Request) any { return c.services[r.PathValue("service")] }},
		"run/v2" + inRegion + "/policies/{service}": {"run.services.getIamPolicy", func(r *http.Request) any {
			if r.URL.Query().Get("options.requestedPolicyVersion") != "3" {
				return errors.New("conditions take version 3")
			}
			return c.policies[r.PathValue("service")]
		}},
		"iam/v1" + in + "/serviceAccounts/{account}": {"iam.serviceAccounts.get", func(r *http.Request) any {
			if account, named := c.accounts[r.PathValue("account")]; named {
				return account
			}
			return &iam.ServiceAccount{Email: r.PathValue("account")}
		}},
		"cloudresourcemanager/v1" + in: {"resourcemanager.projects.get", func(*http.Request) any {
			return &cloudresourcemanager.Project{ProjectNumber: 1234, CreateTime: c.since.Format(time.RFC3339Nano)}
		}},
		"cloudresourcemanager/v1/policies/{project}": {"resourcemanager.projects.getIamPolicy", func(r *http.Request) any {
			var req cloudresourcemanager.GetIamPolicyRequest
			if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.Options == nil || req.Options.RequestedPolicyVersion != 3 || r.Method != http.MethodPost {
				return errors.New("conditions take version 3")
			}
			return c.access
		}},
		"cloudscheduler/v1" + inRegion + "/jobs": {"cloudscheduler.jobs.list", func(r *http.Request) any {
			jobs := &cloudscheduler.ListJobsResponse{}
			for _, job := range c.jobs {
				if strings.HasPrefix(job.Name, "projects/"+r.PathValue("project")+"/locations/"+r.PathValue("region")+"/") {
					jobs.Jobs = append(jobs.Jobs, job)
				}
			}
			return jobs
		}},
		"eventarc/v1" + inRegion + "/triggers": {"eventarc.triggers.list", func(r *http.Request) any {
			if r.PathValue("region") != "-" {
				return errors.New("the triggers may be anywhere")
			}
			list := &eventarc.ListTriggersResponse{}
			for _, name := range slices.Sorted(maps.Keys(c.triggers)) {
				list.Triggers = append(list.Triggers, c.triggers[name])
			}
			return list
		}},
		"pubsub/v1" + in + "/subscriptions/{subscription}": {"pubsub.subscriptions.get", func(r *http.Request) any { return c.waiting[r.PathValue("subscription")] }},
		"monitoring/v3" + in + "/timeSeries":               {"monitoring.timeSeries.list", c.timeSeries},
		"monitoring/v3" + in + "/alertPolicies": {"monitoring.alertPolicies.list", func(*http.Request) any {
			list := &monitoring.ListAlertPoliciesResponse{}
			for i, name := range slices.Sorted(maps.Keys(c.alerts)) {
				list.AlertPolicies = append(list.AlertPolicies, &monitoring.AlertPolicy{Name: fmt.Sprintf("projects/%s/alertPolicies/%d", testProject, i), DisplayName: name, Enabled: c.alerts[name], NotificationChannels: c.channels[name]})
			}
			return list
		}},
		"logging/v2" + in + "/metrics/{metric}": {"logging.logMetrics.get", func(r *http.Request) any {
			if !slices.Contains(c.metrics, r.PathValue("metric")) {
				return nil
			}
			return &logging.LogMetric{Name: r.PathValue("metric")}
		}},
		"serviceusage/v1" + in + "/services": {"serviceusage.services.list", func(r *http.Request) any {
			if r.URL.Query().Get("filter") != "state:ENABLED" {
				return errors.New("of all that there are?")
			}
			list := &serviceusage.ListServicesResponse{}
			for _, name := range resources.APIs() {
				if !c.disabled[name] {
					list.Services = append(list.Services, &serviceusage.GoogleApiServiceusageV1Service{State: "ENABLED", Config: &serviceusage.GoogleApiServiceusageV1ServiceConfig{Name: name}})
				}
			}
			return list
		}},
		"artifactregistry/v1" + inRegion + "/policies/{repository}": {"artifactregistry.repositories.getIamPolicy", func(r *http.Request) any { return c.images[r.PathValue("repository")] }},
		"firebaserules/v1" + in + "/releases/{release...}": {"firebaserules.releases.get", func(r *http.Request) any {
			if c.ruleset == "" || r.PathValue("release") != "cloud.firestore" {
				return nil
			}
			return &firebaserules.Release{RulesetName: "projects/" + testProject + "/rulesets/r1", UpdateTime: today.AddDate(0, -2, 0).Format(time.RFC3339Nano)}
		}},
		"firebaserules/v1" + in + "/rulesets/{ruleset}": {"firebaserules.rulesets.get", func(*http.Request) any {
			return &firebaserules.Ruleset{Source: &firebaserules.Source{Files: []*firebaserules.File{{Name: "firestore.rules", Content: c.ruleset}}}}
		}},
		"cloudbilling/v1" + in + "/billingInfo": {"resourcemanager.projects.get", func(*http.Request) any {
			return &cloudbilling.ProjectBillingInfo{BillingAccountName: "billingAccounts/0-1-2", BillingEnabled: !c.unbilled}
		}},
		"billingbudgets/v1/billingAccounts/{account}/budgets": {"billing.budgets.list", func(*http.Request) any {
			return &billingbudgets.GoogleCloudBillingBudgetsV1ListBudgetsResponse{Budgets: c.budgets}
		}},
	}
}

// answer sends JSON, and of a list an item a page: a reader that stops at the first page misses the rest. Or it sends the
// error that Google's REST APIs send.
func (c *cloud) answer(w http.ResponseWriter, r *http.Request, permission, api string, body any) {
	w.Header().Set("Content-Type", "application/json")
	code, message, refused := c.refusal(permission, api)
	if bad, is := body.(error); is {
		http.Error(w, bad.Error(), http.StatusBadRequest)
		return
	}
	text, err := json.Marshal(body)
	if message, is := body.(proto.Message); is {
		text, err = protojson.Marshal(message)
	}
	var said resources.Object
	if err == nil {
		err = json.Unmarshal(text, &said)
	}
	failed := func(code int, of resources.Object) {
		w.WriteHeader(code)
		of["code"] = code
		said = resources.Object{"error": of}
	}
	switch {
	case refused && c.disabled[api]:
		failed(403, resources.Object{"message": message, "details": []any{map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED", "domain": "googleapis.com"}}})
	case refused:
		failed(map[codes.Code]int{codes.PermissionDenied: 403, codes.NotFound: 404, codes.Unauthenticated: 401}[code], resources.Object{"message": message})
	case err != nil:
		failed(500, resources.Object{"message": err.Error()})
	case said == nil:
		failed(404, resources.Object{"message": "Resource was not found"})
	}
	for _, key := range []string{"functions", "indexes", "triggers", "services", "timeSeries", "alertPolicies", "jobs", "budgets"} {
		at, _ := strconv.Atoi(r.URL.Query().Get("pageToken"))
		if items, _ := said[key].([]any); len(items) > 1 {
			said[key] = items[at : at+1]
			if at+1 < len(items) {
				said["nextPageToken"] = strconv.Itoa(at + 1)
			}
		}
	}
	_ = json.NewEncoder(w).Encode(said)
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

// timeSeries are the sums of services, or what Pub/Sub has written down of subscriptions.
func (c *cloud) timeSeries(r *http.Request) any {
	q := r.URL.Query()
	if strings.Contains(q.Get("filter"), "pubsub.googleapis.com/subscription/") {
		return c.ages(q.Get("filter"))
	}
	from, _ := time.Parse(time.RFC3339, q.Get("interval.startTime"))
	to, _ := time.Parse(time.RFC3339, q.Get("interval.endTime"))
	if q.Get("aggregation.alignmentPeriod") != "604800s" || to.Sub(from) != 7*24*time.Hour || q.Get("aggregation.perSeriesAligner") != "ALIGN_SUM" ||
		q.Get("aggregation.crossSeriesReducer") != "REDUCE_SUM" || !slices.Equal(q["aggregation.groupByFields"], []string{"resource.labels.location", "resource.labels.service_name"}) {
		return errors.New("that is no sum of a week by service")
	}
	list := &monitoring.ListTimeSeriesResponse{}
	for _, name := range slices.Sorted(maps.Keys(c.had)) {
		h := c.had[name]
		if !strings.Contains(q.Get("filter"), strconv.Quote(name)) {
			continue
		}
		metric, _, _ := strings.Cut(strings.TrimPrefix(q.Get("filter"), `metric.type="run.googleapis.com/`), `"`)
		list.TimeSeries = append(list.TimeSeries, &monitoring.TimeSeries{
			Resource: &monitoring.MonitoredResource{Type: "cloud_run_revision", Labels: map[string]string{"location": testRegion, "service_name": name}},
			Points: []*monitoring.Point{{Value: map[string]*monitoring.TypedValue{
				"request_latencies":                {DistributionValue: &monitoring.Distribution{Count: h.requests, Mean: h.mean}},
				"container/billable_instance_time": {DoubleValue: &h.billed},
				"container/instance_count":         {Int64Value: &h.counted},
			}[metric]}},
		})
	}
	return list
}

// ages are what Pub/Sub has written down of subscriptions, a point each.
func (c *cloud) ages(filter string) any {
	list := &monitoring.ListTimeSeriesResponse{}
	for _, name := range slices.Sorted(maps.Keys(c.oldest)) {
		if strings.Contains(filter, strconv.Quote(name)) {
			value := c.oldest[name]
			if strings.Contains(filter, "num_undelivered_messages") {
				value = 12
			}
			list.TimeSeries = append(list.TimeSeries, &monitoring.TimeSeries{
				Resource: &monitoring.MonitoredResource{Type: "pubsub_subscription", Labels: map[string]string{"subscription_id": name}},
				Points:   []*monitoring.Point{{Value: &monitoring.TypedValue{Int64Value: &value}}, {Value: &monitoring.TypedValue{Int64Value: new(int64)}}},
			})
		}
	}
	return list
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
