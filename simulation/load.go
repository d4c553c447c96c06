package simulation

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/shards"
)

// load is who uses the counters, and what they know of them.
type load struct {
	mu       sync.Mutex
	subjects []*subject // in use
	made     int
	intents  int
}

// subject is a counter in use.
type subject struct {
	id   string
	bits int // that were given out
}

// inUse is how many counters are in use at a time, and mostBits how many increments name themselves
// by one of them: then it is deleted, and another one takes its place.
const (
	inUse    = 3
	mostBits = 60
)

func (l *load) all() (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.subjects {
		ids = append(ids, s.id)
	}
	return ids
}

func (l *load) some(r *rand.Rand) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for _, s := range l.subjects {
		if r.IntN(2) == 0 {
			ids = append(ids, s.id)
		}
	}
	if len(ids) == 0 && len(l.subjects) > 0 {
		ids = append(ids, l.subjects[0].id)
	}
	return ids
}

// take gives an increment of n counters out, and tells which counters are new, and which are worn
// out.
func (w *world) take(r *rand.Rand, n int) (adds []Add, intent int, fresh, worn []string) {
	l := &w.load
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.subjects) < inUse {
		l.made++
		s := &subject{id: w.subject(l.made), bits: w.plan.firstBit()}
		l.subjects = append(l.subjects, s)
		fresh = append(fresh, s.id)
	}
	for _, at := range r.Perm(len(l.subjects))[:n] {
		s := l.subjects[at]
		by := w.byOf(r, s)
		which := 0
		if w.plan.Likes {
			which = r.IntN(3)
		}
		if which != 1 {
			adds = append(adds, Add{Counter: s.id, By: by})
		}
		if which != 0 {
			adds = append(adds, Add{Counter: s.id, Field: "likes", By: by})
		}
		s.bits += w.plan.signs()
	}
	for at := len(l.subjects) - 1; at >= 0 && w.plan.Named; at-- {
		if s := l.subjects[at]; s.bits >= mostBits {
			worn = append(worn, s.id)
			l.subjects = append(l.subjects[:at], l.subjects[at+1:]...)
		}
	}
	l.intents++
	return adds, l.intents, fresh, worn
}

// operate begins one operation.
func (w *world) operate(all *sync.WaitGroup, number uint64) {
	r := dice(w.plan.Seed, "operation", number)
	m := w.plan.Mix
	x := r.Float64() * (m.Add + m.Key + m.Bulk + m.Snippet + m.Exact + m.Read + m.Resize + m.Reset + m.Rebase + m.Delete + m.ByHand + m.Rival + m.Large + m.Double + m.Member + m.Old + m.Import + m.Odd + m.Shrink + m.Pieces + m.Ends + m.Limit + m.Amount)
	is := func(weight float64) bool { x -= weight; return x < 0 }
	n := 1
	increments := true
	var do func(adds []Add, intent int)
	switch {
	case is(m.Add):
		do = func(adds []Add, intent int) { w.increment(r, adds, intent, "") }
	case is(m.Key):
		do = func(adds []Add, intent int) { w.insist(all, r, adds, intent) }
	case is(m.Bulk):
		n = 2 + r.IntN(2)
		keyed := r.IntN(2) == 0
		do = func(adds []Add, intent int) {
			if keyed {
				w.insist(all, r, adds, intent)
			} else {
				w.increment(r, adds, intent, "")
			}
		}
	case is(m.Double) && !w.plan.Named: // a double has no more than 53 bits
		do = func(adds []Add, intent int) { w.snippet(r, adds[0], intent, store.Double(float64(adds[0].By))) }
	case is(m.Old):
		do = func(adds []Add, intent int) {
			for i := range adds { // nobody gives back there
				adds[i].By = max(adds[i].By, -adds[i].By)
			}
			w.old(r, adds, intent)
		}
	case is(m.Snippet):
		do = func(adds []Add, intent int) { w.snippet(r, adds[0], intent, store.Int(adds[0].By)) }
	default:
		increments = false
		id := w.any(r)
		if id == "" {
			return
		}
		switch {
		case is(m.Exact):
			all.Go(func() { w.read(r, id, ExactRead) })
		case is(m.Read):
			all.Go(func() { w.read(r, id, Read) })
		case is(m.Resize):
			all.Go(func() {
				n, keep := 1+r.IntN(8), w.plan.SDK && r.IntN(2) == 0
				w.command(r, Resize, id, func(ctx context.Context, c shards.Counter) error {
					return c.Resize(ctx, n, shards.ResizeOptions{KeepShards: keep})
				})
				if m.Odd > 0 {
					w.oddShard(r, id, n)
				}
			})
		case is(m.Reset):
			all.Go(func() { w.reset(r, id) })
			w.crowd(all, number, id)
		case is(m.Member):
			all.Go(func() { w.member(r, id) })
		case is(m.Rebase):
			all.Go(func() {
				to := int64(w.numberOf("rebase")) // which no other one asks for
				w.commandOf(r, Begin{Kind: Rebase, Counter: id, To: to}, func(ctx context.Context, i *instance, _ *End) error {
					counter, err := i.client.Counter(id)
					if err != nil {
						return err
					}
					return counter.Rebase(ctx, to)
				})
			})
		case is(m.Import):
			all.Go(func() { w.takeOver(r, id) })
		case is(m.Shrink):
			all.Go(func() { w.shrink(r, id) })
		case is(m.Odd):
			all.Go(func() { w.oddWrite(r, id) })
		case is(m.Pieces):
			all.Go(func() { w.pieces(all, number) })
		case is(m.Ends):
			all.Go(func() { w.ends(r, number) })
		case is(m.Limit):
			all.Go(func() { w.limit(r, id) })
		case is(m.Amount):
			all.Go(func() { w.amount(r, id) })
		case is(m.Large):
			all.Go(func() { w.large(all, number) })
		case is(m.Delete):
			all.Go(func() { w.remove(r, id); w.create(r, id) })
			all.Go(func() { w.tidy(dice(w.plan.Seed, "tidy", number), id) })
			w.crowd(all, number, id)
		case is(m.ByHand):
			all.Go(func() { w.removeByHand(r, id); w.create(r, id) })
			all.Go(func() { w.tidy(dice(w.plan.Seed, "tidy", number), id) })
			w.crowd(all, number, id)
		default:
			all.Go(func() { w.create(r, id) })
			all.Go(func() { w.remove(dice(w.plan.Seed, "rival", number), id) })
			all.Go(func() { w.create(dice(w.plan.Seed, "rival", number+1), id) })
		}
	}
	if !increments {
		return
	}
	adds, intent, fresh, worn := w.take(r, n)
	all.Go(func() {
		for i, id := range fresh {
			w.create(dice(w.plan.Seed, "fresh", number+uint64(i)), id)
		}
		do(adds, intent)
	})
	for i, id := range worn {
		all.Go(func() {
			r := dice(w.plan.Seed, "worn", number+uint64(i))
			if w.sleep(between(r, time.Minute, 20*time.Minute)) {
				w.crowd(all, number+uint64(i), id)
				w.remove(r, id)
			}
		})
	}
}

func (w *world) any(r *rand.Rand) string {
	w.load.mu.Lock()
	defer w.load.mu.Unlock()
	if len(w.load.subjects) == 0 {
		return ""
	}
	return w.load.subjects[r.IntN(len(w.load.subjects))].id
}

// begin records the begin of a call, and returns its number.
func (w *world) begin(b Begin) int {
	b.Call = int(w.calls.Add(1))
	w.rec.add(b)
	return b.Call
}
