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
	"github.com/firestore-counters/counters/internal/store"
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
	Shards    map[string]shard `json:"shards"`
	Waiting   int64            `json:"waiting"` // what the shards hold and the total doesn't yet
	Lag       int64            `json:"lag"`     // how long the oldest write that the last roll-up brought had waited for it; 0 before one
}

// shard is what a shard holds, and what the total holds of that: what it held as of when the total is.
type shard struct {
	Count   int64 `json:"count"`
	Counted int64 `json:"counted"`
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
	documentsTarget = 1 // The counter and its base, which are written together.
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
			Documents: []string{counter, p.layout.BaseOf(id)},
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
	w := watched{layout: p.layout, id: id, shards: p.layout.ShardsOf(id) + "/", documents: make(map[string]*firestorepb.Document), current: make(map[int32]bool), states: make(map[string][]state)}
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
			v, err := w.view(ctx)
			if err != nil {
				return err
			}
			views <- v
		}
	}
}

// watched is what a Listen has sent so far.
type watched struct {
	layout     layout.Layout
	id, shards string                           // Of the counter; what its shards' names begin with.
	documents  map[string]*firestorepb.Document // By name.
	current    map[int32]bool                   // By target: whether all has come.
	changed    bool                             // Since it was last complete.
	states     map[string][]state               // By name of the shard: what it has held since the total's time, the oldest first.
	asOf       time.Time                        // Of the total, as it was last known.
	lag        time.Duration
}

// state is what a shard held from a time on.
type state struct {
	at    time.Time
	count int64
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
		doc := m.DocumentChange.GetDocument()
		w.documents[doc.GetName()] = doc
		w.changed = true
		if strings.HasPrefix(doc.GetName(), w.shards) {
			w.states[doc.GetName()] = append(w.states[doc.GetName()], state{doc.GetUpdateTime().AsTime(), integer(doc.GetFields()[first(w.layout).Shard])})
		}
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
	delete(w.states, name)
	w.changed = true
}

// view is what has come, for the page. Fields of another type than they should have are left out.
func (w *watched) view(ctx context.Context) (view, error) {
	v := view{Total: int64(0), Shards: make(map[string]shard)}
	books, _, err := book.In(&store.DB{Layout: w.layout}).Get(ctx, w, []string{w.id})
	if err != nil {
		return v, err
	}
	k, first := books[0], first(w.layout)
	if counter := k.Doc; counter != nil {
		v.Exists = true
		v.Total = number(first, counter.GetFields()[first.Name])
		v.Title = counter.GetFields()["title"].GetStringValue()
		if at := k.Refreshed(); !at.IsZero() {
			v.UpdatedAt = at.UnixMilli()
		}
		if all := w.layout.Shown(); len(all) > 1 {
			v.Totals = make(map[string]any)
			for _, field := range all {
				v.Totals[field.Name] = number(field, counter.GetFields()[field.Name])
			}
		}
	}
	if first.Counted != nil {
		return v, nil
	}
	w.rolledUp(k.AsOf(first), k.Version())
	v.Lag = w.lag.Milliseconds()
	var shards book.Shards
	for name, doc := range w.documents {
		if id, ok := strings.CutPrefix(name, w.shards); ok {
			shards = append(shards, doc)
			v.Shards[id] = shard{Count: integer(doc.GetFields()[first.Shard]), Counted: w.counted(name)}
		}
	}
	if total, ok := k.Base.Total(first, shards.SumOf(first)); ok {
		v.Waiting = store.Sub(total, integer(k.Doc.GetFields()[first.Name]))
	}
	return v, nil
}

// rolledUp takes the total's time, which is zero where nobody knows, and the time of the commit that brought it.
func (w *watched) rolledUp(asOf, commit time.Time) {
	if !asOf.After(w.asOf) {
		return
	}
	var oldest time.Time
	for name, states := range w.states {
		was := w.counted(name)
		for _, s := range states {
			if s.at.After(w.asOf) && !s.at.After(asOf) && s.count != was {
				if oldest.IsZero() || s.at.Before(oldest) {
					oldest = s.at
				}
				break
			}
		}
	}
	if !oldest.IsZero() {
		w.lag = commit.Sub(oldest)
	}
	w.asOf = asOf
	for name, states := range w.states {
		for len(states) > 1 && !states[1].at.After(asOf) {
			states = states[1:]
		}
		w.states[name] = states
	}
}

// counted is what a shard held as of when the total is. Of one that is older, and has been written since, nobody has
// said: it is what it held when this began.
func (w *watched) counted(name string) (count int64) {
	states := w.states[name]
	if created := w.documents[name].GetCreateTime().AsTime(); len(states) > 0 && !created.After(w.asOf) {
		count = states[0].count
	}
	for _, s := range states {
		if !s.at.After(w.asOf) {
			count = s.count
		}
	}
	return count
}

// Get has a book be read from what has come.
func (w *watched) Get(_ context.Context, names ...string) ([]*firestorepb.Document, time.Time, error) {
	docs := make([]*firestorepb.Document, len(names))
	for i, name := range names {
		docs[i] = w.documents[name]
	}
	return docs, time.Time{}, nil
}

// Documents is for a [book.Reader]: a book needs none.
func (w *watched) Documents(context.Context, store.Query) ([]*firestorepb.Document, error) {
	return nil, nil
}

// integer is a number however it is stored.
func integer(v *firestorepb.Value) int64 {
	if d, ok := v.GetValueType().(*firestorepb.Value_DoubleValue); ok {
		return int64(d.DoubleValue)
	}
	return v.GetIntegerValue()
}
