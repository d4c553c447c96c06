// Package demo is the page that the local system shows: a counter that a browser watches with the Firebase SDK, as any
// frontend would, with its shards, and what the roll-up makes of a load.
//
// The page is as it is served, without a build step. Its modules import the SDK by the names that bundlers know
// (firebase/app, firebase/firestore), and an import map says where these are: on Google's CDN, or in a local
// node_modules, whose package firebase holds the same bundles. The bundle of Firestore imports the one of the app by its
// URL on the CDN, which the map leads to the local one as well, so that such a page needs no internet.
package demo

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

//go:embed page
var page embed.FS

//go:embed package.json
var packageJSON []byte

var index = template.Must(template.ParseFS(page, "page/index.html"))

// Where the CDN keeps the SDK's bundles, below their version.
const cdn = "https://www.gstatic.com/firebasejs/"

// bundles are the files of the SDK that the page needs, by the names of their modules.
var bundles = map[string]string{"firebase/app": "firebase-app.js", "firebase/firestore": "firebase-firestore.js"}

// Config says what the page shows, and where it finds it.
type Config struct {
	Project    string
	Database   string // "(default)" when empty.
	Collection string // Of the counters; "counters" when empty.
	CountField string // Of a shard; "count" when empty.

	// Firestore is the host:port at which a browser reaches a Firestore that is not the one in the cloud.
	Firestore string

	// NodeModules is a node_modules directory, absolute or from the current directory. The SDK comes from its package
	// firebase if there is one, and from the CDN otherwise.
	NodeModules string
}

// Handler serves the page on / and what belongs to it.
func Handler(c Config) http.Handler {
	local := sdkVersion(c.NodeModules)
	html := c.html(cmp.Or(local, pinnedVersion()), local != "")

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(html)
	})
	for _, name := range []string{"style.css", "counter.js", "load.js", "page.js", "plot.js", "shards.js"} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, page, "page/"+name)
		})
	}
	if local != "" {
		for _, name := range bundles {
			mux.HandleFunc("GET /sdk/"+name, func(w http.ResponseWriter, r *http.Request) {
				http.ServeFile(w, r, filepath.Join(c.NodeModules, "firebase", name))
			})
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache") // Another version of the program may serve the same address next.
		w.Header().Set("X-Content-Type-Options", "nosniff")
		mux.ServeHTTP(w, r)
	})
}

// html is the page itself, which says where the SDK and Firestore are.
func (c Config) html(version string, local bool) []byte {
	imports := make(map[string]string)
	for module, file := range bundles {
		imports[module] = cdn + version + "/" + file
		if local {
			imports[module] = "/sdk/" + file
			imports[cdn+version+"/"+file] = "/sdk/" + file
		}
	}
	// The SDK makes a URL of the host, in which an IPv6 address has its brackets.
	colon := strings.LastIndexByte(c.Firestore, ':')
	port, _ := strconv.Atoi(c.Firestore[colon+1:])
	config := map[string]any{
		"project":    c.Project,
		"database":   cmp.Or(c.Database, "(default)"),
		"collection": cmp.Or(c.Collection, "counters"),
		"countField": cmp.Or(c.CountField, "count"),
		"firestore":  map[string]any{"host": c.Firestore[:max(colon, 0)], "port": port},
	}
	var html bytes.Buffer
	if err := index.Execute(&html, map[string]any{"ImportMap": script(map[string]any{"imports": imports}), "Config": config}); err != nil {
		panic(err) // Not possible: the template and what it is given are ours.
	}
	return html.Bytes()
}

// script is JSON as the content of a script element. JSON has no "<" here: it is escaped.
func script(v any) template.HTML {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // Not possible: these are strings.
	}
	return template.HTML(data)
}

// sdkVersion returns the version of the SDK that a node_modules directory holds, or "" if it holds none.
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

// pinnedVersion is the version that the page is tested with.
func pinnedVersion() string {
	var p struct{ Dependencies map[string]string }
	if err := json.Unmarshal(packageJSON, &p); err != nil {
		panic(err) // Not possible: it is ours.
	}
	return p.Dependencies["firebase"]
}
