package web_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/firestore-counters/counters/emulator"
)

func TestClear(t *testing.T) {
	t.Parallel()
	b, i := startServer(t)
	for _, path := range []string{"a/1", "a/1/b/1", "a/10", "c/1"} {
		b.set(path, 1)
	}
	events := make(chan string, 10)
	defer i.Server.OnChange(func(c emulator.Change) { events <- c.Name })()
	resp, body := b.do("POST", "/v1/"+database+"/documents:beginTransaction", "{}")
	if resp.StatusCode != 200 {
		t.Fatal(body)
	}
	tx := strings.Split(body, `"`)[3]
	a := b.listen(collection(2, "a"))
	a.expect("ADD [2]", "a/1 n=1 [2]", "a/10 n=1 [2]", "CURRENT [2]", "SNAPSHOT")
	a.send(addTarget(collection(4, "c")))
	a.expect("ADD [4]", "c/1 n=1 [4]", "CURRENT [4]", "SNAPSHOT")

	admin := "/emulator/v1/" + database + "/documents"
	if resp, body := b.do("DELETE", admin+"/a/1", ""); resp.StatusCode != 200 || body != "{}\n" {
		t.Fatalf("clear a document: %d %s", resp.StatusCode, body)
	}
	a.expect("a/1 deleted [2]", "SNAPSHOT") // and what is below; its namesakes stay
	for path, want := range map[string]int{"a/1": 404, "a/1/b/1": 404, "a/10": 200, "c/1": 200} {
		if resp, body := b.do("GET", "/v1/"+database+"/documents/"+path, ""); resp.StatusCode != want {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	b.do("DELETE", admin, "")
	cleared := []string{<-a.messages, <-a.messages} // of two targets, in any order
	slices.Sort(cleared)
	if !slices.Equal(cleared, []string{"a/10 deleted [2]", "c/1 deleted [4]"}) {
		t.Errorf("cleared %q", cleared)
	}
	b.set("c/1", 2)
	a.expect("SNAPSHOT", "c/1 n=2 [4]", "SNAPSHOT") // what was cleared at once is one snapshot
	b.do("POST", "/reset", "")
	a.expect("c/1 deleted [4]", "SNAPSHOT")
	b.set("a/last", 1)
	for _, want := range []string{"c/1", "a/last"} { // what was written, and nothing that was cleared
		if got := <-events; got != database+"/documents/"+want {
			t.Errorf("an event of %s, want one of %s", got, want)
		}
	}
	if resp, body := b.do("POST", "/v1/"+database+"/documents:commit", `{"transaction":"`+tx+`"}`); resp.StatusCode != 409 {
		t.Errorf("a transaction from before: %d %s", resp.StatusCode, body)
	}
	if resp, body := b.do("DELETE", "/emulator/v1/"+database+"/documents//", ""); resp.StatusCode != 400 {
		t.Errorf("clear a bad name: %d %s", resp.StatusCode, body)
	}
}

func TestTriggerRegistration(t *testing.T) {
	b := start(t)
	v2 := `{"eventType":"google.cloud.firestore.document.v1.written","database":"(default)","namespace":"(default)",` +
		`"document":{"value":"counters/{c}/shards/{s}","matchType":"PATH_PATTERN"}}`
	for _, tt := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"PUT", "/emulator/v1/projects/p/triggers/key", `{"eventTrigger":{"resource":"projects/p/databases/(default)/documents/a/{b}","eventType":"providers/cloud.firestore/eventTypes/document.write","service":"firestore.googleapis.com"}}`, 200, "{}\n"},
		{"POST", "/emulator/v1/projects/p/eventarcTrigger?eventarcTriggerId=key", v2, 200, v2 + "\n"},
		{"POST", "/emulator/v1/projects/p/eventarcTrigger", v2, 400, ""},
		{"PUT", "/emulator/v1/projects/p/triggers/key", `no JSON`, 400, ""},
		{"DELETE", "/emulator/v1/projects/p/triggers/key", "", 501, ""},
		{"PUT", "/emulator/v1/projects/p:securityRules", "{}", 501, "Security rules aren't evaluated"},
		{"PUT", "/emulator/v1/projects/p/databases/d:securityRules", "{}", 501, "Security rules aren't evaluated"},
	} {
		resp, body := b.do(tt.method, tt.path, tt.body)
		if resp.StatusCode != tt.code || !strings.Contains(body, tt.want) {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, resp.StatusCode, body)
		}
	}
}
