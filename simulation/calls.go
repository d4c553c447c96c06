package simulation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// insist sends an increment under a key, again and again until an answer says what became of it,
// sometimes twice at a time, and sometimes once more, hours later.
func (w *world) insist(all *sync.WaitGroup, r *rand.Rand, adds []Add, intent int) {
	key := "key-" + strconv.Itoa(intent)
	if r.IntN(5) == 0 {
		r := rand.New(rand.NewPCG(r.Uint64(), 0))
		all.Go(func() { w.increment(r, adds, intent, key) })
	}
	for range 8 {
		out := w.increment(r, adds, intent, key)
		if (out == OK || out == Replayed) && r.IntN(3) > 0 {
			break
		}
		if !w.sleep(between(r, time.Second, time.Minute)) {
			return
		}
	}
	if r.IntN(4) == 0 && w.sleep(between(r, time.Minute, 20*time.Hour)) {
		w.increment(r, adds, intent, key)
	}
}

// increment asks a function for an increment, once.
func (w *world) increment(r *rand.Rand, adds []Add, intent int, key string) Outcome {
	to := w.increments.pick(r)
	caller, stranger := w.callerOf(r, "u"+strconv.Itoa(intent%5))
	call := w.begin(Begin{Kind: Increment, Intent: intent, Adds: adds, Stranger: stranger})
	name := w.nameFor(intent, key)
	var list []map[string]any // by counter
	for i, a := range adds {
		if i == 0 || adds[i-1].Counter != a.Counter {
			list = append(list, map[string]any{"counter": a.Counter})
		}
		one := list[len(list)-1]
		switch by, several := one["by"].(map[string]int64); {
		case !w.plan.Likes:
			one["by"] = a.By
		case several:
			by[name(a.Field)] = a.By
		default:
			one["by"] = map[string]int64{name(a.Field): a.By}
		}
	}
	path, body := "/", any(map[string]any{"increments": list})
	if len(list) == 1 {
		path, body = route(adds[0].Counter), map[string]any{"by": list[0]["by"]}
	}
	patience := time.Minute
	if r.IntN(5) == 0 {
		patience = between(r, 10*time.Millisecond, time.Minute)
	}
	var answer struct {
		refusal
		Replayed bool
		Detail   string
	}
	end := End{Call: call, Outcome: Unknown}
	code, err := w.requestAs(caller, to, http.MethodPost, path, key, body, patience, &answer)
	switch {
	case err != nil:
		end.Detail = err.Error()
	case code == http.StatusOK && answer.Replayed:
		end.Outcome = Replayed
	case code == http.StatusOK:
		end.Outcome = OK
	case code == http.StatusUnprocessableEntity:
		w.rec.add(Stuck{What: "a key was refused as another request's"})
	case code != http.StatusGatewayTimeout:
		end.Outcome, end.Detail, end.Full = Refused, fmt.Sprint(code, " ", answer.Detail), answer.full()
	}
	w.rec.add(end)
	return end.Outcome
}

func (w *world) read(r *rand.Rand, id string, kind Kind) {
	to := w.increments.pick(r)
	call := w.begin(Begin{Kind: kind, Counter: id})
	path := route(id)
	if kind == ExactRead {
		path += "?exact=true"
	}
	var answer struct {
		Total  int64
		Totals map[string]int64
		HeldUp bool `json:"held_up"`
	}
	code, err := w.request(to, http.MethodGet, path, "", nil, time.Minute, &answer)
	end := End{Call: call, Outcome: Unknown}
	switch {
	case err != nil:
	case code == http.StatusOK:
		if _, there := answer.Totals["likes"]; w.plan.Likes && !there { // of the older revision
			w.rec.add(end)
			return
		}
		if end.Outcome, end.Total, end.Totals, end.HeldUp = OK, answer.Total, answer.Totals, answer.HeldUp; w.plan.Likes {
			end.Total = answer.Totals["total"] // answer.Total is the first field's, and another's of a revision that has another order
		}
	case code == http.StatusNotFound:
		end.Outcome, end.Missing = OK, true
	}
	w.rec.add(end)
}

// nameFor is what a client calls a field that increments it: one that goes back to the older
// revision calls likes as that does. Repetitions are written alike.
func (w *world) nameFor(intent int, key string) func(field string) string {
	older := w.plan.Renamed && (w.isStormy() || key != "") && dice(w.plan.Seed, "client", uint64(intent)).IntN(2) == 0
	return func(field string) string {
		if older && field == "likes" {
			return olderLikes
		}
		return cmp.Or(field, "total")
	}
}

// request sends a request to an instance, and reads its answer into into.
func (w *world) request(to *instance, method, path, key string, body any, timeout time.Duration, into any) (int, error) {
	return w.requestAs("", to, method, path, key, body, timeout, into)
}

// requestAs is request by someone who shows a token; "" shows none.
func (w *world) requestAs(caller string, to *instance, method, path, key string, body any, timeout time.Duration, into any) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	req, err := newRequest(ctx, method, path, body)
	if err != nil {
		return 0, err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if caller != "" {
		token, err := w.tokens.of(caller, to.link.ahead)
		if err != nil {
			return 0, err
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
	}
	resp, err := to.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return resp.StatusCode, fmt.Errorf("%s %s answered %s: %w", method, path, resp.Status, err)
	}
	return resp.StatusCode, nil
}

func newRequest(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var reader io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(b)
	}
	return http.NewRequestWithContext(ctx, method, "http://simulated"+path, reader)
}
