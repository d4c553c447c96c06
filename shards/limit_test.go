package shards_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

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
		share, has := doc.Data()["share(count)"].(int64)
		count, members := doc.Data()["count"].(int64), doc.Data()["members(count)"]
		if has && (count < 0 || count > share || members.(int64) > count || doc.Data()["room(count)"] != (count < share)) {
			t.Errorf("shard %s holds %v", doc.Ref.ID, doc.Data())
		}
		sum += share
		ids = append(ids, doc.Ref.ID)
	}
	return sum, ids
}

// Shards say whether they have room also where nothing but their share changes.
func TestAnotherLimitSaysWhereThereIsRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
	limit(t, c, 3)
	if err := c.Add(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{3, 6, 3, 4} {
		limit(t, c, n)
		if sum, _ := w.shares(t, "a"); sum != n { // which looks at what each of them says
			t.Errorf("shares of %d, want %d", sum, n)
		}
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
	add := func(by int64) error { return c.Add(t.Context(), by) }
	if err := add(2); err != nil {
		t.Fatal(err)
	}
	limit(t, c, 2) // no shard has room
	w.shares(t, "a")
	limit(t, c, 10)
	if sum, ids := w.shares(t, "a"); sum != 10 || !slices.Equal(ids, []string{"limited-0", "limited-1", "limited-2"}) {
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

	w.rollUp(t, "a")
	s, err := c.Get(t.Context())
	if err != nil || s.Total != 10 || !maps.Equal(s.Limits, map[string]int64{"total": 10}) || !maps.Equal(s.Left, map[string]int64{"total": 0}) {
		t.Errorf("%+v, %v, want 10 of 10", s, err)
	}
	if err := c.SetLimit(t.Context(), "total", 9); !errors.Is(err, shards.ErrLimit) || !strings.Contains(fmt.Sprint(err), "10 of total are taken") {
		t.Errorf("a limit of 9: %v, want that 10 are taken", err)
	}
	limit(t, c, 12)
	if err := add(-3); err != nil {
		t.Fatal(err)
	}
	limit(t, c, 7)
	wantLimit(t, add(1), 0)
	if err := c.RemoveLimit(t.Context(), "total"); err != nil {
		t.Fatal(err)
	}
	if err := add(100); err != nil {
		t.Fatal(err)
	}
	if sum, ids := w.shares(t, "a"); sum != 0 || !slices.Equal(ids, []string{"0", "1", "2"}) {
		t.Errorf("shares of %d in %v, want none in three", sum, ids)
	}
	w.wantSum(t, "a", 107)
	w.rollUp(t, "a")
	if s, err := c.Get(t.Context()); err != nil || s.Total != 107 || s.Limits != nil || s.Left != nil {
		t.Errorf("%+v, %v, want 107 without a limit", s, err)
	}
}

// What doesn't know of a limit, or that there is none any more, looks again.
func TestLimitIsNewToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stale := w.counter(t, w.open(t, shards.Config{}), "a", 4)
	setter := handle(t, w.open(t, shards.Config{}), "a")
	for range 3 {
		if err := stale.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		before := w.sum(t, "a")
		limit(t, setter, before+2)
		for range 2 {
			if err := stale.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		wantLimit(t, stale.Add(t.Context(), 1), 0)
		w.wantSum(t, "a", before+2)
		if err := setter.RemoveLimit(t.Context(), "total"); err != nil {
			t.Fatal(err)
		}
	}
}

// What a process knows of a shard is old by now: its commit finds that out, and it looks again.
func TestTwoProcessesShareALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.counter(t, w.open(t, shards.Config{}), "a", 1)
	b := handle(t, w.open(t, shards.Config{}), "a")
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
}

// An increment that was on its way when a field got its limit finds no shard, and is decided about again.
func TestLimitWhileAnIncrementIsOnItsWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 1)
	setter := handle(t, w.open(t, shards.Config{}), "a")
	var once sync.Once
	w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		if addsToShard(req) {
			once.Do(func() { limit(t, setter, 0) })
		}
		return emulator.Verdict{}
	})
	wantLimit(t, c.Add(t.Context(), 1), 0)
	w.wantSum(t, "a", 0)
}

func TestKeysUnderALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
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
}

func TestMembersUnderALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
	join := func(member string) (bool, error) { return c.Join(t.Context(), "total", member) }
	leave := func(member string) (bool, error) { return c.Leave(t.Context(), "total", member) }
	if _, err := join("early"); err != nil {
		t.Fatal(err)
	}
	limit(t, c, 3)
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
	if err := c.RemoveLimit(t.Context(), "total"); err != nil {
		t.Fatal(err)
	}
	if counted, err := leave("b"); !counted || err != nil {
		t.Errorf("counted %v, %v", counted, err)
	}
	w.wantSum(t, "a", 2)
}

