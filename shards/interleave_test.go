package shards_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// before does something at the moment when the next commit has been sent and is not applied yet.
func (w *world) before(do func()) {
	w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		w.Server.SetInterceptor(nil)
		do()
		return emulator.Verdict{}
	})
}

// afterLost does something after the next commit was applied, whose answer gets lost, and before anything follows it.
func (w *world) afterLost(t *testing.T, do func()) {
	direct := firestorepb.NewFirestoreClient(w.Conn(t))
	w.Server.SetInterceptor(func(ctx context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		w.Server.SetInterceptor(nil)
		if _, err := direct.Commit(ctx, req); err != nil {
			t.Errorf("the commit whose answer is to be lost: %v", err)
		}
		do()
		return emulator.Verdict{Before: unavailable}
	})
}

// asking opens a client, and does something before each of its queries of one kind.
func (w *world) asking(t *testing.T, cfg shards.Config, method string, do func()) *shards.Client {
	t.Helper()
	conn, err := w.Server.Connect(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, called string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if strings.HasSuffix(called, "/"+method) {
			do()
		}
		return streamer(ctx, desc, cc, called, opts...)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	cfg.Project = "p"
	client, err := shards.Open(t.Context(), cfg, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// inc adds to a shard as a public client does.
func (w *world) inc(t *testing.T, shard string, by int64) {
	t.Helper()
	ref := w.fs.Collection("counters").Doc("a").Collection("shards").Doc(shard)
	if _, err := ref.Update(t.Context(), []firestore.Update{{Path: "count", Value: firestore.Increment(by)}}); err != nil {
		t.Error(err)
	}
}

// A reset whose answer is lost is not done again: what is counted after it stays.
func TestResetLosesItsAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
	w.inc(t, "0", 5)
	w.afterLost(t, func() { w.inc(t, "1", 3) })
	if err := c.Reset(t.Context(), shards.ResetOptions{}); err != nil {
		t.Fatal(err)
	}
	w.wantSum(t, "a", 3)
}

// A command that comes between what another one has read and its commit: the other one looks again.
func TestCommandBesideACommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 2)
	rebase := func(total int64) {
		if err := handle(t, client, "a").Rebase(t.Context(), total); err != nil {
			t.Error(err)
		}
	}
	w.before(func() { rebase(100) })
	if err := c.Reset(t.Context(), shards.ResetOptions{}); err != nil {
		t.Fatal(err)
	}
	w.wantSum(t, "a", 0)
	if got := w.total(t, "a"); got != 0 {
		t.Errorf("total %d, want 0", got)
	}
}

// An increment of a shard that is being moved, between the move's read and its commit, is moved too.
func TestIncrementBesideAMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
	w.inc(t, "1", 5)
	moves := 0
	var watch func(context.Context, *firestorepb.CommitRequest) emulator.Verdict
	watch = func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		removes := func(w *firestorepb.Write) bool { return strings.HasSuffix(w.GetDelete(), "/shards/1") }
		if slices.ContainsFunc(req.GetWrites(), removes) {
			if moves++; moves == 1 {
				w.Server.SetInterceptor(nil)
				w.inc(t, "1", 3)
				w.Server.SetInterceptor(watch)
			}
		}
		return emulator.Verdict{}
	}
	w.Server.SetInterceptor(watch)
	if err := c.Resize(t.Context(), 1, shards.ResizeOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Server.SetInterceptor(nil)
	if moves != 2 {
		t.Errorf("%d moves were sent, want another one after the increment", moves)
	}
	if counts := w.counts(t, "a"); len(counts) != 1 || counts["0"] != 8 {
		t.Errorf("shards %v, want 8 in shard 0", counts)
	}
}

