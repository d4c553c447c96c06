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

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/chance"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// withLimit has a total with a limit, of 0 until it is set.
var withLimit = shards.Config{Place: shards.Place{Fields: "total=limit()"}}

// rollUpLimit is [world.rollUp] of such a total.
func (w *world) rollUpLimit(t *testing.T, id string) rollup.Report {
	t.Helper()
	return w.reconcile(t, rollup.Config{Place: withLimit.Place}, id, rollup.ReconcileOptions{})
}

// limit sets a limit of a counter's total.
func limit(t *testing.T, c shards.Counter, n int64) {
	t.Helper()
	if err := c.SetLimit(t.Context(), "total", n); err != nil {
		t.Fatal(err)
	}
}

// wantLimit fails unless err is an ErrLimit with so much left.
func wantLimit(t *testing.T, err error, left int64) {
	t.Helper()
	of, ok := errors.AsType[*shards.LimitError](err)
	if !errors.Is(err, shards.ErrLimit) || !ok || of.Left != left {
		t.Errorf("%v, want ErrLimit with %d left", err, left)
	}
}

// shares are what shards of a counter hold of its limit. It fails where one counts more.
func (w *world) shares(t *testing.T, id string) (sum int64, ids []string) {
	t.Helper()
	docs, err := w.fs.Collection("counters").Doc(id).Collection("shards").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range docs {
		share, has := doc.Data()["share(total)"].(int64)
		count, members := doc.Data()["total"], doc.Data()["members(total)"]
		if !has {
			continue
		}
		if count := count.(int64); count < 0 || count > share || members.(int64) > count {
			t.Errorf("shard %s holds %v", doc.Ref.ID, doc.Data())
		}
		sum += share
		ids = append(ids, doc.Ref.ID)
	}
	return sum, ids
}

func TestLimit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, withLimit), "a", 3)
		add := func(by int64) error { return c.Add(t.Context(), by) }
		wantLimit(t, add(2), 0)
		limit(t, c, 2)
		if err := add(2); err != nil {
			t.Fatal(err)
		}
		limit(t, c, 10)
		if sum, ids := w.shares(t, "a"); sum != 10 || !slices.Equal(ids, []string{"total~0", "total~1", "total~2"}) {
			t.Errorf("shares of %d in %v, want 10 in three", sum, ids)
		}
		wantLimit(t, add(9), 8)
		for _, by := range []int64{7, 1, -10, 10} { // over shards, and all of it
			if err := add(by); err != nil {
				t.Fatalf("%d: %v", by, err)
			}
		}
		wantLimit(t, add(1), 0)
		wantLimit(t, add(-11), 0)
		w.wantSum(t, "a", 10)
		w.shares(t, "a")

		w.rollUpLimit(t, "a")
		s, err := c.Get(t.Context())
		if err != nil || s.Total != 10 || !maps.Equal(s.Limits, map[string]int64{"total": 10}) || !maps.Equal(s.Left, map[string]int64{"total": 0}) {
			t.Errorf("%+v, %v, want 10 of 10", s, err)
		}
		if doc := w.Data("counters/a"); doc["total"] != int64(10) || doc["total_limit"] != int64(10) {
			t.Errorf("the document is %v, want 10 of 10", doc)
		}
		if err := c.SetLimit(t.Context(), "total", 9); !errors.Is(err, shards.ErrLimit) || !strings.Contains(fmt.Sprint(err), "10 of total are taken") {
			t.Errorf("a limit of 9: %v, want that 10 are taken", err)
		}
		if err := c.SetLimit(t.Context(), "total", -1); !errors.Is(err, shards.ErrInvalidLimit) {
			t.Errorf("-1: %v", err)
		}
		limit(t, c, 12)
		if err := add(-3); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int64{7, 9, 7} {
			limit(t, c, n)
			limit(t, c, n)
			if sum, _ := w.shares(t, "a"); sum != n {
				t.Errorf("shares of %d, want %d", sum, n)
			}
		}
		wantLimit(t, add(1), 0)
		w.wantSum(t, "a", 7)
	})
}

