package rollup

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/ledger"
)

// model is one counter in a Firestore whose clock only moves on commits and reads, with the real merge, coalescer and
// correction around it. The plain map is shards: whatever happens, the total is in the end what they hold, plus the base.
// Events are messages as of Pub/Sub: delivered any number of times until one delivery is acknowledged, and maybe again.
type model struct {
	*rapid.T
	clock int

	exists   bool // the counter's document
	total    int64
	ledgerID string // that the document names
	number   int64  // of shards; 0 where the document has none
	inferred bool   // the number was inferred
	ids      int
	ledger   *ledger.Ledger          // nil: none
	shards   map[string]ledger.Entry // :: shard id → count and update time

	deletionTime bool // whether a delete event's old update time is the deletion's own
	messages     []*message
	snapshots    []ledger.Snapshot
	instances    []*instance

	lossy   bool // messages get lost, and others write to the counter
	unheard int  // when something last happened that only a reconcile can find; 0 when one has
	lied    bool // a message carries what never was: a reconcile is needed once it has been counted
}

// message is an event: a state, until a delivery of it is acknowledged.
type message struct {
	ledger.State
	acknowledged bool
}

// instance is one process of the roll-up: its coalescer, its copy of the ledger, and the flush in flight.
type instance struct {
	pending  coalescer[*message]
	copy     *ledgerCopy
	inFlight *batch
}

// now is the time of a commit or a read. Commits may be a microsecond apart.
func (m *model) now() time.Time {
	m.clock += rapid.SampledFrom([]int{1, 1, 10}).Draw(m.T, "µs")
	return at(m.clock)
}

// write commits shards at one time (a nil count deletes), and sends their events.
func (m *model) write(writes map[string]*int64) {
	now := m.now()
	for _, id := range slices.Sorted(maps.Keys(writes)) {
		count := writes[id]
		old, there := m.shards[id]
		switch {
		case count == nil && there:
			delete(m.shards, id)
			before := old.AsOf
			if m.deletionTime {
				before = now
			}
			m.send(Change{Shard: id, Before: &Version{map[string]int64{"total": old.Count}, before}}.state())
		case count != nil && (!there || old.Count != *count): // a no-op write has no event and no new time
			m.shards[id] = ledger.Entry{Count: *count, AsOf: now}
			m.send(Change{Shard: id, After: &Version{map[string]int64{"total": *count}, now}}.state())
		}
	}
}

func (m *model) send(s ledger.State) {
	if m.lossy && rapid.IntRange(0, 4).Draw(m.T, "drop") == 0 {
		m.unheard = m.clock
		return
	}
	m.messages = append(m.messages, &message{State: s})
}

// deliver hands a message to an instance. It reports whether one was left that is not acknowledged.
func (m *model) deliver(clock time.Time) bool {
	var left []*message
	for _, msg := range m.messages {
		if !msg.acknowledged {
			left = append(left, msg)
		}
	}
	if len(m.messages) > 0 && rapid.IntRange(0, 9).Draw(m.T, "again") == 0 {
		left = m.messages // one that is acknowledged, too
	}
	if len(left) == 0 {
		return false
	}
	m.hand(rapid.SampledFrom(left).Draw(m.T, "event"), clock)
	return true
}

func (m *model) hand(msg *message, clock time.Time) {
	if msg.AsOf.Add(-time.Microsecond).After(at(m.clock)) { // from the future, as Client.check finds: poison
		msg.acknowledged = true
		return
	}
	in := rapid.SampledFrom(m.instances).Draw(m.T, "to")
	superseded, _ := in.pending.add(clock, "c", msg.State, msg)
	acknowledge(superseded)
}

func acknowledge(messages []*message) {
	for _, msg := range messages {
		msg.acknowledged = true
	}
}

func (m *model) id() string { m.ids++; return fmt.Sprint(m.ids) }

// own reports whether the ledger is the counter's, and not an earlier one's.
func (m *model) own() bool { return m.ledger != nil && m.ledger.ID == m.ledgerID }

