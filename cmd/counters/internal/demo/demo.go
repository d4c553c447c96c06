// Package demo is the page that the local system shows: a counter that a browser watches, as any
// frontend would, with its shards, and what the roll-up makes of a load.
//
// The page is as it is served, without a build step, and uses the modules of package web. Where it
// can have the Firebase SDK, it watches Firestore with that, through the port that serves the page;
// its import map says where the modules firebase/app and firebase/firestore are. Where it can't,
// for want of an internet, the page is fed from here, with Server-Sent Events.
package demo

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/cmd/internal/dev"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/web"
)

//go:embed page
var page embed.FS

var views = template.Must(template.ParseFS(page, "page/*.html"))

// Config says what the page shows, and where it finds it.
type Config struct {
	layout.Place      // Of the fields that are counted, the page's plots and bars are of the first.
	NumShards    int  // That a counter gets, 10 when 0; at rest the page draws so many.
	Members      bool // Whoever calls Increment may name members: the page has a like button.

	// Firestore is the host:port of a Firestore that is not the one in the cloud. Browsers reach it
	// at the address of the page itself, which passes its web protocols on.
	Firestore string

	// NodeModules is a node_modules directory, absolute or from the current directory. The SDK
	// comes from its package firebase if there is one, and from the CDN otherwise.
	NodeModules string
	CDN         string // URL of the SDK's versions, with a slash at its end; Google's when empty.

	// System is what runs behind the page, whose faults the page switches on and off. When nil, it
	// doesn't offer that.
	System *dev.System

	Logger *slog.Logger // Nothing is logged when nil.
}

// Page serves the page on / and what belongs to it. Close it.
type Page struct {
	config Config
	conn   *grpc.ClientConn
	client *firestore.Client
	layout layout.Layout
	mux    *http.ServeMux
	sdk    *sdk

	open   context.Context // until Close
	close  context.CancelFunc
	ending sync.WaitGroup // deletions of visits that are over

	started time.Time
}

// New returns a page. It connects to nothing yet.
func New(c Config) (*Page, error) {
	c.Database = cmp.Or(c.Database, firestore.DefaultDatabaseID)
	c.NumShards = cmp.Or(c.NumShards, layout.DefaultNumShards)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	documents, err := c.Layout()
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+c.Firestore, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connect the page to Firestore at %s: %w", c.Firestore, err)
	}
	client, err := firestore.NewClientWithDatabase(context.Background(), c.Project, c.Database, option.WithGRPCConn(conn))
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connect the page to Firestore at %s: %w", c.Firestore, err)
	}
	documents.Database = "projects/" + c.Project + "/databases/" + c.Database
	p := &Page{config: c, conn: conn, client: client, layout: documents, mux: http.NewServeMux(), sdk: newSDK(c.NodeModules, c.CDN), started: time.Now()}
	p.open, p.close = context.WithCancel(context.Background())
	p.serveView("GET /{$}", "index.html")
	if p.hasSeats() {
		p.serveView("GET /seats", "seats.html")
		p.serveView("GET /credits", "credits.html")
		p.mux.HandleFunc("PUT /-/seats", p.serveSeats)
		p.mux.HandleFunc("POST /-/seats/over", p.endSeats)
	} else {
		p.mux.HandleFunc("GET /seats", noSeats)
		p.mux.HandleFunc("GET /credits", noSeats)
	}
	own, err := fs.Sub(page, "page")
	if err != nil {
		return nil, err // Not possible: it is embedded.
	}
	for _, files := range []fs.FS{own, web.Modules()} {
		names, err := fs.Glob(files, "*")
		if err != nil {
			return nil, err // Not possible: the pattern is right.
		}
		for _, name := range names {
			if path.Ext(name) != ".html" {
				p.mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, name) })
			}
		}
	}
	p.mux.HandleFunc("GET /-/sdk", p.sdk.serveStatus)
	p.mux.HandleFunc("GET /sdk/{name}", p.sdk.serveBundle)
	p.mux.HandleFunc("GET /-/counters", p.serveCounters)
	p.mux.HandleFunc("GET /-/events", p.serveEvents)
	if c.Hosted {
		p.mux.HandleFunc("PUT /-/title", p.serveTitle)
	}
	if c.System != nil {
		p.mux.HandleFunc("GET /-/faults", p.serveFaults)
		p.mux.HandleFunc("PUT /-/faults/{name}", p.switchFault)
		p.mux.HandleFunc("PUT /-/by-hand", p.switchByHand)
	}
	return p, nil
}

// Close ends what the page does, and its connection. Requests should have ended before.
func (p *Page) Close() error {
	p.close()
	p.ending.Wait()
	return p.client.Close()
}

