package rollup

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
)

// model is one counter in a Firestore whose clock only moves on commits and reads, with the real merge, coalescer and
// correction around it. The plain map is shards: whatever happens, each total is in the end what they hold, plus the base.
// Events are messages as of Pub/Sub: delivered any number of times until one delivery is acknowledged, and maybe again.
type model struct {
	*rapid.T
	clock int

	fields []string // that are counted, by the newest revision of the functions
	older  []string // that an older revision knows which runs beside it; empty where none does
	hosted bool     // the counter's document is the app's own

	exists   bool          // the counter's document
	totals   ledger.Counts // its totals; one that is missing has never been written
	ledgerID string        // that the document names
	number   int           // of shards; 0 where the document has none
	inferred bool          // the number was inferred
	ids      int
	ledger   *ledger.Ledger         // nil: none
	shards   map[string]shardCounts // :: shard id → what it holds

	deletionTime bool // whether a delete event's old update time is the deletion's own
	messages     []*message
	snapshots    []ledger.Snapshot
	instances    []*instance

	last  map[string]ledger.State // :: shard id → its newest state
	heard map[string]time.Time    // :: shard id → the newest state that the newest revision has counted

	lossy   bool // messages get lost, and others write to the counter
	unheard int  // when something last happened that only a reconcile can find; 0 when one has
	lied    bool // a message carries what never was: a reconcile is needed once it has been counted
}

// shardCounts is a shard's document.
type shardCounts struct {
	counts ledger.Counts // a field that is missing is 0
	asOf   time.Time
}

// message is an event: a state, until a delivery of it is acknowledged.
type message struct {
	ledger.State
	acknowledged bool
}

// instance is one process of the roll-up: its coalescer, its copy of the ledger, and the flush in flight.
type instance struct {
	fields   []string // that its revision knows
	pending  coalescer[*message]
	copy     *ledgerCopy
	inFlight *batch
}

// now is the time of a commit or a read. Commits may be a microsecond apart.
func (m *model) now() time.Time {
	m.clock += rapid.SampledFrom([]int{1, 1, 10}).Draw(m.T, "µs")
	return at(m.clock)
}

// write commits shards at one time (nil counts delete), and sends their events.
func (m *model) write(writes map[string]ledger.Counts) {
	now := m.now()
	for _, id := range slices.Sorted(maps.Keys(writes)) {
		counts := writes[id]
		old, there := m.shards[id]
		switch {
		case counts == nil && there:
			delete(m.shards, id)
			before := old.asOf
			if m.deletionTime {
				before = now
			}
			m.send(Change{Shard: id, Before: &Version{m.all(nil), before}}.state())
		case counts != nil && (!there || !maps.Equal(old.counts, counts)): // a no-op write has no event and no new time
			m.shards[id] = shardCounts{counts, now}
			m.send(Change{Shard: id, After: &Version{m.all(counts), now}}.state())
		}
	}
}

// all are counts with 0 for the fields that a shard lacks.
func (m *model) all(counts ledger.Counts) map[string]int64 {
	all := make(map[string]int64, len(m.fields))
	for _, name := range m.fields {
		all[name] = counts[name]
	}
	return all
}

func (m *model) send(s ledger.State) {
	m.last[s.Shard] = s
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
	known := msg.State
	known.Counts = ledger.Counts{} // as its revision decodes it
	for _, name := range in.fields {
		known.Counts[name] = msg.Counts[name]
	}
	superseded, _ := in.pending.add(clock, "c", known, msg)
	acknowledge(superseded)
}

// hear takes note of what an instance has counted.
func (m *model) hear(in *instance, counted []*message) {
	for _, msg := range counted {
		if len(in.fields) == len(m.fields) && msg.AsOf.After(m.heard[msg.Shard]) {
			m.heard[msg.Shard] = msg.AsOf
		}
	}
}

// deaf reports whether an older revision alone has seen the newest state of a shard: then what it doesn't know of it is missing
// until the shard's next state or a reconcile.
func (m *model) deaf() bool {
	for shard, last := range m.last {
		if len(m.older) > 0 && m.heard[shard].Before(last.AsOf) {
			return true
		}
	}
	return false
}

