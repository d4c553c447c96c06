package simulation

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
)

// Stuck is something that should have ended well, with no fault on, and didn't.
type Stuck struct{ What string }

// Operations is how many operations were to begin in a world, at its end, and what was counted in
// another deployment beside.
type Operations struct {
	Begun      int
	Neighbours int64
}

// world is a running system and what goes wrong with it.
type world struct {
	plan     Plan
	settings settings.Settings // of the newest revision
	older    settings.Settings
	server   *emulator.Server
	dial     dialer // connects to it
	rec      recorder
	ctx      context.Context // ends with the world

	operations int         // that were to begin, one after the other
	out        atomic.Bool // no event reaches an instance
	calls      atomic.Int64
	deliveries sync.WaitGroup
	endings    sync.WaitGroup // of instances that are gone

	increments, rollups fleet

	mu      sync.Mutex
	stormy  bool
	links   []*link
	deaf    map[string]int     // :: counter of which no event of a shard reaches an instance → how often that is so
	numbers map[string]uint64  // :: function → its last instance; document → its last event
	pushed  map[string]*pushed // :: collection → its trigger

	load      load
	tokens    tokens
	neighbour *neighbour          // nil is none
	limits    map[fieldLimit]bool // that somebody has set

	stopped atomic.Bool // a walk has, and the next one begins there

	storms  func(context.Context) // of pages; nil is none
	settles func()
}

// seedRuntime has the runtime draw all that it draws in a bubble from a seed, 0 from nowhere. It is
// nil but in builds of package exact.
var seedRuntime func(seed uint64)

