package rollup_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/rollup"
)

// speak is a flush that may take a snapshot.
func (w *world) speak(client *rollup.Client, reads int, follows bool, states ...ledger.State) rollup.Spoken {
	w.t.Helper()
	got, err := client.Speak(w.ctx, w.id, reads, follows, states...)
	w.must(nil, err)
	return got
}

// A flush counts what was written before it, whoever holds the events; these change nothing then.
func TestAFlushSpeaksForAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(4)
	w.apply(w.arrived()...)
	for n := range 3 {
		w.inc(n, 1)
	}
	w.must(w.shard(3).Delete(w.ctx))
	events := w.arrived()
	got := w.speak(w.rollup, 100, false, events[0])
	if !got.Spoke || !got.Committed || got.Reads != 4 || got.Floor.Before(events[2].AsOf) {
		t.Errorf("%+v", got)
	}
	w.total(3)
	if again := w.apply(events[1:3]...); again.Shards != 0 {
		t.Errorf("what it has counted is counted again: %+v", again)
	}
	w.total(3)
	if r := w.reconcile(); !r.Right() {
		t.Errorf("%+v", r)
	}
}

// What isn't paid for isn't read: the flush counts its own events.
func TestAFlushSpeaksAsFarAsItIsPaidFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(3)
	w.apply(w.arrived()...)
	w.inc(0, 1)
	w.inc(1, 1)
	events := w.arrived()
	w.server.ResetStats()
	if got := w.speak(w.rollup, 2, false, events[0]); got.Spoke || got.Reads != 0 || w.server.Stats().Reads != 0 {
		t.Errorf("%+v; %d reads", got, w.server.Stats().Reads)
	}
	w.total(1)
	// Shards that the ledger knows nothing of are found out.
	for n := 3; n < 20; n++ {
		w.must(w.shard(n).Set(w.ctx, map[string]any{"count": 1}))
	}
	w.arrived()
	if got := w.speak(w.rollup, 10, false, events[1]); got.Spoke || got.Reads > 11 {
		t.Errorf("%+v", got)
	}
	w.total(2)
}

// What another has counted since a snapshot stays, as with a reconcile.
func TestASnapshotFromBeforeAnothersFlush(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(3)
	w.apply(w.arrived()...)
	w.inc(0, 1)
	w.inc(2, 1)
	mine := w.arrived()[0]
	other := w.open()
	w.before(func() { // the snapshot is taken
		w.inc(1, 5)
		_, err := other.Apply(w.ctx, w.id, w.arrived())
		w.must(nil, err)
	})
	if got := w.speak(w.rollup, 100, false, mine); !got.Spoke || got.Reads > 10 {
		t.Errorf("%+v", got)
	}
	w.total(7)
	if r := w.reconcile(); !r.Right() {
		t.Errorf("%+v", r)
	}
}

// Who finds that another has spoken writes nothing. What is counted is done, and the rest waits: it is
// counted by who speaks next.
func TestAFollower(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(3)
	w.apply(w.arrived()...)
	speaker, follower := w.open(), w.open()
	w.inc(0, 1)
	_, err := follower.Apply(w.ctx, w.id, w.arrived())
	w.must(nil, err)
	w.inc(0, 1)
	w.inc(1, 1)
	first := w.arrived()
	w.speak(speaker, 100, true, first[0])
	w.inc(2, 1)
	second := w.arrived()
	got := w.speak(follower, 100, true, first[1], second[0])
	if got.Committed || !slices.Equal(got.Open, []string{"2"}) || got.Floor.Before(first[1].AsOf) {
		t.Errorf("%+v", got)
	}
	w.total(3)
	// Nobody has spoken since.
	if got := w.speak(follower, 100, true, second[0]); !got.Spoke || len(got.Open) > 0 {
		t.Errorf("%+v", got)
	}
	w.total(4)
}

// A deletion is covered by no snapshot, because nothing tells which of the two was first. So whoever hears
// of one flushes it, however many speak meanwhile: it would wait for as long as a crowd is there, and its
// event would come to an end without an answer, which slows all counters down.
func TestAFollowerOfADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(3)
	w.apply(w.arrived()...)
	speaker, follower := w.open(), w.open()
	w.inc(0, 1)
	_, err := follower.Apply(w.ctx, w.id, w.arrived())
	w.must(nil, err)
	w.must(w.shard(2).Delete(w.ctx))
	w.inc(1, 1)
	events := w.arrived()
	w.speak(speaker, 100, true, events[1])
	if got := w.speak(follower, 100, true, events[0]); !got.Committed || len(got.Open) > 0 {
		t.Errorf("%+v", got)
	}
	w.total(2)
}