func acknowledge(messages []*message) {
	for _, msg := range messages {
		msg.acknowledged = true
	}
}

func (m *model) id() string { m.ids++; return fmt.Sprint(m.ids) }

// own reports whether the ledger is the counter's, and not an earlier one's. Counts of a hosted one belong to the path.
func (m *model) own() bool { return m.ledger != nil && (m.hosted || m.ledger.ID == m.ledgerID) }

// read is what Client.read of a revision does: the ledger, after adoption where there is none, and up to date.
func (m *model) read(fields []string) *ledgerCopy {
	if m.exists && !m.own() || m.ledger == nil && len(m.shards) > 0 && !m.hosted {
		now := m.now()
		m.ledger = &ledger.Ledger{ID: m.id(), Sums: map[string]*ledger.Sum{}, Updated: now}
		m.exists, m.ledgerID, m.unheard = true, m.ledger.ID, 0
		for _, name := range fields {
			sum := &ledger.Sum{Shards: map[string]ledger.Entry{}, Floor: now}
			for id, s := range m.shards {
				sum.Shards[id] = ledger.Entry{Count: s.counts[name], AsOf: s.asOf}
			}
			m.ledger.Sums[name], m.totals[name] = sum, sum.Total()
		}
		if m.number == 0 {
			m.number, m.inferred = m.numbered(), m.numbered() > 0
		}
	}
	if m.ledger != nil && !m.exists && m.hosted && m.ledger.Gone.IsZero() {
		m.ledger.Gone, m.ledger.Updated = m.now(), m.now() // events may be passed over from now on
	}
	if m.ledger == nil || !m.exists {
		return nil
	}
	if m.ledger.Behind(m.now(), fields...) {
		m.correctWith(m.snapshot(), fields)
	}
	return m.copy()
}

func (m *model) copy() *ledgerCopy {
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
func (m *model) numbered() (n int) {
	for id := range m.shards {
		n = max(n, layout.Numbered(id))
	}
	return n
}

// commit writes a diff and the number of shards if the ledger is still the version of the copy. The totals are written too.
func (m *model) commit(l *ledgerCopy, d ledger.Diff, number int) bool {
	if m.ledger == nil || !m.exists || !m.ledger.Updated.Equal(l.Updated) {
		return false
	}
	m.ledger.Apply(d)
	m.ledger.Updated = m.now()
	m.number = max(m.number, number)
	return true
}

// flush is what Client.apply does, with whatever the others did since the copy was read in between.
func (m *model) flush(in *instance, states []ledger.State) {
	// Only shards that never had a counter, or whose ledger is deleted too, are adopted, and by no deletion.
	gone := !slices.ContainsFunc(states, func(s ledger.State) bool { return !s.Gone })
	if !m.exists && (gone || m.ledger != nil || m.hosted) {
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
			if in.copy = m.read(in.fields); in.copy == nil {
				return
			}
		}
		d := in.copy.Merge(states)
		if d.Empty() {
			return
		}
		number := risen(in.copy.inferred, states)
		if m.commit(in.copy, d, number) {
			in.copy.Apply(d)
			in.copy.Updated, in.copy.inferred = m.ledger.Updated, number
			right := true
			if m.hosted { // the ledger's condition holds, so they are set
				m.ledgerID = in.copy.ID
				for _, name := range in.fields {
					m.totals[name] = in.copy.Sums[name].Total()
				}
			} else {
				for name, delta := range d.Deltas() {
					m.totals[name] += delta
					right = right && m.totals[name] == in.copy.Sums[name].Total()
				}
			}
			if !right { // it drifted, or the counter was made again
				in.copy = nil
				m.read(in.fields)
				return
			}
			if rapid.IntRange(0, 4).Draw(m.T, "lose the answer") > 0 {
				return
			}
		}
		in.copy = nil
	}
}

