package bench

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/googleapis/gax-go/v2"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/shards"
)

const project = "demo-bench"

// setup is what a scenario gives each contestant.
type setup struct {
	faults    emulator.Faults
	events    eventarc.Faults
	push      eventarc.Push
	instances int // of each function; 0 is 1
	shards    int // of each counter
	dead      int // writes of the shards that are measured, before
	environ   []string
	only      string            // "http" or "trigger" starts only that function
	metered   bool              // bytes of logs are counted
	ceilings  map[string]string // :: function → its CEILING
}

// stage is a contestant with a Firestore and functions of its own.
type stage struct {
	contestant
	setup

	server   *emulator.Server
	address  string // of the server
	serving  sync.WaitGroup
	events   *eventarc.Deliverer // nil without a trigger
	https    []*process
	triggers []*process
	counters *shards.Client // to make and read counters with
	meter    meter
	live     atomic.Bool // changes become events

	mu    sync.Mutex
	since time.Time
	// :: instance → when requests of events were in flight since then
	busy map[string][]cost.Period
}

// openStage starts a contestant. An error leaves nothing behind.
func openStage(ctx context.Context, c contestant, s setup) (_ *stage, err error) {
	st := &stage{contestant: c, setup: s, busy: map[string][]cost.Period{}, since: time.Now()}
	st.instances = max(1, st.instances)
	st.server = emulator.New(emulator.Options{})
	defer func() {
		if err != nil {
			st.close()
			err = fmt.Errorf("start %s: %w", c.name, err)
		}
	}()
	if err := st.serve(); err != nil {
		return nil, err
	}
	if err := st.start(ctx); err != nil {
		return nil, err
	}
	if err := st.deliver(); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+st.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	st.counters, err = shards.Open(ctx, shards.Config{Place: shards.Place{Project: project, Fields: st.contestant.fields}}, option.WithGRPCConn(conn))
	return st, err
}

func (st *stage) serve() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	st.address = l.Addr().String()
	st.serving.Go(func() { _ = st.server.Serve(l) })
	st.server.OnChange(st.meter.see)
	return nil
}

// start starts the functions, and returns when all answer.
func (st *stage) start(ctx context.Context) error {
	environ := st.environment()
	var names []string
	if st.only == "" || st.only == "http" {
		names = slices.Repeat([]string{st.http}, st.instances)
	}
	if st.trigger != "" && (st.only == "" || st.only == "trigger") {
		names = append(names, slices.Repeat([]string{st.trigger}, st.instances)...)
	}
	started := make([]*process, len(names))
	g, starting := errgroup.WithContext(ctx)
	for i, name := range names {
		g.Go(func() (err error) {
			started[i], err = startAnswering(starting, st.program, name, append(slices.Clip(environ), "CEILING="+st.ceilings[name]), st.metered)
			return err
		})
	}
	err := g.Wait()
	for i, p := range started {
		switch {
		case p == nil:
		case names[i] == st.http:
			st.https = append(st.https, p)
		default:
			st.triggers = append(st.triggers, p)
		}
	}
	return err
}

// alive is an error when one of the functions has ended.
func (st *stage) alive() error {
	for _, p := range slices.Concat(st.https, st.triggers) {
		if err := p.alive(); err != nil {
			return fmt.Errorf("%s: %w", st.name, err)
		}
	}
	return nil
}

// environment is what the functions get: of this process's, only what programs need, so that no
// setting in it changes the result.
func (st *stage) environment() []string {
	environ := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains([]string{"PATH", "HOME", "TMPDIR", "SYSTEMROOT", "GOMAXPROCS", "GODEBUG", "GOCOVERDIR"}, name)
	})
	environ = append(environ, "FIRESTORE_EMULATOR_HOST="+st.address, "GOOGLE_CLOUD_PROJECT="+project,
		fmt.Sprintf("%s=%d", shardsVariable, st.shards))
	return slices.Concat(environ, st.contestant.environ, st.setup.environ)
}

// deliver starts the delivery of events.
func (st *stage) deliver() error {
	if len(st.triggers) == 0 {
		return nil
	}
	var err error
	st.events, err = eventarc.New(eventarc.Options{
		Pattern: "counters/{counter}/shards/{shard}", Project: project, Push: st.push, Faults: st.setup.events,
		Logger: slog.New(slog.DiscardHandler), Posted: st.posted,
	})
	if err != nil {
		return err
	}
	st.server.OnChange(func(c emulator.Change) {
		if st.live.Load() {
			st.events.Deliver(c)
		}
	})
	return st.resume()
}

// posted notes an event's request.
func (st *stage) posted(instance string, began, ended time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if began.Before(st.since) {
		began = st.since
	}
	st.busy[instance] = append(st.busy[instance], cost.Period{Begin: began.Sub(st.since), End: ended.Sub(st.since)})
}

// pause stops the delivery of events, so that one contestant's backlog does not run during
// another's turn.
func (st *stage) pause() {
	if st.events != nil {
		_ = st.events.SetTargets()
	}
}

// resume begins or goes on to deliver.
func (st *stage) resume() error {
	if st.events == nil {
		return nil
	}
	urls := make([]string, len(st.triggers))
	for i, p := range st.triggers {
		urls[i] = "http://" + p.Addr + "/"
	}
	return st.events.SetTargets(urls...)
}