// ServeHTTP implements [http.Handler].
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Another version of the program may serve the same address next.
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	p.mux.ServeHTTP(w, r)
}

// first is the field that the page shows large: that of a counter's total, or else a double.
func first(l layout.Layout) layout.Field {
	if field, ok := l.First(); ok {
		return field
	}
	return l.Counted[0]
}

// number is what the page shows of a field: an integer, a double, or nil for the average of none.
// What is not in the document is 0.
func number(field layout.Field, v *firestorepb.Value) any {
	if field.Integer() {
		return integer(v)
	}
	if f := store.Number(v); f != nil {
		return *f
	}
	return nil
}

// serveView serves a view of the page.
func (p *Page) serveView(pattern, name string) {
	html := p.html(name)
	p.mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(html)
	})
}

// html is a view, which says where the SDK and the counters are.
func (p *Page) html(view string) []byte {
	first := first(p.layout)
	if view != "index.html" && p.hasSeats() {
		first = p.layout.Limited()[0]
	}
	only := "" // or the id of the one counter that there is
	if p.layout.Path.Whole() {
		only, _ = p.layout.Path.ID(p.layout.Path.String())
	}
	config := map[string]any{
		"project": p.config.Project, "database": p.config.Database,
		"counters": p.layout.Path.String(), "only": only, "shards": p.layout.Shards, "numShards": p.config.NumShards, "countField": first.Shard, "first": first.Name,
		"fields": p.layout.Sharded.SettingNames(), "counted": p.layout.Counted.Names(), "queries": p.layout.Counted.String(), "hosted": p.config.Hosted, "members": p.config.Members, "faults": p.config.System != nil, "byHand": p.config.System != nil && p.config.System.Embedded,
	}
	var html bytes.Buffer
	more := "" // or what starts the other views
	if !p.hasSeats() && p.canHaveSeats() {
		more = withSeats
	}
	data := map[string]any{"ImportMap": script(map[string]any{"imports": p.sdk.imports()}), "Config": config, "Seats": p.hasSeats(), "More": more}
	if err := views.ExecuteTemplate(&html, view, data); err != nil {
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

const (
	// listed is how many counters the page offers. Of more, it says that there are more.
	listed      = 50
	listTimeout = 5 * time.Second
)

// serveCounters answers with the counters that there are, in the order of their ids.
func (p *Page) serveCounters(w http.ResponseWriter, r *http.Request) {
	type counter struct {
		ID    string `json:"id"`
		Total any    `json:"total"`
	}
	ctx, cancel := context.WithTimeout(r.Context(), listTimeout)
	defer cancel()
	counters, more := []counter{}, false
	all := p.client.Collection(p.layout.Path.Collection()).Query
	if p.layout.Path.Nested() {
		all = p.client.CollectionGroup(p.layout.Path.Collection()).Query
	}
	total := first(p.layout)
	docs := all.SelectPaths(firestore.FieldPath{total.Name}).Limit(listed + 1).Documents(ctx)
	defer docs.Stop()
	for {
		doc, err := docs.Next()
		if errors.Is(err, iterator.Done) {
			break
		}
		if err != nil {
			p.config.Logger.Warn("the counters can't be listed for the page", "error", err)
			http.Error(w, "the counters can't be listed", http.StatusServiceUnavailable)
			return
		}
		if more = len(counters) == listed; more {
			break
		}
		_, name, _ := strings.Cut(doc.Ref.Path, "/documents/")
		// Other collections of that name may be elsewhere.
		if id, ok := p.layout.Path.ID(name); ok {
			n, rolledUp := doc.Data()[total.Name]
			if _, whole := n.(int64); !rolledUp || total.Integer() && !whole {
				n = 0
			}
			if f, is := n.(float64); is && (math.IsNaN(f) || math.IsInf(f, 0)) {
				n = nil // which JSON has no number for
			}
			counters = append(counters, counter{id, n})
		}
	}
	writeJSON(w, map[string]any{"counters": counters, "more": more})
}

// maxTitle is the longest title that the page takes, in bytes.
const maxTitle = 500

// serveTitle writes the title of a document, which it makes where there is none: here the page is
// the app whose documents they are.
func (p *Page) serveTitle(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("counter")
	if err := p.layout.Path.Validate(id); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	title, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxTitle))
	if err != nil || !utf8.Valid(title) {
		http.Error(w, fmt.Sprintf("want a title of at most %d bytes", maxTitle), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), listTimeout)
	defer cancel()
	if _, err := p.client.Doc(p.layout.Path.Document(id)).Set(ctx, map[string]any{"title": string(title)}, firestore.MergeAll); err != nil {
		p.config.Logger.Warn("the page's title can't be written", "counter", id, "error", err)
		http.Error(w, "the title can't be written", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // The client may be gone.
}