// Several counters, with limits and without, are all or nothing.
// Who leaves is never refused for a limit, also where another process has her join at the same moment: after
// the look at the shards, which held no member, and before it is seen whether she is one.
func TestLeavingBesideAJoinUnderALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.counter(t, w.open(t, shards.Config{}), "a", 1)
	limit(t, other, 5)
	asked := 0
	client := w.asking(t, shards.Config{}, "BatchGetDocuments", func() {
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
}

func TestLimitsOfSeveralCounters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{AutoCreate: true})
	a, b := w.counter(t, client, "a", 2), w.counter(t, client, "b", 2)
	w.counter(t, client, "plain", 2)
	limit(t, a, 3)
	limit(t, b, 1)
	all := func(by int64, ids ...string) error {
		var increments []shards.Increment
		for _, id := range ids {
			increments = append(increments, shards.Increment{Counter: id, By: by})
		}
		_, err := client.AddAll(t.Context(), increments, shards.Key{})
		return err
	}
	if err := all(1, "a", "b", "plain", "new"); err != nil {
		t.Fatal(err)
	}
	wantLimit(t, all(1, "a", "b", "plain"), 0)
	for _, shard := range []string{"0", "1"} { // they are made again
		if _, err := w.fs.Doc("counters/plain/shards/" + shard).Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := all(1, "a", "plain"); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]int64{"a": 2, "b": 1, "new": 1} {
		w.wantSum(t, id, want)
	}
	if plain := w.sum(t, "plain"); plain < 1 || plain > 2 {
		t.Errorf("plain adds up to %d", plain)
	}
}

// A field without a limit is counted beside one that has it.
func TestLimitOfOneField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: "total=count,likes"}}), "a", 2)
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
	if err := c.SetLimit(t.Context(), "likes", 5); err != nil {
		t.Fatal(err)
	}
	s, err := c.Sum(t.Context())
	if err != nil || s.Totals["total"] != 1 || s.Totals["likes"] != 0 || s.Left["total"] != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := c.RemoveLimit(t.Context(), "total"); err != nil {
		t.Fatal(err)
	}
	wantLimit(t, add(map[string]int64{"likes": 6}), 5)
	if err := add(map[string]int64{"likes": 5, "total": 5}); err != nil {
		t.Fatal(err)
	}
}

// Commits with lost answers, and some that were never applied, count once.
func TestLimitUnderFaults(t *testing.T) {
	t.Parallel()
	lost, down, contended := emulator.Verdict{After: unavailable}, emulator.Verdict{Before: unavailable}, emulator.Verdict{Before: aborted}
	for name, faults := range map[string][]emulator.Verdict{
		"none": nil, "lost": {lost}, "down": {down}, "contended": {contended}, "all": {down, contended, down, lost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
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
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 1)
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
		if _, err := firestorepb.NewFirestoreClient(w.Conn(t)).Commit(t.Context(), late.Load()); err == nil {
			t.Error("a late commit is applied")
		}
	}
	send()
	if err := c.Add(t.Context(), -1); err != nil {
		t.Fatal(err)
	}
	send()
	w.wantSum(t, "a", 0)
}