// Contention on a shard sends the increment to another one.
func TestContentionPicksAnotherShard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
	var mu sync.Mutex
	var met []string
	w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		mu.Lock()
		defer mu.Unlock()
		met = append(met, req.GetWrites()[len(req.GetWrites())-1].GetUpdate().GetName())
		if len(met) < 7 {
			return emulator.Verdict{Before: aborted}
		}
		return emulator.Verdict{}
	})
	if err := c.Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(slices.Compact(slices.Clone(met))) != 7 {
		t.Errorf("the commits went to %v, want never twice in a row to the same shard", met)
	}
}

// A shard that an increment makes while the counter is being deleted goes with it.
func TestShardMadeBesideADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
	last := w.fs.Collection("counters").Doc("a").Collection("shards").Doc("2")
	if _, err := last.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.before(func() {
		if _, err := last.Create(t.Context(), map[string]any{"count": 1}); err != nil {
			t.Error(err)
		}
	})
	if err := c.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if counts := w.counts(t, "a"); len(counts) > 0 {
		t.Errorf("shards %v are left behind: the roll-up would make a counter of them", counts)
	}
}

// Where the number of shards is inferred, increments may make any shard up to the usual number: it goes with the counter too.
func TestInferredShardMadeBesideADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.fs.Doc("counters/a").Set(t.Context(), map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.fs.Doc("counters/a/shards/0").Set(t.Context(), map[string]any{"count": 0}); err != nil {
		t.Fatal(err)
	}
	w.rollUp(t, "a")
	other := handle(t, w.open(t, shards.Config{NumShards: 1000}), "a")
	w.before(func() {
		if !join(t, other, "u") {
			t.Error("not counted")
		}
	})
	if err := handle(t, w.open(t, shards.Config{}), "a").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if counts := w.counts(t, "a"); len(counts) > 0 {
		t.Errorf("shards %v are left behind: the roll-up would make a counter of them", counts)
	}
	w.wantMembers(t, other)
}

// Two make a counter over what an earlier one left behind: the slower one leaves the faster one's alone.
func TestCreationBesideACreation(t *testing.T) {
	t.Parallel()
	for _, left := range []string{"shards/0", "counter_rollup/ledger"} {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		ref := w.fs.Collection("counters").Doc("a")
		if _, err := w.fs.Doc("counters/a/"+left).Set(t.Context(), map[string]any{"count": 7, "base": 7}); err != nil {
			t.Fatal(err)
		}
		w.before(func() {
			if err := handle(t, client, "a").Create(t.Context(), shards.CreateOptions{Shards: 2, Total: 100}); err != nil {
				t.Error(err)
			}
		})
		if err := handle(t, client, "a").Create(t.Context(), shards.CreateOptions{Shards: 2}); !errors.Is(err, shards.ErrExists) {
			t.Errorf("over %s: %v, want ErrExists", left, err)
		}
		if doc, err := ref.Get(t.Context()); err != nil || doc.Data()["total"] != int64(100) || len(w.counts(t, "a")) != 2 {
			t.Errorf("over %s: %v, shards %v, %v", left, doc.Data(), w.counts(t, "a"), err)
		}
		w.wantSum(t, "a", 100)
	}
}

