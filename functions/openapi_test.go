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
	"the query can't be read",
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
	path, params := "/", map[string]string{}
	if member, is, err := memberPathOf(r.URL, parts, confirmation); is && err == nil {
		path, params = "/{counter}/{field}/{member}/confirm", map[string]string{"counter": member.counter, "field": member.field, "member": member.member}
	} else if member, is, err := memberPathOf(r.URL, parts); is && err == nil && r.Method != http.MethodPost {
		path, params = "/{counter}/{field}/{member}", map[string]string{"counter": member.counter, "field": member.field, "member": member.member}
	} else if counter, is, err := commandOf(r.URL, parts, resetCommand); is && err == nil {
		path, params = "/{counter}/reset", map[string]string{"counter": counter}
	} else if counter, is, err := commandOf(r.URL, parts, limitCommand); is && err == nil {
		path, params = "/{counter}/limit", map[string]string{"counter": counter}
	} else if counter := strings.TrimPrefix(r.URL.EscapedPath(), "/"); counter != "" {
		id, err := url.PathUnescape(counter)
		if err != nil {
			t.Fatal(err)
		}
		path, params = "/{counter}", map[string]string{"counter": id}
	}
	item := doc.Paths.Value(path)
	operation := item.GetOperation(r.Method)
	if operation == nil {
		if a.status != http.StatusMethodNotAllowed {
			t.Errorf("%s %s: answered %d, and docs/openapi.yaml has no such method", r.Method, r.URL, a.status)
		}
		return
	}
	request := r.Clone(t.Context())
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
