package shards_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// A counter whose total was never beyond an int64, though partial sums of its shards are: what a limit finds taken
// is the total, whatever the order of the shards.
func TestAttackLimitNearTheEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	for n := range 400 {
		id := fmt.Sprint("a", n)
		c := w.counter(t, client, id, 3)
		for _, by := range []int64{math.MaxInt64, -math.MaxInt64, math.MaxInt64} { // totals: 2⁶³-1, 0, 2⁶³-1
			if err := c.Add(t.Context(), by); err != nil {
				t.Fatal(err)
			}
		}
		counts := w.counts(t, id)
		if counts["0"] != math.MaxInt64 || counts["1"] != math.MaxInt64 || counts["2"] != -math.MaxInt64 {
			continue
		}
		before, err := c.Sum(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = c.SetLimit(t.Context(), "total", 10)
		after, _ := c.Sum(t.Context())
		t.Logf("%d before, limit of 10: %v, %d after: %v", before.Total, err, after.Total, w.counts(t, id))
		if !errors.Is(err, shards.ErrLimit) || after.Total != before.Total {
			t.Errorf("total %d, want %d; limit: %v, want ErrLimit", after.Total, before.Total, err)
		}
		return
	}
	t.Skip("never by chance")
}

// A shard was a text, and was set to 0, as the docs say; the events are late. Then the field gets a limit, and
// the events come: the total never exceeds the limit.
func TestAttackLateTextBelowALimit(t *testing.T) {
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

// A ledger is deleted by hand, and the document is written anew (not hosted): the shards alone say that there is a limit.
func TestAttackLimitOutlivesLedgerAndDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
	limit(t, c, 2)
	if _, err := w.fs.Doc("counters/a/counter_rollup/ledger").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.put(t, "counters/a", map[string]any{"num_shards": 3})
	c = handle(t, w.open(t, shards.Config{}), "a")
	wantLimit(t, c.Add(t.Context(), 3), 2)
	_, ids := w.shares(t, "a")
	t.Log(ids, w.sum(t, "a"))
}

// A call whose increments of a sold out field add up to 0, of a process that knows no shard of the counter.
func TestAttackZeroOfASoldOutCounter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maker := w.counter(t, w.open(t, shards.Config{}), "a", 3)
	limit(t, maker, 3)
	if err := maker.Add(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	fresh := w.open(t, shards.Config{})
	_, err := fresh.AddAll(t.Context(), []shards.Increment{{Counter: "a", By: 1}, {Counter: "a", By: -1}}, shards.Key{})
	t.Log(err)
	w.wantSum(t, "a", 3)
}

// A hold that is over while those that were over before are ended: the next look ends it.
func TestAttackHoldOverDuringALook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 1)
	heldBriefly(t, c, "u")
	_, until, err := c.HoldBriefly(t.Context(), "v", 1500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		if isEnd(req) && !seen {
			seen = true
			time.Sleep(time.Until(until) + 50*time.Millisecond)
		}
		return emulator.Verdict{}
	})
	client, err := rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: "p"}}, option.WithGRPCConn(w.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 2 {
		if _, err := client.ReconcileAll(t.Context(), rollup.ReconcileOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if !seen {
		t.Fatal("nothing was ended")
	}
	docs, err := w.fs.CollectionGroup("counter_requests").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range docs {
		if at, is := doc.Data()["until"].(time.Time); is {
			t.Logf("the entry of %v is looked at again in %v", doc.Data()["member"], time.Until(at))
		}
	}
	w.wantMembers(t, c)
}

// A shard of a limited field becomes a text, which is rolled up, and somebody writes back what it held: the total is
// what is taken, and never beyond the limit.
func TestAttackTextInALimitedShard(t *testing.T) {
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
	t.Logf("while it is a text: %+v", w.rollUp(t, "a"))
	fields["count"] = 5
	w.put(t, "counters/a/shards/limited-0", fields)
	r := w.rollUp(t, "a")
	t.Logf("afterwards: %+v", r)
	c = handle(t, w.open(t, shards.Config{}), "a")
	if err := c.Add(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	wantLimit(t, c.Add(t.Context(), 1), 0)
	r = w.rollUp(t, "a")
	if s, err := c.Sum(t.Context()); err != nil || s.Total != 10 || r.After != 10 {
		t.Errorf("%+v, %v, %+v: want 10 of 10, or a problem", s, err, r)
	}
}
