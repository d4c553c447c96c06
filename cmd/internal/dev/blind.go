package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/layout"
)

// blindCollection has the totals of the trigger that is written by hand.
const blindCollection = "counter_dev_by_hand"

// blind is a trigger as people write it by hand, beside Rollup: it believes each event, and adds after - before to a
// total of its own. It gets the events that Rollup gets, with the same faults, commits to the same Firestore, and is
// killed when functions are. It runs only while somebody wants to see that.
type blind struct {
	system *System
	names  layout.Layout
	field  string // of a shard

	mu    sync.Mutex
	exact map[string]int64 // :: counter → what its shards hold, by all changes so far
	run   *blindRun        // nil while it is off
}

// blindRun is from one switching on to the next switching off.
type blindRun struct {
	from   map[string]int64 // :: counter → what its shards held at first
	totals string           // path of the documents of this run
	client *firestore.Client
	events *eventarc.Deliverer
	server *http.Server
}

// ByHand is what a counter's total would be with a trigger that is written by hand.
type ByHand struct {
	Total   int64 `json:"total"`
	Exact   int64 `json:"exact"`   // what the shards hold
	Waiting int   `json:"waiting"` // events, of all counters, that it hasn't taken yet
}

func newBlind(s *System) *blind {
	b := &blind{system: s, names: s.layout(), exact: map[string]int64{}}
	b.names.Database = s.databaseName()
	if len(b.names.Sharded) > 0 {
		b.field = b.names.Sharded[0].Shard
	}
	return b
}

// see takes a change of the database, in the order of the commits.
func (b *blind) see(c eventarc.Change) {
	counter, delta, ok := b.delta(c)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.exact[counter] += delta
	if b.run != nil {
		b.run.events.Deliver(c)
	}
}

// delta is what a shard's change adds, if all is as the change says.
func (b *blind) delta(c eventarc.Change) (counter string, delta int64, ok bool) {
	counter, _, ok = b.names.ParseShard(c.Name)
	count := func(d *firestorepb.Document) int64 { return d.GetFields()[b.field].GetIntegerValue() }
	return counter, count(c.New) - count(c.Old), ok && b.field != ""
}

// set switches it on or off.
func (b *blind) set(on bool, faults Faults, push eventarc.Push) error {
	b.mu.Lock()
	run := b.run
	b.mu.Unlock()
	if on == (run != nil) {
		return nil
	}
	if !on {
		b.mu.Lock()
		b.run = nil
		b.mu.Unlock()
		run.events.Close()
		return errors.Join(run.server.Close(), run.client.Close())
	}
	conn, err := grpc.NewClient("passthrough:///"+b.system.Firestore, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	client, err := firestore.NewClientWithDatabase(context.Background(), b.system.Project, b.system.settings.Database, option.WithGRPCConn(conn))
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	events, err := eventarc.New(eventarc.Options{
		Pattern: b.system.patterns()[0], Project: b.system.Project, Database: b.system.settings.Database,
		Push: push, Faults: faults.seeded().Events, Logger: slog.New(slog.DiscardHandler), // that it fails is what it is there for
	})
	if err != nil {
		return errors.Join(err, client.Close())
	}
	run = &blindRun{client: client, events: events, totals: blindCollection + "/" + client.Collection(blindCollection).NewDoc().ID + "/totals/"}
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return errors.Join(err, client.Close())
	}
	run.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: behind(b.system.Gateway)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.handle(run, w, r) }))}
	go func() { _ = run.server.Serve(l) }() // until it is closed
	if err := events.SetTargets("http://" + l.Addr().String()); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	run.from, b.run = maps.Clone(b.exact), run
	return nil
}

// setFaults has what happens to Rollup's events happen to its own.
func (b *blind) setFaults(f eventarc.Faults) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run != nil {
		b.run.events.SetFaults(f)
	}
}

// handle is the trigger. An error makes the event come again, also where the commit was applied: it can't tell.
func (b *blind) handle(run *blindRun, w http.ResponseWriter, r *http.Request) {
	kills := b.system.supervisor.kills.Load()
	body, err := io.ReadAll(r.Body)
	if err == nil {
		var c eventarc.Change
		if c, err = eventarc.Decode(body); err == nil {
			counter, delta, _ := b.delta(c)
			_, err = run.total(b.names, counter).Set(r.Context(), map[string]any{"total": firestore.Increment(delta)}, firestore.MergeAll)
		}
	}
	if err == nil && b.system.supervisor.kills.Load() != kills {
		err = errors.New("it was killed before it answered")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (r *blindRun) total(names layout.Layout, counter string) *firestore.DocumentRef {
	return r.client.Doc(r.totals + url.PathEscape(names.Path.Document(counter)))
}

// SetByHand switches a trigger on or off that is written by hand, beside Rollup.
func (s *System) SetByHand(on bool) error {
	if s.blind == nil {
		return errors.New("a trigger by hand needs the embedded Firestore")
	}
	s.faultsMu.Lock()
	defer s.faultsMu.Unlock()
	return s.blind.set(on, s.faults, s.push)
}

// ByHand says what a trigger that is written by hand makes of a counter; nil while it is off.
func (s *System) ByHand(ctx context.Context, counter string) (*ByHand, error) {
	if s.blind == nil {
		return nil, nil
	}
	s.blind.mu.Lock()
	run, exact := s.blind.run, s.blind.exact[counter]
	s.blind.mu.Unlock()
	if run == nil {
		return nil, nil
	}
	waiting := run.events.Stats().Pending
	doc, err := run.total(s.blind.names, counter).Get(ctx)
	if doc == nil {
		return nil, fmt.Errorf("read the total by hand: %w", err)
	}
	added, _ := doc.Data()["total"].(int64) // a missing one has added nothing
	return &ByHand{Total: run.from[counter] + added, Exact: exact, Waiting: waiting}, nil
}
