package demo

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// block returns what the page has in a script element, decoded.
func block(t *testing.T, html, attributes string, v any) {
	t.Helper()
	m := regexp.MustCompile(`(?s)<script ` + regexp.QuoteMeta(attributes) + `>(.*?)</script>`).FindStringSubmatch(html)
	if m == nil {
		t.Fatalf("no <script %s> in the page", attributes)
	}
	if err := json.Unmarshal([]byte(m[1]), v); err != nil {
		t.Fatalf("<script %s> holds %q: %v", attributes, m[1], err)
	}
}

func TestSDKFromCDN(t *testing.T) {
	t.Parallel()
	for _, nodeModules := range []string{"", filepath.Join(t.TempDir(), "node_modules")} {
		h := Handler(Config{Project: "p", Firestore: "127.0.0.1:8080", NodeModules: nodeModules})
		var m struct{ Imports map[string]string }
		block(t, get(t, h, "/").Body.String(), `type="importmap"`, &m)
		for module, file := range bundles {
			if want := cdn + pinnedVersion() + "/" + file; m.Imports[module] != want {
				t.Errorf("%s comes from %q, want %q", module, m.Imports[module], want)
			}
			if w := get(t, h, "/sdk/"+file); w.Code != http.StatusNotFound {
				t.Errorf("/sdk/%s: %d", file, w.Code)
			}
		}
	}
}

func TestSDKFromNodeModules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "firebase"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"package.json": `{"version": "9.8.7"}`, "firebase-app.js": "app", "firebase-firestore.js": "firestore", "firebase-auth.js": "auth",
	} {
		if err := os.WriteFile(filepath.Join(dir, "firebase", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := Handler(Config{Project: "p", Firestore: "127.0.0.1:8080", NodeModules: dir})
	var m struct{ Imports map[string]string }
	block(t, get(t, h, "/").Body.String(), `type="importmap"`, &m)
	for _, name := range []string{"firebase/app", "https://www.gstatic.com/firebasejs/9.8.7/firebase-app.js"} {
		w := get(t, h, m.Imports[name])
		if w.Body.String() != "app" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/javascript") {
			t.Errorf("%s leads to %q (%s)", name, w.Body, w.Header().Get("Content-Type"))
		}
	}
	if w := get(t, h, "/sdk/firebase-auth.js"); w.Code != http.StatusNotFound {
		t.Errorf("a bundle that the page doesn't need: %d", w.Code)
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	h := Handler(Config{Project: "</script><b>", Collection: "votes", Firestore: "[::1]:8080"})
	w := get(t, h, "/")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("/: %d %v", w.Code, w.Header())
	}
	html := w.Body.String()
	var config struct {
		Project, Database, Collection, CountField string
		Firestore                                 struct {
			Host string
			Port int
		}
	}
	block(t, html, `type="application/json" id="config"`, &config)
	if config.Project != "</script><b>" || config.Database != "(default)" || config.Collection != "votes" ||
		config.CountField != "count" || config.Firestore.Host != "[::1]" || config.Firestore.Port != 8080 {
		t.Errorf("config: %+v", config)
	}
	// Whatever the page and its modules refer to is there.
	served, err := page.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	references := regexp.MustCompile(`(?:href|src|from)[= ]"(?:\./)?([a-z]+\.(?:js|css))"`)
	referred := map[string]bool{"index.html": true}
	for _, file := range served {
		content, err := page.ReadFile("page/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range references.FindAllSubmatch(content, -1) {
			referred[string(m[1])] = true
			if w := get(t, h, "/"+string(m[1])); w.Code != http.StatusOK {
				t.Errorf("%s refers to %s: %d", file.Name(), m[1], w.Code)
			}
		}
	}
	for _, file := range served {
		if !referred[file.Name()] {
			t.Errorf("nothing refers to %s", file.Name())
		}
	}
	for _, path := range []string{"/favicon.ico", "/page/index.html", "/demo.go", "/sdk/"} {
		if w := get(t, h, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", path, w.Code)
		}
	}
}

// TestModuleIsSmall holds what is promised of the module that frontends copy.
func TestModuleIsSmall(t *testing.T) {
	t.Parallel()
	module, err := page.ReadFile("page/counter.js")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(module), "\n"); lines >= 100 {
		t.Errorf("counter.js has %d lines", lines)
	}
}
