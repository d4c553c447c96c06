package functions

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/shards"
)

// An increment beyond a limit is a conflict that says what is left, and the document shows the limit.
func TestLimitReached(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "FIELDS=total=limit(2)")
	p.create(t, "tickets")
	client, err := shards.Open(context.Background(), shards.Config{Place: shards.Place{Project: "p", Fields: "total=limit(2)"}}, option.WithGRPCConn(p.firestore.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	counter, err := client.Counter("tickets")
	if err != nil {
		t.Fatal(err)
	}
	if a := p.do(t, "POST", "/tickets", `{"by": 1}`, "Idempotency-Key", "first"); a.status != 200 {
		t.Fatal(a)
	}
	if err := counter.SetLimit(t.Context(), "total", 3); err != nil {
		t.Fatal(err)
	}
	refused := func(a answer, left float64, detail string) {
		t.Helper()
		if a.status != 409 || a.body["reason"] != "limit-reached" || a.body["field"] != "total" || a.body["left"] != left || !strings.Contains(a.body["detail"].(string), detail) {
			t.Errorf("%d %v, want 409 with %v left", a.status, a.body, left)
		}
	}
	refused(p.do(t, "POST", "/tickets", `{"by": 3}`), 2, "2 of 3 total are left; asked for 3")
	if a := p.do(t, "POST", "/tickets", `{"by": 2}`); a.status != 200 {
		t.Fatal(a)
	}
	refused(p.do(t, "POST", "/tickets", ""), 0, "0 of 3 total are left")
	refused(p.do(t, "POST", "/tickets", `{"by": -4}`), 0, "3 of total can be given back; asked for 4")
	refused(p.do(t, "POST", "/", `{"increments":[{"counter":"tickets"}]}`), 0, "")
	if a := p.do(t, "POST", "/tickets", `{"by": 1}`, "Idempotency-Key", "first"); a.status != 200 || a.body["replayed"] != true {
		t.Errorf("%v, want a replay", a)
	}
	a := p.do(t, "GET", "/tickets?exact=true", "")
	if limits, _ := a.body["limits"].(map[string]any); limits["total"] != 3.0 || a.body["left"].(map[string]any)["total"] != 0.0 {
		t.Errorf("%v, want none of 3 left", a.body)
	}
}