// A counter has the limit that is declared, until it has another. A changed declaration touches none whose shards are
// made: by the first take, or the first limit.
func TestADeclaredLimit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Fields: "likes,seats=limit(3)"}, AutoCreate: true})
		take := func(client *shards.Client, counter string, by int64) error {
			_, err := client.AddAll(t.Context(), []shards.Increment{{Counter: counter, Field: "seats", By: by}}, shards.Key{})
			return err
		}
		later := w.open(t, shards.Config{Place: shards.Place{Fields: "likes,seats=limit(5)"}, AutoCreate: true})
		wantLimit(t, take(client, "a", 4), 3)
		wantLimit(t, take(later, "a", 4), 3)
		if err := take(later, "a", 3); err != nil {
			t.Error(err)
		}
		wantLimit(t, take(later, "b", 6), 5)
		// the document says so before anybody has taken, and after that
		for range 2 {
			c := handle(t, later, "c")
			if err := c.Create(t.Context(), shards.CreateOptions{}); err != nil && !errors.Is(err, shards.ErrExists) {
				t.Fatal(err)
			}
			w.reconcile(t, rollup.Config{Place: rollup.Place{Fields: "likes,seats=limit(5)"}}, "c", rollup.ReconcileOptions{})
			if s, err := c.Get(t.Context()); err != nil || s.Limits["seats"] != 5 || s.Left["seats"] != 5 || s.NotCounted != nil {
				t.Errorf("%+v, %v, want 5 left", s, err)
			}
			if err := c.SetLimit(t.Context(), "seats", 5); err != nil {
				t.Fatal(err)
			}
		}
		unknown := w.open(t, shards.Config{Place: shards.Place{Fields: "likes"}})
		if err := take(unknown, "a", -1); !errors.Is(err, shards.ErrInvalidField) {
			t.Errorf("of who doesn't declare it: %v", err)
		}
	})
}

// Whatever else is done to a counter leaves its fields with limits as they are.
func TestCommandsBesideALimit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := shards.Config{Place: shards.Place{Fields: "likes,seats=limit(5)"}, AutoCreate: true}
		c := w.counter(t, w.open(t, cfg), "a", 2)
		ctx := t.Context()
		add := func(by map[string]int64) error {
			_, err := c.AddFields(ctx, by, shards.Key{})
			return err
		}
		if err := add(map[string]int64{"likes": 9, "seats": 3}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Join(ctx, "seats", "alice"); err != nil {
			t.Fatal(err)
		}
		want := func(what string, likes int64) {
			t.Helper()
			s, err := c.Sum(ctx)
			if err != nil || s.Totals["likes"] != likes || s.Totals["seats"] != 4 || s.Limits["seats"] != 5 {
				t.Errorf("after %s: %+v, %v, want %d likes and 4 of 5 seats", what, s, err, likes)
			}
		}
		likes := int64(9)
		for _, command := range []struct {
			name  string
			do    func() error
			likes int64
		}{
			{"resize", func() error { return c.Resize(ctx, 1, shards.ResizeOptions{}) }, 9},
			{"growth", func() error { return c.Resize(ctx, 40, shards.ResizeOptions{}) }, 9},
			{"rebase", func() error { return c.RebaseFields(ctx, map[string]int64{"likes": 4}) }, 4},
			{"reset", func() error { return c.Reset(ctx, shards.ResetOptions{}) }, 0},
			{"create", func() error { w.deleteByHand(t); return c.Create(ctx, shards.CreateOptions{}) }, 0},
		} {
			if err := command.do(); err != nil {
				t.Errorf("%s: %v", command.name, err)
			}
			likes = command.likes
			want(command.name, likes)
		}
		for name, err := range map[string]error{
			"rebase": c.RebaseFields(ctx, map[string]int64{"seats": 0}), "its limit": add(map[string]int64{"seats_limit": 1}),
		} {
			if !errors.Is(err, shards.ErrInvalidField) {
				t.Errorf("%s: %v, want ErrInvalidField", name, err)
			}
		}
		want("what is refused", 0)
		if err := c.Delete(ctx, shards.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.wantNothing(t)
		if _, err := c.Join(ctx, "seats", "alice"); err != nil { // of the next life
			t.Error(err)
		}
	})
}

// What a process knows of a shard is old by now: its commit finds that out, and it looks again.
func TestTwoProcessesShareALimit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.counter(t, w.open(t, withLimit), "a", 1)
		b := handle(t, w.open(t, withLimit), "a")
		limit(t, a, 3)
		for _, c := range []shards.Counter{a, b, a} {
			if err := c.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		wantLimit(t, b.Add(t.Context(), 1), 0)
		wantLimit(t, a.Add(t.Context(), 1), 0)
		if err := b.Add(t.Context(), -1); err != nil {
			t.Fatal(err)
		}
		if err := a.Add(t.Context(), 1); err != nil {
			t.Errorf("%v: a seat was given back", err)
		}
		w.wantSum(t, "a", 3)
	})
}