// read is what Client.read does: the ledger, after adoption where there is none.
func (m *model) read() *ledgerCopy {
	if m.exists && !m.own() || m.ledger == nil && len(m.shards) > 0 {
		now := m.now()
		m.ledger = &ledger.Ledger{ID: m.id(), Sums: map[string]*ledger.Sum{"total": {Shards: maps.Clone(m.shards), Floor: now}}, Updated: now}
		m.exists, m.ledgerID, m.total, m.unheard = true, m.ledger.ID, m.ledger.Sums["total"].Total(), 0
		if m.number == 0 {
			m.number, m.inferred = m.numbered(), m.numbered() > 0
		}
	}
	if m.ledger == nil || !m.exists {
		return nil
	}
	c := &ledgerCopy{Ledger: cloneOf(m.ledger)}
	if m.inferred {
		c.inferred = m.number
	}
	return c
}

func cloneOf(l *ledger.Ledger) *ledger.Ledger {
	clone := *l
	clone.Sums = map[string]*ledger.Sum{}
	for name, sum := range l.Sums {
		s := *sum
		s.Shards = maps.Clone(s.Shards)
		clone.Sums[name] = &s
	}
	return &clone
}

// numbered is the highest number of a shard, plus one.
func (m *model) numbered() (n int64) {
	for id := range m.shards {
		n = max(n, numberOf(id)+1)
	}
	return n
}

// commit writes a diff, the total and the number of shards if the ledger is still the version of the copy.
func (m *model) commit(l *ledgerCopy, d ledger.Diff, number int64, total func(int64) int64) bool {
	if m.ledger == nil || !m.exists || !m.ledger.Updated.Equal(l.Updated) {
		return false
	}
	m.ledger.Apply(d)
	m.ledger.Updated = m.now()
	m.exists, m.total = true, total(m.total) // as a write does without a condition
	m.number = max(m.number, number)
	return true
}

// flush is what Client.apply does, with whatever the others did since the copy was read in between.
func (m *model) flush(in *instance, states []ledger.State) {
	// Only shards that never had a counter, or whose ledger is deleted too, are adopted, and by no deletion.
	gone := !slices.ContainsFunc(states, func(s ledger.State) bool { return !s.Gone })
	if !m.exists && (gone || m.ledger != nil) {
		defer func() {
			if m.exists {
				m.Fatal("events have brought a deleted counter back")
			}
		}()
	}
	for {
		if in.copy == nil {
			if onlyGone(states) && !m.own() {
				return
			}
			if in.copy = m.read(); in.copy == nil {
				return
			}
		}
		d := in.copy.Merge(states)
		if d.Empty() {
			return
		}
		number := risen(in.copy.inferred, states)
		if m.commit(in.copy, d, number, func(total int64) int64 { return total + d.Sums["total"].Delta }) {
			in.copy.Apply(d)
			in.copy.Updated, in.copy.inferred = m.ledger.Updated, number
			if m.total != in.copy.Sums["total"].Total() { // it drifted, or the counter was made again
				in.copy = nil
				m.read()
				return
			}
			if rapid.IntRange(0, 4).Draw(m.T, "lose the answer") > 0 {
				return
			}
		}
		in.copy = nil
	}
}

// correct is what Client.reconcile does with a snapshot that it has taken before another commit came first. From then on
// nothing is missing that had happened by the time of the snapshot.
func (m *model) correct(s ledger.Snapshot) {
	if !m.exists || !m.own() || !s.At.After(m.ledger.Sums["total"].Floor) {
		m.correctWith(m.now(), s) // says nothing
		return
	}
	if m.correctWith(m.now(), s) { // states may have been passed over since the snapshot, and a right total be so by chance
		now := m.snapshot()
		m.correctWith(now.At, now)
		m.unheard = 0
	} else if !at(m.unheard).After(s.At) {
		m.unheard = 0
	}
}

