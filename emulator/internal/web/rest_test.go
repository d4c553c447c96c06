package web_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const database = "projects/p/databases/(default)"

// TestREST runs requests in order on one database: those that the official emulator isn't asked (testdata/requests.json
// of conformance has the others). Of an answer, what the table names is compared: times and other fields may be there
// besides.
func TestREST(t *testing.T) {
	b := start(t)
	docs := "/v1/" + database + "/documents"
	name := func(path string) string { return database + "/documents/" + path }
	admin := []string{"Authorization", "Bearer owner"}
	for _, tt := range []struct {
		what, method, path, body string
		code                     int
		want                     string
		headers                  []string
	}{
		{"create", "POST", docs + "/a?documentId=1", `{"fields":{"n":{"integerValue":"1"},"m":{"doubleValue":"-0"}}}`,
			200, `{"name":"` + name("a/1") + `","fields":{"n":{"integerValue":"1"}}}`, nil},
		{"create with an id of the server's", "POST", docs + "/auto", `{"fields":{}}`, 200, `{}`, nil},
		{"get", "GET", docs + "/a/1", "", 200, `{"name":"` + name("a/1") + `"}`, nil},
		{"get with a mask", "GET", docs + "/a/1?mask.fieldPaths=m&key=x&$alt=json%3Benum-encoding%3Dint", "", 200, `{"fields":{"m":{"doubleValue":-0}}}`, nil},
		{"patch on a bad condition", "PATCH", docs + "/a/none?currentDocument.exists=perhaps", `{}`, 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"ids with escapes", "PATCH", docs + "/a/x%20y:%25%F0%9F%98%80", `{"fields":{}}`, 200, `{"name":"` + name("a/x y:%😀") + `"}`, nil},
		{"ids with colons", "GET", docs + "/a/x%20y%3A%25%F0%9F%98%80", "", 200, `{"name":"` + name("a/x y:%😀") + `"}`, nil},
		{"an id with a slash", "GET", docs + "/a/x%2Fy", "", 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"delete", "DELETE", docs + "/a/x%20y:%25%F0%9F%98%80", "", 200, `{}`, nil},
		{"list with a bad size", "GET", docs + "/a?pageSize=many", "", 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"commit", "POST", docs + ":commit", `{"writes":[{"update":{"name":"` + name("a/2") + `","fields":{"n":{"integerValue":"2"}}},
			"updateTransforms":[{"fieldPath":"at","setToServerValue":"REQUEST_TIME"}]}]}`, 200, `{"writeResults":[{}]}`, nil},
		{"partitionQuery", "POST", docs + ":partitionQuery", `{"structuredQuery":{"from":[{"collectionId":"a","allDescendants":true}]},"partitionCount":1}`,
			200, `{"partitions":[{"values":[{"referenceValue":"` + name("a/2") + `"}],"before":true}]}`, admin},
		{"partitionQuery, not as administrator", "POST", docs + ":partitionQuery", `{}`, 403, `{"error":{"status":"PERMISSION_DENIED"}}`, nil},
		{"an unknown field of a write that verifies", "POST", docs + ":commit", `{"writes":[{"verify":"` + name("a/1") + `","currentDocument":{"exists":true},"verily":1}]}`, 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"a request of over 16 MiB", "POST", docs + ":commit", strings.Repeat(" ", 16<<20+1), 413, `{"error":{"code":413}}`, nil},
	} {
		resp, body := b.do(tt.method, tt.path, tt.body, tt.headers...)
		if resp.StatusCode != tt.code {
			t.Errorf("%s: %d %s, want %d", tt.what, resp.StatusCode, body, tt.code)
			continue
		}
		var got, want any
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Errorf("%s: %v in %q", tt.what, err, body)
			continue
		}
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatalf("%s: %v", tt.what, err)
		}
		if missing := contains(got, want, ""); missing != "" {
			t.Errorf("%s: %s\nin %s", tt.what, missing, body)
		}
	}
}

// contains tells what of want is not in got, whose objects may have more fields; "" if there is
// nothing.
func contains(got, want any, at string) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, want an object", at, got)
		}
		for key, value := range w {
			if s := contains(g[key], value, at+"."+key); s != "" {
				return s
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s is %v, want %d elements", at, got, len(w))
		}
		for i := range w {
			if s := contains(g[i], w[i], fmt.Sprintf("%s[%d]", at, i)); s != "" {
				return s
			}
		}
		return ""
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Sprintf("%s is %v, want %v", at, got, want)
	}
	return ""
}

func TestRESTTransaction(t *testing.T) {
	b := start(t)
	docs := "/v1/" + database + "/documents"
	object := func(body string) (m map[string]any) {
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		return m
	}
	begin := func() string {
		resp, body := b.do("POST", docs+":beginTransaction", `{"options":{"readWrite":{}}}`)
		if resp.StatusCode != 200 {
			t.Fatalf("begin: %s", body)
		}
		return object(body)["transaction"].(string)
	}
	b.do("PATCH", docs+"/a/1", `{"fields":{"n":{"integerValue":"1"}}}`)

	tx := begin()
	if resp, body := b.do("GET", docs+"/a/1?transaction="+strings.NewReplacer("+", "%2B", "/", "%2F", "=", "%3D").Replace(tx), ""); resp.StatusCode != 200 {
		t.Fatalf("get: %s", body)
	}
	commit := `{"transaction":"` + tx + `","writes":[{"update":{"name":"` + database + `/documents/a/1","fields":{"n":{"integerValue":"2"}}}}]}`
	if resp, body := b.do("POST", docs+":commit", commit); resp.StatusCode != 200 || object(body)["commitTime"] == "" {
		t.Fatalf("commit: %s", body)
	}
	if resp, body := b.do("POST", docs+":commit", commit); resp.StatusCode != 400 || !strings.Contains(body, "INVALID_ARGUMENT") {
		t.Errorf("a second commit of the transaction: %d %s", resp.StatusCode, body)
	}
	tx = begin()
	if resp, body := b.do("POST", docs+":rollback", `{"transaction":"`+tx+`"}`); resp.StatusCode != 200 || strings.TrimSpace(body) != "{}" {
		t.Errorf("rollback: %d %s", resp.StatusCode, body)
	}
}
