package shards_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// cutAfter has every commit after the first n refused: what sends them is cut short.
func (w *world) cutAfter(n int) {
	var commits atomic.Int64
	w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		if commits.Add(1) > int64(n) {
			return emulator.Verdict{Before: status.Error(codes.PermissionDenied, "cut short")}
		}
		return emulator.Verdict{}
	})
}

// wantNothing fails unless there is nothing left of the counter a.
func (w *world) wantNothing(t *testing.T) {
	t.Helper()
	if left := w.everything(t); len(left) > 0 {
		t.Errorf("left: %v", slices.Sorted(maps.Keys(left)))
	}
}

// goneAt has a reconcile note that the document of the counter a is missing, if it is, and says since when.
func (w *world) goneAt(t *testing.T) time.Time {
	t.Helper()
	beside := w.fs.Doc("counters/a/counter_rollup/base")
	base, err := beside.Get(t.Context())
	if err == nil {
		hosted, _ := base.Data()["hosted"].(bool)
		w.reconcile(t, rollup.Config{Place: rollup.Place{Hosted: hosted}}, "a", rollup.ReconcileOptions{})
		base, err = beside.Get(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	at, _ := base.Data()["gone_at"].(time.Time)
	return at
}

// A life ends with everything below its path, whether or not the document is there: what is made
// then begins at 0.
func TestDelete(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, *world, shards.Counter){
		"a counter":           func(*testing.T, *world, shards.Counter) {},
		"its document gone":   func(t *testing.T, w *world, _ shards.Counter) { w.deleteByHand(t) },
		"members, without it": func(t *testing.T, w *world, _ shards.Counter) { w.populate(t, 600); w.deleteByHand(t) },
		"without a base": func(t *testing.T, w *world, _ shards.Counter) {
			w.Delete("counters/a/counter_rollup/base")
		},
		"shards alone": func(t *testing.T, w *world, _ shards.Counter) {
			w.deleteByHand(t)
			w.Delete("counters/a/counter_rollup/base")
		},
		"members alone": func(t *testing.T, w *world, c shards.Counter) {
			w.populate(t, 3)
			if err := w.fs.RunTransaction(t.Context(), func(_ context.Context, tx *firestore.Transaction) error {
				return errors.Join(tx.Delete(w.fs.Doc("counters/a")), tx.Delete(w.fs.Doc("counters/a/counter_rollup/base")),
					tx.Delete(w.fs.Doc("counters/a/shards/0")), tx.Delete(w.fs.Doc("counters/a/shards/1")))
			}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
			if err := c.Add(t.Context(), 7); err != nil {
				t.Fatal(err)
			}
			w.rollUp(t, "a")
			prepare(t, w, c)
			if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			w.wantNothing(t)
			if err := c.Delete(t.Context(), shards.DeleteOptions{}); !errors.Is(err, shards.ErrNotFound) {
				t.Errorf("again: %v, want ErrNotFound", err)
			}
			if err := c.Create(t.Context(), shards.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			w.wantRolledUp(t, 0)
			if !join(t, c, "1") {
				t.Error("a member of the life before is in the way")
			}
		})
	}
}

// What is below a document of the app's own is deleted once that is gone, and not before.
func TestDeleteHosted(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Counters: "posts/{post}", Fields: "likes,views", Hosted: true}})
		post := w.fs.Doc("posts/p")
		if _, err := post.Set(t.Context(), map[string]any{"title": "one"}); err != nil {
			t.Fatal(err)
		}
		c := handle(t, client, "p")
		for _, field := range []string{"likes", "views"} {
			if _, err := c.Join(t.Context(), field, "u"); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := c.Delete(t.Context(), shards.DeleteOptions{}); !errors.Is(err, shards.ErrHosted) {
				t.Errorf("%v, want ErrHosted", err)
			}
		}
		if audits, err := c.Audit(t.Context()); err != nil || audits[0].Members != 1 || audits[1].Shards != 1 {
			t.Errorf("%+v, %v; want that nothing has changed", audits, err)
		}
		if _, err := post.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if left, err := post.Collections(t.Context()).GetAll(); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
		if err := c.Delete(t.Context(), shards.DeleteOptions{}); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("again: %v, want ErrNotFound", err)
		}
	})
}

// Each answer of a deletion is lost: it takes everything once, and knows its own work.
func TestDeletionLosesItsAnswers(t *testing.T) {
	t.Parallel()
	for _, members := range []int{0, 400, 800} {
		for _, remove := range []bool{false, true} {
			virtual.Run(t, fmt.Sprint(members, " remove ", remove), func(t *testing.T) {
				w := newWorld(t)
				w.counter(t, w.open(t, shards.Config{}), "a", 3)
				w.populate(t, members)
				w.rollUp(t, "a")
				lost := w.sent(t, shards.Config{}, "Commit", func(n int) error {
					if n%2 == 1 {
						return unavailable
					}
					return nil
				})
				c := handle(t, lost, "a")
				if remove {
					w.deleteByHand(t)
					if removed, err := c.Remove(t.Context(), w.goneAt(t)); err != nil || !removed {
						t.Errorf("removed %v, %v", removed, err)
					}
				} else if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				w.wantNothing(t)
			})
		}
	}
}

