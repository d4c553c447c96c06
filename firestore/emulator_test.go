//go:build all

package firestore

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/firestore-counters/counters/internal/testbed/official"
)

// google is the official emulator of this test binary; nil where there is none, and then why says
// why.
var (
	google *official.Emulator
	why    error
)

func TestMain(m *testing.M) {
	google, why = official.Start(context.Background())
	code := m.Run()
	if google != nil {
		google.Stop()
	}
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// project is a database of its own in the official emulator, with rules of its own.
type project string

// newProject skips the test where the official emulator isn't to be had.
func newProject(t *testing.T, name string) project {
	t.Helper()
	if errors.Is(why, official.ErrMissing) {
		t.Skipf("the rules are not evaluated: %v", why)
	}
	if why != nil {
		t.Fatal(why)
	}
	return project(name)
}

func (p project) root() string { return "projects/" + string(p) + "/databases/(default)/documents" }

// release makes these the project's rules.
func (p project) release(t *testing.T, rules string) {
	t.Helper()
	file := map[string]any{"name": "firestore.rules", "content": rules}
	status, answer := p.do(t, owner, "PUT", "/emulator/v1/projects/"+string(p)+":securityRules", map[string]any{"rules": map[string]any{"files": []any{file}}})
	if status != http.StatusOK {
		t.Fatalf("the emulator refuses the rules: %s\n%s", answer, rules)
	}
}

// Who asks: owner is the functions, whom rules don't bind; nobody has not signed in; all others are
// users.
const (
	owner  = "owner"
	nobody = ""
	alice  = "alice" // a member of nothing
	bob    = "bob"   // a member of everything by a client of his, in shard 0
	carol  = "carol" // the same, in a shard that is gone
	dave   = "dave"  // a member of everything by Increment, in shard 1
)

// commit returns the status of a batch of writes.
func (p project) commit(t *testing.T, user string, writes []write) (status int, answer string) {
	t.Helper()
	return p.do(t, user, "POST", "/v1/"+p.root()+":commit", map[string]any{"writes": writes})
}

func (p project) do(t *testing.T, user, method, path string, body any) (status int, answer string) {
	t.Helper()
	sent, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	sent = bytes.ReplaceAll(sent, []byte("projects/PROJECT/"), []byte("projects/"+p+"/"))
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+google.Addr+path, bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	switch user {
	case nobody:
	case owner:
		req.Header.Set("Authorization", "Bearer owner")
	default: // the emulator takes tokens that nobody has signed
		part := func(v any) string { text, _ := json.Marshal(v); return base64.RawURLEncoding.EncodeToString(text) }
		claims := map[string]any{"sub": user, "user_id": user, "aud": p, "iss": "https://securetoken.google.com/" + string(p), "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
		req.Header.Set("Authorization", "Bearer "+part(map[string]any{"alg": "none", "typ": "JWT"})+"."+part(claims)+".")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(bytes.TrimSpace(text))
}

// documents are those of a collection, with their fields as REST writes them. Only the owner sees
// all.
func (p project) documents(t *testing.T, collection string) (found []map[string]map[string]any) {
	t.Helper()
	status, answer := p.do(t, owner, "GET", "/v1/"+p.root()+"/"+collection+"?pageSize=300", nil)
	var list struct {
		Documents []struct{ Fields map[string]map[string]any }
	}
	if err := json.Unmarshal([]byte(answer), &list); err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d, %v: %s", collection, status, err, answer)
	}
	for _, d := range list.Documents {
		found = append(found, d.Fields)
	}
	return found
}

// write is one write of a batch, as REST has it.
type write map[string]any

// fields are a document's, by name.
type fields map[string]any

// ref is a reference to the document at this path.
type ref string

// name is a document's full name; PROJECT gives way to the project when the batch is sent.
func name(path string) string { return "projects/PROJECT/databases/(default)/documents/" + path }

// set writes the whole document, or the fields of it that mask names.
func set(path string, f fields, mask ...string) write {
	w := write{"update": map[string]any{"name": name(path), "fields": values(f)}}
	if len(mask) > 0 {
		w["updateMask"] = map[string]any{"fieldPaths": mask}
	}
	return w
}

// update writes these fields of the document, and leaves the others.
func update(path string, f fields) write {
	return set(path, f, slices.Sorted(maps.Keys(f))...)
}

// add increments a field.
func add(path, field string, by any) write {
	return write{
		"update":           map[string]any{"name": name(path)},
		"updateMask":       map[string]any{"fieldPaths": []string{}},
		"updateTransforms": []any{map[string]any{"fieldPath": field, "increment": value(by)}},
	}
}

func remove(path string) write { return write{"delete": name(path)} }

// path is the document's full name.
func (w write) path() string {
	if deleted, ok := w["delete"].(string); ok {
		return deleted
	}
	return w["update"].(map[string]any)["name"].(string)
}

// removal deletes the document.
func (w write) removal() write { return write{"delete": w.path()} }

// also adds transforms to a write.
func (w write) also(transforms ...map[string]any) write {
	w = maps.Clone(w)
	earlier, _ := w["updateTransforms"].([]any)
	earlier = slices.Clone(earlier)
	for _, transform := range transforms {
		earlier = append(earlier, transform)
	}
	w["updateTransforms"] = earlier
	return w
}

// serverTime is the transform that sets a field to the time of the request.
func serverTime(field string) map[string]any {
	return map[string]any{"fieldPath": field, "setToServerValue": "REQUEST_TIME"}
}

func increment(field string, by any) map[string]any {
	return map[string]any{"fieldPath": field, "increment": value(by)}
}

func values(f fields) map[string]any {
	out := map[string]any{}
	for k, v := range f {
		out[k] = value(v)
	}
	return out
}

func value(v any) map[string]any {
	switch v := v.(type) {
	case int:
		return map[string]any{"integerValue": fmt.Sprint(v)}
	case float64:
		return map[string]any{"doubleValue": v}
	case bool:
		return map[string]any{"booleanValue": v}
	case time.Time:
		return map[string]any{"timestampValue": v.UTC().Format(time.RFC3339Nano)}
	case ref:
		return map[string]any{"referenceValue": name(string(v))}
	case fields:
		return map[string]any{"mapValue": map[string]any{"fields": values(v)}}
	case string:
		return map[string]any{"stringValue": v}
	}
	panic(fmt.Sprintf("no value for %T", v))
}