// reconcile is what Client.reconcile does when no other commit comes between its snapshot and its own. It leaves a total
// that is right as it is, so that what is lost may still show.
func (m *model) reconcile() {
	s := m.snapshot()
	if m.exists && m.own() && m.right() && !m.inferred {
		return
	}
	m.correctWith(s.At, s)
	m.unheard = 0
}

func (m *model) correctWith(now time.Time, s ledger.Snapshot) (impossible bool) {
	if !m.exists || !m.own() {
		return false
	}
	l := m.read()
	d := l.Correct(now, s, "total")
	after := cloneOf(l.Ledger)
	after.Apply(d)
	var number int64
	if m.inferred {
		number = risen(m.number, s.States)
	}
	m.commit(l, d, number, func(int64) int64 { return after.Sums["total"].Total() })
	return d.Impossible
}

func (m *model) snapshot() ledger.Snapshot {
	s := ledger.Snapshot{At: m.now()}
	for id, e := range m.shards {
		s.States = append(s.States, ledger.State{Shard: id, Counts: ledger.Counts{"total": e.Count}, AsOf: e.AsOf})
	}
	return s
}

func (m *model) pick(ids map[string]ledger.Entry) string {
	if len(ids) == 0 {
		m.Skip("no shard")
	}
	var names []string
	for i := range 6 {
		if _, ok := ids[fmt.Sprint(i)]; ok {
			names = append(names, fmt.Sprint(i))
		}
	}
	return rapid.SampledFrom(names).Draw(m.T, "shard")
}

func count(n int64) *int64 { return &n }

func (m *model) zeroes(n int) map[string]*int64 {
	writes := map[string]*int64{}
	for i := range n {
		writes[fmt.Sprint(i)] = count(0)
	}
	return writes
}

func (m *model) nothings() map[string]*int64 {
	writes := map[string]*int64{}
	for id := range m.shards {
		writes[id] = nil
	}
	return writes
}

func TestModel(t *testing.T) {
	t.Parallel()
	for range 60 { // a check is a hundred walks, and some mistakes show in one of a few hundred
		rapid.Check(t, walkModel)
	}
}

