package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/settings"
)

// neighbour is another deployment in the same database, with counters of its own, below the first
// one's or beside them. It has the first one's weather, and nobody but the two know of each other's
// documents. Its callers insist under keys until they have an answer, so each knows what its
// counter has to come to.
type neighbour struct {
	plan              Plan
	settings          settings.Settings
	increment, rollup *instance
	mu                sync.Mutex
	acked, unsure     map[string]int64 // :: counter
	keys              int
}

// neighbours are the paths of its counters, which are none of the first one's.
var neighbours = []string{"counters/{counter}/posts/{post}", "posts/{post}", "teams/{team}"}

// drawNeighbour draws whether there is one, from dice of its own.
func (p *Plan) drawNeighbour() {
	if r := dice(p.Seed, "neighbour", 0); r.IntN(4) == 0 {
		p.Neighbour = neighbours[r.IntN(len(neighbours))]
		p.NeighbourEvery = between(r, 10*time.Second, 10*time.Minute)
	}
}

// move has a neighbour move in.
func (w *world) move() error {
	if w.plan.Neighbour == "" {
		return nil
	}
	s, err := settings.Parse([]string{
		"GOOGLE_CLOUD_PROJECT=" + project, "COUNTERS=" + w.plan.Neighbour, "AUTO_CREATE=true", "NUM_SHARDS=3", "ROLLUP_INTERVAL=1s",
	})
	if err != nil {
		return err
	}
	n := &neighbour{plan: w.plan, settings: s, acked: map[string]int64{}, unsure: map[string]int64{}}
	if n.increment, err = newIncrement(w.dial, w.newLink("neighbour"), s); err != nil {
		return err
	}
	if n.rollup, err = newRollup(w.dial, w.newLink("neighbour's rollup"), s); err != nil {
		return err
	}
	w.neighbour = n
	return nil
}

// id is one of the neighbour's counters.
func (n *neighbour) id(r *rand.Rand) string {
	id := "n" + strconv.Itoa(r.IntN(3))
	if strings.Count(n.plan.Neighbour, "{") == 2 { // below one of the first one's
		id = called(n.plan.id("named-"+strconv.Itoa(1+r.IntN(4)))) + "/" + id
	}
	return id
}

// document is the name of a counter of the neighbour's.
func (n *neighbour) document(id string) string {
	path := n.plan.Neighbour
	for value := range strings.SplitSeq(id, "/") {
		from, to := strings.Index(path, "{"), strings.Index(path, "}")
		path = path[:from] + value + path[to+1:]
	}
	return path
}

// live is what its callers do: one increment, under a key, until there is an answer.
func (w *world) live(r *rand.Rand) {
	n := w.neighbour
	id, by := n.id(r), 1+r.Int64N(9)
	n.mu.Lock()
	n.keys++
	key := "neighbour-" + strconv.Itoa(n.keys)
	n.unsure[id] += by
	n.mu.Unlock()
	for range 20 {
		var answer struct{ Detail string }
		code, err := w.request(n.increment, http.MethodPost, route(id), key, map[string]any{"by": by}, time.Minute, &answer)
		if err == nil && code == http.StatusOK {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.acked[id] += by
			n.unsure[id] -= by
			return
		}
		if !w.sleep(between(r, time.Second, time.Minute)) {
			return
		}
	}
}

// told delivers an event of the neighbour's shards, and reports whether it is one.
func (n *neighbour) told(w *world, c emulator.Change) bool {
	_, name, _ := strings.Cut(c.Name, "/documents/")
	p := strings.Split(name, "/")
	depth := strings.Count(n.plan.Neighbour, "/") + 1
	if len(p) != depth+2 || p[depth] != "shards" || !strings.HasPrefix(name, n.plan.Neighbour[:strings.Index(n.plan.Neighbour, "{")]) {
		return false
	}
	r := dice(w.plan.Seed, "event of "+c.Name, w.numberOf(c.Name))
	if chance(r, w.eventFaults().Drop) {
		return true
	}
	id := "event-of-" + c.Name + "-" + strconv.FormatInt(c.CommitTime.UnixMicro(), 10)
	w.deliveries.Go(func() {
		for wait := between(r, time.Millisecond, time.Second); w.sleep(wait); wait = between(r, shortestBackoff, longestBackoff) {
			ctx, cancel := context.WithTimeout(context.Background(), longestPost)
			acknowledged := w.postTo(ctx, n.rollup, id, c)
			if cancel(); acknowledged {
				return
			}
		}
	})
	return true
}

// visit looks at the neighbour's counters once nothing goes wrong any more: they come to what was
// acknowledged, and to no more than what was attempted, in their shards and after a reconcile of
// its own in their documents too.
func (w *world) visit() {
	n := w.neighbour
	if n == nil {
		return
	}
	l := w.newLink("neighbour's reconcile")
	i, err := newReconcile(w.dial, l, n.settings)
	if err != nil {
		w.rec.add(Stuck{What: err.Error()})
		return
	}
	defer w.endings.Go(func() { i.end(); w.forget(l) })
	for range 20 {
		var answer struct{ Done bool }
		code, err := w.request(i, http.MethodPost, "/", "", map[string]any{}, 5*time.Minute, &answer)
		if err != nil || code != http.StatusOK {
			w.rec.add(Stuck{What: fmt.Sprintf("the neighbour's reconcile fails although nothing goes wrong: %d %v", code, err)})
			return
		}
		if answer.Done {
			break
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var ids []string
	for id := range n.unsure {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		for _, query := range []string{"", "?exact=true"} {
			var answer struct{ Total int64 }
			code, err := w.request(n.increment, http.MethodGet, route(id)+query, "", nil, time.Minute, &answer)
			if err != nil || code != http.StatusOK && (code != http.StatusNotFound || n.acked[id] > 0) ||
				answer.Total < n.acked[id] || answer.Total > n.acked[id]+n.unsure[id] {
				w.rec.add(Stuck{What: fmt.Sprintf("the neighbour's counter %s%s is %d (%d %v); %d were acknowledged, and %d more attempted",
					n.document(id), query, answer.Total, code, err, n.acked[id], n.unsure[id])})
			}
		}
	}
}
