// Package counterstest runs counters for a test: an embedded Firestore, a client of package shards,
// and the roll-up of package rollup on its changes. So totals follow as in production, for
// [shards.Counter.Get], and for code that listens to a counter's document.
//
// [Start] takes a few milliseconds. Tests may run in parallel: each has its own Firestore, and none
// needs an environment variable or another process. To see a total right after an increment, call
// [Instance.RolledUp].
package counterstest

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

const (
	// interval is between two roll-ups of one counter: a hundredth of production's.
	interval = 10 * time.Millisecond
	// patience is how long RolledUp and the end of a test wait at most.
	patience = 30 * time.Second
)

// Instance is a Firestore with counters in it, until the test has ended.
type Instance struct {
	// the Firestore: Addr for FIRESTORE_EMULATOR_HOST, Client for its documents
	*emulator.Instance
	Counters *shards.Client // closed when the test has ended
	// the project that the counters are in; demo-counters by default
	Project string

	client   *rollup.Client
	roller   *rollup.Roller
	patterns []eventarc.Pattern // of documents whose changes are rolled up

	mu      sync.Mutex
	waiting int           // changes that are not rolled up yet
	none    chan struct{} // closed, and made anew, whenever waiting comes to 0
	events  int
}

// Start starts a Firestore in which the first increment of a counter makes it, at
// counters/{counter}.
func Start(t emulator.TB) *Instance {
	t.Helper()
	return StartWith(t, shards.Config{AutoCreate: true})
}

// StartWith is Start with a configuration, such as for your app's own documents.
func StartWith(t emulator.TB, cfg shards.Config) *Instance {
	t.Helper()
	cfg.Project = cmp.Or(cfg.Project, layout.DefaultProject)
	i := &Instance{
		Instance: emulator.StartWith(t, emulator.Options{TTL: map[string]string{layout.Requests: layout.ExpireAt}}),
		Project:  cfg.Project,
		none:     make(chan struct{}),
	}
	// One each: closing one must not close the other's.
	forCounters, forRollup := option.WithGRPCConn(i.Conn(t)), option.WithGRPCConn(i.Conn(t))
	ctx := context.Background()
	var err error
	if i.Counters, err = shards.Open(ctx, cfg, forCounters); err != nil {
		t.Fatalf("counterstest: %v", err)
	}
	if i.client, err = rollup.Open(ctx, rollup.Config{Place: cfg.Place, Logger: cfg.Logger}, forRollup); err != nil {
		t.Fatalf("counterstest: %v", err)
	}
	names, err := cfg.Layout()
	if err != nil {
		t.Fatalf("counterstest: %v", err)
	}
	for _, pattern := range names.Patterns() {
		p, err := eventarc.ParsePattern(pattern)
		if err != nil {
			t.Fatalf("counterstest: %v", err)
		}
		i.patterns = append(i.patterns, p)
	}
	i.roller = rollup.NewRoller(i.client, rollup.RollerOptions{Interval: interval})
	database := "projects/" + cfg.Project + "/databases/" + cmp.Or(cfg.Database, "(default)") + "/documents/"
	stop := i.OnChange(func(c emulator.Change) {
		if path, ours := strings.CutPrefix(c.Name, database); ours && i.rolledUp(path) {
			i.deliver(c, path)
		}
	})
	t.Cleanup(func() {
		_ = i.Counters.Close() // its connection closes itself, too
		stop()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := i.roller.Close(ctx); err != nil {
			t.Errorf("counterstest: end the roll-up: %v", err)
		}
		if err := i.wait(ctx); err != nil {
			t.Errorf("counterstest: end the roll-up: %v", err)
		}
		_ = i.client.Close()
	})
	return i
}

// RolledUp returns once everything that was committed before is in the totals. If that takes more
// than half a minute, it ends the test.
func (i *Instance) RolledUp(t emulator.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := errors.Join(i.WaitForChanges(ctx), i.wait(ctx)); err != nil {
		t.Fatalf("counterstest: wait for the roll-up: %v", err)
	}
}

// rolledUp reports whether changes of a document are rolled up.
func (i *Instance) rolledUp(path string) bool {
	for _, p := range i.patterns {
		if p.Match(path) {
			return true
		}
	}
	return false
}

// deliver brings a change to the roll-up as an event, and repeats that until it succeeds.
func (i *Instance) deliver(c emulator.Change, path string) {
	i.mu.Lock()
	i.waiting++
	i.events++
	id := strconv.Itoa(i.events)
	i.mu.Unlock()
	go func() {
		defer i.delivered()
		changes, err := i.decode(id, c, path)
		if err != nil {
			return // it can never be counted, as in production
		}
		for pause := interval; ; pause *= 2 {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			err := i.roller.Add(ctx, changes...)
			cancel()
			if err == nil || errors.Is(err, rollup.ErrPoison) || errors.Is(err, rollup.ErrClosed) || pause > patience {
				return
			}
			time.Sleep(pause)
		}
	}()
}

// decode reads the event of a change as the function Rollup does.
func (i *Instance) decode(id string, c emulator.Change, path string) ([]rollup.Change, error) {
	header, data, err := eventarc.Encode(id, c)
	// too large, or a name that no header takes
	if err != nil || len(data) == 0 || header.Get("Ce-Type") == "" {
		return i.client.Named(path)
	}
	return i.client.Decode(header.Get("Content-Type"), data)
}

func (i *Instance) delivered() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting--; i.waiting == 0 {
		close(i.none)
		i.none = make(chan struct{})
	}
}

// wait waits until no change waits.
func (i *Instance) wait(ctx context.Context) error {
	i.mu.Lock()
	waiting, none := i.waiting, i.none
	i.mu.Unlock()
	if waiting == 0 {
		return nil
	}
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
