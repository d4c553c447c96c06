package functions

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// counted adds up the shards below a document, field by field.
func (p *process) counted(t *testing.T, path string) map[string]int64 {
	t.Helper()
	docs, err := p.fs.Doc(path).Collection("shards").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]int64{}
	for _, doc := range docs {
		for field, count := range doc.Data() {
			sums[field] += count.(int64)
		}
	}
	maps.DeleteFunc(sums, func(_ string, sum int64) bool { return sum == 0 })
	return sums
}

// Requests for several fields of an app's own documents, at a path with two wildcards.
func TestRequestsForFields(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "COUNTERS=teams/{team}/posts/{post}", "HOSTED=true", "FIELDS=likes,views", "MAX_INCREMENT=1000", "READ_CACHE=0s")
	for _, path := range []string{"teams/red/posts/post-1", "teams/red/posts/post-2", "teams/blue/posts/post-1", "teams/red"} {
		if _, err := p.fs.Doc(path).Set(t.Context(), map[string]any{"title": path, "likes": 17}); err != nil {
			t.Fatal(err)
		}
	}
	const one, two = "teams/red/posts/post-1", "teams/red/posts/post-2"
	type counts = map[string]int64
	bulk := func(increments string) string { return `{"increments":[` + increments + `]}` }
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		want                     string // as JSON: fields that the body must have; of a problem, what its detail says
		counter                  string // and what it grows by
		grows                    counts
	}{
		// What is counted.
		{name: "empty body", path: "/red/post-1", status: 200, want: `{"counter":"red/post-1","by":1}`, counter: one, grows: counts{"likes": 1}},
		{name: "the first field", path: "/red/post-1", body: `{"by":2}`, status: 200, want: `{"by":2}`, counter: one, grows: counts{"likes": 2}},
		{name: "both fields", path: "/red/post-1", body: `{"by":{"likes":1,"views":3}}`, status: 200, want: `{"counter":"red/post-1","by":{"likes":1,"views":3}}`, counter: one, grows: counts{"likes": 1, "views": 3}},
		{name: "one of them, down", path: "/red/post-1", body: `{"by": {"views" : -1} }`, status: 200, want: `{"by":{"views":-1}}`, counter: one, grows: counts{"views": -1}},
		{name: "the largest of each", path: "/red/post-1", body: `{"by":{"likes":1000,"views":1000}}`, status: 200, counter: one, grows: counts{"likes": 1000, "views": 1000}},
		{name: "slash, encoded", path: "/red%2Fpost-1", status: 200, want: `{"counter":"red/post-1"}`, counter: one, grows: counts{"likes": 1}},
		{name: "key", path: "/red/post-1", body: `{"by":{"likes":1,"views":1}}`, header: []string{"Idempotency-Key", "K"}, status: 200, counter: one, grows: counts{"likes": 1, "views": 1}},
		{name: "key again, fields the other way round", path: "/red/post-1", body: `{"by":{"views":1,"likes":1}}`, header: []string{"Idempotency-Key", "K"}, status: 200, want: `{"replayed":true}`, counter: one},
		{name: "key with other numbers", path: "/red/post-1", body: `{"by":{"likes":1,"views":2}}`, header: []string{"Idempotency-Key", "K"}, status: 422},
		{name: "key with one of the fields, which is another key", path: "/red/post-1", body: `{"by":{"likes":1}}`, header: []string{"Idempotency-Key", "K"}, status: 200, counter: one, grows: counts{"likes": 1}},
		{name: "key with the other", path: "/red/post-1", body: `{"by":{"views":1}}`, header: []string{"Idempotency-Key", "K"}, status: 200, counter: one, grows: counts{"views": 1}},
		{name: "several", path: "/", body: bulk(`{"counter":"red/post-1","by":{"views":2}},{"counter":"red/post-2"},{"counter":"red/post-2","by":{"likes":2,"views":1}}`), status: 200, counter: two, grows: counts{"likes": 3, "views": 1}},
		{name: "several of two teams", path: "/", body: bulk(`{"counter":"red/post-1"},{"counter":"blue/post-1"}`), status: 200, counter: "teams/blue/posts/post-1", grows: counts{"likes": 1}},
		{name: "fields that cancel out", path: "/", body: bulk(`{"counter":"red/post-2","by":{"views":1000}},{"counter":"red/post-2","by":{"views":-1000,"likes":1}}`), status: 200, counter: two, grows: counts{"likes": 1}},

		{name: "500 of two fields each", path: "/", body: bulk(strings.TrimSuffix(strings.Repeat(`{"counter":"red/post-2","by":{"likes":1,"views":2}},`, 500), ",")), status: 200, counter: two, grows: counts{"likes": 500, "views": 1000}},

		// What is read: the document's numbers, which are the app's until they are rolled up, and the
		// shards'.
		{name: "get", method: "GET", path: "/red/post-1", status: 200, want: `{"counter":"red/post-1","total":17,"totals":{"likes":17,"views":0},"num_shards":10}`},
		{name: "get exact", method: "GET", path: "/red/post-1?exact=true", status: 200, want: `{"total":1008,"totals":{"likes":1008,"views":1006}}`},
		{name: "get by parameter", method: "GET", path: "/?counter=red/post-2&exact=true", status: 200, want: `{"counter":"red/post-2","totals":{"likes":504,"views":1001}}`},

		// What a page watches: whether there is anything to watch is no error in its console.
		{name: "watch a field", method: "GET", path: "/?counter=red/post-2&field=views", status: 200, want: `{"counter":"red/post-2"}`},
		{name: "watch no such post", method: "GET", path: "/?counter=red/unknown&field=views", status: 204},
		{name: "watch a field that isn't counted", method: "GET", path: "/?counter=red/post-2&field=stars", status: 400, want: `"stars" is not counted; want one of likes, views; to count it too, set FIELDS=likes,views,stars`},

		// What isn't there. Nothing is made of it.
		{name: "no such post", path: "/red/unknown", status: 404, want: "counter not found: the app makes the documents"},
		{name: "no such team", path: "/green/post-1", status: 404},
		{name: "get no such post", method: "GET", path: "/red/unknown", status: 404},
		{name: "several, one unknown", path: "/", body: bulk(`{"counter":"red/post-1"},{"counter":"red/unknown"}`), status: 404, want: "red/unknown"},

		// Ids that don't fit the path.
		{name: "too few parts", path: "/red", status: 400, want: "has 2"},
		{name: "too many parts", path: "/red/post-1/x", status: 400, want: "has 3 parts"},
		{name: "the path itself", path: "/teams/red/posts/post-1", status: 400, want: "has 4 parts"},
		{name: "slash at the end", path: "/red/post-1/", status: 400, want: "ends with a slash: leave it out"},
		{name: "an empty part", path: "/red%2F", status: 400, want: "empty"},
		{name: "a reserved part", path: "/red/__x__", status: 400, want: "reserved"},
		{name: "a dot", path: "/%2E/post-1", status: 400},
		{name: "get too few parts", method: "GET", path: "/red", status: 400, want: "has 2"},
		{name: "several, too few parts", path: "/", body: bulk(`{"counter":"red/post-1"},{"counter":"red"}`), status: 400, want: "has 2"},
		{name: "several, too many parts", path: "/", body: bulk(`{"counter":"red/post-1/shards/0"}`), status: 400, want: "has 4 parts"},

		// What can't be added.
		{name: "a field that isn't counted", path: "/red/post-1", body: `{"by":{"likes":1,"stars":1}}`, status: 400, want: "want one of likes, views"},
		{name: "a field of ours", path: "/red/post-1", body: `{"by":{"counter_rollup":1}}`, status: 400, want: "is not counted"},
		{name: "a field's path", path: "/red/post-1", body: `{"by":{"counter_rollup.num_shards":1}}`, status: 400, want: "is not counted"},
		{name: "other case", path: "/red/post-1", body: `{"by":{"Likes":1}}`, status: 400, want: "is not counted"},
		{name: "no fields", path: "/red/post-1", body: `{"by":{}}`, status: 400, want: "by is empty"},
		{name: "an empty name", path: "/red/post-1", body: `{"by":{"":1}}`, status: 400},
		{name: "zero", path: "/red/post-1", body: `{"by":{"likes":1,"views":0}}`, status: 400, want: "by.views is 0"},
		{name: "null", path: "/red/post-1", body: `{"by":{"likes":null}}`, status: 400, want: "by.likes is null"},
		{name: "by null", path: "/red/post-1", body: `{"by":null}`, status: 400},
		{name: "nested", path: "/red/post-1", body: `{"by":{"likes":{"likes":1}}}`, status: 400, want: "likes"},
		{name: "a list", path: "/red/post-1", body: `{"by":{"likes":[1]}}`, status: 400, want: "likes"},
		{name: "a list of fields", path: "/red/post-1", body: `{"by":["likes"]}`, status: 400},
		{name: "a string", path: "/red/post-1", body: `{"by":{"likes":"1"}}`, status: 400, want: "likes"},
		{name: "a fraction", path: "/red/post-1", body: `{"by":{"likes":1.5}}`, status: 400, want: "likes"},
		{name: "a bool", path: "/red/post-1", body: `{"by":{"likes":true}}`, status: 400, want: "likes"},
		{name: "a field twice", path: "/red/post-1", body: `{"by":{"likes":1,"likes":2}}`, status: 400, want: "twice"},
		{name: "too much", path: "/red/post-1", body: `{"by":{"likes":1,"views":1001}}`, status: 400, want: "1000"},
		{name: "beyond int64", path: "/red/post-1", body: `{"by":{"views":9223372036854775808}}`, status: 400},
		{name: "half of it", path: "/red/post-1", body: `{"by":{"likes":1`, status: 400},
		{name: "fields beside by", path: "/red/post-1", body: `{"likes":1}`, status: 400, want: `unknown field "likes"`},
		{name: "several, a field that isn't counted", path: "/", body: bulk(`{"counter":"red/post-1"},{"counter":"red/post-2","by":{"stars":1}}`), status: 400, want: "is not counted"},
		{name: "several, no fields", path: "/", body: bulk(`{"counter":"red/post-1","by":{}}`), status: 400, want: "by is empty"},
		{name: "several, zero", path: "/", body: bulk(`{"counter":"red/post-1","by":{"likes":0}}`), status: 400},
		{name: "several, too much of a field together", path: "/", body: bulk(`{"counter":"red/post-1","by":{"views":600}},{"counter":"red/post-1","by":{"views":600}}`), status: 400, want: "add up to more than 1000"},
		{name: "several, too much of the first field together", path: "/", body: bulk(`{"counter":"red/post-1","by":600},{"counter":"red/post-1","by":{"likes":600}}`), status: 400, want: "add up to more than 1000"},
	} {
		if c.method == "" {
			c.method = "POST"
		}
		before, had := p.dump(t), counts{}
		if c.counter != "" {
			had = p.counted(t, c.counter)
		}
		got := p.do(t, c.method, c.path, c.body, c.header...)
		if got.status != c.status {
			t.Errorf("%s: answered %d %v, want %d", c.name, got.status, got.body, c.status)
		}
		if detail, _ := got.body["detail"].(string); c.status >= 400 && (detail == "" || !strings.Contains(detail, c.want)) {
			t.Errorf("%s: the problem is %q, and doesn't say %q", c.name, detail, c.want)
		}
		if c.status == 200 && c.want != "" {
			var want map[string]any
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			for field, value := range want {
				if !reflect.DeepEqual(got.body[field], value) {
					t.Errorf("%s: answered %v, want %s: %v", c.name, got.body, field, value)
				}
			}
		}
		if c.counter != "" {
			grown := p.counted(t, c.counter)
			for _, field := range slices.Collect(maps.Keys(had)) {
				grown[field] -= had[field]
			}
			maps.DeleteFunc(grown, func(_ string, by int64) bool { return by == 0 })
			if !maps.Equal(grown, c.grows) {
				t.Errorf("%s: it grew by %v, want %v", c.name, grown, c.grows)
			}
		}
		if c.status >= 400 || c.method == "GET" {
			if after := p.dump(t); after != before {
				t.Errorf("%s: something was written:\n%s\nwas\n%s", c.name, after, before)
			}
		}
	}
}