func TestKeysUnderALimit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, withLimit), "a", 2)
		limit(t, c, 1)
		one, two := shards.Key{Value: "one"}, shards.Key{Value: "two"}
		once := func(by int64, key shards.Key) (bool, error) { return c.AddOnce(t.Context(), by, key) }
		if replayed, err := once(1, one); replayed || err != nil {
			t.Fatal(replayed, err)
		}
		if replayed, err := once(1, one); !replayed || err != nil {
			t.Errorf("replayed %v, %v: want a replay though nothing is left", replayed, err)
		}
		if _, err := once(2, one); !errors.Is(err, shards.ErrKeyReused) {
			t.Errorf("%v, want ErrKeyReused", err)
		}
		_, err := once(1, two)
		wantLimit(t, err, 0)
		limit(t, c, 2)
		if replayed, err := once(1, two); replayed || err != nil {
			t.Errorf("replayed %v, %v: what was refused is decided anew", replayed, err)
		}
		w.wantSum(t, "a", 2)
	})
}

func TestMembersUnderALimit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, withLimit), "a", 2)
		join := func(member string) (bool, error) { return c.Join(t.Context(), "total", member) }
		leave := func(member string) (bool, error) { return c.Leave(t.Context(), "total", member) }
		limit(t, c, 3)
		if _, err := join("early"); err != nil {
			t.Fatal(err)
		}
		for _, member := range []string{"b", "c"} {
			if counted, err := join(member); !counted || err != nil {
				t.Fatal(counted, err)
			}
		}
		_, err := join("d")
		wantLimit(t, err, 0)
		if counted, err := join("b"); counted || err != nil {
			t.Errorf("counted %v, %v: who has a seat keeps it, and hears no error", counted, err)
		}
		wantLimit(t, c.Add(t.Context(), -1), 0) // members' seats are theirs
		if counted, err := leave("d"); counted || err != nil {
			t.Errorf("counted %v, %v: who has none leaves nothing", counted, err)
		}
		for _, member := range []string{"early", "c"} {
			if counted, err := leave(member); !counted || err != nil {
				t.Fatal(counted, err)
			}
		}
		if err := c.Add(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		w.wantSum(t, "a", 3)
		w.shares(t, "a")
	})
}

// Several counters, with limits and without, are all or nothing.
// Who leaves is never refused for a limit, also where another process has her join at the same moment: after
// the look at the shards, which held no member, and before it is seen whether she is one.
func TestLeavingBesideAJoinUnderALimit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.counter(t, w.open(t, withLimit), "a", 1)
		limit(t, other, 5)
		asked := 0
		client := w.asking(t, withLimit, "BatchGetDocuments", func() {
			if asked++; asked == 2 {
				if _, err := other.Join(t.Context(), "total", "alice"); err != nil {
					t.Error(err)
				}
			}
		})
		c := handle(t, client, "a")
		if _, err := c.Leave(t.Context(), "total", "alice"); !errors.Is(err, shards.ErrBusy) || errors.Is(err, shards.ErrLimit) {
			t.Errorf("%v, want ErrBusy", err)
		}
		if counted, err := c.Leave(t.Context(), "total", "alice"); !counted || err != nil {
			t.Errorf("counted %v, %v: she may leave now", counted, err)
		}
		w.wantSum(t, "a", 0)
	})
}

func TestLimitsOfSeveralCounters(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Fields: "total=limit(1),likes"}, AutoCreate: true})
		a := w.counter(t, client, "a", 2)
		w.counter(t, client, "b", 2) // which has what is declared
		w.counter(t, client, "plain", 2)
		limit(t, a, 3)
		all := func(by int64, ids ...string) error {
			var increments []shards.Increment
			for _, id := range ids {
				increments = append(increments, shards.Increment{Counter: id, Field: map[string]string{"plain": "likes"}[id], By: by})
			}
			_, err := client.AddAll(t.Context(), increments, shards.Key{})
			return err
		}
		if err := all(1, "a", "b", "plain", "new"); err != nil {
			t.Fatal(err)
		}
		wantLimit(t, all(1, "a", "b", "plain"), 0)
		for _, shard := range []string{"0", "1"} { // they are made again
			w.Delete("counters/plain/shards/" + shard)
		}
		if err := all(1, "a", "plain"); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]int64{"a": 2, "b": 1, "new": 1} {
			w.wantSum(t, id, want)
		}
		if s, err := handle(t, client, "plain").Sum(t.Context()); err != nil || s.Totals["likes"] < 1 || s.Totals["likes"] > 2 || s.Totals["total"] != 0 {
			t.Errorf("plain adds up to %+v, %v", s, err)
		}
	})
}