// knows draws the fields that a revision of those that run knows.
func (m *model) knows() []string {
	if len(m.older) > 0 && rapid.Bool().Draw(m.T, "of the older revision") {
		return m.older
	}
	return m.fields
}

// correct is what Client.reconcile does with a snapshot that it has taken before another commit came first. From then on
// nothing is missing that had happened by the time of the snapshot.
func (m *model) correct(s ledger.Snapshot) {
	fields := m.knows()
	if !m.exists || !m.own() {
		return // says nothing
	}
	for _, sum := range m.ledger.Sums {
		if !s.At.After(sum.Floor) || !m.ledger.Gone.IsZero() {
			s = m.snapshot() // it says nothing, or not enough
			break
		}
	}
	now := m.now()
	if m.correctAt(now, s, fields) { // states may have been passed over since the snapshot, and a right total be so by chance
		s = m.snapshot()
		m.correctAt(s.At, s, fields)
	}
	m.known(s, fields)
}

// known takes note that nothing is missing any more of what a snapshot holds, where it was applied by the newest revision.
func (m *model) known(s ledger.Snapshot, fields []string) {
	if len(fields) < len(m.fields) || !m.exists || !m.own() {
		return
	}
	if !at(m.unheard).After(s.At) {
		m.unheard = 0
	}
	for shard, last := range m.last {
		if !last.AsOf.After(s.At) && last.AsOf.After(m.heard[shard]) {
			m.heard[shard] = last.AsOf
		}
	}
}

// reconcile is what Client.reconcile does when no other commit comes between its snapshot and its own. It leaves totals
// that are right as they are, so that what is lost may still show.
func (m *model) reconcile(fields []string) {
	s := m.snapshot()
	if m.exists && m.own() && m.right(fields) && !m.inferred && !m.ledger.Behind(s.At, fields...) {
		return
	}
	m.correctWith(s, fields)
	m.known(s, fields)
}

func (m *model) correctWith(s ledger.Snapshot, fields []string) { m.correctAt(s.At, s, fields) }

func (m *model) correctAt(now time.Time, s ledger.Snapshot, fields []string) (impossible bool) {
	if !m.exists || !m.own() {
		return false
	}
	l := m.copy()
	d := l.Correct(now, s, fields...)
	var number int
	if m.inferred {
		number = risen(m.number, s.States)
	}
	if m.commit(l, d, number) {
		if !m.ledger.Gone.IsZero() && len(fields) < len(m.fields) {
			m.unheard = m.clock // what the other fields held while the document was gone: a deployment of new fields ends with a reconcile
		}
		m.ledger.Gone, m.ledgerID = time.Time{}, m.ledger.ID
		for _, name := range fields {
			m.totals[name] = m.ledger.Sums[name].Total()
		}
	}
	return d.Impossible
}

func (m *model) snapshot() ledger.Snapshot {
	s := ledger.Snapshot{At: m.now()}
	for id, e := range m.shards {
		s.States = append(s.States, ledger.State{Shard: id, Counts: m.all(e.counts), AsOf: e.asOf})
	}
	return s
}

