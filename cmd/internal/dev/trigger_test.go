package dev

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator/eventarc"
)

// changes are what was delivered to a test.
type changes struct {
	mu  sync.Mutex
	all []eventarc.Change
}

func (c *changes) add(change eventarc.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, change)
}

// texts describes changes in a few words each: path, count before → count after.
func (c *changes) texts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var texts []string
	for _, change := range c.all {
		count := func(d *firestorepb.Document) string {
			if d == nil {
				return "none"
			}
			return fmt.Sprint(d.GetFields()["count"].GetIntegerValue())
		}
		_, path, _ := strings.Cut(change.Name, "/documents/")
		texts = append(texts, fmt.Sprintf("%s %s → %s", path, count(change.Old), count(change.New)))
	}
	return texts
}

// What the official emulator (of Google Cloud CLI, June 2025) posted for a shard that was created,
// updated, written again without a change, and deleted.
const (
	recordedCreate   = "CnMKSHByb2plY3RzL2RlbW8tY291bnRlcnMvZGF0YWJhc2VzLyhkZWZhdWx0KS9kb2N1bWVudHMvY291bnRlcnMvYy9zaGFyZHMvMBILCgVjb3VudBICEAEaDAiHnoXYBhCo8P71ASIMCIeehdgGEKjw/vUBGgA="
	recordedUpdate   = "CnMKSHByb2plY3RzL2RlbW8tY291bnRlcnMvZGF0YWJhc2VzLyhkZWZhdWx0KS9kb2N1bWVudHMvY291bnRlcnMvYy9zaGFyZHMvMBILCgVjb3VudBICEAIaDAiHnoXYBhCo8P71ASIMCIiehdgGELCJtasCEnMKSHByb2plY3RzL2RlbW8tY291bnRlcnMvZGF0YWJhc2VzLyhkZWZhdWx0KS9kb2N1bWVudHMvY291bnRlcnMvYy9zaGFyZHMvMBILCgVjb3VudBICEAEaDAiHnoXYBhCo8P71ASIMCIeehdgGEKjw/vUBGgA="
	recordedNoChange = "CnMKSHByb2plY3RzL2RlbW8tY291bnRlcnMvZGF0YWJhc2VzLyhkZWZhdWx0KS9kb2N1bWVudHMvY291bnRlcnMvYy9zaGFyZHMvMBILCgVjb3VudBICEAIaDAiHnoXYBhCo8P71ASIMCIiehdgGELCJtasCEnMKSHByb2plY3RzL2RlbW8tY291bnRlcnMvZGF0YWJhc2VzLyhkZWZhdWx0KS9kb2N1bWVudHMvY291bnRlcnMvYy9zaGFyZHMvMBILCgVjb3VudBICEAIaDAiHnoXYBhCo8P71ASIMCIiehdgGELCJtasCGgA="
	recordedDelete   = "EnMKSHByb2plY3RzL2RlbW8tY291bnRlcnMvZGF0YWJhc2VzLyhkZWZhdWx0KS9kb2N1bWVudHMvY291bnRlcnMvYy9zaGFyZHMvMBILCgVjb3VudBICEAIaDAiHnoXYBhCo8P71ASIMCIiehdgGELCJtasCGgA="
)

