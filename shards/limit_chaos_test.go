package shards_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/chance"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// Callers, members and calls of two counters, repeated by keys, while limits change, answers get lost,
// and commits arrive late, some of them twice: no shard ever counts more than its share, or less than its
// members; the counters hold what was acknowledged, and a field as many members as it has.
func TestLimitsChange(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		maker := w.open(t, withLimit)
		for _, id := range []string{"a", "b"} {
			limit(t, w.counter(t, maker, id, 3), 12)
		}
		w.Server.OnCommit(func(changes []emulator.Change) {
			for _, c := range changes {
				fields := c.New.GetFields()
				share, limited := fields["share(total)"]
				if !strings.Contains(c.Name, "/shards/") || !limited {
					continue
				}
				count, members := fields["total"].GetIntegerValue(), fields["members(total)"].GetIntegerValue()
				if count > share.GetIntegerValue() || members < 0 || members > count {
					t.Errorf("%s holds %v", c.Name, fields)
				}
			}
		})
		late := w.failCommits(16, 20*time.Millisecond, true, nil)

		counted := map[string]*atomic.Int64{"a": {}, "b": {}}
		var joined, refused, acknowledged atomic.Int64
		var group sync.WaitGroup
		for process := range 3 {
			client := w.open(t, withLimit)
			for caller := range 5 {
				group.Go(func() {
					for n := range 10 {
						id := []string{"a", "b"}[w.rand.IntN(2)]
						c := handle(t, client, id)
						by := []int64{1, 1, 2, 5, -1, -3}[w.rand.IntN(6)]
						member := fmt.Sprintf("member-%d-%d", process, caller)
						key := shards.Key{Value: fmt.Sprintf("%s-%d", member, n)}
						var err error
						switch w.rand.IntN(4) {
						case 0: // until it is known
							for again := true; again; again = errors.Is(err, shards.ErrBusy) || errors.Is(err, shards.ErrUnknown) {
								_, err = c.AddOnce(t.Context(), by, key)
							}
							if err == nil {
								counted[id].Add(by)
							}
						case 1:
							for again := true; again; again = errors.Is(err, shards.ErrBusy) || errors.Is(err, shards.ErrUnknown) {
								_, err = client.AddAll(t.Context(), []shards.Increment{{Counter: "a", By: by}, {Counter: "b", By: 1}}, key)
							}
							if err == nil {
								counted["a"].Add(by)
								counted["b"].Add(1)
							}
						case 2:
							var now bool
							for again := true; again; again = errors.Is(err, shards.ErrBusy) || errors.Is(err, shards.ErrUnknown) {
								now, err = handle(t, client, "a").Join(t.Context(), "total", member)
							}
							if err == nil && now {
								joined.Add(1)
							}
						default:
							for again := true; again; again = errors.Is(err, shards.ErrBusy) || errors.Is(err, shards.ErrUnknown) {
								_, err = handle(t, client, "a").Leave(t.Context(), "total", member)
							}
							if errors.Is(err, shards.ErrLimit) {
								t.Errorf("who leaves is refused: %v", err)
							}
						}
						switch {
						case err == nil:
							acknowledged.Add(1)
						case errors.Is(err, shards.ErrLimit):
							refused.Add(1)
						default:
							t.Error(err)
						}
					}
				})
			}
		}
		group.Go(func() {
			for range 8 {
				c := handle(t, maker, []string{"a", "b"}[w.rand.IntN(2)])
				err := c.SetLimit(t.Context(), "total", w.rand.Int64N(25))
				if err != nil && !errors.Is(err, shards.ErrLimit) && !errors.Is(err, shards.ErrBusy) && !errors.Is(err, shards.ErrInvalidLimit) && !errors.Is(err, shards.ErrUnknown) {
					t.Error(err)
				}
				time.Sleep(3 * time.Millisecond)
			}
		})
		group.Wait()
		late.Wait()
		w.Server.SetInterceptor(nil)
		members := int64(0)
		for _, err := range handle(t, maker, "a").Members(t.Context(), "total") {
			if err != nil {
				t.Fatal(err)
			}
			members++
		}
		w.wantSum(t, "a", counted["a"].Load()+members)
		w.wantSum(t, "b", counted["b"].Load())
		t.Logf("%d acknowledged, %d joined, %d refused", acknowledged.Load(), joined.Load(), refused.Load())
	})
}

// failCommits has one of n commits fail before it is applied, one lose its answer, and one abort. The first arrives
// within a time after all, unless it is a transaction's: the caller waits for it. With twice the second arrives again
// within that time. Nothing arrives that was answered: what was refused once is never applied. Spared ones don't fail.
func (w *world) failCommits(n int, within time.Duration, twice bool, spared func(*firestorepb.CommitRequest) bool) (late *sync.WaitGroup) {
	conn := firestorepb.NewFirestoreClient(w.Conn())
	late = new(sync.WaitGroup)
	w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
		if spared != nil && spared(req) {
			return v
		}
		time.Sleep(chance.Below(w.rand, 20*time.Millisecond)) // a commit takes its time: without, no time passes while somebody works
		fails := w.rand.IntN(n)
		switch {
		case fails == 0, fails == 1 && twice && req.GetTransaction() == nil:
			v.Before = unavailable
		case fails == 1:
			v.After = unavailable
			return v
		case fails == 2:
			return emulator.Verdict{Before: aborted}
		default:
			return v
		}
		if req.GetTransaction() == nil {
			late.Go(func() {
				if fails == 1 {
					_, _ = conn.Commit(context.Background(), req)
				}
				time.Sleep(chance.Below(w.rand, within))
				_, _ = conn.Commit(context.Background(), req)
			})
		}
		return v
	})
	return late
}
