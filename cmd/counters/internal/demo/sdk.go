package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/firestore-counters/counters/web"
)

// cdn is where Google keeps the SDK's bundles, below their version.
const cdn = "https://www.gstatic.com/firebasejs/"

// bundles are the files of the SDK that the page needs, by the names of their modules.
var bundles = map[string]string{"firebase/app": "firebase-app.js", "firebase/firestore": "firebase-firestore.js"}

const (
	largestBundle = 16 << 20
	fetchTimeout  = 3 * time.Second  // A page waits for no longer to hear whether there is an SDK.
	fetchAgain    = 30 * time.Second // After an attempt that failed.
)

// sdk is the Firebase SDK, from a node_modules directory or else from Google's CDN. The server gets
// it and not the browser, because a browser that can't says so on its console, and because a phone
// in the same network may have no internet of its own.
type sdk struct {
	from    string // URL of the bundles' directory on the CDN; empty where they are local.
	dir     string // Where they are local.
	version string

	mu    sync.Mutex
	files map[string][]byte // The bundles of the CDN, by name, all of them or none.
	next  time.Time         // Not to be asked for before.
}

func newSDK(nodeModules, from string) *sdk {
	if version := sdkVersion(nodeModules); version != "" {
		return &sdk{dir: filepath.Join(nodeModules, "firebase"), version: version}
	}
	version := web.FirebaseVersion()
	return &sdk{from: cmp.Or(from, cdn) + version + "/", version: version}
}

// sdkVersion returns the version of the SDK that a node_modules directory holds, or "" if it holds
// none.
func sdkVersion(nodeModules string) string {
	if nodeModules == "" {
		return ""
	}
	data, err := os.ReadFile(filepath.Join(nodeModules, "firebase", "package.json"))
	if err != nil {
		return ""
	}
	var p struct{ Version string }
	_ = json.Unmarshal(data, &p) // Without a version it is not the SDK's.
	return p.Version
}

// imports is the import map. The bundle of Firestore imports that of the app by its URL on the CDN.
func (s *sdk) imports() map[string]string {
	imports := map[string]string{cdn + s.version + "/" + bundles["firebase/app"]: "/sdk/" + bundles["firebase/app"]}
	for module, file := range bundles {
		imports[module] = "/sdk/" + file
	}
	return imports
}

// there reports whether the SDK is available, after at most [fetchTimeout].
func (s *sdk) there() bool {
	if s.dir != "" {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil && time.Now().After(s.next) {
		s.files = s.fetch()
		s.next = time.Now().Add(fetchAgain)
	}
	return s.files != nil
}

func (s *sdk) fetch() map[string][]byte {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	files := make(map[string][]byte)
	for _, name := range bundles {
		data, err := get(ctx, s.from+name)
		if err != nil {
			return nil // The page says that it does without, and needs no more reason.
		}
		files[name] = data
	}
	return files
}

func get(ctx context.Context, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, largestBundle+1))
	if err == nil && len(data) > largestBundle {
		err = fmt.Errorf("%s: more than %d bytes", url, largestBundle)
	}
	return data, err
}

// serveStatus answers whether the SDK is available.
func (s *sdk) serveStatus(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"available": s.there(), "version": s.version})
}

// serveBundle answers with a bundle.
func (s *sdk) serveBundle(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	known := false
	for _, bundle := range bundles {
		known = known || name == bundle
	}
	switch {
	case !known || !s.there():
		http.NotFound(w, r)
	case s.dir != "":
		http.ServeFile(w, r, filepath.Join(s.dir, name))
	default:
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = w.Write(s.files[name])
	}
}
