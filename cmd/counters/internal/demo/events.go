package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/metadata"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
)

const (
	// Between two events; a screen shows no more, and a load makes hundreds a second.
	eventsApart = 50 * time.Millisecond
	// So that nothing between here and the browser takes the stream for dead.
	heartbeat = 15 * time.Second
)

// view is what the page shows of a counter, as of one moment. Times are in ms since 1970.
type view struct {
	Exists    bool             `json:"exists"`
	Total     any              `json:"total"`            // of the first field; a double as such, and null for the average of none
	Totals    map[string]any   `json:"totals,omitempty"` // of all, where there are several
	Title     string           `json:"title,omitempty"`  // that an app has given it
	UpdatedAt int64            `json:"updated_at,omitempty"`
	Shards    map[string]int64 `json:"shards"`
	Ledger    map[string]state `json:"ledger"`
}

// state is what the ledger has of a shard.
type state struct {
	Count int64 `json:"count"`
	AsOf  int64 `json:"as_of"`
}

// serveEvents answers with Server-Sent Events: what there is of a counter, and again whenever that
// has changed.
func (p *Page) serveEvents(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("counter")
	if err := p.layout.Path.Validate(id); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	views := make(chan view, 1)
	ended := make(chan error, 1)
	go func() { ended <- p.watch(ctx, id, views) }()

	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	send := func(format string, args ...any) bool {
		_ = out.SetWriteDeadline(time.Now().Add(heartbeat)) // Not every ResponseWriter has one.
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil && out.Flush() == nil
	}
	if !send("retry: 1000\n\n") {
		cancel()
	}
	for {
		select {
		case v := <-views:
			data, err := json.Marshal(v)
			if err != nil || !send("data: %s\n\n", data) {
				cancel()
			}
			select {
			case <-time.After(eventsApart):
			case <-ctx.Done():
			}
		case <-time.After(heartbeat):
			if !send(":\n\n") {
				cancel()
			}
		case err := <-ended:
			if ctx.Err() == nil && !errors.Is(err, io.EOF) {
				p.config.Logger.Warn("the Listen that feeds the page broke; the page starts another", "counter", id, "error", err)
			}
			return
		}
	}
}

// The targets of a Listen.
const (
	documentsTarget = 1 // The counter and its ledger, which are written together.
	shardsTarget    = 2
)

// watch sends what there is of a counter, and again after every commit that changed it, until the
// stream breaks or the context ends. What isn't taken in time is replaced by what is newer.
func (p *Page) watch(ctx context.Context, id string, views chan view) error {
	database, counter := p.layout.Database, p.layout.Counter(id)
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer owner", "google-cloud-resource-prefix", database)
	stream, err := firestorepb.NewFirestoreClient(p.conn).Listen(ctx)
	if err != nil {
		return err
	}
	for _, target := range []*firestorepb.Target{
		{TargetId: documentsTarget, TargetType: &firestorepb.Target_Documents{Documents: &firestorepb.Target_DocumentsTarget{
			Documents: []string{counter, p.layout.LedgerOf(id)},
		}}},
		{TargetId: shardsTarget, TargetType: &firestorepb.Target_Query{Query: &firestorepb.Target_QueryTarget{
			Parent: counter,
			QueryType: &firestorepb.Target_QueryTarget_StructuredQuery{StructuredQuery: &firestorepb.StructuredQuery{
				From: []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: p.layout.Shards}},
			}},
		}}},
	} {
		if err := stream.Send(&firestorepb.ListenRequest{Database: database, TargetChange: &firestorepb.ListenRequest_AddTarget{AddTarget: target}}); err != nil {
			return err
		}
	}
	w := watched{layout: p.layout, counter: counter, shards: p.layout.ShardsOf(id) + "/", ledger: p.layout.LedgerOf(id), documents: make(map[string]*firestorepb.Document), current: make(map[int32]bool)}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		complete, err := w.take(m)
		if err != nil {
			return err
		}
		if complete {
			select { // Only this goroutine sends, so there is room after this.
			case <-views:
			default:
			}
			views <- w.view()
		}
	}
}

