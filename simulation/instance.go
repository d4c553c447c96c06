package simulation

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/functions"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

const project = "simulated"

// instance is a process of a function, as Cloud Run runs it, or of the command line. It is reached
// as a RoundTripper.
type instance struct {
	link    *link
	handler http.Handler   // nil of a command line
	client  *shards.Client // of a command line
	closing func()         // ends its clients, once
	counted []string       // of Rollup, the fields that count documents
	sums    []string       // of Rollup, those that sum up shards, as they are called here; "" is the first

	mu    sync.Mutex
	ended bool           // it takes no request any more
	busy  sync.WaitGroup // requests
}

var (
	errCrashed = errors.New("simulated: the instance crashed")
	errEnded   = errors.New("simulated: the instance has ended")
)

// RoundTrip serves a request on a goroutine of its own, as a server does: it goes on when its
// caller has gone.
func (i *instance) RoundTrip(r *http.Request) (*http.Response, error) {
	answered := make(chan *http.Response, 1)
	i.mu.Lock()
	if i.ended { // between being picked and being asked
		i.mu.Unlock()
		return nil, errEnded
	}
	i.busy.Go(func() {
		w := httptest.NewRecorder()
		i.handler.ServeHTTP(w, r)
		answered <- w.Result()
	})
	i.mu.Unlock()
	select {
	case resp := <-answered:
		return resp, nil
	case <-i.link.dead:
		return nil, errCrashed
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// crash ends the process at once. Its clients are closed in the background, which no real process
// does: nothing that they try reaches the server any more.
func (i *instance) crash() {
	i.link.kill()
	i.end()
}

// end waits for requests, and closes the clients.
func (i *instance) end() {
	i.mu.Lock()
	i.ended = true
	i.mu.Unlock()
	i.busy.Wait()
	i.closing()
}

func newIncrement(dial dialer, l *link, s settings.Settings) (*instance, error) {
	conn, err := l.connect(dial)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	cfg := functions.ShardsConfig(s, log)
	cfg.Place = placeOf(s)
	client, err := shards.Open(context.Background(), cfg, option.WithGRPCConn(conn))
	if err != nil {
		return nil, err
	}
	return &instance{
		link: l, client: client, handler: functions.GuardedIncrementHandler(context.Background(), client, s, log),
		closing: func() { _ = client.Close() },
	}, nil
}

// placeOf says where the counters of an instance are.
func placeOf(s settings.Settings) layout.Place {
	place := s.Place()
	place.Project = project
	return place
}

func newRollup(dial dialer, l *link, s settings.Settings) (*instance, error) {
	conn, err := l.connect(dial)
	if err != nil {
		return nil, err
	}
	log := slog.New(l.log)
	client, err := rollup.Open(context.Background(), rollup.Config{Place: placeOf(s), Logger: log, Budget: ceiling.New(ceiling.Rates(s.Ceiling))}, option.WithGRPCConn(conn))
	if err != nil {
		return nil, err
	}
	roller := rollup.NewRoller(client, functions.RollerOptions(s))
	fields, counted := s.Fields.Split()
	var definitions, sums []string
	for _, f := range fields {
		sums = append(sums, fieldOf(f.Name))
	}
	for _, f := range counted {
		definitions = append(definitions, f.String())
	}
	return &instance{
		link: l, counted: definitions, sums: sums, handler: functions.RollupHandler(client, roller, s, log),
		closing: func() {
			_ = roller.Close(context.Background())
			_ = client.Close()
		},
	}, nil
}

func newReconcile(dial dialer, l *link, s settings.Settings) (*instance, error) {
	conn, err := l.connect(dial)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	client, err := rollup.Open(context.Background(), rollup.Config{Place: placeOf(s), Logger: log, Budget: ceiling.New(ceiling.Rates(s.Ceiling))}, option.WithGRPCConn(conn))
	if err != nil {
		return nil, err
	}
	own, err := newIncrement(dial, l, s) // for what is left of counters that are gone
	if err != nil {
		return nil, err
	}
	return &instance{
		link: l, handler: functions.ReconcileHandler(client, own.client, s, log),
		closing: func() {
			_ = client.Close()
			own.closing()
		},
	}, nil
}

// fleet is the instances of a function.
type fleet struct {
	mu        sync.Mutex
	instances []*instance
}

func (f *fleet) pick(r *rand.Rand) *instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.instances) == 0 {
		return nil
	}
	return f.instances[r.IntN(len(f.instances))]
}

// replace puts an instance in the place of another, which it returns.
func (f *fleet) replace(at int, by *instance) *instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.instances[at]
	f.instances[at] = by
	return was
}

// renew replaces an instance: at once, by a crash, or beside it, as a new revision does.
func (w *world) renew(r *rand.Rand, crash bool) {
	fleet, start, name := &w.increments, newIncrement, "increment"
	if r.IntN(2) == 0 {
		fleet, start, name = &w.rollups, newRollup, "rollup"
	}
	by, err := start(w.dial, w.newLink(name), w.revision(r))
	if err != nil {
		w.rec.add(Stuck{What: err.Error()})
		return
	}
	was := fleet.replace(r.IntN(len(fleet.instances)), by)
	w.endings.Go(func() {
		if crash {
			was.crash()
		} else {
			was.end()
		}
		w.forget(was.link)
	})
}

// revision is that of an instance that is started in a storm.
func (w *world) revision(r *rand.Rand) settings.Settings {
	if w.plan.Older && r.IntN(2) == 0 {
		return w.older
	}
	return w.settings
}

// update replaces instances of the older revision.
func (w *world) update() error {
	if !w.plan.Older {
		return nil
	}
	for i, was := range w.increments.instances {
		by, err := newIncrement(w.dial, w.newLink("increment"), w.settings)
		if err != nil {
			return err
		}
		w.increments.replace(i, by)
		was.end()
		w.forget(was.link)
	}
	for i, was := range w.rollups.instances {
		by, err := newRollup(w.dial, w.newLink("rollup"), w.settings)
		if err != nil {
			return err
		}
		w.rollups.replace(i, by)
		was.end()
		w.forget(was.link)
	}
	return nil
}
