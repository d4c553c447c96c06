package web_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const database = "projects/p/databases/(default)"

// TestREST runs requests in order on one database. Of an answer, what the table names is compared:
// times and other fields may be there besides.
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
		{"create what is there", "POST", docs + "/a?documentId=1", `{}`, 409, `{"error":{"code":409,"status":"ALREADY_EXISTS"}}`, nil},
		{"create with an id of the server's", "POST", docs + "/auto", `{"fields":{}}`, 200, `{}`, nil},
		{"get", "GET", docs + "/a/1", "", 200, `{"name":"` + name("a/1") + `"}`, nil},
		{"get with a mask", "GET", docs + "/a/1?mask.fieldPaths=m&key=x&$alt=json%3Benum-encoding%3Dint", "", 200, `{"fields":{"m":{"doubleValue":-0}}}`, nil},
		{"get what is not there", "GET", docs + "/a/none", "", 404, `{"error":{"code":404,"status":"NOT_FOUND"}}`, nil},
		{"patch one field", "PATCH", docs + "/a/1?updateMask.fieldPaths=n", `{"fields":{"n":{"integerValue":7}}}`, 200, `{"fields":{"n":{"integerValue":"7"}}}`, nil},
		{"patch on condition", "PATCH", docs + "/a/none?currentDocument.exists=true", `{"fields":{}}`, 404, `{"error":{"status":"NOT_FOUND"}}`, nil},
		{"patch on a bad condition", "PATCH", docs + "/a/none?currentDocument.exists=perhaps", `{}`, 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"patch on an old version", "PATCH", docs + "/a/1?currentDocument.updateTime=2020-01-01T00:00:00Z", `{}`, 400, `{"error":{"status":"FAILED_PRECONDITION"}}`, nil},
		{"ids with escapes", "PATCH", docs + "/a/x%20y:%25%F0%9F%98%80", `{"fields":{}}`, 200, `{"name":"` + name("a/x y:%😀") + `"}`, nil},
		{"ids with colons", "GET", docs + "/a/x%20y%3A%25%F0%9F%98%80", "", 200, `{"name":"` + name("a/x y:%😀") + `"}`, nil},
		{"an id with a slash", "GET", docs + "/a/x%2Fy", "", 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"delete", "DELETE", docs + "/a/x%20y:%25%F0%9F%98%80", "", 200, `{}`, nil},
		{"list", "GET", docs + "/a?pageSize=5", "", 200, `{"documents":[{"name":"` + name("a/1") + `"}]}`, nil},
		{"list with a bad size", "GET", docs + "/a?pageSize=many", "", 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"list what is missing", "GET", docs + "/a?showMissing=true", "", 403, `{"error":{"status":"PERMISSION_DENIED"}}`, nil},
		{"list what is missing, as administrator", "GET", docs + "/a?showMissing=true", "", 200, `{"documents":[{}]}`, admin},

		{"commit", "POST", docs + ":commit", `{"writes":[{"update":{"name":"` + name("a/2") + `","fields":{"n":{"integerValue":"2"}}},
			"updateTransforms":[{"fieldPath":"at","setToServerValue":"REQUEST_TIME"}]}]}`, 200, `{"writeResults":[{}]}`, nil},
		{"commit that fails", "POST", docs + ":commit", `{"writes":[{"delete":"` + name("a/none") + `","currentDocument":{"exists":true}}]}`, 404, `{"error":{"status":"NOT_FOUND"}}`, nil},
		{"commit that is not JSON", "POST", docs + ":commit", `{"writes":`, 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"verify what is there", "POST", docs + ":commit", `{"writes":[{"verify":"` + name("a/1") + `","currentDocument":{"exists":true}}]}`, 200, `{"writeResults":[{}]}`, nil},
		{"verify what is not", "POST", docs + ":commit", `{"writes":[{"verify":"` + name("a/none") + `","currentDocument":{"exists":true}}]}`, 404, `{"error":{"status":"NOT_FOUND"}}`, nil},
		{"verify an old version, and nothing is written", "POST", docs + ":commit", `{"writes":[
			{"update":{"name":"` + name("a/3") + `","fields":{}}},
			{"verify":"` + name("a/1") + `","currentDocument":{"updateTime":"2020-01-01T00:00:00Z"}}]}`, 400, `{"error":{"status":"FAILED_PRECONDITION"}}`, nil},
		{"verify nothing", "POST", docs + ":commit", `{"writes":[{"verify":"` + name("a/1") + `"}]}`, 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"verify and write", "POST", docs + ":commit", `{"writes":[{"delete":"` + name("a/1") + `"},{"verify":"` + name("a/1") + `","currentDocument":{"exists":true}}]}`,
			400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"batchGet", "POST", docs + ":batchGet", `{"documents":["` + name("a/1") + `","` + name("a/3") + `"]}`,
			200, `[{"found":{"name":"` + name("a/1") + `"}},{"missing":"` + name("a/3") + `"}]`, nil},
		{"batchGet of another database", "POST", docs + ":batchGet", `{"documents":["projects/q/databases/(default)/documents/a/1"]}`, 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"batchWrite", "POST", docs + ":batchWrite", `{"writes":[{"delete":"` + name("a/none") + `","currentDocument":{"exists":true}},{"update":{"name":"` + name("a/1/b/1") + `","fields":{}}}]}`,
			200, `{"status":[{"code":5},{}],"writeResults":[{},{}]}`, admin},
		{"batchWrite, not as administrator", "POST", docs + ":batchWrite", `{}`, 403, `{"error":{"status":"PERMISSION_DENIED"}}`, nil},
		{"runQuery", "POST", docs + ":runQuery", `{"structuredQuery":{"from":[{"collectionId":"a"}],"where":{"fieldFilter":{"field":{"fieldPath":"n"},"op":"GREATER_THAN","value":{"integerValue":"6"}}}}}`,
			200, `[{"document":{"name":"` + name("a/1") + `"}}]`, nil},
		{"runQuery below a document", "POST", docs + "/a/1:runQuery", `{"structuredQuery":{"from":[{"collectionId":"b"}]}}`, 200, `[{"document":{"name":"` + name("a/1/b/1") + `"}}]`, nil},
		{"runAggregationQuery", "POST", docs + ":runAggregationQuery", `{"structuredAggregationQuery":{"structuredQuery":{"from":[{"collectionId":"a"}]},
			"aggregations":[{"alias":"s","sum":{"field":{"fieldPath":"n"}}}]}}`, 200, `[{"result":{"aggregateFields":{"s":{"integerValue":"9"}}}}]`, nil},
		{"listCollectionIds", "POST", docs + ":listCollectionIds", `{}`, 200, `{"collectionIds":["a","auto"]}`, admin},
		{"listCollectionIds below a document", "POST", docs + "/a/1:listCollectionIds", ``, 200, `{"collectionIds":["b"]}`, admin},
		{"partitionQuery", "POST", docs + ":partitionQuery", `{"structuredQuery":{"from":[{"collectionId":"a","allDescendants":true}]},"partitionCount":1}`,
			200, `{"partitions":[{"values":[{"referenceValue":"` + name("a/2") + `"}],"before":true}]}`, admin},
		{"partitionQuery, not as administrator", "POST", docs + ":partitionQuery", `{}`, 403, `{"error":{"status":"PERMISSION_DENIED"}}`, nil},
		{"an unknown field", "POST", docs + ":runQuery", `{"structuredQuery":{"from":[{"collectionId":"a"}],"order":[]}}`, 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"an unknown field of a write that verifies", "POST", docs + ":commit", `{"writes":[{"verify":"` + name("a/1") + `","currentDocument":{"exists":true},"verily":1}]}`, 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"a bad write before the administrator check", "POST", docs + ":batchWrite", `{"writes":[{"delete":"nowhere"}]}`, 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"list in an order", "GET", docs + "/a?orderBy=n%20desc&pageSize=1", "", 200, `{"documents":[{"name":"` + name("a/1") + `"}]}`, nil},
		{"list in a bad order", "GET", docs + "/a?orderBy=n%20downwards", "", 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"a verb of nobody's", "POST", docs + ":shout", `{}`, 404, `{"error":{"status":"NOT_FOUND"}}`, nil},
		{"put", "PUT", docs + "/a/1", `{}`, 404, `{"error":{"status":"NOT_FOUND"}}`, nil},
		{"delete a collection", "DELETE", docs + "/a", ``, 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"create below a collection", "POST", docs + "/a/1", `{}`, 400, `{"error":{"status":"INVALID_ARGUMENT"}}`, nil},
		{"another API", "GET", "/v1/projects/p/secrets", ``, 404, `{"error":{"status":"NOT_FOUND"}}`, nil},
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
