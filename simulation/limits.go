package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/shards"
)

// In some worlds likes have a limit, which is set to others while all the rest goes on, and increments give back as
// well as they take.

// drawLimits draws whether likes have a limit, from dice of their own.
func (p *Plan) drawLimits() {
	r := dice(p.Seed, "limits", 0)
	on, often := r.IntN(2) == 0, between(r, 3.0, 30)
	if !on || p.Mix.Odd > 0 { // whoever writes to shards what is no integer can break a limit
		return
	}
	p.Limits, p.Mix.Limit, p.Declared = true, often, r.Int64N(1<<r.IntN(11))<<p.firstBit()
	p.Likes, p.Older, p.Reordered, p.Renamed = true, false, false, false
	if !p.Auth {
		p.Environ = append(p.Environ, anyLimit)
	}
}

// anyLimit lets a function set limits, too.
const anyLimit = "LIMIT=any"

// signs is how many bits the names of two increments are apart. Where increments give back, the sum of
// several is written in fours, of which a digit is 1, 0 or -1.
func (p Plan) signs() int {
	if p.Limits {
		return 2
	}
	return 1
}

// byOf is what an increment adds that is given out after so many bits of a subject. With limits, large and
// small ones come in no order, because a limit that one exceeds has room for another.
func (w *world) byOf(r *rand.Rand, s *subject) int64 {
	first := w.plan.firstBit()
	by := (1 + r.Int64N(9)) << first
	if w.plan.Named {
		by = 1 << s.bits
	}
	if !w.plan.Limits {
		return by
	}
	if w.plan.Named {
		places := dice(w.plan.Seed, "places of "+s.id, 0).Perm((mostBits - first) / 2)
		by = 1 << (first + 2*places[(s.bits-first)/2])
	}
	if r.IntN(3) == 0 {
		by = -by
	}
	return by
}

// limit is one or two people who set the limit of likes.
func (w *world) limit(r *rand.Rand, id string) {
	people := 1
	if r.IntN(4) == 0 {
		people = 2
	}
	var all sync.WaitGroup
	for range people {
		r := rand.New(rand.NewPCG(r.Uint64(), 0))
		all.Go(func() {
			begin := Begin{Kind: Limit, Counter: id, Field: "likes", To: w.limitOf(r, id, "likes")}
			if slices.Contains(w.plan.Environ, anyLimit) && r.IntN(2) == 0 {
				w.limitByFunction(r, begin)
				return
			}
			w.commandOf(r, begin, func(ctx context.Context, i *instance, end *End) error {
				counter, err := i.client.Counter(id)
				if err != nil {
					return err
				}
				err = counter.SetLimit(ctx, "likes", begin.To)
				if of, ok := errors.AsType[*shards.LimitError](err); ok {
					end.Full = &Full{Counter: id, Field: "likes", Taken: of.Taken}
				}
				return err
			})
		})
	}
	all.Wait()
}

// limitByFunction asks a function to set a limit, once.
func (w *world) limitByFunction(r *rand.Rand, begin Begin) {
	to := w.increments.pick(r)
	patience := time.Minute
	if r.IntN(5) == 0 {
		patience = between(r, 10*time.Millisecond, time.Minute)
	}
	body := map[string]any{"field": nameOf(begin.Field), "limit": begin.To}
	end := End{Call: w.begin(begin), Outcome: Unknown}
	var answer struct {
		Detail, Reason string
		Taken          int64
	}
	code, err := w.request(to, http.MethodPut, route(begin.Counter)+"/limit", "", body, patience, &answer)
	switch {
	case err != nil:
		end.Detail = err.Error()
	case code == http.StatusOK:
		end.Outcome = OK
	case code != http.StatusGatewayTimeout:
		if end.Outcome, end.Detail = Refused, fmt.Sprint(code, " ", answer.Detail); answer.Reason == "taken" {
			end.Full = &Full{Counter: begin.Counter, Field: begin.Field, Taken: answer.Taken}
		}
	}
	w.rec.add(end)
}

// limitOf is a limit that no other call sets in that field: any, or one that is little more than what is
// taken now.
func (w *world) limitOf(r *rand.Rand, id, field string) int64 {
	some := func() int64 {
		if w.plan.Named {
			return r.Int64N(1 << r.IntN(mostBits))
		}
		return r.Int64N(1<<r.IntN(11)) << w.plan.firstBit()
	}
	n := some()
	if r.IntN(3) > 0 {
		if n = w.countOf(id, field) + r.Int64N(3); r.IntN(2) == 0 {
			n += some()
		}
	}
	n = max(0, n)
	w.mu.Lock()
	defer w.mu.Unlock()
	for asked := (fieldLimit{id, field, n}); ; asked.n++ {
		if !w.limits[asked] {
			w.limits[asked] = true
			return asked.n
		}
	}
}

// fieldLimit is a limit of a field.
type fieldLimit struct {
	counter, field string
	n              int64
}

// countOf is what the shards of a field hold at this moment.
func (w *world) countOf(id, field string) (sum int64) {
	conn, err := w.server.Connect()
	if err != nil {
		return 0
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	list, err := firestorepb.NewFirestoreClient(conn).ListDocuments(ctx, &firestorepb.ListDocumentsRequest{Parent: counterName(id), CollectionId: "shards", PageSize: 300})
	if err != nil {
		return 0
	}
	for _, doc := range list.GetDocuments() {
		sum += integer(doc.GetFields()[cmp.Or(field, "count")])
	}
	return sum
}

// refusal is the part of an answer that says of which limit it is.
type refusal struct {
	Reason, Counter, Field string
	Left                   int64
}

// full is what a caller was told who was refused for a limit; nil where that is not why.
func (a refusal) full() *Full {
	if a.Reason != "limit-reached" {
		return nil
	}
	field := fieldOf(a.Field)
	if field == olderLikes {
		field = "likes"
	}
	return &Full{Counter: a.Counter, Field: field, Left: a.Left}
}
