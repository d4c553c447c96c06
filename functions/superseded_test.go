package functions

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/rollup"
)

// An event is acknowledged once a newer one of its shard is held: that one comes again if this
// instance dies.
func TestRollupAcknowledgesWhatIsSuperseded(t *testing.T) {
	t.Parallel()
	f := startRollup(t, rollup.RollerOptions{Interval: 10 * time.Millisecond}, 2*time.Minute)
	f.snippet(t)
	f.wrote(t, "", 4)
	now := f.now(t)
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.firestore.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		once.Do(func() { close(held) })
		<-release
		return emulator.Verdict{}
	})
	deliver := func(n int) <-chan int {
		answer := make(chan int, 1)
		e := shardEvent(t, fmt.Sprint(n), shard0, number(int64(n)), now.Add(time.Duration(n)*time.Microsecond))
		go func() { answer <- f.post(t, e) }()
		return answer
	}
	inFlight := deliver(1)
	<-held
	older := deliver(2)
	for _, n := range []int{3, 4} {
		newer := deliver(n)
		select {
		case code := <-older: // while nothing can be committed
			if code != http.StatusNoContent {
				t.Errorf("event %d: %d, want an acknowledgement", n-1, code)
			}
		case <-time.After(time.Minute):
			t.Errorf("event %d is not acknowledged, though event %d is held", n-1, n)
		}
		older = newer
	}
	select {
	case code := <-older:
		t.Errorf("the newest event was answered %d before it was counted", code)
	default:
	}
	f.firestore.Server.SetInterceptor(nil)
	close(release)
	for _, answer := range []<-chan int{inFlight, older} {
		if code := <-answer; code != http.StatusNoContent {
			t.Errorf("answered %d", code)
		}
	}
	if got := f.total(t); got != int64(4) {
		t.Errorf("total = %v, want 4", got)
	}
}
