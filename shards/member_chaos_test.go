package shards_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/testbed/chance"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

var chaosMembers = flag.Int("members", 300, "how many members toggle in TestMembersInChaos")

// instance is a process that counts, behind a network that loses, delays and refuses commits.
type instance struct {
	counter shards.Counter
	client  *shards.Client
	conn    *grpc.ClientConn

	ctx   context.Context // of its callers; ends with the instance
	kill  context.CancelFunc
	quiet chan struct{} // closed once nothing of an instance that was killed is on its way any more

	mu      sync.Mutex
	rand    *rand.Rand
	commits sync.WaitGroup // commits on their way
	dead    bool
}

func (w *world) start(t *testing.T, seed uint64) *instance {
	t.Helper()
	i := &instance{rand: rand.New(rand.NewPCG(seed, 1)), quiet: make(chan struct{})}
	i.ctx, i.kill = context.WithCancel(t.Context())
	var err error
	i.conn = w.Conn(grpc.WithUnaryInterceptor(i.call))
	i.client, err = shards.Open(t.Context(), shards.Config{Place: shards.Place{Project: "p"}}, option.WithGRPCConn(i.conn))
	if err != nil {
		t.Fatal(err)
	}
	i.counter = handle(t, i.client, "a")
	return i
}

// depart says what becomes of a commit, and counts it among those on their way if it is sent.
func (i *instance) depart() (fate int, delay time.Duration, dead bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dead {
		return 0, 0, true
	}
	if fate = i.rand.IntN(100); fate >= 10 {
		i.commits.Add(1)
	}
	return fate, time.Duration(i.rand.IntN(10)) * time.Millisecond, false
}

func (i *instance) call(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	killed := status.Error(codes.PermissionDenied, "the process was killed")
	if !strings.HasSuffix(method, "/Commit") {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	fate, delay, dead := i.depart()
	switch {
	case dead:
		return killed
	case fate < 5:
		return aborted
	case fate < 10:
		return unavailable
	}
	answer := proto.Clone(reply.(proto.Message))
	done := make(chan error, 1)
	go func() {
		defer i.commits.Done()
		if fate < 15 {
			time.Sleep(delay)
		}
		done <- invoke(context.WithoutCancel(ctx), method, req, answer, cc, opts...)
	}()
	if fate < 15 { // on its way for long after its sender was told
		return unavailable
	}
	select {
	case err := <-done:
		if fate < 25 {
			return unavailable // the answer is lost
		}
		if err == nil {
			proto.Merge(reply.(proto.Message), answer)
		}
		return err
	case <-i.ctx.Done():
		return killed
	}
}

// end kills the instance: its callers hear nothing more, and what it has sent arrives yet.
func (i *instance) end() {
	i.mu.Lock()
	i.dead = true
	i.mu.Unlock()
	i.kill()
	i.commits.Wait()
	close(i.quiet)
}

// Members join and leave at random through three instances, every request is sent twice, to any of
// them; commits are refused, lost and late, and instances are killed all the time. Members, and
// what the shards add up to, are what was asked for.
func TestMembersInChaos(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		seed := chance.Seed(t)
		w := newWorld(t)
		w.counter(t, w.open(t, shards.Config{}), "a", 10)
		var mu sync.Mutex
		instances := make([]*instance, 3)
		var ended []*instance
		for n := range instances {
			instances[n] = w.start(t, seed+uint64(n))
		}
		running := func(r *rand.Rand) *instance {
			mu.Lock()
			defer mu.Unlock()
			return instances[r.IntN(len(instances))]
		}
		var errs atomic.Int64
		// send asks for something until it is answered.
		send := func(r *rand.Rand, do func(context.Context, *instance) (bool, error)) (counted bool, tries int) {
			for tries = 1; ; tries++ {
				i := running(r)
				counted, err := do(i.ctx, i)
				if err == nil {
					return counted, tries
				}
				errs.Add(1)
				if t.Context().Err() != nil {
					return false, tries
				}
				if i.ctx.Err() != nil {
					// what a dead process has sent may arrive until then, and undo what
					// is asked for next
					<-i.quiet
				}
			}
		}

		var members, added, sent atomic.Int64
		there := make([]bool, *chaosMembers)
		work := make(chan int)
		var group sync.WaitGroup
		for range 128 {
			group.Go(func() {
				for n := range work {
					r := rand.New(rand.NewPCG(seed, uint64(n)+1000))
					member := fmt.Sprint("member", n)
					for op := range 1 + r.IntN(4) {
						joins := r.IntN(2) == 0
						toggle := func(ctx context.Context, i *instance) (bool, error) {
							sent.Add(1)
							if joins {
								return i.counter.Join(ctx, "total", member)
							}
							return i.counter.Leave(ctx, "total", member)
						}
						var twice [2]bool
						var tries [2]int
						var both sync.WaitGroup
						for k, seed := range []uint64{r.Uint64(), r.Uint64()} {
							both.Go(func() { twice[k], tries[k] = send(rand.New(rand.NewPCG(seed, 0)), toggle) })
						}
						both.Wait()
						certain := tries == [2]int{1, 1}
						switch change := joins != there[n]; {
						case !change && (twice[0] || twice[1]), twice[0] && twice[1], change && certain && !twice[0] && !twice[1]:
							t.Errorf("%s was there %v, joins %v: counted %v in %v tries", member, there[n], joins, twice, tries)
						}
						there[n] = joins
						if r.IntN(5) == 0 {
							key := shards.Key{Value: fmt.Sprint(member, "-", op)}
							send(r, func(ctx context.Context, i *instance) (bool, error) { return i.counter.AddOnce(ctx, 3, key) })
							added.Add(3)
						}
					}
					if there[n] {
						members.Add(1)
					}
				}
			})
		}
		stop := make(chan struct{})
		var killer sync.WaitGroup
		kills := 0
		killer.Go(func() {
			r := rand.New(rand.NewPCG(seed, 2))
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(20+r.IntN(200)) * time.Millisecond):
				}
				kills++
				n := r.IntN(len(instances))
				fresh := w.start(t, seed+uint64(100+kills))
				mu.Lock()
				old := instances[n]
				instances[n] = fresh
				mu.Unlock()
				old.end()
				ended = append(ended, old)
			}
		})
		for n := range there {
			work <- n
		}
		close(work)
		group.Wait()
		close(stop)
		killer.Wait()
		for _, i := range append(ended, instances...) {
			_ = i.client.Close()
			if i.ctx.Err() == nil {
				i.end()
			}
			_ = i.conn.Close()
		}

		docs, err := w.fs.Collection("counters/a/total_members").Documents(t.Context()).GetAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			var n int
			if _, err := fmt.Sscanf(doc.Ref.ID, "member%d", &n); err != nil || !there[n] {
				t.Errorf("%s is a member, and left", doc.Ref.ID)
			}
		}
		if int64(len(docs)) != members.Load() {
			t.Errorf("%d members, want %d", len(docs), members.Load())
		}
		w.wantSum(t, "a", members.Load()+added.Load())
		t.Logf("%d members, of %d who toggled by %d requests; %d failed; %d instances were killed; %d commits",
			len(docs), len(there), sent.Load(), errs.Load(), kills, w.Server.Stats().CommitRequests)
	})
}