// A counter that meets contention is marked, so that nothing is added to it, and
// deleted all the same.
func TestDeletionUnderContention(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for refused := range 6 {
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
			var commits atomic.Int64
			w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
				if commits.Add(1) <= int64(refused) {
					return emulator.Verdict{Before: aborted}
				}
				return emulator.Verdict{}
			})
			if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
				t.Errorf("after %d refusals: %v", refused, err)
			}
			w.wantNothing(t)
		}
	})
}

// More shards than one commit deletes: the counter is marked, and goes last.
func TestDeleteLarge(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		c := w.counter(t, client, "a", 1000)
		for n := range 1000 {
			if n%10 == 0 {
				w.inc(t, fmt.Sprint(n), 1)
			}
		}
		w.cutAfter(2) // the mark, and the first part
		if err := c.Delete(t.Context(), shards.DeleteOptions{}); status.Code(err) != codes.PermissionDenied {
			t.Fatalf("cut short: %v", err)
		}
		w.Server.SetInterceptor(nil)
		if n := len(w.counts(t, "a")); n > 600 {
			t.Errorf("%d shards are left of 1000, want about half", n)
		}
		if err := c.Add(t.Context(), 1); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("add while it is being deleted: %v, want ErrNotFound", err)
		}
		if err := c.Create(t.Context(), shards.CreateOptions{}); !errors.Is(err, shards.ErrExists) || !strings.Contains(err.Error(), "delete it again") {
			t.Errorf("create while it is being deleted: %v, want ErrExists, and what to do", err)
		}
		if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.wantNothing(t)
		if err := c.Create(t.Context(), shards.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// A counter is deleted while a crowd joins, leaves and counts by instances that have it in their
// caches, and one that makes it again: in the end shards and members agree, whichever life that is.
func TestDeletionsBesideACrowd(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
		w.populate(t, 600)
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		var group sync.WaitGroup
		for n := range 6 {
			crowd := handle(t, w.open(t, shards.Config{AutoCreate: n%2 == 0, NumShards: 3}), "a")
			group.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					member := fmt.Sprint(n, "-", i%5)
					var err error
					if i%7 == 3 {
						_, err = crowd.Leave(t.Context(), "total", member)
					} else {
						_, err = crowd.Join(t.Context(), "total", member)
					}
					if err != nil && !errors.Is(err, shards.ErrNotFound) && !errors.Is(err, shards.ErrBusy) {
						t.Error(err)
					}
				}
			})
		}
		for range 8 {
			if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil && !errors.Is(err, shards.ErrNotFound) && !errors.Is(err, shards.ErrBusy) {
				t.Error(err)
			}
		}
		stop()
		group.Wait()
		w.wantSum(t, "a", int64(w.memberships(t)))
		if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil && !errors.Is(err, shards.ErrNotFound) {
			t.Error(err)
		}
		w.wantNothing(t)
	})
}

// A deletion that takes several commits says after each how much is gone, and so does a reset of
// members.
func TestProgressOfDeletion(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: "likes"}}), "a", 700)
		for i := range 300 {
			if _, err := c.Join(t.Context(), "likes", fmt.Sprint("user-", i)); err != nil {
				t.Fatal(err)
			}
		}
		var said []int
		says := func(n int) { said = append(said, n) }
		if err := c.Reset(t.Context(), shards.ResetOptions{RemoveMembers: true, Progress: says}); err != nil {
			t.Fatal(err)
		}
		if !slices.IsSorted(said) || len(said) == 0 || said[len(said)-1] > 300 {
			t.Errorf("a reset of 300 members says %v", said)
		}
		said = nil
		if err := c.Delete(t.Context(), shards.DeleteOptions{Progress: says}); err != nil {
			t.Fatal(err)
		}
		// Shards, base and document.
		if !slices.IsSorted(said) || len(said) < 2 || said[len(said)-1] < 702 {
			t.Errorf("a deletion of 700 shards says %v", said)
		}
	})
}

// A member who leaves while a page of members is taken off is taken off once, also where the reset
// is cut short then.
func TestLeavingBesideAResetOfManyMembers(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Fields: "likes"}})
		c := w.counter(t, client, "a", 3)
		var joining sync.WaitGroup
		for i := range 600 {
			joining.Go(func() {
				if _, err := c.Join(t.Context(), "likes", fmt.Sprintf("user-%03d", i)); err != nil {
					t.Error(err)
				}
			})
		}
		joining.Wait()
		other := handle(t, w.open(t, shards.Config{Place: shards.Place{Fields: "likes"}}), "a")
		left := make(chan error, 1)
		w.Before(func() {
			go func() {
				_, err := other.Leave(t.Context(), "likes", "user-000")
				left <- err
			}()
			select { // the reset holds the membership, so this one has to wait
			case err := <-left:
				left <- err
			case <-time.After(300 * time.Millisecond):
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := c.Reset(ctx, shards.ResetOptions{RemoveMembers: true, Progress: func(int) { cancel() }}); err == nil {
			t.Fatal("it was not cut short")
		}
		if err := <-left; err != nil {
			t.Fatal(err)
		}
		audits, err := c.Audit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if audits[0].Otherwise != 0 {
			t.Errorf("%+v, want one for each member", audits[0])
		}
	})
}
