package locks

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func newTable() *Table {
	return New(Config{Mu: new(sync.RWMutex), Wait: time.Hour, Closed: make(chan struct{}), Waits: new(atomic.Int64), Refused: new(atomic.Int64)})
}

// reachable are the owners that a request waits for, directly or through others, by the rules alone.
func reachable(t *Table, req *request, seen map[*Owner]bool) map[*Owner]bool {
	for o := range blockedBy(t, req) {
		if seen[o] {
			continue
		}
		seen[o] = true
		for _, r := range o.waiting {
			reachable(t, r, seen)
		}
	}
	return seen
}

// blockedBy are the owners that a request waits for, each with its request ahead, or with nil where it holds what is
// wanted.
func blockedBy(t *Table, req *request) map[*Owner][]*request {
	by := map[*Owner][]*request{}
	for _, w := range req.wants {
		for o, mode := range t.locks[w.Resource].holders {
			if o != req.owner && conflict(mode, w.Mode) {
				by[o] = append(by[o], nil)
			}
		}
		for _, other := range t.locks[w.Resource].queue {
			if other.request == req {
				break
			}
			if other.owner != req.owner && conflict(other.mode, w.Mode) {
				by[other.owner] = append(by[other.owner], other.request)
			}
		}
	}
	return by
}

// simple finds a cycle as [Table.cycle] does, and looks through each queue once for each request that waits in it.
func simple(t *Table, req *request) []step {
	seen := map[*Owner]bool{}
	var path []step
	var reaches func(from *request) bool
	reaches = func(from *request) bool {
		for next, ahead := range t.blockers(from) {
			path = append(path, step{from, next, ahead})
			if next == req.owner {
				return true
			}
			if !seen[next] {
				seen[next] = true
				if slices.ContainsFunc(next.waiting, reaches) {
					return true
				}
			}
			path = path[:len(path)-1]
		}
		return false
	}
	if reaches(req) {
		return path
	}
	return nil
}

// ordered reports whether no resource has holders whose order is that of a map.
func (t *Table) ordered() bool {
	for _, l := range t.locks {
		if len(l.holders) > 1 {
			return false
		}
	}
	return true
}

var testWants = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Want {
	mode := rapid.SampledFrom([]Mode{Intent, Shared, Update, Exclusive, Intent | Shared, Shared | Update}).Draw(t, "mode")
	return Want{Resource{Document, fmt.Sprint(rapid.IntRange(1, 4).Draw(t, "resource"))}, mode}
}), 1, 4, func(w Want) Resource { return w.Resource })

// Whatever is held and waited for, a cycle is found exactly where a request waits for its own owner in the end, and it
// is one.
func TestCycleIsFoundWhereThereIsOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := newTable()
		owners := make([]*Owner, rapid.IntRange(2, 8).Draw(t, "owners"))
		for i := range owners {
			owners[i] = &Owner{Age: uint64(i)}
		}
		var waiting []*request
		for range rapid.IntRange(1, 30).Draw(t, "requests") {
			req := &request{owner: rapid.SampledFrom(owners).Draw(t, "owner"), wants: testWants.Draw(t, "wants"), done: make(chan error, 1)}
			if table.free(req) {
				table.grant(req)
				continue
			}
			table.enqueue(req)
			waiting = append(waiting, req)
			if rapid.IntRange(0, 3).Draw(t, "overtakes") == 0 {
				table.overtake(req, rapid.SampledFrom(waiting).Draw(t, "overtaken"))
			}
		}
		for _, req := range waiting {
			if !slices.Contains(req.owner.waiting, req) {
				continue // it was granted
			}
			cycle, is := table.cycle(req), reachable(table, req, map[*Owner]bool{})[req.owner]
			if is != (cycle != nil) {
				t.Fatalf("a cycle is there: %t; of %d steps", is, len(cycle))
			}
			if same := simple(table, req); table.ordered() && !slices.Equal(cycle, same) {
				t.Fatalf("another cycle than that of the simple search: of %d steps, and not of %d", len(cycle), len(same))
			}
			for i, s := range cycle {
				of, to := req.owner, req.owner
				if i > 0 {
					of = cycle[i-1].next
				}
				if i < len(cycle)-1 {
					to = nil // any but the first
				}
				if s.req.owner != of || to != nil && s.next != to || !slices.Contains(blockedBy(table, s.req)[s.next], s.ahead) {
					t.Fatalf("step %d of %d is none: %v waits for %v", i, len(cycle), s.req.owner.Age, s.next.Age)
				}
			}
		}
	})
}

// Thousands that have read a collection, and then write in it, come to an end: of all but the oldest each is aborted
// once. Looking through a queue of n once for each of the n that wait, for each of the n that come, took minutes.
func TestThousandsWaitInOneQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newTable()
		all, document := Resource{Collection, "c"}, Resource{Document, "c/1"}
		var reading, done sync.WaitGroup
		const owners = 3000
		granted := map[uint64]bool{}
		reading.Add(owners)
		for age := range uint64(owners) {
			done.Go(func() {
				o := &Owner{Age: age}
				table.Mu.Lock()
				defer table.Mu.Unlock()
				if err := table.Acquire(t.Context(), o, []Want{{all, Shared}}); err != nil {
					t.Error(err)
				}
				table.Mu.Unlock()
				reading.Done()
				reading.Wait()
				table.Mu.Lock()
				if table.Acquire(context.Background(), o, []Want{{all, Intent}, {document, Exclusive}}) == nil {
					granted[age] = true
				}
				table.Release(o)
			})
		}
		done.Wait()
		if len(granted) != 1 || !granted[0] || !table.Idle() {
			t.Errorf("%v are granted, %d locks are left", slices.Collect(maps.Keys(granted)), table.Len())
		}
	})
}

// A queue of many that hold and wait, without a cycle among them.
func BenchmarkCycle(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			table := newTable()
			wanted := Resource{Document, "wanted"}
			table.grant(&request{owner: &Owner{}, wants: []Want{{wanted, Exclusive}}})
			var last *request
			for i := range n {
				o := &Owner{Age: uint64(i)}
				table.grant(&request{owner: o, wants: []Want{{Resource{Document, fmt.Sprint(i)}, Exclusive}}})
				last = &request{owner: o, wants: []Want{{wanted, Exclusive}}}
				table.enqueue(last)
			}
			b.ResetTimer()
			for b.Loop() {
				if table.cycle(last) != nil {
					b.Fatal("there is none")
				}
			}
		})
	}
}