// What a counter with a limit refuses, it refuses with a sentence, and nothing of it changes.
func TestCommandsUnderALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 2)
	limit(t, c, 5)
	if err := c.Add(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for name, do := range map[string]func() error{
		"reset":  func() error { return c.Reset(ctx, shards.ResetOptions{RemoveMembers: true}) },
		"rebase": func() error { return c.Rebase(ctx, 0) },
		"resize": func() error { return c.Resize(ctx, 1, shards.ResizeOptions{}) },
		"grow":   func() error { return c.Resize(ctx, 4, shards.ResizeOptions{}) },
	} {
		if err := do(); !errors.Is(err, shards.ErrLimited) {
			t.Errorf("%s: %v, want ErrLimited", name, err)
		}
	}
	if err := c.SetLimit(ctx, "total", -1); !errors.Is(err, shards.ErrInvalidLimit) {
		t.Errorf("-1: %v", err)
	}
	if sum, ids := w.shares(t, "a"); sum != 5 || len(ids) != 2 {
		t.Errorf("shares of %d in %v", sum, ids)
	}
	w.wantSum(t, "a", 3)
	if _, err := w.fs.Doc("counters/a").Delete(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, shards.CreateOptions{}); !errors.Is(err, shards.ErrLimited) {
		t.Errorf("create: %v, want ErrLimited", err)
	}
	maker := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a")
	if err := maker.Add(ctx, 1); !errors.Is(err, shards.ErrLimited) {
		t.Errorf("an increment that would make it: %v, want ErrLimited", err)
	}
	if err := c.Delete(ctx, shards.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maker.Add(ctx, 100); err != nil {
		t.Error(err)
	}
	based := handle(t, client, "based")
	if err := based.Create(ctx, shards.CreateOptions{Total: 7}); err != nil {
		t.Fatal(err)
	}
	if err := based.SetLimit(ctx, "total", 9); !errors.Is(err, shards.ErrInvalidLimit) {
		t.Errorf("a counter with a base: %v", err)
	}
}

// A counter that Google's snippet has made gets a ledger, and counts below 0 in some shards are evened out.
func TestLimitOfASnippetsCounter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	doc := w.fs.Collection("counters").Doc("a")
	set := func(ref *firestore.DocumentRef, data map[string]any) {
		if _, err := ref.Set(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	set(doc, map[string]any{"num_shards": 3})
	for id, n := range map[string]int{"0": -4, "1": 9, "7": 1} {
		set(doc.Collection("shards").Doc(id), map[string]any{"count": n, "other": id})
	}
	c := handle(t, w.open(t, shards.Config{}), "a")
	limit(t, c, 8)
	if sum, ids := w.shares(t, "a"); sum != 8 || len(ids) != 4 {
		t.Errorf("shares of %d in %v", sum, ids)
	}
	wantLimit(t, c.Add(t.Context(), 3), 2)
	if err := c.Add(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	w.wantSum(t, "a", 8)
}

// A counter with a limit is read whole for a decision, and made anew in one commit, so its shards are
// bounded: those that are there, and those that its document says it has. So are members that are counted
// when a field gets its limit.
func TestLimitsAreOfSmallCounters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	for name, s := range map[string]struct{ shards, says int }{
		"most": {shards.MaxLimitedShards, shards.MaxLimitedShards}, "said": {2, shards.MaxLimitedShards + 1}, "there": {shards.MaxLimitedShards + 1, 2},
	} {
		bulk := w.fs.BulkWriter(t.Context())
		doc := w.fs.Collection("counters").Doc(name)
		_, err := bulk.Create(doc, map[string]any{"num_shards": s.says})
		for n := 0; n < s.shards && err == nil; n++ {
			_, err = bulk.Create(doc.Collection("shards").Doc(fmt.Sprint(n)), map[string]any{"count": 1})
		}
		if bulk.End(); err != nil {
			t.Fatal(err)
		}
		if err := handle(t, client, name).SetLimit(t.Context(), "total", 500); (err != nil) != (name != "most") || err != nil && !errors.Is(err, shards.ErrInvalidShards) {
			t.Errorf("%s: %v", name, err)
		}
	}

	c := w.counter(t, client, "a", 2)
	w.populate(t, 1001)
	if err := c.SetLimit(t.Context(), "total", 5000); !errors.Is(err, shards.ErrInvalidLimit) {
		t.Errorf("a limit of 1,001 members: %v", err)
	}
	leave(t, c, "0")
	limit(t, c, 5000)
	wantLimit(t, c.Add(t.Context(), 4001), 4000)
}

// A ledger that was deleted, and is made again of the shards, knows the limit.
func TestLimitOutlivesItsLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
	limit(t, c, 4)
	ledger := w.fs.Doc("counters/a/counter_rollup/ledger")
	if _, err := ledger.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.rollUp(t, "a")
	if err := c.Resize(t.Context(), 1, shards.ResizeOptions{}); !errors.Is(err, shards.ErrLimited) {
		t.Errorf("resize: %v, want ErrLimited", err)
	}
	limit(t, c, 5)
	wantLimit(t, c.Add(t.Context(), 6), 5)
}

// Partial sums of a counter's shards are beyond an int64: what a limit finds taken is the whole sum, whatever the order
// of the shards. A sum that is beyond is more than any limit.
func TestLimitNearTheEndsOfAnInt64(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for id, counts := range map[string][]int64{"a": {math.MaxInt64, math.MaxInt64, -math.MaxInt64}, "b": {math.MaxInt64, 1, 0}} {
		c := w.counter(t, w.open(t, shards.Config{}), id, 3)
		for shard, n := range counts {
			w.write(t, id, map[string]map[string]any{fmt.Sprint(shard): {"count": n}})
		}
		most := int64(10)
		if id == "b" {
			most = math.MaxInt64
		}
		if err := c.SetLimit(t.Context(), "total", most); !errors.Is(err, shards.ErrLimit) {
			t.Errorf("a limit of %d beside %v: %v, want ErrLimit", most, counts, err)
		}
		for shard, n := range w.counts(t, id) {
			if fmt.Sprint(counts[shard[0]-'0']) != fmt.Sprint(n) {
				t.Errorf("shard %s counts %d of %v", shard, n, counts)
			}
		}
	}
}

// A shard was a text, and was set to 0, as the docs say; the events are late. Then the field gets a limit, and
// the events come: the total never exceeds the limit.
func TestALateTextBesideALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 1)
	if err := c.Add(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	w.rollUp(t, "a")
	w.put(t, "counters/a/shards/0", map[string]any{"count": "oops"})
	text, err := w.fs.Doc("counters/a/shards/0").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.put(t, "counters/a/shards/0", map[string]any{"count": 0})
	limit(t, c, 10)

	client, err := rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: "p"}}, option.WithGRPCConn(w.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r := rollup.NewRoller(client, rollup.RollerOptions{})
	told := rollup.Change{Counter: "a", Shard: "0", AsOf: text.UpdateTime, Made: text.CreateTime, Blank: []string{"count"}, Was: map[string]int64{"count": 5}}
	if err := errors.Join(r.Add(t.Context(), told), r.Close(context.Background())); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	w.rollUp(t, "a")
	s, err := c.Sum(t.Context())
	if err != nil || s.Total > 10 {
		t.Errorf("%+v, %v: want at most 10", s, err)
	}
	g, err := c.Get(t.Context())
	if err != nil || g.Total > 10 {
		t.Errorf("%+v, %v: want at most 10", g, err)
	}
}