// Run runs a plan, inside of a bubble of testing/synctest, and returns what happened.
func Run(plan Plan) (History, Faults, error) {
	if seedRuntime != nil {
		seedRuntime(dice(plan.Seed, "runtime", plan.Order).Uint64() | 1)
		defer seedRuntime(0)
	}
	s, err := settings.Parse(plan.newest())
	if err != nil {
		return nil, nil, err
	}
	older, err := settings.Parse(plan.Environ)
	if err != nil {
		return nil, nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	w := &world{
		plan: plan, settings: s, older: older, ctx: ctx, rec: recorder{fields: plan.Fields()[1:], notes: notesOf(s.Counters.String()), nested: plan.Counters == nestedCounters, faults: Faults{}}, numbers: map[string]uint64{}, limits: map[fieldLimit]bool{},
		server: emulator.New(emulator.Options{Enterprise: plan.Enterprise, TTL: map[string]string{"counter_requests": "expire_at"}, SweepEvery: plan.Sweep,
			Now: func() time.Time { return time.Now().Add(plan.Ahead) }}),
	}
	for _, f := range s.Fields {
		w.rec.asked = append(w.rec.asked, f.Key())
	}
	defer w.server.Close()
	w.dial = w.server.Connect
	if plan.Wire {
		w.dial = overWire(w.server)
	}
	defer end()
	w.server.OnCommit(w.committed)
	if plan.Hosted {
		w.rec.add(Hosted{CleanupAfter: s.CleanupAfter, InPlace: plan.InPlace, Live: plan.Live})
	}
	if s.Ceiling != (settings.Ceiling{}) {
		w.rec.add(Bounded{})
	}
	if plan.Limits {
		w.rec.add(Declared{Field: "likes", Limit: plan.Declared})
	}
	if plan.Older {
		w.rec.add(Older{Fields: plan.differ()})
	}
	if len(plan.Counted) > 0 {
		w.rec.add(Counting{Fields: plan.Counted, Older: plan.OlderCounted, RecountAge: s.RecountAge, RecountReads: s.RecountReads})
	}
	if err := w.run(); err != nil {
		return nil, nil, err
	}
	end()
	w.deliveries.Wait()
	for _, i := range slices.Concat(w.increments.instances, w.rollups.instances) {
		i.end()
	}
	if n := w.neighbour; n != nil {
		n.increment.end()
		n.rollup.end()
	}
	w.endings.Wait()
	time.Sleep(2 * longestLate) // until what is late of those that are gone has come
	ended := Operations{Begun: w.operations}
	if w.neighbour != nil {
		for _, n := range w.neighbour.acked {
			ended.Neighbours += n
		}
	}
	w.rec.add(ended)
	return w.rec.history, w.rec.faults, nil
}

func (w *world) committed(changes []emulator.Change) {
	w.rec.commit(changes)
	for _, c := range changes {
		if strings.HasSuffix(c.Name, "/"+layout.Rollup+"/"+layout.Reconcile) {
			at := c.New.GetFields()["walks"].GetMapValue().GetFields()[w.settings.Counters.String()].GetMapValue().GetFields()
			w.stopped.Store(at["page"].GetStringValue() != "" || at["done"].GetStringValue() != "")
		}
		if w.neighbour != nil && w.neighbour.told(w, c) {
			continue
		}
		if isReply(c.Name) {
			if w.plan.refers() {
				w.deliver(c, docsOf(repliesOf(c, w.rec.nested)))
			}
		} else if doc, ok := docOf(c.Name); ok && (doc.Kind == "shard" || doc.Kind == "source shard" && w.plan.Live || doc.Kind == "counted" && len(w.plan.Counted) > 0) {
			w.deliver(c, []Doc{doc})
		}
	}
}

func (w *world) run() error {
	for range w.plan.Increments {
		i, err := newIncrement(w.dial, w.newLink("increment"), w.settings)
		if err != nil {
			return err
		}
		w.increments.instances = append(w.increments.instances, i)
	}
	for range w.plan.Rollups {
		i, err := newRollup(w.dial, w.newLink("rollup"), w.settings)
		if err != nil {
			return err
		}
		w.rollups.instances = append(w.rollups.instances, i)
	}
	if err := w.move(); err != nil {
		return err
	}
	if w.plan.pages != nil {
		w.storms, w.settles = w.plan.pages(w)
	}
	for epoch := range w.plan.Epochs {
		w.setStormy(true)
		w.storm(uint64(epoch))
		w.setStormy(false)
		if epoch == 0 {
			w.outage()
		}
		if err := w.update(); err != nil {
			return err
		}
		if w.settles != nil {
			w.settles()
		}
		w.fair(epoch)
		if !w.sleep(calmFor) {
			return w.ctx.Err()
		}
		w.rec.add(Calm{})
		if w.reconcile(nil, never) && w.sleep(time.Second) {
			w.rec.add(Settled{})
		} else {
			w.rec.add(Stuck{What: "reconcile fails although nothing goes wrong"})
		}
		if ids := w.load.all(); len(ids) > 0 {
			w.reconcile(ids, never)
		}
		w.settleCounted(epoch)
		w.visit()
	}
	return nil
}

// fair is a fair time, once what was late has come: every counter in use is incremented once more.
func (w *world) fair(epoch int) {
	w.sleep(longestLate + time.Minute)
	w.rec.add(Fair{})
	r := dice(w.plan.Seed, "fair", uint64(epoch))
	adds, _, fresh, _ := w.take(r, inUse)
	for _, id := range fresh {
		w.makeCounter(r, id)
	}
	for _, add := range adds {
		w.increment(r, []Add{add}, w.intent(), "")
	}
}

// outage has no event reach an instance for as long as is planned, which began in the storm.
// Eventarc tries for a day. Then nothing but the hourly reconcile knows of what they told.
func (w *world) outage() {
	for range w.plan.Outage / time.Hour {
		w.sleep(time.Hour)
		w.reconcile(nil, never)
	}
	w.out.Store(false)
}

// storm runs everything that goes on at the same time.
func (w *world) storm(epoch uint64) {
	ctx, cancel := context.WithTimeout(w.ctx, w.plan.Storm)
	defer cancel()
	var all sync.WaitGroup
	every := func(what string, mean time.Duration, do func(*rand.Rand)) {
		if mean == 0 {
			return
		}
		r := dice(w.plan.Seed, what, epoch)
		all.Go(func() {
			for sleep(ctx, time.Duration(r.ExpFloat64()*float64(mean))) {
				do(r)
			}
		})
	}
	every("crash", w.plan.Crashes, func(r *rand.Rand) { w.rec.fault("crash"); w.renew(r, true) })
	every("replacement", w.plan.Replacements, func(r *rand.Rand) { w.rec.fault("replacement"); w.renew(r, false) })
	every("cut", w.plan.Cuts, func(r *rand.Rand) {
		l := w.anyLink(r)
		if r.IntN(2) == 0 {
			w.rec.fault("torn connection")
			l.tear()
		}
		if r.IntN(2) == 0 {
			w.rec.fault("partition")
			l.setCut(true)
			sleep(ctx, between(r, time.Second, 5*time.Minute))
			l.setCut(false)
		}
	})
	every("silence", w.plan.Silences, func(r *rand.Rand) { w.rec.fault("silent connection"); w.anyLink(r).silence() })
	every("reconcile", time.Hour, func(r *rand.Rand) { w.reconcile(nil, w.crash(r)) })
	every("reconcile some", time.Hour, func(r *rand.Rand) { w.reconcile(w.load.some(r), w.crash(r)) })
	every("foreign", w.plan.Foreign, func(r *rand.Rand) { w.rec.fault("foreign write"); w.writeTotal(r) })
	every("damage", w.plan.Damage, func(r *rand.Rand) { w.damage(ctx, r) })
	every("app", w.plan.App, w.app)
	if epoch == 0 && w.plan.Outage > 0 {
		w.rec.fault("outage")
		time.AfterFunc(w.plan.Storm/2, func() { w.out.Store(true) })
	}
	if w.storms != nil {
		all.Go(func() { w.storms(ctx) })
	}
	began := time.Now()
	if w.neighbour != nil {
		every("neighbour", w.plan.NeighbourEvery, w.live)
	}
	if epoch == 0 || !w.plan.InPlace { // or it is uninstalled by now, for good
		every("worker", w.plan.Workers, func(r *rand.Rand) { w.work(r, began) })
	}
	if epoch == 0 && w.plan.Many > 0 {
		all.Go(w.many)
	}
	every("documents", w.plan.Documents, func(r *rand.Rand) { w.documents(&all, r) })
	if w.plan.Older {
		every("older", w.plan.Storm/4, func(r *rand.Rand) { w.renew(r, false) })
	}
	every("operation", time.Duration(float64(time.Second)/w.plan.Rate), func(r *rand.Rand) {
		number, n := r.Uint64(), w.operations
		w.operations++
		if _, kept := slices.BinarySearch(w.plan.Only, n); kept || w.plan.Only == nil {
			w.operate(&all, number)
		}
	})
	all.Wait()
}

// numberOf counts what is called so, from 1.
func (w *world) numberOf(what string) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.numbers[what]++
	return w.numbers[what]
}