// postRecorded posts an event the way the emulator does.
func postRecorded(t *testing.T, to, trigger, body string) int {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, to+"/functions/projects/demo-counters/triggers/"+trigger, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type":       {"application/protobuf"},
		"Ce-Specversion":     {"1.0"},
		"Ce-Type":            {eventarc.Type},
		"Ce-Source":          {"//firestore.googleapis.com/projects/projects/demo-counters/databases/(default)"},
		"Ce-Id":              {"7c3d8193-ab65-4cfd-9ebe-53915145e466"},
		"Ce-Subject":         {"documents/counters/c/shards/0"},
		"Ce-Time":            {"2026-11-21T07:58:02Z"},
		"Ce-Datacontenttype": {"application/protobuf"},
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

func TestRecordedEvents(t *testing.T) {
	t.Parallel()
	var delivered changes
	receiver := httptest.NewServer(&triggers{project: "demo-counters", database: "(default)", deliver: delivered.add, logger: testLogger(t)})
	defer receiver.Close()
	for _, body := range []string{recordedCreate, recordedUpdate, recordedNoChange, recordedDelete} {
		if status := postRecorded(t, receiver.URL, rollupTrigger, body); status != http.StatusOK {
			t.Errorf("answered %d", status)
		}
	}
	want := "[counters/c/shards/0 none → 1 counters/c/shards/0 1 → 2 counters/c/shards/0 2 → 2 counters/c/shards/0 2 → none]"
	if got := fmt.Sprint(delivered.texts()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	updated := time.Date(2026, 11, 21, 7, 58, 0, 627918000, time.UTC)
	if got := delivered.all[1].CommitTime; !got.Equal(updated) {
		t.Errorf("the update was committed at %v, want %v", got, updated)
	}
	if got, want := delivered.all[3].CommitTime, time.Date(2026, 11, 21, 7, 58, 2, 0, time.UTC); !got.Equal(want) {
		t.Errorf("the deletion was committed at %v, want %v", got, want)
	}

	for _, refused := range []struct {
		trigger, body string
		status        int
	}{
		{"somebody-elses", recordedCreate, http.StatusNotFound},
		{rollupTrigger, "not base64", http.StatusBadRequest},
		{rollupTrigger, base64.StdEncoding.EncodeToString([]byte("not protobuf")), http.StatusBadRequest},
		{rollupTrigger, "", http.StatusBadRequest},
	} {
		if status := postRecorded(t, receiver.URL, refused.trigger, refused.body); status != refused.status {
			t.Errorf("%s %.20q: answered %d, want %d", refused.trigger, refused.body, status, refused.status)
		}
	}
	if len(delivered.all) != 4 {
		t.Errorf("an event that was refused was delivered: %v", delivered.texts())
	}
}

// recordedEmulator answers as the official emulator does to what registering takes, and posts
// events to the receiver unless that is empty.
func recordedEmulator(t *testing.T, receiver func() string, registered *sync.Map) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		path, isDocument := strings.CutPrefix(r.URL.Path, "/v1/")
		switch {
		case r.Header.Get("Authorization") != "Bearer owner":
			http.Error(w, "not an administrator", http.StatusForbidden)
		case r.Method == http.MethodPost && r.URL.Path == "/emulator/v1/projects/demo-counters/eventarcTrigger":
			registered.Store(r.URL.Query().Get("eventarcTriggerId"), string(body))
		case isDocument && (r.Method == http.MethodPatch || r.Method == http.MethodDelete):
			if receiver() == "" {
				return
			}
			doc := &firestorepb.Document{Name: path, UpdateTime: timestamppb.Now()}
			change := eventarc.Change{Name: path, New: doc}
			if r.Method == http.MethodDelete {
				change = eventarc.Change{Name: path, Old: doc}
			}
			_, data, err := eventarc.Encode("1", change)
			if err != nil {
				t.Error(err)
			}
			if status := postRecorded(t, receiver(), probeTrigger, base64.StdEncoding.EncodeToString(data)); status != http.StatusOK {
				t.Errorf("the probe's event was answered %d", status)
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestRegister(t *testing.T) {
	t.Parallel()
	var registered sync.Map
	var receiver *httptest.Server
	official := recordedEmulator(t, func() string { return receiver.URL }, &registered)
	tr := &triggers{
		emulator: strings.TrimPrefix(official.URL, "http://"), project: "demo-counters", database: "other",
		patience: time.Minute, logger: testLogger(t),
	}
	receiver = httptest.NewServer(tr)
	defer receiver.Close()
	if err := tr.register(t.Context(), []string{"counters/{counter}/shards/{shard}", "counters/{counter}/comments/{document}"}); err != nil {
		t.Fatal(err)
	}
	body, ok := registered.Load(rollupTrigger)
	if !ok {
		t.Fatal("the roll-up's trigger isn't registered")
	}
	var got struct {
		EventType, Database, Namespace string
		Document                       struct{ Value, MatchType string }
	}
	if err := json.Unmarshal([]byte(body.(string)), &got); err != nil {
		t.Fatal(err)
	}
	if got.EventType != "google.cloud.firestore.document.v1.written" || got.Database != "other" || got.Namespace != "(default)" ||
		got.Document.Value != "counters/{counter}/shards/{shard}" || got.Document.MatchType != "PATH_PATTERN" {
		t.Errorf("registered %+v", got)
	}
	if body, ok := registered.Load(rollupTrigger + "-1"); !ok || !strings.Contains(body.(string), "counters/{counter}/comments/{document}") {
		t.Errorf("of the documents that are counted, registered %v", body)
	}
}

func TestRegisterSaysWhyNot(t *testing.T) {
	t.Parallel()
	var registered sync.Map
	silent := recordedEmulator(t, func() string { return "" }, &registered)
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for want, server := range map[string]*httptest.Server{"posts no events here": silent, "takes no triggers": other} {
		tr := &triggers{
			emulator: strings.TrimPrefix(server.URL, "http://"), project: "demo-counters", database: "(default)",
			patience: 50 * time.Millisecond, logger: testLogger(t),
		}
		if err := tr.register(t.Context(), []string{"counters/{counter}/shards/{shard}"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	if _, ok := registered.Load(rollupTrigger); ok {
		t.Error("the roll-up's trigger is registered although its events go elsewhere")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&triggers{emulator: "127.0.0.1:1", patience: time.Second, logger: testLogger(t)}).register(ctx, []string{"a/{b}"}); err == nil {
		t.Error("registered although the context had ended")
	}
}
