package demo

import (
	"encoding/json"
	"html"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/web"
)

func request(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// nowhere is a URL at which nothing listens, in place of the CDN's.
const nowhere = "http://127.0.0.1:1/"

func newPage(t *testing.T, c Config) *Page {
	t.Helper()
	if c.Firestore == "" {
		c.Firestore = "127.0.0.1:1"
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
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

// The server gets the SDK from the CDN, for browsers that may have no internet, and says when it
// can't.
func TestSDKFromCDN(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	cdn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, r.URL.Path)
	}))
	defer cdn.Close()
	missing := httptest.NewServer(http.NotFoundHandler())
	defer missing.Close()
	for _, test := range []struct {
		cdn  string
		want bool
	}{{cdn.URL + "/", true}, {nowhere, false}, {missing.URL + "/", false}} {
		for _, nodeModules := range []string{"", filepath.Join(t.TempDir(), "node_modules")} {
			h := newPage(t, Config{Place: layout.Place{Project: "p"}, CDN: test.cdn, NodeModules: nodeModules})
			var got struct {
				Available bool
				Version   string
			}
			for range 3 {
				if err := json.Unmarshal(request(t, h, "/-/sdk").Body.Bytes(), &got); err != nil {
					t.Fatal(err)
				}
				if got.Available != test.want || got.Version != web.FirebaseVersion() {
					t.Errorf("%s: got %+v", test.cdn, got)
				}
			}
			for _, file := range bundles {
				w := request(t, h, "/sdk/"+file)
				if test.want != (w.Code == http.StatusOK) || test.want && w.Body.String() != "/"+web.FirebaseVersion()+"/"+file {
					t.Errorf("%s: /sdk/%s: %d %q", test.cdn, file, w.Code, w.Body)
				}
				if test.want && !strings.HasPrefix(w.Header().Get("Content-Type"), "text/javascript") {
					t.Errorf("/sdk/%s is %s", file, w.Header().Get("Content-Type"))
				}
			}
		}
	}
	if got, want := asked.Load(), int64(2*len(bundles)); got != want {
		t.Errorf("the CDN was asked %d times by two pages, want %d", got, want)
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
	h := newPage(t, Config{Place: layout.Place{Project: "p"}, NodeModules: dir, CDN: nowhere})
	var m struct{ Imports map[string]string }
	block(t, request(t, h, "/").Body.String(), `type="importmap"`, &m)
	for _, name := range []string{"firebase/app", "https://www.gstatic.com/firebasejs/9.8.7/firebase-app.js"} {
		w := request(t, h, m.Imports[name])
		if w.Body.String() != "app" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/javascript") {
			t.Errorf("%s leads to %q (%s)", name, w.Body, w.Header().Get("Content-Type"))
		}
	}
	if w := request(t, h, "/sdk/firebase-auth.js"); w.Code != http.StatusNotFound {
		t.Errorf("a bundle that the page doesn't need: %d", w.Code)
	}
}

// The second view is there where each buyer can be a member, and the page can make the counter.
func TestSeatsAreOffered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		Config
		status int
	}{{Config{Place: layout.Place{Project: "p", Fields: "total=count,seats=limit(500)"}, Members: true}, http.StatusOK}, {Config{Place: layout.Place{Project: "p", Fields: "total=count,seats=limit(500)"}}, http.StatusNotFound}, {Config{Place: layout.Place{Project: "p", Fields: "total=count,seats=limit(500)", Hosted: true}, Members: true}, http.StatusOK}} {
		h := newPage(t, c.Config)
		if w := request(t, h, "/seats"); w.Code != c.status {
			t.Errorf("%+v: /seats is %d, want %d", c.Config, w.Code, c.status)
		}
		if offered := strings.Contains(request(t, h, "/").Body.String(), `href="seats"`); offered != (c.status == http.StatusOK) {
			t.Errorf("%+v: the page leads there: %t", c.Config, offered)
		}
	}
	// A field with a limit is all that they lack: the page says how to have one, and so does each address.
	h := newPage(t, Config{Place: layout.Place{Project: "p"}, Members: true})
	const says = "--fields 'total=count,seats=limit(500)'"
	if got := html.UnescapeString(request(t, h, "/").Body.String()); !strings.Contains(got, says) {
		t.Errorf("the page doesn't say %s", says)
	}
	for _, path := range []string{"/seats", "/credits"} {
		if w := request(t, h, path); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	newPage(t, Config{Place: layout.Place{Project: "p", Fields: "total=count,seats=limit(500)"}, Members: true}).ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/-/seats?counter=a/b", nil))
	if w.Code != http.StatusBadRequest {
		t.Errorf("a counter that can't be is answered %d", w.Code)
	}
}

// The page makes the counter of the second view, also where that is a document of an app's own: once.
func TestSeatsAreMade(t *testing.T) {
	t.Parallel()
	for _, hosted := range []bool{false, true} {
		firestore := emulator.Start(t)
		p := newPage(t, Config{Place: layout.Place{Project: "p", Fields: "total=count,seats=limit(500)", Database: "(default)", Hosted: hosted}, Members: true, Firestore: firestore.Addr, NumShards: 3})
		for range 2 {
			w := httptest.NewRecorder()
			if p.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/-/seats?counter=a", nil)); w.Code != http.StatusNoContent {
				t.Fatalf("hosted %t: %d %s", hosted, w.Code, w.Body)
			}
		}
		snap, err := firestore.Client(t, "p").Doc("counters/a").Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if shards, err := snap.Ref.Collection("shards").Where("seats", "==", 0).Documents(t.Context()).GetAll(); err != nil || len(shards) != 3 {
			t.Errorf("hosted %t: %d shards, %v", hosted, len(shards), err)
		}
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	h := newPage(t, Config{Place: layout.Place{Project: "</script><b>"}, CDN: nowhere})
	w := request(t, h, "/")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("/: %d %v", w.Code, w.Header())
	}
	html := w.Body.String()
	var config struct {
		Project, Database, Counters, Shards, CountField string
	}
	block(t, html, `type="application/json" id="config"`, &config)
	if config.Project != "</script><b>" || config.Database != "(default)" || config.Counters != "counters/{counter}" || config.Shards != "shards" ||
		config.CountField != "count" {
		t.Errorf("config: %+v", config)
	}
	// Whatever the page and its modules refer to is there, and nothing else.
	references := regexp.MustCompile(`(?:href|src|from)[= ]"(?:\./)?([a-z]+\.(?:js|css))"`)
	referred := map[string]bool{}
	files := map[string][]byte{"index.html": w.Body.Bytes()}
	for _, dir := range []fs.FS{page, web.Modules()} {
		err := fs.WalkDir(dir, ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && d.Name() != "index.html" {
				files[d.Name()], err = fs.ReadFile(dir, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		for _, m := range references.FindAllSubmatch(content, -1) {
			referred[string(m[1])] = true
			if w := request(t, h, "/"+string(m[1])); w.Code != http.StatusOK {
				t.Errorf("%s refers to %s: %d", name, m[1], w.Code)
			}
		}
	}
	for name := range files {
		if !referred[name] && !strings.HasSuffix(name, ".html") {
			t.Errorf("nothing refers to %s", name)
		}
	}
	for _, path := range []string{"/favicon.ico", "/page/index.html", "/index.html", "/demo.go", "/sdk/"} {
		if w := request(t, h, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", path, w.Code)
		}
	}
}