// A function with other FIELDS than the counter has answers no 0.
func TestReadOfFieldsThatAreNotCountedHere(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "FIELDS=likes", "READ_CACHE=1s")
	ref := p.fs.Collection("counters").Doc("rate")
	if _, err := ref.Set(t.Context(), map[string]any{"total": 150, "num_shards": 1, "updated_at": time.Now()}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/rate", "/rate", "/rate?exact=true"} { // the second from memory
		got := p.do(t, "GET", path, "")
		if detail := fmt.Sprint(got.body["detail"]); got.status != 409 || !strings.Contains(detail, "not counted here: likes; its document has total") {
			t.Errorf("GET %s: %d %s", path, got.status, detail)
		}
	}
	if _, err := ref.Set(t.Context(), map[string]any{"total": 150, "likes": 7, "num_shards": 1, "updated_at": time.Now()}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond)
	if got := p.do(t, "GET", "/rate", ""); got.status != 200 || got.body["total"] != 7.0 {
		t.Errorf("once it is: %d %v", got.status, got.body)
	}
}

// A list in a shown field stays. GET names the field and answers no number of it, exact reads answer what is counted,
// and increments go on.
func TestReadOfAListInAShownField(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "FIELDS=likes", "COUNTERS=posts/{post}", "HOSTED=true", "READ_CACHE=1s")
	ref := p.fs.Doc("posts/a")
	if _, err := ref.Set(t.Context(), map[string]any{"likes": []string{"uid-1"}}); err != nil {
		t.Fatal(err)
	}
	for n := 1.0; n <= 2; n++ {
		if got := p.do(t, "POST", "/a", ""); got.status != 200 {
			t.Errorf("POST: %+v", got)
		}
		got := p.do(t, "GET", "/a", "")
		if named, _ := got.body["not_counted"].([]any); got.status != 200 || len(named) != 1 || named[0] != "likes" {
			t.Errorf("GET: %d %v", got.status, got.body)
		}
		if got := p.do(t, "GET", "/a?exact=true", ""); got.status != 200 || got.body["total"] != n || got.body["not_counted"] != nil {
			t.Errorf("an exact GET: %d %v, want a total of %v", got.status, got.body, n)
		}
	}
	doc, err := ref.Get(t.Context())
	if list, _ := doc.Data()["likes"].([]any); err != nil || len(list) != 1 {
		t.Errorf("the document is %v, %v", doc.Data(), err)
	}
}
