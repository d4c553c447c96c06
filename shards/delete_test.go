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
	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
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

// version is when the ledger of the counter a was last written.
func (w *world) version(t *testing.T) time.Time {
	t.Helper()
	l, err := w.fs.Doc("counters/a/counter_rollup/ledger").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l.UpdateTime
}

// A life ends with everything below its path, whether or not the document is there: what is made
// then begins at 0.
func TestDelete(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, *world, shards.Counter){
		"a counter":           func(*testing.T, *world, shards.Counter) {},
		"its document gone":   func(t *testing.T, w *world, _ shards.Counter) { w.deleteByHand(t) },
		"members, without it": func(t *testing.T, w *world, _ shards.Counter) { w.populate(t, 600); w.deleteByHand(t) },
		"without a ledger": func(t *testing.T, w *world, _ shards.Counter) {
			if _, err := w.fs.Doc("counters/a/counter_rollup/ledger").Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"shards alone": func(t *testing.T, w *world, _ shards.Counter) {
			w.deleteByHand(t)
			if _, err := w.fs.Doc("counters/a/counter_rollup/ledger").Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"members alone": func(t *testing.T, w *world, c shards.Counter) {
			w.populate(t, 3)
			if err := w.fs.RunTransaction(t.Context(), func(_ context.Context, tx *firestore.Transaction) error {
				return errors.Join(tx.Delete(w.fs.Doc("counters/a")), tx.Delete(w.fs.Doc("counters/a/counter_rollup/ledger")),
					tx.Delete(w.fs.Doc("counters/a/shards/0")), tx.Delete(w.fs.Doc("counters/a/shards/1")))
			}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
			if err := c.Add(t.Context(), 7); err != nil {
				t.Fatal(err)
			}
			w.rollUp(t, "a")
			prepare(t, w, c)
			if err := c.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.wantNothing(t)
			if err := c.Delete(t.Context()); !errors.Is(err, shards.ErrNotFound) {
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
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{Counters: "posts/{post}", Fields: "likes,views", Hosted: true})
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
		if err := c.Delete(t.Context()); !errors.Is(err, shards.ErrHosted) {
			t.Errorf("%v, want ErrHosted", err)
		}
	}
	if audits, err := c.Audit(t.Context()); err != nil || audits[0].Members != 1 || audits[1].Shards != 1 {
		t.Errorf("%+v, %v; want that nothing has changed", audits, err)
	}
	if _, err := post.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := post.Collections(t.Context()).GetAll(); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := c.Delete(t.Context()); !errors.Is(err, shards.ErrNotFound) {
		t.Errorf("again: %v, want ErrNotFound", err)
	}
}

// Each answer of a deletion is lost: it takes everything once, and knows its own work.
func TestDeletionLosesItsAnswers(t *testing.T) {
	t.Parallel()
	for _, members := range []int{0, 400, 800} {
		for _, remove := range []bool{false, true} {
			t.Run(fmt.Sprint(members, " remove ", remove), func(t *testing.T) {
				t.Parallel()
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
					if removed, err := c.Remove(t.Context(), w.version(t)); err != nil || !removed {
						t.Errorf("removed %v, %v", removed, err)
					}
				} else if err := c.Delete(t.Context()); err != nil {
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
	t.Parallel()
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
		if err := c.Delete(t.Context()); err != nil {
			t.Errorf("after %d refusals: %v", refused, err)
		}
		w.wantNothing(t)
	}
}

// More shards than one commit deletes: the counter is marked, and goes last.
func TestDeleteLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 1000)
	for n := range 1000 {
		if n%10 == 0 {
			w.inc(t, fmt.Sprint(n), 1)
		}
	}
	w.cutAfter(2) // the mark, and the first part
	if err := c.Delete(t.Context()); status.Code(err) != codes.PermissionDenied {
		t.Fatalf("cut short: %v", err)
	}
	w.Server.SetInterceptor(nil)
	w.wantSum(t, "a", 100)
	if n := len(w.counts(t, "a")); n > 600 {
		t.Errorf("%d shards are left of 1000, want about half", n)
	}
	if err := c.Add(t.Context(), 1); !errors.Is(err, shards.ErrNotFound) {
		t.Errorf("add while it is being deleted: %v, want ErrNotFound", err)
	}
	if err := c.Create(t.Context(), shards.CreateOptions{}); !errors.Is(err, shards.ErrExists) {
		t.Errorf("create while it is being deleted: %v, want ErrExists", err)
	}
	if err := c.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantNothing(t)
	if err := c.Create(t.Context(), shards.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

// A deletion is cut short after any of its commits: then the shards add up to the members and what
// was incremented, whatever shards those members name, and whoever goes on finds it so: another
// deletion, a cleanup, or an increment that makes the document again.
func TestDeletionCutShortAnywhere(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]struct {
		members, shards int
		gone            bool                                     // the document
		prepare         func(*testing.T, *world)                 // before the deletion
		goesOn          func(*testing.T, *world, shards.Counter) // behind it
	}{
		"deleted again":    {members: 501, shards: 3, goesOn: deleteAgain},
		"cleaned up":       {members: 501, shards: 3, goesOn: cleanUp},
		"counted on":       {members: 501, shards: 3, gone: true, goesOn: countOn},
		"made again":       {members: 600, shards: 3, gone: true, goesOn: makeAgain},
		"of many shards":   {members: 250, shards: 520, gone: true, goesOn: countOn},
		"marked and large": {members: 250, shards: 520, goesOn: deleteAgain},
		"of members whose shard is gone": {members: 600, shards: 3, gone: true, goesOn: countOn, prepare: func(t *testing.T, w *world) {
			move(t, w, "1", "2")
		}},
		"of members whose shard is gone, and the first": {members: 600, shards: 3, gone: true, goesOn: countOn, prepare: func(t *testing.T, w *world) {
			move(t, w, "1", "2")
			move(t, w, "0", "2")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for cut := 0; ; cut++ {
				w := newWorld(t)
				client := w.open(t, shards.Config{})
				c := w.counter(t, client, "a", s.shards)
				w.populate(t, s.members)
				w.inc(t, "0", 5)
				w.rollUp(t, "a")
				if s.prepare != nil {
					s.prepare(t, w)
				}
				if s.gone {
					w.deleteByHand(t)
				}
				w.cutAfter(cut)
				err := c.Delete(t.Context())
				w.Server.SetInterceptor(nil)
				if err == nil {
					if cut < 2 {
						t.Errorf("everything went in %d commits: the test shows nothing", cut)
					}
					w.wantNothing(t)
					return
				}
				if status.Code(err) != codes.PermissionDenied {
					t.Fatal(err)
				}
				w.wantSum(t, "a", 5+int64(w.memberships(t)))
				if cut > 0 && !s.gone {
					if _, err := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a").Join(t.Context(), "total", "late"); !errors.Is(err, shards.ErrNotFound) {
						t.Errorf("after %d commits one joins: %v, want ErrNotFound: it is marked", cut, err)
					}
				}
				s.goesOn(t, w, c)
				if t.Failed() {
					t.Fatalf("cut short after %d commits", cut)
				}
			}
		})
	}
}

func deleteAgain(t *testing.T, w *world, c shards.Counter) {
	t.Helper()
	if err := c.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	w.wantNothing(t)
}

// cleanUp does what a reconcile does with a deletion that was cut short. One that has not
// begun is left alone.
func cleanUp(t *testing.T, w *world, c shards.Counter) {
	t.Helper()
	doc, err := w.fs.Doc("counters/a").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	removed, err := c.Remove(t.Context(), w.version(t))
	if marked := doc.Data()["deleting"] == true; err != nil || removed != marked {
		t.Errorf("removed %v, %v; marked %v", removed, err, marked)
	} else if marked {
		w.wantNothing(t)
	}
}

// countOn makes the document again by joins and increments, of an instance that knows
// nothing of all that.
func countOn(t *testing.T, w *world, _ shards.Counter) {
	t.Helper()
	c := handle(t, w.open(t, shards.Config{AutoCreate: true, NumShards: 2}), "a")
	before := int64(w.memberships(t))
	if !join(t, c, "new") {
		t.Error("not counted")
	}
	if err := c.Add(t.Context(), 10); err != nil {
		t.Error(err)
	}
	w.rollUp(t, "a")
	w.wantRolledUp(t, before+16)
}

// makeAgain is what an app does that writes the document itself, with numbers of its own.
func makeAgain(t *testing.T, w *world, _ shards.Counter) {
	t.Helper()
	if _, err := w.fs.Doc("counters/a").Set(t.Context(), map[string]any{"total": 9999}); err != nil {
		t.Fatal(err)
	}
	w.rollUp(t, "a")
	w.wantRolledUp(t, int64(w.memberships(t))+5)
}

// move adds what a shard holds to another one and deletes it, as a resize does.
func move(t *testing.T, w *world, from, to string) {
	t.Helper()
	held := w.counts(t, "a")[from]
	if _, err := w.fs.Doc("counters/a/shards/" + from).Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.inc(t, to, held)
}

// Others, who know nothing of a deletion, count and join between its steps: nothing stays behind.
func TestCountingBesideADeletion(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprint("gone ", gone), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			other := handle(t, w.open(t, shards.Config{}), "a")
			w.counter(t, w.open(t, shards.Config{}), "a", 3)
			w.populate(t, 600)
			w.rollUp(t, "a")
			if err := other.Add(t.Context(), 1); err != nil { // it knows the counter from now on
				t.Fatal(err)
			}
			if gone {
				w.deleteByHand(t)
			}
			joined := 0
			c := handle(t, w.sending(t, shards.Config{}, "BeginTransaction", func(n int) {
				counted, err := other.Join(t.Context(), "total", fmt.Sprint("late", n))
				if counted {
					joined++
				}
				if err == nil {
					err = other.Add(t.Context(), 1)
				}
				if err != nil && !errors.Is(err, shards.ErrNotFound) {
					t.Errorf("beside the deletion: %v", err)
				}
				w.rollUp(t, "a")
			}), "a")
			if err := c.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			if joined < 2 {
				t.Errorf("%d joined: the test shows nothing", joined)
			}
			w.wantNothing(t)
		})
	}
}

// A counter is deleted while a crowd joins, leaves and counts by instances that have it in their
// caches, and one that makes it again: in the end shards and members agree, whichever life that is.
func TestDeletionsBesideACrowd(t *testing.T) {
	t.Parallel()
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
		if err := c.Delete(t.Context()); err != nil && !errors.Is(err, shards.ErrNotFound) && !errors.Is(err, shards.ErrBusy) {
			t.Error(err)
		}
	}
	stop()
	group.Wait()
	w.wantSum(t, "a", int64(w.memberships(t)))
	if err := c.Delete(t.Context()); err != nil && !errors.Is(err, shards.ErrNotFound) {
		t.Error(err)
	}
	w.wantNothing(t)
}