// A command whose commit's answer was lost looks again, and finds another counter under the id: that one is left alone.
func TestACommandFindsASuccessor(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(ctx context.Context, c shards.Counter) error{
		"rebase": func(ctx context.Context, c shards.Counter) error { return c.Rebase(ctx, 500) },
		"reset":  func(ctx context.Context, c shards.Counter) error { return c.Reset(ctx, shards.ResetOptions{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			c := w.counter(t, client, "a", 1)
			w.afterLost(t, func() {
				other := handle(t, client, "a")
				if err := errors.Join(other.Delete(t.Context()), other.Create(t.Context(), shards.CreateOptions{Shards: 1, Total: 7})); err != nil {
					t.Error(err)
				}
			})
			if err := do(t.Context(), c); !errors.Is(err, shards.ErrNotFound) || !errors.Is(err, shards.ErrUnknown) {
				t.Errorf("%v, want ErrNotFound, and ErrUnknown: it was applied", err)
			}
			w.wantSum(t, "a", 7)
		})
	}
}

// The answer of a command is lost, and then its counter is deleted: nobody knows any more whether it was applied. While the
// counter is only being deleted, its ledger still tells.
func TestACommandWhoseCounterIsDeleted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]error{"gone": shards.ErrUnknown, "being deleted": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			c := w.counter(t, client, "a", 1)
			w.afterLost(t, func() {
				var err error
				if want == nil {
					_, err = w.fs.Doc("counters/a").Update(t.Context(), []firestore.Update{{Path: "deleting", Value: true}})
				} else {
					err = handle(t, client, "a").Delete(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			})
			if err := c.Rebase(t.Context(), 500); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
}

// Who still thinks that a counter has many shards brings none back that a resize has removed.
func TestResizeThatOthersMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	late := w.open(t, shards.Config{})
	c := w.counter(t, late, "a", 50)
	if err := c.Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := handle(t, w.open(t, shards.Config{}), "a").Resize(t.Context(), 1, shards.ResizeOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if counts := w.counts(t, "a"); len(counts) != 1 || counts["0"] != 4 {
		t.Errorf("shards %v, want 4 in shard 0", counts)
	}
}

// A member leaves by an instance that has not noticed that the counter was deleted by hand. Then another instance makes it anew:
// what the member had counted is taken off once.
func TestMemberLeavesBeforeACounterIsRevived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
	join(t, c, "u")
	join(t, c, "v")
	w.rollUp(t, "a")
	if _, err := w.fs.Doc("counters/a").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	leave(t, c, "u")
	leave(t, c, "v")
	again := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a")
	join(t, again, "w")
	w.rollUp(t, "a")
	w.wantMembers(t, again, "w")
}

// An instance that has not noticed that the counter was deleted by hand takes something off it. The counter that is made anew
// begins with that alone, and not with what the earlier one had.
func TestDecrementBeforeACounterIsRevived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
	if err := c.Add(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	w.rollUp(t, "a")
	if _, err := w.fs.Doc("counters/a").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(t.Context(), -3); err != nil {
		t.Fatal(err)
	}
	if err := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a").Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	w.wantSum(t, "a", -2)
	if r := w.rollUp(t, "a"); r.After != -2 {
		t.Errorf("%+v, want a total of -2", r)
	}
}

// Of a counter that is made anew, a field with members goes on with them, and one without begins at zero. In a third one
// everybody has left since it was rolled up, by whatever shards.
func TestRevivalOfFieldsWithAndWithoutMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := shards.Config{Fields: "total=count,likes,bookmarks", NumShards: 3}
	c := w.counter(t, w.open(t, cfg), "a", 3)
	for i := range 9 {
		for _, field := range []string{"likes", "bookmarks"} {
			if _, err := c.Join(t.Context(), field, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Add(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	rollUp := func() {
		t.Helper()
		client, err := rollup.Open(t.Context(), rollup.Config{Project: "p", Fields: cfg.Fields}, option.WithGRPCConn(w.Conn(t)))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := client.Reconcile(t.Context(), "a", rollup.ReconcileOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	rollUp()
	if _, err := w.fs.Doc("counters/a").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 9 {
		if _, err := c.Leave(t.Context(), "bookmarks", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	cfg.AutoCreate = true
	again := handle(t, w.open(t, cfg), "a")
	if err := again.Add(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	for _, rolledUp := range []bool{false, true} {
		if rolledUp {
			rollUp()
		}
		audits, err := again.Audit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []shards.Audit{
			{Field: "total", Shards: 2, Otherwise: 2, Exact: 2},
			{Field: "likes", Shards: 9, Members: 9, Exact: 9},
			{Field: "bookmarks"},
		} {
			if rolledUp {
				want.Total = want.Exact
			}
			if audits[i] != want {
				t.Errorf("rolled up %v: %+v, want %+v", rolledUp, audits[i], want)
			}
		}
	}
}

// The part of a creation that removes an earlier counter's members arrives late: the counter has been made, joined by the same
// members and deleted by hand since. They are others, and stay with their counts.
func TestLateRemovalOfMembersSparesTheirSuccessors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 2)
	join(t, c, "u")
	deleteByHand := func() {
		t.Helper()
		if _, err := w.fs.Doc("counters/a").Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	deleteByHand()
	release := w.hold(t, func(req *firestorepb.CommitRequest) bool {
		return strings.Contains(req.GetWrites()[0].GetDelete(), "/total_members/")
	})
	c = w.counter(t, client, "a", 2)
	join(t, c, "u")
	deleteByHand()
	if err := release(); err == nil {
		t.Error("the late commit was applied")
	}
	again := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a")
	join(t, again, "v")
	w.rollUp(t, "a")
	w.wantMembers(t, again, "u", "v")
}

// The same with the part that removes shards that were there without a counter or ledger: they are the new one's, and hold what it
// has acknowledged.
func TestLateRemovalOfShardsSparesTheirSuccessors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	doc := w.fs.Doc("counters/a")
	if _, err := doc.Collection("shards").Doc("0").Set(t.Context(), map[string]any{"count": 7}); err != nil {
		t.Fatal(err)
	}
	release := w.hold(t, func(req *firestorepb.CommitRequest) bool {
		return strings.Contains(req.GetWrites()[0].GetDelete(), "/shards/")
	})
	if err := w.counter(t, client, "a", 1).Add(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []*firestore.DocumentRef{doc, doc.Collection("counter_rollup").Doc("ledger")} {
		if _, err := ref.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := release(); err == nil {
		t.Error("the late commit was applied")
	}
	if err := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a").Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if r := w.rollUp(t, "a"); r.After != 6 {
		t.Errorf("%+v, want 6: nothing was rolled up before", r)
	}
}

// AUTO_CREATE is about to make a counter over shards that somebody is removing, who has yet to remove their members: it looks again,
// and leaves none of them to the new counter. Whether the ledger can be read makes no difference.
func TestAutoCreateBesideARemovalOfShards(t *testing.T) {
	t.Parallel()
	for _, damaged := range []bool{false, true} {
		t.Run(fmt.Sprint("damaged ", damaged), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			join(t, w.counter(t, w.open(t, shards.Config{}), "a", 1), "u")
			doc := w.fs.Doc("counters/a")
			if damaged {
				if _, err := doc.Collection("counter_rollup").Doc("ledger").Update(t.Context(), []firestore.Update{{Path: "base", Value: "x"}}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := doc.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.before(func() {
				if _, err := doc.Collection("shards").Doc("0").Delete(t.Context()); err != nil {
					t.Error(err)
				}
			})
			auto := handle(t, w.open(t, shards.Config{AutoCreate: true, NumShards: 1}), "a")
			join(t, auto, "v")
			w.wantMembers(t, auto, "v")
		})
	}
}

// The commit that makes a counter beside a snippet's shards arrives late: the counter has been rolled up and deleted by hand since.
// What it had counted does not come back.
func TestLateCreationBesideShardsBringsNothingBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.fs.Doc("counters/a/shards/0").Set(t.Context(), map[string]any{"count": 5}); err != nil {
		t.Fatal(err)
	}
	release := w.hold(t, func(req *firestorepb.CommitRequest) bool {
		return strings.HasSuffix(req.GetWrites()[0].GetUpdate().GetName(), "/counters/a")
	})
	auto := handle(t, w.open(t, shards.Config{AutoCreate: true, NumShards: 1}), "a")
	if err := auto.Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if r := w.rollUp(t, "a"); r.After != 6 {
		t.Fatalf("%+v, want 6", r)
	}
	if _, err := w.fs.Doc("counters/a").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := release(); err == nil {
		t.Error("the late commit was applied")
	}
	if err := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a").Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	w.rollUp(t, "a")
	w.wantSum(t, "a", 1)
}

// The same over the ledger of a counter that was deleted by hand: what the commit takes off the shards is taken off once.
func TestLateCreationOverALedgerTakesNothingOffAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.counter(t, w.open(t, shards.Config{}), "a", 1).Add(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	deleteByHand := func() {
		t.Helper()
		w.rollUp(t, "a")
		if _, err := w.fs.Doc("counters/a").Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	autoCreate := func() {
		t.Helper()
		if err := handle(t, w.open(t, shards.Config{AutoCreate: true, NumShards: 1}), "a").Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	deleteByHand()
	release := w.hold(t, func(req *firestorepb.CommitRequest) bool {
		return strings.HasSuffix(req.GetWrites()[0].GetUpdate().GetName(), "/counters/a")
	})
	autoCreate()
	deleteByHand()
	if err := release(); err == nil {
		t.Error("the late commit was applied")
	}
	autoCreate()
	w.rollUp(t, "a")
	w.wantSum(t, "a", 1)
}

// AUTO_CREATE looks for members and reads shards as of one time. Here a member has left, which was not rolled up, and another joins
// between the two reads, by an instance that has not noticed that the counter was deleted by hand.
func TestAutoCreateReadsShardsAndMembersAtOneTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.counter(t, w.open(t, shards.Config{}), "a", 2)
	w.inc(t, "0", 1)
	w.rollUp(t, "a")
	w.inc(t, "1", -1) // the same member
	doc := w.fs.Doc("counters/a")
	if _, err := doc.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	client := w.asking(t, shards.Config{AutoCreate: true, NumShards: 2}, "RunQuery", sync.OnceFunc(func() {
		w.inc(t, "1", 1)
		if _, err := doc.Collection("total_members").Doc("v").Create(t.Context(), map[string]any{"member": "v", "shard": "1"}); err != nil {
			t.Error(err)
		}
	}))
	auto := handle(t, client, "a")
	join(t, auto, "w")
	w.rollUp(t, "a")
	w.wantMembers(t, auto, "v", "w")
}

// What a counter of many shards has left behind is removed in several commits. One that AUTO_CREATE makes between two of them has
// nothing of it.
func TestAutoCreateBetweenRemovals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 600)
	for range 300 {
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	w.rollUp(t, "a")
	if _, err := w.fs.Doc("counters/a").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	removals := 0
	w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		if removals++; removals == 2 {
			w.Server.SetInterceptor(nil)
			if err := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a").Add(t.Context(), 1); err != nil {
				t.Error(err)
			}
		}
		return emulator.Verdict{}
	})
	if err := handle(t, w.open(t, shards.Config{}), "a").Create(t.Context(), shards.CreateOptions{}); !errors.Is(err, shards.ErrExists) {
		t.Errorf("create: %v, want ErrExists", err)
	}
	if removals < 2 {
		t.Error("all went in one commit: the test shows nothing")
	}
	w.rollUp(t, "a")
	w.wantSum(t, "a", 1)
}

// late keeps the next commit that is no transaction's on its way while first happens. Its sender is told that it is unavailable, and sends another: the
// first one arrives just before that.
func (w *world) late(t *testing.T, first func()) {
	direct := firestorepb.NewFirestoreClient(w.Conn(t))
	w.Server.SetInterceptor(func(_ context.Context, held *firestorepb.CommitRequest) emulator.Verdict {
		if len(held.GetTransaction()) > 0 {
			return emulator.Verdict{}
		}
		w.Server.SetInterceptor(nil)
		first()
		w.Server.SetInterceptor(func(ctx context.Context, _ *firestorepb.CommitRequest) emulator.Verdict {
			w.Server.SetInterceptor(nil)
			if _, err := direct.Commit(ctx, held); err != nil {
				t.Errorf("the commit that is late: %v", err)
			}
			return emulator.Verdict{}
		})
		return emulator.Verdict{Before: unavailable}
	})
}

// An import whose first commit is late tells what that has brought, and not what the second would have.
func TestImportTellsWhatALateCommitBrought(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 1)
	add := func(n int) {
		shard := w.fs.Doc("pages/hello/_counter_shards_/one")
		if _, err := shard.Set(t.Context(), map[string]any{"visits": firestore.Increment(n)}, firestore.MergeAll); err != nil {
			t.Error(err)
		}
	}
	add(10)
	w.late(t, func() { add(2) })
	for _, want := range []shards.Import{{Value: 10, Added: 10}, {Value: 12, Added: 2}, {Value: 12}} {
		if got, err := c.ImportExtension(t.Context(), visits); err != nil || got != want {
			t.Errorf("import: %+v, %v; want %+v", got, err, want)
		}
		w.wantSum(t, "a", want.Value)
	}
}

func TestImportInPlaceTellsWhatALateCommitBrought(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	p.set(p.page, map[string]any{"title": "Hello", "visits": 1000})
	p.wantImport(visits, 1000, 0)
	p.set(p.inbox.Doc("a"), map[string]any{"visits": 10})
	p.late(t, func() { p.set(p.inbox.Doc("a"), map[string]any{"visits": firestore.Increment(2)}) })
	p.wantImport(visits, 1010, 10)
	p.wantPage(1010, 0)
	p.wantImport(visits, 1012, 2)
	p.wantPage(1012, 0)
}

// A command that is refused while an earlier attempt of it is on its way is not refused: that may yet be applied.
func TestRefusedInDoubtIsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 1)
	page := w.fs.Doc("pages/hello")
	if _, err := page.Set(t.Context(), map[string]any{"visits": 7}); err != nil {
		t.Fatal(err)
	}
	var held *firestorepb.CommitRequest
	w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		w.Server.SetInterceptor(nil)
		held = req
		if _, err := page.Update(t.Context(), []firestore.Update{{Path: "visits", Value: 0.5}}); err != nil {
			t.Error(err)
		}
		return emulator.Verdict{Before: unavailable}
	})
	if _, err := c.ImportExtension(t.Context(), visits); !errors.Is(err, shards.ErrUnknown) || !errors.Is(err, shards.ErrNotInteger) {
		t.Errorf("import: %v, want ErrUnknown and ErrNotInteger", err)
	}
	if _, err := firestorepb.NewFirestoreClient(w.Conn(t)).Commit(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	w.wantSum(t, "a", 7)
}

// An import reads the document and the shards of the extension as of one time, though its workers move counts from these to that.
func TestImportReadsItsSourceAtOneTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.counter(t, w.open(t, shards.Config{}), "a", 1)
	page := w.fs.Doc("pages/hello")
	shard := page.Collection("_counter_shards_").Doc("one")
	for ref, n := range map[*firestore.DocumentRef]int{page: 100, shard: 10} {
		if _, err := ref.Set(t.Context(), map[string]any{"visits": n}); err != nil {
			t.Fatal(err)
		}
	}
	client := w.asking(t, shards.Config{}, "RunQuery", sync.OnceFunc(func() {
		move := func(_ context.Context, tx *firestore.Transaction) error {
			return errors.Join(tx.Set(page, map[string]any{"visits": 110}), tx.Delete(shard))
		}
		if err := w.fs.RunTransaction(t.Context(), move); err != nil {
			t.Error(err)
		}
	}))
	want := shards.Import{Value: 110, Added: 110}
	if got, err := handle(t, client, "a").ImportExtension(t.Context(), visits); err != nil || got != want {
		t.Errorf("import: %+v, %v; want %+v", got, err, want)
	}
}
