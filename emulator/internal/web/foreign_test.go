package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/firestore-counters/counters/emulator"
)

// A page on the web can send requests to this machine through its reader's browser. It gets to
// control nothing.
func TestForeignOriginsControlNothing(t *testing.T) {
	b := start(t)
	b.set("a/1", 1)
	admin := "/emulator/v1/" + database + "/documents"
	for _, tt := range []struct{ method, path, origin string }{
		{"POST", "/reset", "https://evil.example"},
		{"POST", "/reset", "null"},
		{"POST", "/reset", "http://localhost.evil.example:8080"},
		{"DELETE", admin, "https://evil.example"},
		{"PUT", "/emulator/v1/projects/p/triggers/t", "https://evil.example"},
		{"POST", "/emulator/v1/projects/p/eventarcTrigger?eventarcTriggerId=t", "https://evil.example"},
		{"PUT", "/emulator/v1/projects/p:securityRules", "https://evil.example"},
	} {
		resp, body := b.do(tt.method, tt.path, `{}`, "Origin", tt.origin, "Content-Type", "text/plain")
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, tt.origin) {
			t.Errorf("%s %s of %s: %d %s", tt.method, tt.path, tt.origin, resp.StatusCode, body)
		}
	}
	if resp, _ := b.do("GET", "/v1/"+database+"/documents/a/1", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("the document is gone: %d", resp.StatusCode)
	}
	for _, origin := range []string{"http://localhost:5000", "http://127.0.0.1:8081", "http://[::1]:3000"} {
		if resp, body := b.do("DELETE", admin, "", "Origin", origin); resp.StatusCode != http.StatusOK {
			t.Errorf("a page of %s can't clear: %d %s", origin, resp.StatusCode, body)
		}
	}
}

// A page of any other site can send requests here, too, and POSTs without asking first. It reads
// and writes nothing, unless it is let in.
func TestForeignPagesAreRefused(t *testing.T) {
	t.Parallel()
	const docs = "/v1/" + database + "/documents"
	write := `{"writes":[{"update":{"name":"` + database + `/documents/a/%s","fields":{"n":{"integerValue":"1"}}}}]}`
	requests := []struct{ method, path, body string }{
		{"POST", docs + ":commit", strings.ReplaceAll(write, "%s", "written")},
		{"POST", docs + ":runQuery", `{"structuredQuery":{"from":[{"collectionId":"a"}]}}`},
		{"POST", docs + "/a?documentId=written", `{"fields":{}}`},
		{"GET", docs + "/a/1", ""},
		{"DELETE", docs + "/a/1", ""},
		{"POST", "/google.firestore.v1.Firestore/Write/channel?VER=8&RID=1&CVER=22&t=1&database=" + database, "count=0&ofs=0"},
		{"POST", "/google.firestore.v1.Firestore/Listen/channel?VER=8&RID=1&CVER=22&t=1&database=" + database, "count=0&ofs=0"},
		{"OPTIONS", docs + ":commit", ""},
		{"GET", "/", ""},
	}
	const ours, theirs = "https://app.example", "https://evil.example"
	for _, tt := range []struct {
		allowed []string
		origin  string
		refused bool
	}{
		{nil, theirs, true},
		{nil, "null", true},
		{nil, "http://localhost.evil.example:8080", true},
		{nil, "http://192.168.1.2:8081", true},
		{nil, "http://localhost:5000", false},
		{nil, "http://127.0.0.1:8081", false},
		{nil, "http://app.localhost", false},
		{nil, "http://[::1]:3000", false},
		{nil, "", false},
		{[]string{ours}, ours, false},
		{[]string{ours}, theirs, true},
		{[]string{ours}, "http://app.example", true},
		{[]string{ours}, "null", true},
		{[]string{"*"}, theirs, false},
		{[]string{"*"}, "null", false},
	} {
		i := emulator.StartWith(t, emulator.Options{Origins: tt.allowed})
		b := newBrowser(t, i.Addr)
		b.set("a/1", 1)
		for _, r := range requests {
			header := []string{"Content-Type", "text/plain", "Access-Control-Request-Method", "POST"}
			if tt.origin != "" {
				header = append(header, "Origin", tt.origin)
			}
			resp, body := b.do(r.method, r.path, r.body, header...)
			allowed := resp.Header.Get("Access-Control-Allow-Origin")
			if refused := resp.StatusCode == http.StatusForbidden; refused != tt.refused || !tt.refused && allowed != tt.origin {
				t.Errorf("%s %s of %q, allowed %q: %d, %q %s", r.method, r.path, tt.origin, tt.allowed, resp.StatusCode, allowed, body)
			}
			if tt.refused && (allowed != "" || !strings.Contains(body, "--allow-origin")) {
				t.Errorf("%s %s of %q is refused with %q, %s", r.method, r.path, tt.origin, allowed, body)
			}
			if !tt.refused {
				b.set("a/1", 1)
			}
		}
		if tt.refused {
			if resp, _ := b.do("GET", docs+"/a/written", ""); resp.StatusCode != http.StatusNotFound {
				t.Errorf("a page of %q has written: %d", tt.origin, resp.StatusCode)
			}
			if resp, _ := b.do("GET", docs+"/a/1", ""); resp.StatusCode != http.StatusOK {
				t.Errorf("a page of %q has deleted: %d", tt.origin, resp.StatusCode)
			}
		}
	}
}

// A name of somebody else's that points at this machine is refused, whatever it asks for.
func TestHostIsChecked(t *testing.T) {
	t.Parallel()
	i := emulator.StartWith(t, emulator.Options{Hosts: []string{"firestore"}})
	b := newBrowser(t, i.Addr)
	b.set("a/1", 1)
	_, port, _ := strings.Cut(i.Addr, ":")
	for host, want := range map[string]int{
		"localhost:" + port: 200, "127.0.0.1:" + port: 200, "firestore:" + port: 200, "[::1]:" + port: 200,
		"evil.example": 403, "evil.example:" + port: 403, "localhost.evil.example": 403,
	} {
		for _, path := range []string{"/v1/" + database + "/documents/a/1", "/"} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", b.base+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			resp, err := b.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s of %s: %d, want %d", path, host, resp.StatusCode, want)
			}
		}
	}
}

// Ids and names that aren't UTF-8 would be stored, and then break every list that they are on.
func TestNamesAreUTF8(t *testing.T) {
	b := start(t)
	docs := "/v1/" + database + "/documents/"
	for _, tt := range []struct{ method, path, body string }{
		{"PATCH", docs + "counters/%ff", `{"fields":{}}`},
		{"PATCH", docs + "%ff/a", `{"fields":{}}`},
		{"PATCH", docs + "a/%c3%28", `{"fields":{}}`},
		{"POST", docs + "a?documentId=%ff", `{"fields":{}}`},
		{"GET", docs + "a/%ff", ``},
		{"DELETE", docs + "a/%ff", ``},
		{"PATCH", docs + "a/1?updateMask.fieldPaths=%60%ff%60", `{"fields":{}}`},
		{"PATCH", docs + "a/1", "{\"fields\":{\"\xff\":{\"nullValue\":null}}}"},
		{"PATCH", docs + "a/1", "{\"fields\":{\"s\":{\"stringValue\":\"\xff\"}}}"},
		{"DELETE", "/emulator/v1/" + database + "/documents/a/%ff", ``},
	} {
		if resp, body := b.do(tt.method, tt.path, tt.body); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, resp.StatusCode, body)
		}
	}
	b.set("counters/1", 1)
	if resp, body := b.do("GET", docs+"counters", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("list: %d %s", resp.StatusCode, body)
	}
}