// A shard that somebody makes between a deletion's steps goes with the counter: the roll-up would
// make another of it.
func TestShardMadeBesideADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.counter(t, w.open(t, shards.Config{}), "a", 3)
	w.populate(t, 600)
	steps := 0
	c := handle(t, w.sending(t, shards.Config{}, "BeginTransaction", func(n int) {
		steps++
		if _, err := w.fs.Doc(fmt.Sprint("counters/a/shards/", 10+n)).Set(t.Context(), map[string]any{"count": 1}); err != nil {
			t.Error(err)
		}
	}), "a")
	if err := c.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if steps < 3 {
		t.Errorf("%d steps: the test shows nothing", steps)
	}
	w.wantNothing(t)
}

// A part of a large deletion whose answer is lost, the first or the last, arrives when the counter
// is gone and was made again: it leaves the new one alone.
func TestLatePartOfADeletionSparesTheSuccessor(t *testing.T) {
	t.Parallel()
	for part, is := range map[string]func(deleted string) bool{
		"first": func(deleted string) bool { return strings.Contains(deleted, "/shards/") },
		"last":  func(deleted string) bool { return strings.HasSuffix(deleted, "/counters/a") },
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			c := w.counter(t, client, "a", 1000)
			release := w.hold(t, func(req *firestorepb.CommitRequest) bool {
				return slices.ContainsFunc(req.GetWrites(), func(w *firestorepb.Write) bool { return is(w.GetDelete()) })
			})
			if err := c.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			c = w.counter(t, client, "a", 1000)
			for range 20 {
				if err := c.Add(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			}
			if err := release(); err == nil {
				t.Error("the late commit was applied")
			}
			w.wantSum(t, "a", 20)
			if n := len(w.counts(t, "a")); n != 1000 {
				t.Errorf("%d shards, want 1000", n)
			}
			if doc, err := w.fs.Doc("counters/a").Get(t.Context()); err != nil {
				t.Errorf("the new counter: %v, %v", doc.Data(), err)
			}
		})
	}
}