// A shard of a limited field becomes a text, which is rolled up, and somebody writes back what it held: the total is
// what is taken, and never beyond the limit.
func TestATextInAShardWithALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 1)
	limit(t, c, 10)
	if err := c.Add(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	w.rollUp(t, "a")
	fields := map[string]any{"count": "oops", "members(count)": 0, "share(count)": 10, "room(count)": true}
	w.put(t, "counters/a/shards/limited-0", fields)
	if r := w.rollUp(t, "a"); !strings.Contains(r.Problem, "set it to what it held before") || r.After != 0 {
		t.Errorf("while it is a text: %+v", r)
	}
	fields["count"] = 5
	w.put(t, "counters/a/shards/limited-0", fields)
	w.rollUp(t, "a")
	c = handle(t, w.open(t, shards.Config{}), "a")
	if err := c.Add(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	wantLimit(t, c.Add(t.Context(), 1), 0)
	w.wantSum(t, "a", 10)
	if r := w.rollUp(t, "a"); r.Problem != "" || r.After != 10 {
		t.Errorf("%+v: want 10 of 10", r)
	}
}

// With room in a shard that it knows, a batch is one write beside its marker, and no read.
func TestWhatATakeCosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 4)
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
}

// Many processes take and give back at the same time, with faults, while the limit changes. After each
// commit no more is taken than there is, and no less than nothing; who is refused had no room at some
// moment in between; and what is counted is what was acknowledged.
func TestLimitChaos(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maker := w.counter(t, w.open(t, shards.Config{}), "a", 5)
	limit(t, maker, 40)

	var mu sync.Mutex
	held := map[string][2]int64{} // :: shard → count and share
	type moment struct{ taken, limit int64 }
	moments := []moment{{0, 40}}
	for _, id := range []string{"0", "1", "2", "3", "4"} {
		held["limited-"+id] = [2]int64{0, 8}
	}
	w.Server.OnCommit(func(changes []emulator.Change) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range changes {
			if at := strings.LastIndex(c.Name, "/shards/"); at >= 0 {
				count, share := c.New.GetFields()["count"].GetIntegerValue(), c.New.GetFields()["share(count)"].GetIntegerValue()
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
	w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		switch rand.IntN(20) {
		case 0:
			return emulator.Verdict{Before: unavailable}
		case 1:
			return emulator.Verdict{After: unavailable}
		case 2:
			return emulator.Verdict{Before: aborted}
		}
		return emulator.Verdict{}
	})

	var counted, refused atomic.Int64
	var group sync.WaitGroup
	for range 3 {
		c := handle(t, w.open(t, shards.Config{}), "a")
		for range 8 {
			group.Go(func() {
				for range 12 {
					by := int64(1 + rand.IntN(4))
					if rand.IntN(3) == 0 {
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
			if err := maker.SetLimit(t.Context(), "total", 30+rand.Int64N(20)); err != nil && !errors.Is(err, shards.ErrLimit) && !errors.Is(err, shards.ErrBusy) {
				t.Error(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	group.Wait()
	w.Server.SetInterceptor(nil)
	w.wantSum(t, "a", counted.Load())
	t.Logf("%d counted, %d refused, %d moments", counted.Load(), refused.Load(), len(moments))
}

// The last seats go to a crowd of many processes: all are sold, and nobody is refused before.
func TestTheLastSeats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 20)
	limit(t, c, 50)
	var sold, refused atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		c := handle(t, w.open(t, shards.Config{}), "a")
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
}
