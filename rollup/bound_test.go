package rollup

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/api/option"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// A busy counter's sum is asked for above a bound. It is whole whatever has become of its shards since they were
// listed: one is new, holds less, or no number.
func TestABoundedSumIsWhole(t *testing.T) {
	t.Parallel()
	server := emulator.New(emulator.Options{})
	t.Cleanup(server.Close)
	conn, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(t.Context(), Config{Place: Place{Project: "p"}}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	set := func(shard string, v *firestorepb.Value) {
		t.Helper()
		w := store.Update(c.db.Layout.Shard("a", shard), nil, map[string]*firestorepb.Value{"count": v}, nil)
		if v == nil {
			w = store.Delete(c.db.Layout.Shard("a", shard))
		}
		if _, err := c.db.CommitIf(t.Context(), store.Patience{}, func(context.Context) ([]*firestorepb.Write, error) { return []*firestorepb.Write{w}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	f := flight{source: source{counter: "a"}, gathered: gathered{events: 1}, started: time.Now()}
	b := bound{since: f.started, events: quiet, slow: true}
	ask := func(want int64) (reads int) {
		t.Helper()
		f.started = f.started.Add(time.Second)
		answers, reads, err := c.sums(t.Context(), f, c.db.Layout.Sharded, &b)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := book.Whole(answers["total"].Value); !ok || got != want {
			t.Errorf("%v, want %d", answers["total"].Value, want)
		}
		return reads
	}
	for n := range 10 {
		set(fmt.Sprint(n), store.Int(1000))
	}
	if reads := ask(10_000); reads != 10 {
		t.Errorf("%d reads, want 10: they are listed", reads)
	}
	if reads := ask(10_000); reads != 2 {
		t.Errorf("%d reads, want 2: the sum of those above the bound, and the count of all", reads)
	}
	set("0", store.Int(3000))
	if reads := ask(12_000); reads != 2 {
		t.Errorf("%d reads of one that holds more, want 2", reads)
	}
	for _, change := range []struct {
		shard string
		to    *firestorepb.Value
		want  int64
	}{
		{"0", store.Int(-5), 8_995},
		{"10", store.Int(1), 8_996},
		{"1", store.String("many"), 7_996},
		{"1", store.Double(0.5), 7_996},
		{"2", nil, 6_996},
	} {
		set(change.shard, change.to)
		ask(change.want)
		ask(change.want)
	}
}

// A counter is asked plainly until its questions are slower than a bounded one would be. Its shards are listed seldom
// enough to be worth their reads, and what was listed an hour ago is forgotten.
func TestBoundWhenSlow(t *testing.T) {
	t.Parallel()
	all := layout.Fields{{Name: "total", Shard: "count"}}
	shards := slices.Repeat(book.Shards{{Fields: map[string]*firestorepb.Value{"count": store.Int(7)}}}, 100)
	b, f := bound{}, flight{started: time.Now()}
	const lone = 30 * time.Millisecond
	const unbounded, bounded, listed = "unbounded", "bounded", "listed"
	next := func(events int64, after time.Duration, want string, took time.Duration) {
		t.Helper()
		f.events, f.started = events, f.started.Add(after)
		got := unbounded
		if list, least := b.next(f, all); list {
			got = listed
		} else if least != nil {
			got = bounded
		}
		if got != want {
			t.Errorf("after %d events it is asked %s, want %s", b.events, got, want)
		}
		switch {
		case want == listed:
			b.see(f.started, all, shards)
		case took == 0:
			b.took(8*time.Second, lone, nil, context.DeadlineExceeded)
		default:
			b.took(took, lone, map[string]book.Answer{"total": {Numbers: 100}}, nil)
		}
	}
	const quick, slow = 2*lone + slower, 2*lone + slower + 1
	next(1_000_000, time.Second, unbounded, quick)
	next(1, time.Hour, unbounded, quick)
	next(1, 2*time.Hour, unbounded, slow)
	next(98, time.Second, unbounded, slow)
	next(1, time.Second, listed, 0)
	next(1_000_000, time.Second, bounded, quick)
	next(1, time.Second, bounded, slow)
	next(1, time.Second, listed, 0)
	next(1, 59*time.Minute, bounded, slow)
	next(398, time.Second, bounded, slow)
	next(1, time.Second, listed, 0)
	next(1, time.Second, bounded, 0) // without an answer, which is worth more than reads
	next(1, time.Second, listed, 0)
	next(1, time.Hour+time.Second, unbounded, quick)
	next(1, time.Second, unbounded, 0)
	next(1, time.Second, listed, 0)
}

// Shards of a field with a limit stand beside the others, and lack their fields. As many of the others may go as hold
// less seats by now: the sums are whole all the same.
func TestABoundedSumBesideALimit(t *testing.T) {
	t.Parallel()
	server := emulator.New(emulator.Options{})
	t.Cleanup(server.Close)
	conn, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(t.Context(), Config{Place: Place{Project: "p", Fields: "likes,seats=limit(1000)"}}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	commit := func(writes ...*firestorepb.Write) {
		t.Helper()
		if _, err := c.db.Commit(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
	}
	name := func(shard string) string { return c.db.Layout.Shard("a", shard) }
	seats := func(n int, count int64) *firestorepb.Write {
		return store.Update(name(layout.LimitedShard("seats", n)), nil, map[string]*firestorepb.Value{"seats": store.Int(count), "share(seats)": store.Int(100)}, nil)
	}
	for n := range 10 {
		commit(store.Update(name(fmt.Sprint(n)), nil, map[string]*firestorepb.Value{"likes": store.Int(7)}, nil), seats(n, 90))
	}
	f := flight{source: source{counter: "a"}, gathered: gathered{events: 1}, started: time.Now()}
	b := bound{since: f.started, events: quiet, slow: true}
	ask := func(want map[string]int64) {
		t.Helper()
		f.started = f.started.Add(time.Second)
		var fields layout.Fields
		for _, field := range c.db.Layout.Sharded {
			if _, asked := want[field.Name]; asked {
				fields = append(fields, field)
			}
		}
		answers, _, err := c.sums(t.Context(), f, fields, &b)
		if err != nil {
			t.Fatal(err)
		}
		for name, n := range want {
			if got, ok := book.Whole(answers[name].Value); !ok || got != n {
				t.Errorf("%s is %v, want %d", name, answers[name].Value, n)
			}
		}
	}
	all := map[string]int64{"likes": 70, "seats": 900, "seats_limit": 1000}
	ask(all) // and lists them
	if b.least == nil {
		t.Fatal("they are not listed")
	}
	if ask(all); b.events != 1 {
		t.Error("they are listed once more, where nothing has changed")
	}
	for n := range 5 {
		commit(store.Delete(name(fmt.Sprint(9-n))), seats(n, 10))
	}
	ask(map[string]int64{"seats": 500})
	ask(map[string]int64{"likes": 35, "seats": 500, "seats_limit": 1000})
}