// Two delete a large counter, and one of them has made it again when the other goes on, with any of
// its steps, or has lost the answer to it: the one that was made again is another life.
func TestTwoDeletionsSpareTheSuccessor(t *testing.T) {
	t.Parallel()
	for _, hosted := range []bool{false, true} {
		for step := 2; step < 5; step++ {
			t.Run(fmt.Sprint("remove ", hosted, " step ", step), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				other := handle(t, w.open(t, shards.Config{}), "a")
				w.counter(t, w.open(t, shards.Config{}), "a", 700)
				w.populate(t, 600)
				w.rollUp(t, "a")
				if hosted {
					w.deleteByHand(t)
				}
				reached := false
				c := handle(t, w.sending(t, shards.Config{}, "BeginTransaction", func(n int) {
					if n != step {
						return
					}
					reached = true
					if err := errors.Join(other.Delete(t.Context()), other.Create(t.Context(), shards.CreateOptions{Shards: 700}), other.Add(t.Context(), 20)); err != nil {
						t.Error(err)
					}
					join(t, other, "u")
					if hosted {
						w.deleteByHand(t)
					}
				}), "a")
				if hosted {
					if _, err := c.Remove(t.Context(), w.version(t)); err != nil {
						t.Error(err)
					}
				} else if err := c.Delete(t.Context()); err != nil {
					t.Error(err)
				}
				if !reached {
					t.Error("there were fewer steps: the test shows nothing")
				}
				w.wantSum(t, "a", 21)
				if n, m := len(w.counts(t, "a")), w.memberships(t); n != 700 || m != 1 {
					t.Errorf("%d shards and %d members, want 700 and 1", n, m)
				}
			})
		}
	}
}