// A field without a limit is counted beside one that has it.
func TestLimitOfOneField(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: "total=limit(),likes"}}), "a", 2)
		limit(t, c, 1)
		add := func(by map[string]int64) error {
			_, err := c.AddFields(t.Context(), by, shards.Key{})
			return err
		}
		for _, by := range []map[string]int64{{"likes": 5}, {"likes": -7}, {"likes": 1, "total": 1}, {"likes": 1}} {
			if err := add(by); err != nil {
				t.Fatal(err)
			}
		}
		wantLimit(t, add(map[string]int64{"likes": 1, "total": 1}), 0)
		if err := c.SetLimit(t.Context(), "likes", 5); !errors.Is(err, shards.ErrInvalidLimit) || !strings.Contains(fmt.Sprint(err), "likes=limit(500)") {
			t.Errorf("%v, want that it has none, and how it is declared", err)
		}
		s, err := c.Sum(t.Context())
		if err != nil || s.Totals["total"] != 1 || s.Totals["likes"] != 0 || s.Left["total"] != 0 || s.Limits["total"] != 1 || len(s.Totals) != 2 {
			t.Errorf("%+v, %v", s, err)
		}
		var ids []string
		for n := range 2 {
			ids = append(ids, fmt.Sprint(n), fmt.Sprint("total~", n))
		}
		docs, err := w.fs.Collection("counters/a/shards").Documents(t.Context()).GetAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			_, likes := doc.Data()["likes"]
			if _, total := doc.Data()["total"]; !slices.Contains(ids, doc.Ref.ID) || total == likes {
				t.Errorf("shard %s holds %v", doc.Ref.ID, doc.Data())
			}
		}
	})
}

// Commits with lost answers, and some that were never applied, count once.
func TestLimitUnderFaults(t *testing.T) {
	t.Parallel()
	lost, down, contended := emulator.Verdict{After: unavailable}, emulator.Verdict{Before: unavailable}, emulator.Verdict{Before: aborted}
	for name, faults := range map[string][]emulator.Verdict{
		"none": nil, "lost": {lost}, "down": {down}, "contended": {contended}, "all": {down, contended, down, lost},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			c := w.counter(t, w.open(t, withLimit), "a", 2)
			limit(t, c, 1)
			w.onAdds(faults...)
			if err := c.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			w.wantSum(t, "a", 1)
			wantLimit(t, c.Add(t.Context(), 1), 0)
			w.shares(t, "a")
		})
	}
}

// A take whose answer was lost arrives late, when another went in its place: it counts nothing, nor when
// there is room again.
func TestALateTake(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, withLimit), "a", 1)
		limit(t, c, 1)
		var late atomic.Pointer[firestorepb.CommitRequest]
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			if addsToShard(req) && late.CompareAndSwap(nil, req) {
				return emulator.Verdict{Before: unavailable}
			}
			return emulator.Verdict{}
		})
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		send := func() {
			t.Helper()
			if _, err := firestorepb.NewFirestoreClient(w.Conn()).Commit(t.Context(), late.Load()); err == nil {
				t.Error("a late commit is applied")
			}
		}
		send()
		if err := c.Add(t.Context(), -1); err != nil {
			t.Fatal(err)
		}
		send()
		w.wantSum(t, "a", 0)
	})
}

// A shard of a limited field becomes a text, which is rolled up, and somebody writes back what it held: the total is
// what is taken, and never beyond the limit.
func TestATextInAShardWithALimit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, withLimit), "a", 1)
		limit(t, c, 10)
		if err := c.Add(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		w.rollUpLimit(t, "a")
		fields := map[string]any{"total": "oops", "members(total)": 0, "share(total)": 10}
		w.Put("counters/a/shards/total~0", fields)
		if r := w.rollUpLimit(t, "a"); !strings.Contains(r.Problem, "counts 0 there") || r.After != 0 {
			t.Errorf("while it is a text: %+v", r)
		}
		fields["total"] = 5
		w.Put("counters/a/shards/total~0", fields)
		w.rollUpLimit(t, "a")
		c = handle(t, w.open(t, withLimit), "a")
		if err := c.Add(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		wantLimit(t, c.Add(t.Context(), 1), 0)
		w.wantSum(t, "a", 10)
		if r := w.rollUpLimit(t, "a"); r.Problem != "" || r.After != 10 {
			t.Errorf("%+v: want 10 of 10", r)
		}
	})
}