// watched is what a Listen has sent so far.
type watched struct {
	layout                  layout.Layout
	counter, shards, ledger string
	documents               map[string]*firestorepb.Document // By name.
	current                 map[int32]bool                   // By target: whether all has come.
	changed                 bool                             // Since it was last complete.
}

// take takes a message. It returns true when what has come is, with it, a whole state that differs
// from the last.
func (w *watched) take(m *firestorepb.ListenResponse) (complete bool, err error) {
	switch m := m.ResponseType.(type) {
	case *firestorepb.ListenResponse_DocumentChange:
		if len(m.DocumentChange.GetTargetIds()) == 0 {
			w.remove(m.DocumentChange.GetDocument().GetName())
			break
		}
		w.documents[m.DocumentChange.GetDocument().GetName()] = m.DocumentChange.GetDocument()
		w.changed = true
	case *firestorepb.ListenResponse_DocumentDelete:
		w.remove(m.DocumentDelete.GetDocument())
	case *firestorepb.ListenResponse_DocumentRemove:
		w.remove(m.DocumentRemove.GetDocument())
	case *firestorepb.ListenResponse_TargetChange:
		c := m.TargetChange
		targets := c.GetTargetIds()
		if len(targets) == 0 {
			targets = []int32{documentsTarget, shardsTarget}
		}
		switch c.GetTargetChangeType() {
		case firestorepb.TargetChange_REMOVE:
			return false, fmt.Errorf("the server ended it: %s", c.GetCause().GetMessage())
		case firestorepb.TargetChange_RESET: // What belongs to them comes anew.
			for _, target := range targets {
				w.current[target] = false
				for name := range w.documents {
					if strings.HasPrefix(name, w.shards) == (target == shardsTarget) {
						w.remove(name)
					}
				}
			}
		case firestorepb.TargetChange_CURRENT:
			for _, target := range targets {
				w.current[target] = true
			}
			w.changed = true
		case firestorepb.TargetChange_NO_CHANGE:
			// With a time and for all targets, it says that everything up to then has come.
			if len(c.GetTargetIds()) == 0 && c.GetReadTime() != nil && w.current[documentsTarget] && w.current[shardsTarget] && w.changed {
				w.changed = false
				return true, nil
			}
		}
	}
	return false, nil
}

func (w *watched) remove(name string) {
	delete(w.documents, name)
	w.changed = true
}

// view is what has come, for the page. Fields of another type than they should have are left out.
func (w *watched) view() view {
	v := view{Total: int64(0), Shards: make(map[string]int64), Ledger: make(map[string]state)}
	first := first(w.layout)
	if counter := w.documents[w.counter]; counter != nil {
		v.Exists = true
		v.Total = number(first, counter.GetFields()[first.Name])
		v.Title = counter.GetFields()["title"].GetStringValue()
		if at := book.Own(w.layout, counter)[layout.UpdatedAt].GetTimestampValue(); at != nil {
			v.UpdatedAt = at.AsTime().UnixMilli()
		}
		if all := w.layout.Shown(); len(all) > 1 {
			v.Totals = make(map[string]any)
			for _, field := range all {
				v.Totals[field.Name] = number(field, counter.GetFields()[field.Name])
			}
		}
	}
	for name, doc := range w.documents {
		if id, ok := strings.CutPrefix(name, w.shards); ok {
			v.Shards[id] = integer(doc.GetFields()[first.Shard])
		}
	}
	if l, err := book.Decode(w.layout.Shards, w.documents[w.ledger]); err == nil {
		for id, e := range l.States {
			v.Ledger[id] = state{Count: e.Counts[first.Shard], AsOf: e.AsOf.UnixMilli()}
		}
	}
	return v
}

// integer is a number however it is stored.
func integer(v *firestorepb.Value) int64 {
	if d, ok := v.GetValueType().(*firestorepb.Value_DoubleValue); ok {
		return int64(d.DoubleValue)
	}
	return v.GetIntegerValue()
}
