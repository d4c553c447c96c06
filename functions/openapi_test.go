package functions

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// document is docs/openapi.yaml, valid by itself.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromFile("../docs/openapi.yaml")
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

// beyondSchema are reasons for which a request is refused that a schema has no words for: what its
// bytes are, rather than what they mean, and what a setting allows.
var beyondSchema = []string{
	"the query can't be read", "unknown parameter", "both name a counter",
	"comes twice", "goes on after its end", "want an integer", "at most", "add up to more than", "slash", "MAX_INCREMENT", "UTF-8", "Unicode",
	"more than 1500 bytes", "want one Idempotency-Key", "printable ASCII",
	"and a counter of", "is not counted", "without a name", // what COUNTERS and FIELDS say
	"no token is asked for", "want no body", "want a time from", "beyond 64 bits",
}

// conforms holds a request and its answer against docs/openapi.yaml: what is answered well is
// allowed by it, what is refused as wrong is not, and every answer is one that it has.
func conforms(t *testing.T, parts int, r *http.Request, body string, a answer, answered []byte) {
	t.Helper()
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	path, params := pathOfDocument(t, parts, r)
	item := doc.Paths.Value(path)
	operation := item.GetOperation(r.Method)
	if operation == nil {
		if a.status != http.StatusMethodNotAllowed {
			t.Errorf("%s %s: answered %d, and docs/openapi.yaml has no such method", r.Method, r.URL, a.status)
		}
		return
	}
	body = strings.TrimPrefix(body, "\uFEFF") // which is no part of the JSON
	request := r.Clone(t.Context())
	request.GetBody = nil
	request.Body = io.NopCloser(strings.NewReader(body))
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	input := &openapi3filter.RequestValidationInput{
		Request: request, PathParams: params,
		Route:   &routers.Route{Spec: doc, Path: path, PathItem: item, Method: r.Method, Operation: operation},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	invalid := openapi3filter.ValidateRequest(t.Context(), input)
	detail, _ := a.body["detail"].(string)
	switch {
	case a.status < 300 && invalid != nil:
		t.Errorf("%s %s %.200s: answered %d, and docs/openapi.yaml does not allow it: %v", r.Method, r.URL, body, a.status, invalid)
	case a.status == http.StatusBadRequest && invalid == nil:
		for _, reason := range beyondSchema {
			if strings.Contains(detail, reason) {
				invalid = errors.New(reason)
			}
		}
		if invalid == nil {
			t.Errorf("%s %.100s %.200s: refused (%s), and docs/openapi.yaml allows it", r.Method, r.URL, body, detail)
		}
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: a.status, Header: a.header,
		Body: io.NopCloser(strings.NewReader(string(answered))), Options: input.Options,
	})
	if err != nil {
		t.Errorf("%s %.100s: answered %d %.200s, which is not as of docs/openapi.yaml: %v", r.Method, r.URL, a.status, answered, err)
	}
}

// pathOfDocument is which of the document's paths a request's is, and what its parameters are. The parameter counter
// of a query takes the counter's place in any path, unless the path is / and the document says so itself.
func pathOfDocument(t *testing.T, parts int, r *http.Request) (path string, params map[string]string) {
	t.Helper()
	escaped := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	if id := r.URL.Query().Get("counter"); id != "" && (escaped != "" || r.Method != http.MethodGet) {
		escaped = strings.TrimSuffix(strings.ReplaceAll(url.PathEscape(id), "%2F", "/")+"/"+escaped, "/")
	}
	if escaped == "" {
		return "/", nil
	}
	all := strings.Split(escaped, "/")
	last := all[len(all)-1]
	if len(all) > parts+1 && all[parts+1] == holds && len(all) <= parts+4 && (len(all) < parts+4 || last == "settle") {
		params := map[string]string{"counter": unescaped(t, strings.Join(all[:parts], "/")), "field": unescaped(t, all[parts])}
		path := "/{counter}/{field}/holds"
		if len(all) > parts+2 {
			path, params["hold"] = path+"/{hold}", unescaped(t, all[parts+2])
		}
		if len(all) > parts+3 {
			path += "/settle"
		}
		return path, params
	}
	switch len(all) - parts {
	case 1:
		if last == "reset" || last == "limit" {
			return "/{counter}/" + last, map[string]string{"counter": unescaped(t, strings.Join(all[:parts], "/"))}
		}
	case 2, 3:
		if end := strings.Join(all[parts+2:], ""); end == "confirm" || end == "" && r.Method != http.MethodPost {
			return strings.TrimSuffix("/{counter}/{field}/{member}/"+end, "/"), map[string]string{
				"counter": unescaped(t, strings.Join(all[:parts], "/")), "field": unescaped(t, all[parts]), "member": unescaped(t, all[parts+1])}
		}
	}
	return "/{counter}", map[string]string{"counter": unescaped(t, escaped)}
}

func unescaped(t *testing.T, text string) string {
	t.Helper()
	text, err := url.PathUnescape(text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestOpenAPI holds that the document is a valid one. What it says is held by every request of the
// other tests.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("it is of OpenAPI %s, want 3.1.0", doc.OpenAPI)
	}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			if operation.OperationID == "" || operation.Summary == "" {
				t.Errorf("%s %s has no id or no summary", method, path)
			}
		}
	}
}

// exact is a boolean, so that generated clients take true and not "true".
func TestOpenAPIExactIsABoolean(t *testing.T) {
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	if exact := doc.Components.Parameters["exact"].Value; !exact.Schema.Value.Type.Is("boolean") || exact.Schema.Value.Default != false {
		t.Errorf("exact is %v, %v unless given", exact.Schema.Value.Type, exact.Schema.Value.Default)
	}
}