// With room in a shard that it knows, a batch is one write beside its marker, and no read.
func TestWhatATakeCosts(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, withLimit), "a", 4)
		limit(t, c, 1000)
		if err := c.Add(t.Context(), 1); err != nil { // looks
			t.Fatal(err)
		}
		w.Server.ResetStats()
		for range 20 {
			if err := c.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		if s := w.Server.Stats(); s.Writes != 40 || s.Reads != 0 {
			t.Errorf("20 takes are %+v, want 40 writes and no reads", s)
		}
	})
}

// Many processes take and give back at the same time, with faults, while the limit changes. After each
// commit no more is taken than there is, and no less than nothing; who is refused had no room at some
// moment in between; and what is counted is what was acknowledged.
func TestLimitChaos(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		maker := w.counter(t, w.open(t, withLimit), "a", 5)
		limit(t, maker, 40)

		var mu sync.Mutex
		held := map[string][2]int64{} // :: shard → count and share
		type moment struct{ taken, limit int64 }
		moments := []moment{{0, 40}}
		for _, id := range []string{"0", "1", "2", "3", "4"} {
			held["total~"+id] = [2]int64{0, 8}
		}
		w.Server.OnCommit(func(changes []emulator.Change) {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range changes {
				if at := strings.LastIndex(c.Name, "/shards/"); at >= 0 {
					count, share := c.New.GetFields()["total"].GetIntegerValue(), c.New.GetFields()["share(total)"].GetIntegerValue()
					if count < 0 || count > share {
						t.Errorf("%s counts %d of %d", c.Name, count, share)
					}
					held[c.Name[at+8:]] = [2]int64{count, share}
				}
			}
			var m moment
			for _, h := range held {
				m.taken, m.limit = m.taken+h[0], m.limit+h[1]
			}
			moments = append(moments, m)
		})
		since := func() int { // the moment that is now
			if err := w.Server.WaitForChanges(t.Context()); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			return len(moments) - 1
		}
		w.Server.SetFaults(emulator.Faults{Abort: 0.05, Unavailable: 0.05, LoseAnswers: 0.05, Seed: chance.Seed(t)})

		var counted, refused atomic.Int64
		var group sync.WaitGroup
		for range 3 {
			c := handle(t, w.open(t, withLimit), "a")
			for range 8 {
				group.Go(func() {
					for range 12 {
						by := int64(1 + w.rand.IntN(4))
						if w.rand.IntN(3) == 0 {
							by = -by
						}
						begin := since()
						err := c.Add(t.Context(), by)
						end := since()
						switch {
						case err == nil:
							counted.Add(by)
						case errors.Is(err, shards.ErrLimit):
							refused.Add(1)
							mu.Lock()
							if !slices.ContainsFunc(moments[begin:end+1], func(m moment) bool { return m.taken+by > m.limit || m.taken+by < 0 }) {
								t.Errorf("%d was refused (%v), and could be had all the time: %v", by, err, moments[begin:end+1])
							}
							mu.Unlock()
						case errors.Is(err, shards.ErrBusy):
						default:
							t.Error(err)
						}
					}
				})
			}
		}
		group.Go(func() {
			for range 6 {
				if err := maker.SetLimit(t.Context(), "total", 30+w.rand.Int64N(20)); err != nil && !errors.Is(err, shards.ErrLimit) && !errors.Is(err, shards.ErrBusy) {
					t.Error(err)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
		group.Wait()
		w.Server.SetFaults(emulator.Faults{})
		w.wantSum(t, "a", counted.Load())
		t.Logf("%d counted, %d refused, %d moments", counted.Load(), refused.Load(), since()+1)
	})
}

// The last seats go to a crowd of many processes: all are sold, and nobody is refused before.
func TestTheLastSeats(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, withLimit), "a", 20)
		limit(t, c, 50)
		var sold, refused atomic.Int64
		var group sync.WaitGroup
		for range 4 {
			c := handle(t, w.open(t, withLimit), "a")
			for range 25 {
				group.Go(func() {
					for done := false; !done; {
						err := c.Add(t.Context(), 1)
						done = err == nil || errors.Is(err, shards.ErrLimit)
						switch {
						case err == nil:
							sold.Add(1)
						case done:
							refused.Add(1)
						case status.Code(err) == codes.OK && !errors.Is(err, shards.ErrBusy):
							t.Error(err)
							done = true
						}
					}
				})
			}
		}
		group.Wait()
		if sold.Load() != 50 || refused.Load() != 50 {
			t.Errorf("%d sold, %d refused, want 50 each", sold.Load(), refused.Load())
		}
		w.wantSum(t, "a", 50)
	})
}
