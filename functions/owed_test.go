//go:build all

package functions

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/shards"
)

// Many requests at the same time owe next to nothing, of whatever kind they are, where little is left: others would have
// to wait until it is earned, and an instance that is new owes nothing.
func TestRequestsAtTheSameTime(t *testing.T) {
	t.Parallel()
	const n, fields = 60, "f0,f1,f2,f3,f4,f5,f6,f7,f8,seats=limit(3)"
	to := func(method, path, body string, header ...string) func(f *flooded, n int) *http.Request {
		return func(f *flooded, n int) *http.Request {
			return f.request(method, fmt.Sprintf(path, n), body, "", header...)
		}
	}
	for name, send := range map[string]func(f *flooded, n int) *http.Request{
		"exact reads":             to("GET", "/c-%d?exact=true", ""),
		"reads":                   to("GET", "/c-%d", ""),
		"reads of nothing":        to("GET", "/nothing-%d", ""),
		"reads of members":        to("GET", "/c-%d/f0/m", ""),
		"joins":                   to("PUT", "/c-%d/f0/m", ""),
		"joins with a limit":      to("PUT", "/c-%d/seats/m", ""),
		"leaves":                  to("DELETE", "/c-%d/f0/m", ""),
		"held seats":              to("PUT", "/c-%d/f0/m?hold=1s", ""),
		"held amounts":            to("POST", "/c-%d/seats/holds", `{"by":1,"for":"1s"}`),
		"what is given back":      to("DELETE", "/c-%d/seats/holds/x", ""),
		"resets":                  to("POST", "/c-%d/reset", ""),
		"limits":                  to("PUT", "/c-%d/limit", `{"field":"seats","limit":5}`),
		"keys":                    to("POST", "/c-%d", "", "Idempotency-Key", "k"),
		"increments":              to("POST", "/c-%d", ""),
		"increments of fields":    to("POST", "/c-%d", `{"by":{"f0":1,"f1":1,"f2":1}}`),
		"increments with a limit": to("POST", "/c-%d", `{"by":{"f0":1,"seats":1}}`),
		"new counters":            to("POST", "/new-%d", ""),
	} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, known %v", name, known), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					rates := settings.Ceiling{Writes: 3, Reads: 1.5, Creates: 0.1, Bytes: 1e7, Logs: 500} // $5 a day
					f := startFlooded(t, "none", rates, "FIELDS="+fields, "MEMBERS=any", "RESET=any", "LIMIT=any")
					other, budget := f.other(fields), f.client.Budget()
					for i := range n {
						id := fmt.Sprint("c-", i)
						if _, err := other.AddAll(t.Context(), []shards.Increment{{Counter: id, Field: "f0", By: 1}, {Counter: id, Field: "seats", By: 3}}, shards.Key{}); err != nil {
							t.Fatal(err)
						}
						if known {
							budget.Spend(ceiling.Reads, -10)
							if status, m := f.do(f.request("GET", "/"+id, "", "")); status != 200 {
								t.Fatal(status, m.body)
							}
						}
					}
					time.Sleep(5 * time.Second) // what is known is not new
					for _, u := range []ceiling.Unit{ceiling.Writes, ceiling.Reads} {
						budget.Spend(u, budget.Left(u)-5.2*budget.Second(u)) // a little more than is short
					}
					f.latency = 20 * time.Millisecond
					var all sync.WaitGroup
					for i := range n {
						all.Go(func() { f.do(send(f, i)) })
					}
					all.Wait()
					synctest.Wait()
					for _, u := range []ceiling.Unit{ceiling.Writes, ceiling.Reads} {
						if left := budget.Left(u); left < -10 {
							t.Errorf("%.0f %v are owed", -left, u)
						}
					}
				})
			})
		}
	}
}
