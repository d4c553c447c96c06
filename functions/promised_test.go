//go:build all

package functions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/settings"
)

// lateBody is a body that comes late, and may end early.
type lateBody struct {
	io.Reader
	after time.Duration
	err   error
	ctx   context.Context
}

func (b *lateBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(b.after):
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
	if b.after = 0; b.err != nil {
		return 0, b.err
	}
	return b.Reader.Read(p)
}

func (b *lateBody) Close() error { return nil }

// Wherever requests end, before their body, while they wait, or during their commit, nothing stays promised: what is
// spent in the end is what was billed, and what roll-ups take.
func TestNothingStaysPromised(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]float64{"with room": 1e6, "while units are scarce": 40} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { nothingStaysPromised(t, second) })
		})
	}
}

func nothingStaysPromised(t *testing.T, second float64) {
	const n = 3000
	f := startFlooded(t, "none", settings.Ceiling{Writes: second, Reads: second, Creates: second, Bytes: second * 1000, Logs: 1e6},
		"FIELDS=total,seats=limit(5)", "MEMBERS=any", "RESET=any", "LIMIT=any", "NUM_SHARDS=2")
	f.server.SetFaults(emulator.Faults{CommitLatency: 20 * time.Millisecond, QueryLatency: 20 * time.Millisecond})
	f.latency = 5 * time.Millisecond
	dice := rand.New(rand.NewPCG(1, 2))
	id := func() string { return fmt.Sprint("c", dice.IntN(40)) }
	var sending sync.WaitGroup
	kept := 0 // writes for roll-ups, at most
	for range n {
		var r *http.Request
		switch what := dice.IntN(12); what {
		case 0:
			r = f.request("POST", "/", newIDs(id(), 1+dice.IntN(20)), "")
			kept += 40
		case 1:
			r = f.request("POST", "/"+id(), "", "", "Idempotency-Key", fmt.Sprint("key-", dice.IntN(50)))
			kept += 2
		case 2:
			r = f.request("GET", "/"+id()+"?exact=true", "", "")
		case 3:
			r = f.request("GET", "/"+id(), "", "")
		case 4:
			r = f.request([]string{"PUT", "DELETE"}[dice.IntN(2)], fmt.Sprintf("/%s/seats/m%d", id(), dice.IntN(8)), "", "")
			kept += 2
		case 5:
			r = f.request("PUT", fmt.Sprintf("/%s/seats/m%d?hold=1s", id(), dice.IntN(8)), "", "")
			kept += 2
		case 6:
			r = f.request("PUT", fmt.Sprintf("/%s/total/holds/h%d", id(), dice.IntN(8)), `{"by":1,"for":"5s"}`, "")
			kept += 2
		case 7:
			r = f.request("DELETE", fmt.Sprintf("/%s/total/holds/h%d", id(), dice.IntN(8)), "", "")
		case 8:
			r = f.request("POST", fmt.Sprintf("/%s/total/holds/h%d/settle", id(), dice.IntN(8)), `{"by":1}`, "")
		case 9:
			r = f.request("POST", "/"+id()+[]string{"/reset", "/limit"}[dice.IntN(2)], []string{"", `{"limit": 7}`}[dice.IntN(2)], "")
		case 10:
			r = f.request("POST", "/"+id(), `{"by":{"seats":1,"total":1}}`, "")
			kept += 3
		default:
			r = f.request("POST", "/"+id(), "", "")
			kept += 2
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r = r.WithContext(ctx)
		if dice.IntN(4) == 0 {
			body := &lateBody{Reader: r.Body, after: time.Duration(dice.IntN(50)) * time.Millisecond, ctx: ctx}
			if dice.IntN(4) == 0 {
				body.err = errors.New("the connection is gone")
			}
			r.Body = body
		}
		if dice.IntN(3) > 0 {
			time.AfterFunc(time.Duration(dice.IntN(150_000))*time.Microsecond, cancel)
		}
		sending.Go(func() {
			defer cancel()
			f.do(r)
		})
		time.Sleep(time.Duration(dice.IntN(20)) * time.Millisecond)
	}
	sending.Wait()
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	use, _ := f.client.Budget().Tell(0)
	stats := f.server.Stats()
	t.Logf("spent %v; billed %d writes, %d reads, %d bytes; at most %d writes are kept", use.Spent, stats.Writes+stats.Deletes, stats.Reads, f.bytes, kept)
	within := func(u ceiling.Unit, billed, more float64) {
		t.Helper()
		if spent := use.Spent[u]; spent < billed || spent > billed+more {
			t.Errorf("%.0f %v are spent, and %.0f were billed; want at most %.0f more", spent, u, billed, more)
		}
	}
	within(ceiling.Bytes, float64(f.bytes), 0)
	within(ceiling.Reads, float64(stats.Reads), n/10) // of answers that nobody waited for
	within(ceiling.Writes, float64(stats.Writes+stats.Deletes), float64(kept))
}
