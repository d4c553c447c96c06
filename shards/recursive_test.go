package shards_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// An app deletes a counter with all that is below it, one document after the other, as the Firebase CLI does, while
// others count, join and leave. Whatever was acknowledged was in a shard that was deleted later, or is counted by the
// end; nothing comes twice.
func TestARecursiveDeletionBesideIncrements(t *testing.T) {
	for seed := range uint64(6) {
		virtual.Run(t, fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t)
			cfg := shards.Config{AutoCreate: true, NumShards: 4, CacheTTL: time.Second}
			late := w.failCommits(16, time.Second, false, func(req *firestorepb.CommitRequest) bool {
				return len(req.GetWrites()) == 1 && req.GetWrites()[0].GetDelete() != ""
			})
			var sum, maybe, deleted atomic.Int64
			w.Server.OnCommit(func(changes []emulator.Change) {
				for _, c := range changes {
					if strings.Contains(c.Name, "/shards/") && c.New == nil {
						deleted.Add(c.Old.GetFields()["count"].GetIntegerValue())
					}
				}
			})
			var group sync.WaitGroup
			for worker := range 4 {
				c := handle(t, w.open(t, cfg), "a")
				r := rand.New(rand.NewPCG(seed, uint64(worker)))
				group.Go(func() {
					for n := range 60 {
						time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
						var counted bool
						var err error
						by, member := int64(1+r.IntN(5)), fmt.Sprint("m", worker)
						switch r.IntN(4) {
						case 0:
							by = 1
							counted, err = c.Join(t.Context(), "total", member)
						case 1:
							by = -1
							counted, err = c.Leave(t.Context(), "total", member)
						case 2:
							key := shards.Key{Value: fmt.Sprint(worker, "-", n)}
							for again := true; again; again = errors.Is(err, shards.ErrBusy) || errors.Is(err, shards.ErrUnknown) {
								_, err = c.AddOnce(t.Context(), by, key)
							}
							counted = true
						default:
							err, counted = c.Add(t.Context(), by), true
						}
						switch {
						case err == nil && counted:
							sum.Add(by)
						case errors.Is(err, shards.ErrUnknown):
							maybe.Add(5)
						case err != nil && !errors.Is(err, shards.ErrBusy) && !errors.Is(err, shards.ErrNotFound):
							t.Error(err)
						}
					}
				})
			}
			r := rand.New(rand.NewPCG(seed, 99))
			for range 8 {
				time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
				var all []*firestore.DocumentRef
				for _, below := range []string{"shards", "counter_rollup", "total_members"} {
					docs, err := w.fs.Collection("counters/a/" + below).Documents(t.Context()).GetAll()
					must(t, err)
					for _, doc := range docs {
						all = append(all, doc.Ref)
					}
				}
				for _, ref := range append(all, w.fs.Doc("counters/a")) {
					time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
					_, err := ref.Delete(t.Context())
					must(t, err)
				}
			}
			group.Wait()
			late.Wait()
			w.Server.SetInterceptor(nil)
			if diff := deleted.Load() + w.sum(t, "a") - sum.Load(); diff > maybe.Load() || -diff > maybe.Load() || deleted.Load() == 0 {
				t.Errorf("%d were deleted and %d are left of %d; %d may be counted", deleted.Load(), w.sum(t, "a"), sum.Load(), maybe.Load())
			}
			t.Logf("%d deleted, %d left, of %d; %d may be counted", deleted.Load(), w.sum(t, "a"), sum.Load(), maybe.Load())
		})
	}
}