func (m *model) pick(ids map[string]shardCounts) string {
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

// plus are the counts of a shard after an increment, which may be one of the older revision's.
func (m *model) plus(id string, least int64) ledger.Counts {
	counts := maps.Clone(m.shards[id].counts)
	if counts == nil {
		counts = ledger.Counts{}
	}
	for _, name := range m.knows() {
		if name == m.fields[0] || rapid.Bool().Draw(m.T, "of "+name) {
			counts[name] += rapid.Int64Range(least, 5).Draw(m.T, "by")
		}
	}
	return counts
}

func (m *model) zero() ledger.Counts {
	zero := ledger.Counts{}
	for _, name := range m.knows() {
		zero[name] = 0
	}
	return zero
}

func (m *model) zeroes(n int) map[string]ledger.Counts {
	writes := map[string]ledger.Counts{}
	for i := range n {
		writes[fmt.Sprint(i)] = m.zero()
	}
	return writes
}

func (m *model) nothings() map[string]ledger.Counts {
	writes := map[string]ledger.Counts{}
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
	m := &model{T: t, shards: map[string]shardCounts{}, totals: ledger.Counts{}, last: map[string]ledger.State{}, heard: map[string]time.Time{}}
	m.deletionTime = rapid.Bool().Draw(t, "an old update time is the deletion's own")
	m.lossy = rapid.Bool().Draw(t, "events get lost")
	m.hosted = rapid.Bool().Draw(t, "hosted")
	m.fields = []string{"total"}
	if rapid.Bool().Draw(t, "two fields") {
		m.fields = []string{"total", "likes"}
		if rapid.Bool().Draw(t, "two revisions") {
			m.older = m.fields[:1]
		}
	}
	clock := time.Unix(0, 0)
	for range rapid.IntRange(1, 3).Draw(t, "instances") {
		m.instances = append(m.instances, newInstance(m.knows()))
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
		if o == committed {
			m.hear(in, counted)
		}
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
	actions := map[string]func(*rapid.T){
		"increment": func(*rapid.T) {
			id := m.pick(m.shards)
			m.write(map[string]ledger.Counts{id: m.plus(id, -3)})
		},
		"deliver": func(t *rapid.T) {
			if !m.deliver(clock) {
				t.Skip()
			}
		},
		"flush": func(*rapid.T) { step(rapid.SampledFrom(m.instances).Draw(m.T, "instance")) },
		"time":  func(*rapid.T) { clock = clock.Add(700 * time.Millisecond) },
		"kill": func(*rapid.T) { // what it held comes again
			*rapid.SampledFrom(m.instances).Draw(m.T, "instance") = *newInstance(m.knows())
		},
		"create": func(t *rapid.T) {
			if m.exists {
				t.Skip()
			}
			m.exists, m.totals, m.ledgerID, m.number, m.inferred = true, ledger.Counts{}, "", 0, false
			if m.hosted { // by the app
				if rapid.Bool().Draw(m.T, "with a stale total") {
					m.totals["total"] = 3
				}
				return
			}
			if len(m.shards) > 0 || m.ledger != nil { // leftovers go first, in a commit of their own
				m.write(m.nothings())
				m.ledger = nil
			}
			early := m.lossy && rapid.Bool().Draw(m.T, "a shard is made early")
			if early { // older than the ledger, so that only a reconcile counts it
				m.write(map[string]ledger.Counts{"5": {"total": 3}})
			}
			m.write(m.zeroes(rapid.IntRange(1, 4).Draw(m.T, "shards")))
			m.number, m.unheard = len(m.shards), 0
			m.ledgerID = m.id()
			m.ledger = &ledger.Ledger{ID: m.ledgerID, Sums: map[string]*ledger.Sum{}, Updated: at(m.clock)}
			for _, name := range m.knows() {
				m.totals[name] = rapid.SampledFrom([]int64{0, 0, 100}).Draw(m.T, "base")
				m.ledger.Sums[name] = &ledger.Sum{Shards: map[string]ledger.Entry{}, Base: m.totals[name], Floor: at(m.clock)}
			}
			if early {
				m.unheard = m.clock
			}
		},
		"create by snippet": func(t *rapid.T) {
			if m.exists || m.hosted { // or over what a deletion by hand has left behind
				t.Skip()
			}
			writes := map[string]ledger.Counts{}
			for i := range rapid.IntRange(1, 4).Draw(m.T, "shards") {
				writes[fmt.Sprint(i)] = ledger.Counts{"total": 0}
			}
			m.write(writes)
			m.exists, m.ledgerID, m.totals, m.inferred = true, "", ledger.Counts{}, false
			m.number = rapid.SampledFrom([]int{0, m.numbered()}).Draw(m.T, "number") // not all of them write one
			if m.ledger == nil {                                                     // a blind trigger has kept its total since
				m.totals["total"] = rapid.Int64Range(0, 50).Draw(m.T, "total")
			}
		},
		"delete": func(t *rapid.T) {
			if !m.exists || m.hosted {
				t.Skip()
			}
			m.write(m.nothings())
			m.exists, m.ledger, m.number, m.inferred = false, nil, 0, false
		},
		"delete by hand": func(*rapid.T) { m.exists, m.number, m.inferred = false, 0, false }, // or by the app
		"delete below": func(t *rapid.T) { // as Google's tools go on, or as what is left below an app's document is removed
			if m.exists {
				t.Skip()
			}
			if m.hosted {
				m.ledger = nil
				m.write(m.nothings())
				return
			}
			m.ledger = nil
			m.write(map[string]ledger.Counts{m.pick(m.shards): nil})
		},
		"the app sets the whole document": func(t *rapid.T) {
			if !m.hosted || !m.exists {
				t.Skip()
			}
			m.totals, m.ledgerID, m.number, m.inferred = ledger.Counts{}, "", 0, false
		},
		"the app writes a total back": func(t *rapid.T) {
			if !m.hosted || !m.exists {
				t.Skip()
			}
			m.totals[rapid.SampledFrom(m.fields).Draw(t, "field")] = rapid.Int64Range(0, 20).Draw(t, "stale")
		},
		"the app's document is gone for a while": func(t *rapid.T) { // in which events come, and are passed over
			if !m.hosted || !m.exists {
				t.Skip()
			}
			m.exists, m.number, m.inferred = false, 0, false
			settle()
			m.exists, m.totals, m.ledgerID = true, ledger.Counts{}, ""
		},
		"reset": func(t *rapid.T) {
			if !m.exists || !m.own() || !m.ledger.Gone.IsZero() {
				t.Skip()
			}
			writes := map[string]ledger.Counts{}
			fields := m.knows()
			for id := range m.shards {
				writes[id] = maps.Clone(m.shards[id].counts)
				for _, name := range fields {
					writes[id][name] = 0
				}
			}
			m.write(writes)
			for _, name := range fields {
				if sum := m.ledger.Sums[name]; sum != nil {
					m.totals[name] -= sum.Base
					sum.Base = 0
				}
			}
			m.ledger.Updated = m.now()
		},
		"shrink": func(t *rapid.T) {
			from, to := m.pick(m.shards), m.pick(m.shards)
			if from == to {
				t.Skip()
			}
			moved := maps.Clone(m.shards[to].counts)
			for name, count := range m.shards[from].counts {
				moved[name] += count
			}
			m.write(map[string]ledger.Counts{to: moved, from: nil})
		},
		"a shard is made": func(t *rapid.T) { // by an increment that found none
			id := fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "new"))
			if _, there := m.shards[id]; there || !m.exists && (m.ledger != nil || m.hosted) { // some snippets make no counter
				t.Skip()
			}
			m.write(map[string]ledger.Counts{id: m.plus(id, 1)})
		},
		"a shard is made anew": func(*rapid.T) { // maybe at the very time that its deletion's event says
			id := m.pick(m.shards)
			m.write(map[string]ledger.Counts{id: nil})
			m.write(map[string]ledger.Counts{id: m.plus(id, 1)})
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
		"reconcile at once": func(*rapid.T) { m.reconcile(m.knows()) },
		"something writes the total": func(t *rapid.T) {
			if !m.lossy || !m.exists {
				t.Skip()
			}
			m.totals[rapid.SampledFrom(m.fields).Draw(t, "field")] += 7
			m.unheard = m.clock
		},
		"an event from the future": func(*rapid.T) {
			m.messages = append(m.messages, &message{State: ledger.State{Shard: "0", Counts: m.all(ledger.Counts{"total": 999}), AsOf: at(m.clock + 1_000_000)}})
		},
		"an event of what never was": func(t *rapid.T) {
			if !m.lossy {
				t.Skip()
			}
			m.lied = true
			m.messages = append(m.messages, &message{State: ledger.State{Shard: rapid.SampledFrom([]string{"0", "1", "9"}).Draw(t, "of"), Counts: m.all(ledger.Counts{"total": 999}), AsOf: at(m.clock)}})
		},
		"a ledger with an entry from the future": func(t *rapid.T) {
			if !m.lossy || m.ledger == nil {
				t.Skip()
			}
			if sum := m.ledger.Sums[rapid.SampledFrom(m.fields).Draw(t, "field")]; sum != nil {
				sum.Shards["0"], m.ledger.Updated = ledger.Entry{Count: 999, AsOf: at(m.clock + 1_000_000)}, m.now()
				m.unheard = m.clock
			}
		},
		"a ledger with a floor from the future": func(t *rapid.T) {
			if !m.lossy || m.ledger == nil {
				t.Skip()
			}
			if sum := m.ledger.Sums[rapid.SampledFrom(m.fields).Draw(t, "field")]; sum != nil {
				sum.Floor, m.ledger.Updated = at(m.clock+1_000_000), m.now()
				m.unheard = m.clock
			}
		},
	}
	for _, often := range []string{"increment", "deliver", "flush"} { // actions are drawn evenly
		for i := range 4 {
			actions[fmt.Sprint(often, i)] = actions[often]
		}
	}
	for _, sometimes := range []string{"create", "shrink", "a shard is made", "reconcile reads", "reconcile applies", "reconcile at once"} {
		actions[sometimes+" again"] = actions[sometimes]
	}
	t.Repeat(actions)

	// Everything arrives in the end, in any order, after every instance has died once and the older revision is gone.
	for _, in := range m.instances {
		*in = *newInstance(m.fields)
	}
	settle()
	for _, s := range m.snapshots {
		m.correct(s)
	}
	if m.hosted && m.exists && len(m.shards) > 0 && m.unheard == 0 {
		// Whatever the app has written back, or made again, is corrected by the next flush.
		id := m.pick(m.shards)
		m.messages = nil
		lossy := m.lossy
		m.lossy = false
		m.write(map[string]ledger.Counts{id: m.plus(id, 1)})
		m.lossy = lossy
		settle()
	} else if m.hosted {
		m.unheard = m.clock
	}
	if m.unheard > 0 || m.lied || m.deaf() {
		m.read(m.fields)
		m.reconcile(m.fields)
	}
	m.check("when everything has arrived")

	// A reconcile that has something to correct settles what was lost, and what is late from then on changes nothing.
	if m.lossy && m.exists && m.own() {
		m.totals["total"] += 7
		m.reconcile(m.fields)
	}

	// Any of it may come once more. What never was may count until the next reconcile.
	for _, msg := range m.messages {
		if rapid.Bool().Draw(m.T, "once more") {
			m.hand(msg, clock)
		}
	}
	settle()
	if m.unheard > 0 || m.lied {
		m.reconcile(m.fields)
	}
	m.check("when events have come once more")
}

// sum is what the total of a field should be.
func (m *model) sum(name string) int64 {
	sum := m.ledger.Sums[name].Base
	for _, s := range m.shards {
		sum += s.counts[name]
	}
	return sum
}

func (m *model) right(fields []string) bool {
	for _, name := range fields {
		if m.ledger.Sums[name] == nil || m.totals[name] != m.sum(name) {
			return false
		}
	}
	return true
}

func (m *model) check(when string) {
	if !m.exists || !m.own() { // no event has touched it yet
		return
	}
	if len(m.older) > 0 && m.ledger.Behind(at(m.clock), m.fields...) {
		return // nor one at the newest revision
	}
	for _, name := range m.fields {
		if m.totals[name] != m.sum(name) {
			m.Fatalf("%s is %d %s, want %d", name, m.totals[name], when, m.sum(name))
		}
	}
	if m.inferred && m.number < m.numbered() {
		m.Fatalf("%d shards %s, and there is one with the number %d", m.number, when, m.numbered()-1)
	}
}

func newInstance(fields []string) *instance {
	return &instance{fields: fields, pending: coalescer[*message]{
		least: time.Second, most: 5 * time.Second, maxWaiting: 50, maxFlushes: 1, maxFailures: 2, backlogs: map[string]*backlog[*message]{},
	}}
}