// settle waits until every event has been acknowledged, for as long as given. It reports how many
// have not.
func (st *stage) settle(ctx context.Context, d time.Duration) (pending int) {
	if st.events == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if st.server.WaitForChanges(ctx) == nil {
		_ = st.events.Wait(ctx)
	}
	return st.events.Stats().Pending
}

// create makes counters. That is not measured, nothing goes wrong, and there are no events of it;
// from then on there are.
func (st *stage) create(ctx context.Context, ids ...string) error {
	g, making := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for _, id := range ids {
		g.Go(func() error {
			c, err := st.counters.Counter(id)
			if err != nil {
				return err
			}
			if err := c.Create(making, shards.CreateOptions{Shards: st.shards}); err != nil || st.limit == 0 {
				return err
			}
			return c.SetLimit(making, layout.Total, st.limit)
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("make counters for %s: %w", st.name, err)
	}
	if err := st.server.WaitForChanges(ctx); err != nil { // they come a moment after their commit
		return err
	}
	st.live.Store(true)
	st.server.SetFaults(st.faults)
	return nil
}

// age has a counter's shards written as often as the setup says, without events, and one increment more, with them. It
// returns when the total holds all.
func (st *stage) age(ctx context.Context, counter string) (total int64, err error) {
	if st.dead == 0 {
		return 0, nil
	}
	conn, err := grpc.NewClient("passthrough:///"+st.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	fs, err := firestore.NewClient(ctx, project, option.WithGRPCConn(conn))
	if err != nil {
		return 0, err
	}
	st.live.Store(false)
	st.server.SetFaults(emulator.Faults{IndexTombstones: st.faults.IndexTombstones})
	for range st.dead / st.shards {
		if err := fs.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
			for n := range st.shards {
				if err := tx.Update(fs.Doc(fmt.Sprintf("counters/%s/shards/%d", counter, n)), []firestore.Update{{Path: "count", Value: firestore.Increment(1)}}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return 0, fmt.Errorf("write shards: %w", err)
		}
	}
	if err := st.server.WaitForChanges(ctx); err != nil {
		return 0, err
	}
	st.live.Store(true)
	st.server.SetFaults(st.faults)
	all, err := st.counters.Counter(counter)
	if err != nil {
		return 0, err
	}
	if err := all.Add(ctx, 1); err != nil {
		return 0, err
	}
	total = int64(st.dead/st.shards*st.shards) + 1
	for {
		s, err := all.Get(ctx)
		if err != nil || s.Total == total {
			return total, err
		}
		if err := gax.Sleep(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// clients are n clients, spread over the instances.
func clients(n int, of []*process) []client {
	all := make([]client, n)
	for i := range all {
		all[i] = client{caller: of[i%len(of)].caller, instance: i % len(of)}
	}
	return all
}

// cpu is how many seconds of CPU time each side has used so far.
func (st *stage) cpu() CPU {
	var c CPU
	for _, p := range st.https {
		c.Function += cpuSeconds(p.PID())
	}
	for _, p := range st.triggers {
		c.Trigger += cpuSeconds(p.PID())
	}
	c.Here = cpuSeconds(os.Getpid())
	return c
}

// usage is what has been billed since the last call of begin, for the loads that were sent since
// then. The time of instances counts until the last load's end: what the trigger holds for longer
// is the same few seconds once, however long the load was. Billed by the instance, those that have
// taken a request are there all that time, as they are under a load that goes on.
func (st *stage) usage(loads ...*load) cost.Usage {
	stats := st.server.Stats()
	u := cost.Usage{
		Reads: float64(stats.Reads), Writes: float64(stats.Writes), Deletes: float64(stats.Deletes + int64(st.meter.markerCount())),
		ReadUnits: float64(stats.ReadUnits), WriteUnits: float64(stats.WriteUnits),
	}
	http := map[int][]cost.Period{}
	var end time.Duration
	for _, l := range loads {
		end = max(end, l.began.Add(l.elapsed).Sub(st.since))
		for at, periods := range l.periods(st.since) {
			http[at] = append(http[at], periods...)
		}
	}
	for _, periods := range http {
		u.Increment = u.Increment.Plus(cost.Function{Requests: float64(len(periods)), Busy: cost.InstanceTime(periods).Seconds(), There: end.Seconds()})
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, periods := range st.busy {
		u.Rollup = u.Rollup.Plus(cost.Function{Requests: float64(len(periods)), Busy: cost.InstanceTime(until(end, periods)).Seconds(), There: end.Seconds()})
	}
	return u
}

// until cuts periods off at a time.
func until(end time.Duration, periods []cost.Period) []cost.Period {
	var out []cost.Period
	for _, p := range periods {
		if p.Begin < end {
			out = append(out, cost.Period{Begin: p.Begin, End: min(p.End, end)})
		}
	}
	return out
}

// begin begins to count usage.
func (st *stage) begin() {
	st.server.ResetStats()
	st.meter.mu.Lock()
	st.meter.markers = 0
	st.meter.mu.Unlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.since = time.Now()
	maps.DeleteFunc(st.busy, func(string, []cost.Period) bool { return true })
}

// close ends everything. It may be called on a stage that was not opened to the end.
func (st *stage) close() {
	if st.events != nil {
		st.events.Close()
	}
	var stopping sync.WaitGroup
	for _, p := range slices.Concat(st.https, st.triggers) {
		stopping.Go(p.stop)
	}
	stopping.Wait()
	if st.counters != nil {
		_ = st.counters.Close()
	}
	st.server.Close()
	st.serving.Wait()
}