// What a reconcile has found without its document goes as long as nothing was counted since, and
// the document isn't back.
func TestRemove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 3)
	w.populate(t, 300)
	w.rollUp(t, "a")
	spared := func(why string, version time.Time) {
		t.Helper()
		before := w.everything(t)
		if removed, err := client.Remove(t.Context(), "a", version); err != nil || removed {
			t.Errorf("%s: removed %v, %v; want that it is spared", why, removed, err)
		}
		if diff := cmp.Diff(before, w.everything(t)); diff != "" {
			t.Errorf("%s: (-before +after)\n%s", why, diff)
		}
	}
	spared("the document is there", w.version(t))
	w.deleteByHand(t)
	w.rollUp(t, "a")
	earlier := w.version(t)
	w.inc(t, "0", 1)
	w.rollUp(t, "a")
	spared("something was counted since", earlier)
	spared("no version", time.Time{})
	spared("one that comes", w.version(t).Add(time.Microsecond))
	if removed, err := client.Remove(t.Context(), "a", w.version(t)); err != nil || !removed {
		t.Errorf("removed %v, %v", removed, err)
	}
	w.wantNothing(t)
	spared("there is nothing", earlier)
	if _, err := client.Remove(t.Context(), "", earlier); !errors.Is(err, shards.ErrInvalidID) {
		t.Errorf("%v, want ErrInvalidID", err)
	}
	_ = c
}