func (w *world) newLink(function string) *link {
	l := newLink(w.plan.Seed, function+"-"+strconv.FormatUint(w.numberOf(function), 10))
	l.log, l.told, l.ahead = givenUp{&w.rec}, w.rec.fault, w.plan.aheadOf(l.name)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stormy {
		l.faults = w.plan.Messages
	}
	w.links = append(w.links, l)
	return l
}

func (w *world) forget(l *link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.links = slices.DeleteFunc(w.links, func(x *link) bool { return x == l })
}

func (w *world) anyLink(r *rand.Rand) *link {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.links[r.IntN(len(w.links))]
}

func (w *world) setStormy(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stormy = on
	var faults MessageFaults
	var documents emulator.Faults
	if on {
		faults, documents = w.plan.Messages, emulator.Faults{DocWriteRate: w.plan.DocWriteRate, IndexTombstones: w.plan.Index}
	}
	for _, l := range w.links {
		l.setFaults(faults)
		if !on {
			l.setCut(false)
		}
	}
	w.server.SetFaults(documents)
}

func (w *world) isStormy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stormy
}

func (w *world) eventFaults() EventFaults {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stormy {
		return EventFaults{}
	}
	return w.plan.Events
}

func (w *world) sleep(d time.Duration) bool { return sleep(w.ctx, d) }

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// never is later than anything.
const never = time.Duration(math.MaxInt64)

// crash is how long a process lasts that was started for one thing.
func (w *world) crash(r *rand.Rand) time.Duration {
	if w.plan.Crashes > 0 && r.IntN(5) == 0 {
		return between(r, time.Millisecond, time.Second)
	}
	return never
}

// reconcile calls Reconcile on a fresh instance, for some counters or all, and reports whether it
// did all it was to. It may crash after a while.
func (w *world) reconcile(counters []string, crash time.Duration) bool {
	l := w.newLink("reconcile")
	i, err := newReconcile(w.dial, l, w.settings)
	if err != nil {
		w.rec.add(Stuck{What: err.Error()})
		return false
	}
	defer w.endings.Go(func() { i.end(); w.forget(l) })
	number := int(w.numberOf("reconcile of some"))
	if counters != nil {
		w.rec.add(Reconciling{Number: number, Counters: counters})
	}
	if crash < never {
		w.rec.fault("crash of a reconcile")
		time.AfterFunc(crash, l.kill)
	}
	rest := counters == nil && w.stopped.Load() // of an earlier walk, which has passed over what was made since
	for range 20 {                              // a walk that runs out of time goes on with the next call
		var answer struct {
			Drift    int64
			Done     bool
			Counters []struct {
				Counter string
				Drift   int64
				Problem string
				Deleted bool
				Fields  map[string]struct{ Drift int64 }
			}
		}
		body := map[string]any{}
		if counters != nil {
			body["counters"] = counters
		}
		code, err := w.request(i, http.MethodPost, "/", "", body, 5*time.Minute, &answer)
		if err != nil {
			return false
		}
		if counters == nil && !w.plan.Likes && len(w.plan.Counted) == 0 { // of which field it doesn't say
			w.rec.add(Reconciled{Drift: answer.Drift})
		}
		for _, c := range answer.Counters {
			others := map[string]int64{"likes": c.Fields["likes"].Drift}
			for _, f := range w.plan.Counted {
				others[f.Name] = c.Fields[f.Name].Drift
			}
			w.rec.add(Reconciled{Counter: c.Counter, Number: number, Looked: code == http.StatusOK && c.Problem == "" && !c.Deleted, Drift: c.Drift, Others: others})
		}
		ok := code == http.StatusOK || counters != nil && code == http.StatusNotFound // one that isn't there, yet or any more
		if !ok || answer.Done && !rest {
			return ok
		}
		rest = rest && !answer.Done
	}
	return false
}