// An instance that can't pay waits for one that can, where one could a moment ago.
func TestAnInstanceThatCantPayWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(3)
	w.apply(w.arrived()...)
	w.inc(0, 1)
	w.speak(w.rollup, 100, true, w.arrived()...)
	w.inc(0, 1)
	event := w.arrived()
	if got := w.speak(w.rollup, 2, true, event...); got.Committed || !slices.Equal(got.Open, []string{"0"}) {
		t.Errorf("%+v", got)
	}
	if got := w.speak(w.rollup, 2, false, event...); !got.Committed || got.Spoke {
		t.Errorf("of an instance that is alone: %+v", got)
	}
	w.total(2)
}

// Of a snapshot that wasn't committed nothing is known.
func TestTheFloorOfAFlushThatFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(2)
	w.apply(w.arrived()...)
	before := w.speak(w.rollup, 100, false).Floor
	w.inc(0, 1)
	events := w.arrived()
	w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		return emulator.Verdict{Before: status.Error(codes.PermissionDenied, "no")}
	})
	got, err := w.rollup.Speak(w.ctx, w.id, 100, false, events...)
	if err == nil || got.Floor.After(before) {
		t.Errorf("%+v, %v; the floor was %v", got, err, before)
	}
}

// Where an answer is lost, the flush finds its own snapshot, and all of it is counted.
func TestASnapshotWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	for _, follows := range []bool{false, true} {
		w := newWorld(t)
		w.snippet(2)
		w.apply(w.arrived()...)
		w.inc(0, 1)
		w.inc(1, 1)
		events := w.arrived()
		w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			w.server.SetInterceptor(nil)
			return emulator.Verdict{After: status.Error(codes.Unavailable, "lost")}
		})
		if got := w.speak(w.rollup, 100, follows, events[0]); len(got.Open) > 0 || got.Floor.Before(events[1].AsOf) {
			t.Errorf("%+v", got)
		}
		w.total(2)
	}
}

// What a flush doesn't take part in: a field that is no integer, of which an event says more, and a
// counter that is being deleted; and where the flush has what the snapshot is older than.
func TestWhatASnapshotIsNotFor(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(w *world){
		"a text":     func(w *world) { w.must(w.shard(1).Set(w.ctx, map[string]any{"count": "many"})) },
		"a fraction": func(w *world) { w.must(w.shard(1).Set(w.ctx, map[string]any{"count": 1.5})) },
		"a deletion": func(w *world) {
			w.must(w.counter().Set(w.ctx, map[string]any{"deleting": true}, firestore.MergeAll))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.snippet(2)
			w.apply(w.arrived()...)
			prepare(w)
			w.arrived()
			w.inc(0, 1)
			if got := w.speak(w.rollup, 100, false, w.arrived()...); got.Spoke || !got.Committed {
				t.Errorf("%+v", got)
			}
			w.total(1)
		})
	}
	t.Run("the past", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.snippet(2)
		w.apply(w.arrived()...)
		newer := ledger.State{Shard: "0", AsOf: w.now().Add(time.Hour), Counts: ledger.Counts{"count": 7}}
		if got := w.speak(w.rollup, 100, false, newer); got.Spoke || !got.Committed {
			t.Errorf("%+v", got)
		}
		w.total(7)
	})
}

// News is what no event has told in time.
func TestNewsOfASnapshot(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(3)
		w.apply(w.arrived()...)
		w.inc(0, 1)
		w.inc(1, 1)
		events := w.arrived()
		time.Sleep(time.Second)
		if got := w.speak(w.rollup, 100, false, events...); !got.Spoke || got.News {
			t.Errorf("all was told: %+v", got)
		}
		w.inc(0, 1)
		w.inc(1, 1)
		events = w.arrived()
		time.Sleep(time.Second)
		if got := w.speak(w.rollup, 100, false, events[0]); !got.Spoke || !got.News {
			t.Errorf("one was not told: %+v", got)
		}
		w.total(4)
	})
}

// What the flush itself says was taken off a shard stays said: its snapshot was not of before.
func TestASnapshotBesideWhatIsTakenOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(2)
	w.apply(w.arrived()...)
	w.inc(0, 5)
	w.inc(1, 5)
	w.apply(w.arrived()...)
	w.inc(0, -2)
	w.speak(w.rollup, 100, false, w.arrived()...)
	w.total(8)
	snap, err := w.ledger().Get(w.ctx)
	w.must(nil, err)
	if _, said := snap.Data()["uneven_at"]; !said {
		t.Error("the ledger doesn't say so")
	}
	w.inc(1, 1)
	w.speak(w.rollup, 100, false, w.arrived()...)
	snap, err = w.ledger().Get(w.ctx)
	w.must(nil, err)
	if _, said := snap.Data()["uneven_at"]; said {
		t.Error("the ledger says so after each shard was looked at")
	}
	w.total(9)
}
