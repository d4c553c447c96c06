package rollup_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/rollup"
)

// shaken are instances to which events come twice, late and in any order, and some never, and which
// die now and then. It is in virtual time.
type shaken struct {
	*counting
	stop                  func()
	deliveries            sync.WaitGroup
	events, lost, commits atomic.Int64

	of      sync.Map // :: id of a counter of which an event was lost → true
	locked  sync.Mutex
	rollers []*rollup.Roller
}

// shake starts instances, and delivers events to them until they are calm; of which drop, from 0 to
// 1, get lost.
func (c *counting) shake(instances int, drop float64) *shaken {
	c.t.Helper()
	s := &shaken{counting: c}
	for range instances {
		s.rollers = append(s.rollers, rollup.NewRoller(s.silent(), rollup.RollerOptions{}))
	}
	s.stop = c.server.OnChange(func(change emulator.Change) {
		if _, path, _ := strings.Cut(change.Name, "/documents/posts/"); path != "" && !strings.Contains(path, "/") {
			s.commits.Add(1)
		}
		decoded, ok := c.decode(change)
		if !ok {
			return
		}
		s.events.Add(1)
		if s.rand.Float64() < drop {
			s.lost.Add(1)
			for _, change := range decoded {
				s.of.Store(change.Counter, true)
			}
			return
		}
		for range 1 + s.rand.IntN(4)/3 {
			s.deliveries.Go(func() {
				late := time.Duration(s.rand.IntN(300)) * time.Millisecond
				if s.rand.IntN(50) == 0 {
					late = time.Duration(s.rand.IntN(10)) * time.Second
				}
				time.Sleep(late)
				s.deliver(decoded)
			})
		}
	})
	return s
}

// silent is an instance's client, without a logger.
func (s *shaken) silent() *rollup.Client {
	s.t.Helper()
	client, err := rollup.Open(s.ctx, s.cfg, option.WithGRPCConn(s.connect()))
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}

// deliver hands an event over until it is acknowledged.
func (s *shaken) deliver(changes []rollup.Change) {
	for {
		s.locked.Lock()
		r := s.rollers[s.rand.IntN(len(s.rollers))]
		s.locked.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		err := r.Add(ctx, changes...)
		cancel()
		if err == nil {
			return
		}
		time.Sleep(time.Duration(s.rand.IntN(200)) * time.Millisecond)
	}
}

// kill has another instance in the place of one, which answers nothing any more.
func (s *shaken) kill() {
	dead, cancel := context.WithCancel(context.Background())
	cancel()
	s.locked.Lock()
	defer s.locked.Unlock()
	i := s.rand.IntN(len(s.rollers))
	_ = s.rollers[i].Close(dead)
	s.rollers[i] = rollup.NewRoller(s.silent(), rollup.RollerOptions{})
}

// calm waits until the last of the late events has come, and then until all are acknowledged; it
// tells how long that took.
func (s *shaken) calm() (took time.Duration) {
	s.arrived()
	time.Sleep(10 * time.Second)
	began := time.Now()
	s.deliveries.Wait()
	s.stop()
	return time.Since(began)
}

// lacks reports whether an event of a counter was lost.
func (s *shaken) lacks(counter string) bool {
	_, lost := s.of.Load(counter)
	return lost
}

// mend reconciles the counters that lack events, and ends the instances. It tells how many reads
// that took, of how many counters.
func (s *shaken) mend() (reads, counters int64) {
	s.t.Helper()
	var named []string
	s.of.Range(func(counter, _ any) bool { named = append(named, counter.(string)); return true })
	slices.Sort(named)
	sum := s.client.ReconcileSome(s.ctx, named, rollup.ReconcileOptions{})
	if sum.Failed > 0 || !sum.Done {
		s.t.Errorf("reconcile = %+v", sum)
	}
	for _, r := range s.rollers {
		if err := r.Close(s.ctx); err != nil {
			s.t.Error(err)
		}
	}
	return sum.Reads, int64(len(named))
}