// The document comes back between the steps of a removal, which has taken some members by then: the
// rest stays, and adds up.
func TestTheDocumentComesBackDuringARemoval(t *testing.T) {
	t.Parallel()
	for _, hosted := range []bool{false, true} {
		t.Run(fmt.Sprint("hosted ", hosted), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.counter(t, w.open(t, shards.Config{}), "a", 3)
			w.populate(t, 600)
			w.rollUp(t, "a")
			w.deleteByHand(t)
			c := handle(t, w.sending(t, shards.Config{Hosted: hosted}, "BeginTransaction", func(n int) {
				if n == 2 {
					if _, err := w.fs.Doc("counters/a").Set(t.Context(), map[string]any{"title": "back"}); err != nil {
						t.Error(err)
					}
				}
			}), "a")
			if removed, err := c.Remove(t.Context(), w.version(t)); err != nil || removed {
				t.Errorf("removed %v, %v; want that it is back", removed, err)
			}
			n := w.memberships(t)
			if n == 0 || n == 600 {
				t.Errorf("%d members are left of 600, want some", n)
			}
			w.rollUp(t, "a")
			w.wantRolledUp(t, int64(n))
		})
	}
}

// A removal that runs out of time says so, and the next one goes on.
func TestARemovalRunsOutOfTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.counter(t, w.open(t, shards.Config{}), "a", 3)
	w.populate(t, 600)
	w.rollUp(t, "a")
	w.deleteByHand(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := handle(t, w.sending(t, shards.Config{}, "BeginTransaction", func(n int) {
		if n == 2 {
			cancel()
		}
	}), "a")
	if removed, err := c.Remove(ctx, w.version(t)); err != nil || removed {
		t.Errorf("removed %v, %v; want that time ran out", removed, err)
	}
	w.wantSum(t, "a", int64(w.memberships(t)))
	if removed, err := c.Remove(t.Context(), w.version(t)); err != nil || !removed {
		t.Errorf("removed %v, %v", removed, err)
	}
	w.wantNothing(t)
}

// A deletion of what a document deleted by hand has left is cut short, and a reconcile finishes it. Counts that nobody deletes are
// kept, however long the document is gone.
func TestAReconcileFinishesADeletionWithoutADocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 3)
	w.populate(t, 600)
	w.rollUp(t, "a")
	w.deleteByHand(t)
	roll, err := rollup.Open(t.Context(), rollup.Config{Project: "p"}, option.WithGRPCConn(w.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer roll.Close()
	reconcile := func() rollup.Report {
		t.Helper()
		r, err := roll.Reconcile(t.Context(), "a", rollup.ReconcileOptions{Remove: client.Remove, CleanupAfter: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for range 3 {
		if r := reconcile(); r.Deleted || w.memberships(t) != 600 {
			t.Fatalf("%+v, and %d members; want that all are kept", r, w.memberships(t))
		}
	}
	w.cutAfter(1)
	if err := c.Delete(t.Context()); status.Code(err) != codes.PermissionDenied {
		t.Fatalf("cut short: %v", err)
	}
	w.Server.SetInterceptor(nil)
	if r := reconcile(); !r.Deleted {
		t.Errorf("%+v, want the deletion finished", r)
	}
	w.wantNothing(t)
}
