package settings_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/firestore-counters/counters/internal/settings"
)

// What the functions take for true is true for whoever deploys them: a shell compared the word, and
// turned off the indexes of the app's own collection.
func TestDeploymentTakesTheFunctionsBooleans(t *testing.T) {
	t.Parallel()
	for value, hosted := range map[string]bool{"true": true, "True": true, "1": true, "t": true, "false": false, "0": false, "F": false} {
		d, err := settings.ForDeployment([]string{"HOSTED=" + value})
		if err != nil || d.Hosted != hosted || !slices.Contains(d.Environment, map[bool]string{true: "HOSTED=true", false: "HOSTED=false"}[hosted]) {
			t.Errorf("HOSTED=%s: %+v, %v", value, d, err)
		}
	}
}

// Triggers are made for collections wherever they are, and the indexes that their queries need.
func TestDeploymentOfQueries(t *testing.T) {
	t.Parallel()
	d, err := settings.ForDeployment([]string{"COUNTERS=posts/{post}", "FIELDS=likes,a=count(/comments where post=={post}),b=count(**/comments where post=={post})," +
		"c=avg(ratings.stars where public==true and n>=3),d=sum(ratings.stars where n>=3 and public==true),e=sum(ratings.stars)"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"comments/{document}", "{parents=**}/comments/{document}", "posts/{post}/ratings/{document}"}; !slices.Equal(d.Watched, want) || !slices.Equal(d.Collections, []string{"/comments", "**/comments", "ratings"}) {
		t.Errorf("%q are watched for %q, want %q", d.Watched, d.Collections, want)
	}
	if want := []string{"comments COLLECTION_GROUP post", "ratings COLLECTION public n stars"}; !slices.Equal(d.Indexes, want) {
		t.Errorf("indexes %q, want %q", d.Indexes, want)
	}
	if want := []string{"comments COLLECTION post", "comments COLLECTION_GROUP post", "ratings COLLECTION public n stars", "ratings COLLECTION stars", "counter_requests COLLECTION until", "counter_requests COLLECTION due"}; !slices.Equal(d.Scanned, want) {
		t.Errorf("in Enterprise edition %q, want %q", d.Scanned, want)
	}
	for members, want := range map[string][]string{"any": {"likes_members COLLECTION_GROUP member", "likes_members COLLECTION until", "m_members COLLECTION_GROUP member", "m_members COLLECTION until", "counter_requests COLLECTION until", "counter_requests COLLECTION due"}, "off": {"counter_requests COLLECTION until", "counter_requests COLLECTION due"}} {
		if d, err = settings.ForDeployment([]string{"FIELDS=likes,m=count,n=count(notes)", "MEMBERS=" + members}); err != nil || !slices.Equal(d.Scanned, want) {
			t.Errorf("MEMBERS=%s: %v, %q, want %q", members, err, d.Scanned, want)
		}
	}
}

// Which of the extension's shards hold something is looked up: without an index each look would scan those of all visitors
// of a page.
func TestDeploymentOfTheExtension(t *testing.T) {
	t.Parallel()
	d, err := settings.ForDeployment([]string{"COUNTERS=pages/{page}", "FIELDS=visits,likes=n", "HOSTED=true", "EXTENSION=true", "MEMBERS=off"})
	if want := []string{"_counter_shards_ COLLECTION visits", "_counter_shards_ COLLECTION likes", "counter_requests COLLECTION until", "counter_requests COLLECTION due"}; err != nil || !slices.Equal(d.Scanned, want) {
		t.Errorf("in Enterprise edition %q, want %q, %v", d.Scanned, want, err)
	}
}

// Members are found in all counters by an index of each field that has some.
func TestDeploymentOfMembers(t *testing.T) {
	t.Parallel()
	for auth, want := range map[string][]string{"AUTH=firebase": {"likes_members COLLECTION_GROUP member", "hearts_members COLLECTION_GROUP member"}, "AUTH=none": nil, "AUTH=appcheck": nil} {
		d, err := settings.ForDeployment([]string{"FIELDS=likes,hearts=limit(5),n=count(comments)", auth})
		if err != nil || !slices.Equal(d.Indexes, want) {
			t.Errorf("%s: indexes %q, want %q, %v", auth, d.Indexes, want, err)
		}
	}
}

func TestDeployment(t *testing.T) {
	t.Parallel()
	d, err := settings.ForDeployment([]string{"COUNTERS=teams/{team}/posts/{post}", "FIELDS=likes, total=count ,n=count(comments where kind=='x,y=count(z)'),stars=sum( ratings.a.b)",
		"SHARDS=parts", "DATABASE=wrong", "DATABASE=social", "RECONCILE_DEADLINE=1m0.5s", "AUTH=appcheck"})
	if err != nil {
		t.Fatal(err)
	}
	environment := d.Environment
	d.Environment = nil
	if want := (settings.Deployment{Database: "social", Counters: "teams/{team}/posts/{post}", Collection: "posts", Shards: "parts", ShardFields: []string{"likes", "count"}, Summed: []string{"parts likes", "parts count", "ratings a.b"},
		Collections: []string{"comments", "ratings"}, Watched: []string{"teams/{team}/posts/{post}/comments/{document}", "teams/{team}/posts/{post}/ratings/{document}"}, Scanned: []string{"comments COLLECTION kind", "ratings COLLECTION a.b", "counter_requests COLLECTION until", "counter_requests COLLECTION due"}, Auth: "appcheck", ReconcileTimeout: 121}); !reflect.DeepEqual(d, want) {
		t.Errorf("%+v\nwant %+v", d, want)
	}
	for _, pair := range []string{"DATABASE=social", "NUM_SHARDS=10", "MEMBERS="} {
		if !slices.Contains(environment, pair) {
			t.Errorf("the functions aren't told %s: %q", pair, environment)
		}
	}
	for _, pair := range environment {
		if strings.HasPrefix(pair, "GOOGLE_CLOUD_PROJECT=") || strings.HasPrefix(pair, "PROJECT_NUMBER=") {
			t.Errorf("the functions are told %s, and the project is not known", pair)
		}
	}
	if d, err := settings.ForDeployment([]string{"AUTO_CREATE=True"}); err != nil || !d.MakesForAnybody {
		t.Errorf("AUTO_CREATE=True: %+v, %v", d, err)
	}
	if _, err := settings.Parse(environment[:len(environment):len(environment)]); err == nil {
		t.Error("AUTH=appcheck is taken without the project's number, which the deployment is to add")
	}
	if _, err := settings.Parse(append(environment, "PROJECT_NUMBER=1")); err != nil {
		t.Errorf("the functions refuse %q: %v", environment, err)
	}
}

func TestDeploymentRefuses(t *testing.T) {
	t.Parallel()
	for pair, want := range map[string]string{
		"NUM_SHARDS=0":           "NUM_SHARDS=0: want 1 to 1000",
		"COUNTERS=counters":      "COUNTERS=counters: want ",
		"FIELDS=a.b":             "FIELDS=a.b: want ",
		"RECONCILE_DEADLINE=99h": "RECONCILE_DEADLINE=99h0m0s: want ",
		"NUM_SHARD=5":            "NUM_SHARD=5: there is no such setting",
		"NUM_SHARDS":             "NUM_SHARDS: want a value after it, as in NUM_SHARDS=10",
		"=5":                     "there is no such setting",
		"":                       "there is no such setting",
		"MEMBERS=a|B=c":          "want a value without |",
		"MEMBERS=a\nB=c":         "want a value without |",
		"PROJECT_NUMBER=5":       "want it left out",
		"COLLECTION=likes":       "want COUNTERS=likes/{counter} instead",
		"AUTH=":                  "AUTH=: want none, firebase or appcheck",
	} {
		d, err := settings.ForDeployment([]string{"AUTO_CREATE=true", pair})
		if err == nil || !strings.Contains(err.Error(), want) || d.Environment != nil {
			t.Errorf("%q: %v, %v; want an error with %q", pair, d, err, want)
		}
	}
}

// What a deployment is told comes back from its JSON.
func TestDeploymentAsJSON(t *testing.T) {
	t.Parallel()
	d, _ := settings.ForDeployment(nil)
	var again settings.Deployment
	if text, err := json.Marshal(d); err != nil || json.Unmarshal(text, &again) != nil || !reflect.DeepEqual(again, d) {
		t.Errorf("as JSON: %s, %v", text, err)
	}
}
