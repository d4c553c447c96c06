package simulation

import (
	"context"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What becomes of a message depends on the seed, the process, the method and the message's number,
// and on no other message.
func TestFate(t *testing.T) {
	t.Parallel()
	fates := func(seed uint64, name string, commits int) (of [50]fate) {
		l := newLink(seed, name)
		l.setFaults(MessageFaults{Slow: 0.5, Late: 0.3, LostSilence: 0.3})
		for n := range of {
			for range commits {
				l.begin("Commit")
			}
			of[n], _, _ = l.begin("RunQuery")
			of[n].answer = nil // an error of its own each time
		}
		return of
	}
	is := fates(1, "rollup-1", 0)
	if more := fates(1, "rollup-1", 3); !reflect.DeepEqual(is, more) {
		t.Errorf("messages of another method change what becomes of one: %v, and %v", is, more)
	}
	if other := fates(2, "rollup-1", 0); reflect.DeepEqual(is, other) {
		t.Error("another seed has the same faults")
	}
	if other := fates(1, "rollup-2", 0); reflect.DeepEqual(is, other) {
		t.Error("another process has the same faults")
	}
}

// Of a call that is under way when its process crashes, or when the connection is torn, nothing is
// heard, and it still arrives.
func TestCallsOfADeadLink(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		end   func(*link)
		alive bool // the next call goes through
	}{
		{"a crash", (*link).kill, false},
		{"a torn connection", (*link).tear, true},
		{"a partition begins", func(l *link) { l.tear(); l.setCut(true) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLink(1, "increment-1")
				var arrived atomic.Int64
				serve := func(context.Context, fate) error { arrived.Add(1); return nil }
				told := make(chan error, 1)
				go func() { told <- l.call(t.Context(), "Commit", serve) }()
				synctest.Wait()
				test.end(l)
				if err := <-told; status.Code(err) != codes.Unavailable || arrived.Load() > 0 {
					t.Errorf("the caller is told %v, and %d have arrived", err, arrived.Load())
				}
				time.Sleep(time.Second)
				if n := arrived.Load(); n != 1 {
					t.Errorf("%d have arrived, want 1", n)
				}
				if err := l.call(t.Context(), "Commit", serve); (err == nil) != test.alive || (arrived.Load() == 2) != test.alive {
					t.Errorf("the next call is told %v, and %d have arrived", err, arrived.Load())
				}
				time.Sleep(time.Second) // until nothing is under way
			})
		})
	}
}
