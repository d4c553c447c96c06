package simulation

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// drawAmounts draws whether amounts of likes, which have a limit, are held, settled and given back, from dice of their
// own. Of counters whose documents somebody deletes one by one, holds would outlast their shards.
func (p *Plan) drawAmounts() {
	r := dice(p.Seed, "amounts", 0)
	on, often := r.IntN(2) == 0, between(r, 5.0, 60)
	if !on || !p.Limits || p.Auth {
		return
	}
	p.Mix.Amount, p.Mix.ByHand, p.Mix.Pieces = often, 0, 0
}

// recordOf is what the record of a hold says, and whose it is. It reports false for other documents.
func recordOf(doc *firestorepb.Document) (Doc, *Document, bool) {
	f := doc.GetFields()
	if f["amount"] == nil {
		return Doc{}, nil, false
	}
	_, id, _ := strings.Cut(doc.GetName(), "/counter_requests/")
	d := &Document{
		Updated: doc.GetUpdateTime().AsTime().UnixMicro(), Until: f["until"].GetTimestampValue().AsTime().UnixMicro(),
		State: f["state"].GetStringValue(), Amount: f["amount"].GetIntegerValue(), Used: f["used"].GetIntegerValue(), ID: f["id"].GetStringValue(),
	}
	if f["until"] == nil {
		d.Until = 0
	}
	for shard := range f["parts"].GetMapValue().GetFields() {
		d.CountedOn = max(d.CountedOn, shard)
	}
	field := f["field"].GetStringValue()
	if field == "count" {
		field = ""
	}
	return Doc{Kind: "hold", Counter: f["counter"].GetStringValue(), Field: field, Member: id}, d, true
}

// amount is the life of one hold: it is held, and settled, given back, or forgotten. Each is asked for until there is
// an answer, or some times, and some at the same time.
func (w *world) amount(r *rand.Rand, id string) {
	step := int64(1) << w.plan.firstBit()
	by := (1 + r.Int64N(40)) * step
	h := heldLife{counter: id, id: fmt.Sprint("h", w.numberOf("hold")), by: by, lasts: between(r, time.Second, 10*time.Minute).Round(time.Second)}
	until := func(r *rand.Rand, do func(r *rand.Rand) Outcome) Outcome {
		for range 5 {
			if out := do(r); out == OK || out == Refused || !w.sleep(between(r, time.Millisecond, time.Minute)) {
				return out
			}
		}
		return Unknown
	}
	if r.IntN(3) == 0 { // it is held and settled at the same time
		own := rand.New(rand.NewPCG(r.Uint64(), 0))
		var all sync.WaitGroup
		defer all.Wait()
		all.Go(func() {
			if w.sleep(between(own, time.Millisecond, 10*time.Second)) {
				until(own, func(r *rand.Rand) Outcome { return w.settle(r, h, h.by) })
			}
		})
	}
	if until(r, func(r *rand.Rand) Outcome { return w.reserve(r, h) }) == Refused || !w.sleep(between(r, time.Millisecond, h.lasts*3/2)) {
		return
	}
	var all sync.WaitGroup
	for range 1 + r.IntN(2) {
		own := rand.New(rand.NewPCG(r.Uint64(), 0))
		used, what := own.Int64N(h.by/step+h.by/step/4+2)*step, own.IntN(8)
		if own.IntN(6) == 0 { // for which there may be no room
			used *= 16
		}
		all.Go(func() {
			switch what {
			case 0: // forgotten
			case 1:
				until(own, func(r *rand.Rand) Outcome { return w.giveBack(r, h) })
			case 2:
				until(own, func(r *rand.Rand) Outcome { return w.reserve(r, h) })
			default:
				for range 2 {
					until(own, func(r *rand.Rand) Outcome { return w.settle(r, h, used) })
				}
			}
		})
	}
	all.Wait()
}

// heldLife is a hold that somebody wants.
type heldLife struct {
	counter, id string
	by          int64
	lasts       time.Duration
}

func (h heldLife) path() string { return route(h.counter) + "/likes/holds/" + h.id }

func (w *world) reserve(r *rand.Rand, h heldLife) Outcome {
	body := map[string]any{"by": h.by, "for": h.lasts.String()}
	return w.askHold(r, Begin{Kind: Reserve, Counter: h.counter, Field: "likes", Hold: h.id, To: h.by}, http.MethodPut, h.path(), body)
}

func (w *world) settle(r *rand.Rand, h heldLife, used int64) Outcome {
	return w.askHold(r, Begin{Kind: Settle, Counter: h.counter, Field: "likes", Hold: h.id, To: used}, http.MethodPost, h.path()+"/settle", map[string]any{"by": used})
}

func (w *world) giveBack(r *rand.Rand, h heldLife) Outcome {
	return w.askHold(r, Begin{Kind: GiveBack, Counter: h.counter, Field: "likes", Hold: h.id}, http.MethodDelete, h.path(), nil)
}

// askHold asks a function something about a hold, once.
func (w *world) askHold(r *rand.Rand, begin Begin, method, path string, body any) Outcome {
	to := w.increments.pick(r)
	patience := time.Minute
	if r.IntN(5) == 0 {
		patience = between(r, 10*time.Millisecond, time.Minute)
	}
	end := End{Call: w.begin(begin), Outcome: Unknown}
	var answer struct {
		refusal
		State, Detail string
		Held          int64
		By            int64
	}
	code, err := w.request(to, method, path, "", body, patience, &answer)
	switch {
	case err != nil:
		end.Detail = err.Error()
	case code == http.StatusOK:
		end.Outcome, end.Hold = OK, &HoldAnswer{State: answer.State, Held: answer.Held, Used: answer.By}
	case code == http.StatusGatewayTimeout:
	case answer.Reason == "hold-ended", answer.Reason == "settled":
		end.Outcome, end.Hold = Refused, &HoldAnswer{State: strings.TrimPrefix(answer.Reason, "hold-"), Used: answer.By}
	case code == http.StatusServiceUnavailable: // and asked again
		end.Outcome, end.Detail = Unknown, fmt.Sprint(code, " ", answer.Detail)
	default:
		end.Outcome, end.Detail, end.Full = Refused, fmt.Sprint(code, " ", answer.Detail), answer.full()
	}
	w.rec.add(end)
	return end.Outcome
}