func walkModel(t *rapid.T) {
	m := &model{T: t, shards: map[string]ledger.Entry{}}
	m.deletionTime = rapid.Bool().Draw(t, "an old update time is the deletion's own")
	m.lossy = rapid.Bool().Draw(t, "events get lost")
	clock := time.Unix(0, 0)
	for range rapid.IntRange(1, 3).Draw(t, "instances") {
		m.instances = append(m.instances, newInstance())
	}
	step := func(in *instance) {
		if in.inFlight == nil {
			if b, ok := in.pending.start(clock); ok {
				in.inFlight = &b
			}
			return
		}
		b := *in.inFlight
		in.inFlight = nil
		o := committed
		if rapid.IntRange(0, 4).Draw(m.T, "contention") == 0 {
			o = failed // events that are refused come again
		} else {
			m.flush(in, b.states)
		}
		counted, _ := in.pending.done(clock, b, o, rapid.Int64Range(0, 2).Draw(m.T, "others"), nil)
		acknowledge(counted)
	}
	actions := map[string]func(*rapid.T){
		"increment": func(*rapid.T) {
			id := m.pick(m.shards)
			m.write(map[string]*int64{id: count(m.shards[id].Count + rapid.Int64Range(-3, 5).Draw(m.T, "by"))})
		},
		"deliver": func(t *rapid.T) {
			if !m.deliver(clock) {
				t.Skip()
			}
		},
		"flush": func(*rapid.T) { step(rapid.SampledFrom(m.instances).Draw(m.T, "instance")) },
		"time":  func(*rapid.T) { clock = clock.Add(700 * time.Millisecond) },
		"kill": func(*rapid.T) { // what it held comes again
			*rapid.SampledFrom(m.instances).Draw(m.T, "instance") = *newInstance()
		},
		"create": func(t *rapid.T) {
			if m.exists {
				t.Skip()
			}
			if len(m.shards) > 0 || m.ledger != nil { // leftovers go first, in a commit of their own
				m.write(m.nothings())
				m.ledger = nil
			}
			early := m.lossy && rapid.Bool().Draw(m.T, "a shard is made early")
			if early { // older than the ledger, so that only a reconcile counts it
				m.write(map[string]*int64{"5": count(3)})
			}
			m.write(m.zeroes(rapid.IntRange(1, 4).Draw(m.T, "shards")))
			base := rapid.SampledFrom([]int64{0, 0, 100}).Draw(m.T, "base")
			m.exists, m.total, m.number, m.inferred, m.unheard = true, base, int64(len(m.shards)), false, 0
			m.ledgerID = m.id()
			m.ledger = &ledger.Ledger{ID: m.ledgerID, Sums: map[string]*ledger.Sum{"total": {Shards: map[string]ledger.Entry{}, Base: base, Floor: at(m.clock)}}, Updated: at(m.clock)}
			if early {
				m.unheard = m.clock
			}
		},
		"create by snippet": func(t *rapid.T) {
			if m.exists { // or over what a deletion by hand has left behind
				t.Skip()
			}
			m.write(m.zeroes(rapid.IntRange(1, 4).Draw(m.T, "shards")))
			m.exists, m.ledgerID, m.total, m.inferred = true, "", 0, false
			m.number = rapid.SampledFrom([]int64{0, m.numbered()}).Draw(m.T, "number") // not all of them write one
			if m.ledger == nil {                                                       // a blind trigger has kept its total since
				m.total = rapid.Int64Range(0, 50).Draw(m.T, "total")
			}
		},
		"delete": func(t *rapid.T) {
			if !m.exists {
				t.Skip()
			}
			m.write(m.nothings())
			m.exists, m.ledger, m.number, m.inferred = false, nil, 0, false
		},
		"delete by hand": func(*rapid.T) { m.exists, m.number, m.inferred = false, 0, false },
		"delete below": func(t *rapid.T) { // as Google's tools go on
			if m.exists {
				t.Skip()
			}
			m.ledger = nil
			m.write(map[string]*int64{m.pick(m.shards): nil})
		},
		"reset": func(t *rapid.T) {
			if !m.exists || !m.own() {
				t.Skip()
			}
			writes := map[string]*int64{}
			for id := range m.shards {
				writes[id] = count(0)
			}
			m.write(writes)
			m.total -= m.ledger.Sums["total"].Base
			m.ledger.Sums["total"].Base, m.ledger.Updated = 0, m.now()
		},
		"shrink": func(t *rapid.T) {
			from, to := m.pick(m.shards), m.pick(m.shards)
			if from == to {
				t.Skip()
			}
			m.write(map[string]*int64{to: count(m.shards[to].Count + m.shards[from].Count), from: nil})
		},
		"a shard is made": func(t *rapid.T) { // by an increment that found none
			id := fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "new"))
			if _, there := m.shards[id]; there || !m.exists && m.ledger != nil { // some snippets make no counter
				t.Skip()
			}
			m.write(map[string]*int64{id: count(rapid.Int64Range(1, 5).Draw(t, "by"))})
		},
		"a shard is made anew": func(*rapid.T) { // maybe at the very time that its deletion's event says
			id := m.pick(m.shards)
			m.write(map[string]*int64{id: nil})
			m.write(map[string]*int64{id: count(rapid.Int64Range(1, 5).Draw(m.T, "by"))})
			m.snapshots = append(m.snapshots, m.snapshot())
		},
		"reconcile reads": func(*rapid.T) { m.snapshots = append(m.snapshots, m.snapshot()) },
		"reconcile applies": func(t *rapid.T) {
			if len(m.snapshots) == 0 {
				t.Skip()
			}
			i := rapid.IntRange(0, len(m.snapshots)-1).Draw(m.T, "snapshot")
			m.correct(m.snapshots[i])
			m.snapshots = append(m.snapshots[:i:i], m.snapshots[i+1:]...)
		},
		"reconcile at once": func(*rapid.T) { m.reconcile() },
		"something writes the total": func(t *rapid.T) {
			if !m.lossy || !m.exists {
				t.Skip()
			}
			m.total += 7
			m.unheard = m.clock
		},
		"an event from the future": func(*rapid.T) {
			m.messages = append(m.messages, &message{State: ledger.State{Shard: "0", Counts: ledger.Counts{"total": 999}, AsOf: at(m.clock + 1_000_000)}})
		},
		"an event of what never was": func(t *rapid.T) {
			if !m.lossy {
				t.Skip()
			}
			m.lied = true
			m.messages = append(m.messages, &message{State: ledger.State{Shard: rapid.SampledFrom([]string{"0", "1", "9"}).Draw(t, "of"), Counts: ledger.Counts{"total": 999}, AsOf: at(m.clock)}})
		},
		"a ledger with an entry from the future": func(t *rapid.T) {
			if !m.lossy || m.ledger == nil {
				t.Skip()
			}
			m.ledger.Sums["total"].Shards["0"], m.ledger.Updated = ledger.Entry{Count: 999, AsOf: at(m.clock + 1_000_000)}, m.now()
			m.unheard = m.clock
		},
	}
	for _, often := range []string{"increment", "deliver", "flush"} { // actions are drawn evenly
		for i := range 4 {
			actions[fmt.Sprint(often, i)] = actions[often]
		}
	}
	for _, sometimes := range []string{"shrink", "a shard is made", "reconcile reads", "reconcile applies", "reconcile at once"} {
		actions[sometimes+" again"] = actions[sometimes]
	}
	t.Repeat(actions)

	// Everything arrives in the end, in any order, after every instance has died once.
	for _, in := range m.instances {
		*in = *newInstance()
	}
	settle := func() {
		for busy, round := true, 0; busy; round++ {
			if round == 10_000 {
				m.Fatal("events are never answered")
			}
			busy = m.deliver(clock)
			for _, in := range m.instances {
				clock = clock.Add(10 * time.Second)
				step(in)
				busy = busy || in.inFlight != nil || in.pending.waiting > 0
			}
		}
	}
	settle()
	for _, s := range m.snapshots {
		m.correct(s)
	}
	if m.unheard > 0 || m.lied {
		m.read()
		m.reconcile()
	}
	m.check("when everything has arrived")

	// A reconcile that has something to correct settles what was lost, and what is late from then on changes nothing.
	if m.lossy && m.exists && m.own() {
		m.total += 7
		m.reconcile()
	}

	// Any of it may come once more. What never was may count until the next reconcile.
	for _, msg := range m.messages {
		if rapid.Bool().Draw(m.T, "once more") {
			m.hand(msg, clock)
		}
	}
	settle()
	if m.unheard > 0 || m.lied {
		m.reconcile()
	}
	m.check("when events have come once more")
}

// sum is what the total should be.
func (m *model) sum() int64 {
	sum := m.ledger.Sums["total"].Base
	for _, e := range m.shards {
		sum += e.Count
	}
	return sum
}

func (m *model) right() bool { return m.total == m.sum() }

func (m *model) check(when string) {
	if !m.exists || !m.own() { // no event has touched it yet
		return
	}
	if !m.right() {
		m.Fatalf("total %d %s, want %d", m.total, when, m.sum())
	}
	if m.inferred && m.number < m.numbered() {
		m.Fatalf("%d shards %s, and there is one with the number %d", m.number, when, m.numbered()-1)
	}
}

func newInstance() *instance {
	return &instance{pending: coalescer[*message]{
		least: time.Second, most: 5 * time.Second, maxWaiting: 50, maxFlushes: 1, maxFailures: 2, backlogs: map[string]*backlog[*message]{},
	}}
}
