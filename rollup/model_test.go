package rollup

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
)

// modelRule is a rule that the model can do without, to see that it finds out. Each is one of the
// design's (docs/exactness.md).
type modelRule string

const (
	everyRule     modelRule = ""
	ruleFloor     modelRule = "a state counts only where it is newer than the floor"
	ruleDeletion  modelRule = "a deletion is entered whatever its time"
	ruleCarry     modelRule = "a state holds every field, shown by this revision or not"
	ruleReadTime  modelRule = "answers are ordered by their read times"
	ruleCreated   modelRule = "an answer from before the ledger was made is asked for again"
	ruleGone      modelRule = "where the document is missing, the ledger counts alone"
	ruleZeros     modelRule = "fields that don't grow are incremented by 0"
	ruleCorrect   modelRule = "what a commit says of the fields is compared, and set where it differs"
	ruleYoung     modelRule = "a snapshot that isn't younger than the floor says nothing"
	ruleCondition modelRule = "a commit is on condition of the ledger that it was made of"
	ruleBegun     modelRule = "a note whose reconcile has begun is not relied on as it is"
	ruleTaken     modelRule = "a note is taken away only as it was when its reconcile began"
	ruleMoves     modelRule = "a reconcile for a note moves the floor"
	ruleOlder     modelRule = "a flush's snapshot leaves what is newer than it in a ledger that is"
	ruleKnown     modelRule = "an event is done as it comes by the floor of a ledger that was committed"
	ruleTimeless  modelRule = "a deletion isn't done as it comes"
)

var modelRules = []modelRule{ruleFloor, ruleDeletion, ruleCarry, ruleReadTime, ruleCreated, ruleGone, ruleZeros, ruleCorrect, ruleYoung, ruleCondition, ruleBegun, ruleTaken, ruleMoves, ruleOlder, ruleKnown, ruleTimeless}

// lifeModel is one counter's path in a Firestore whose clock moves on with every commit and read:
// shards, a collection, a document that the app deletes, makes again and overwrites, lives that
// end, and two instances of two revisions, of which the older shows fewer fields. The ledger is the
// real one; what a flush and a reconcile do with it is written out as in flush.go and reconcile.go.
// Whatever happens, once every event is acknowledged, and one more has been flushed by the newer
// revision (and a reconcile where events got lost), the document shows what the shards hold and how
// large the collection is.
type lifeModel struct {
	*rand.Rand
	off modelRule
	now int

	doc      map[string]int64 // nil while it is missing
	shards   map[string]ledger.State
	comments int64
	ledger   *ledger.Ledger
	copies   map[int]*ledger.Ledger // :: instance → its copy
	floors   map[int]time.Time      // :: instance → the newest floor that it knows
	events   []modelEvent
	note     modelNote
	lossy    bool // events get lost
	quiet    bool // nothing else happens any more
}

// modelEvent is an event of a shard, or of the collection.
type modelEvent struct {
	state   ledger.State
	comment bool
}

// modelNote is the note of the counter, for which events are acknowledged that can't be counted.
type modelNote struct {
	there, begun bool
	version      int
}

// modelWrong is how a walk ends that found something wrong.
type modelWrong string

// modelFields is what each revision shows: the newer one is instance 1.
var modelFields = func() [2]layout.Fields {
	var revisions [2]layout.Fields
	for i, list := range []string{"likes", "likes,views,comments=count(comments)"} {
		fields, err := layout.ParseFields(list)
		if err != nil {
			panic(err)
		}
		revisions[i] = fields
	}
	return revisions
}()

var modelAnswer = modelFields[1][2].Key()

func newLifeModel(seed uint64, off modelRule) *lifeModel {
	m := &lifeModel{Rand: rand.New(rand.NewPCG(seed, 1)), off: off, now: 10, lossy: seed%2 == 1, copies: map[int]*ledger.Ledger{}, floors: map[int]time.Time{}}
	m.begin()
	return m
}

func (m *lifeModel) chance(p float64) bool { return m.Float64() < p }

func (m *lifeModel) tick() int {
	m.now += 10
	return m.now
}

// begin begins a life.
func (m *lifeModel) begin() {
	m.ledger, m.doc, m.shards = nil, map[string]int64{}, map[string]ledger.State{}
	for _, id := range []string{"a", "b"} {
		m.shards[id] = ledger.State{Shard: id, AsOf: at(m.tick())}
	}
}

func (m *lifeModel) emit(e modelEvent) {
	if m.quiet || !m.lossy || !m.chance(.15) {
		m.events = append(m.events, e)
	}
}

func (m *lifeModel) increment() {
	id := []string{"a", "b"}[m.IntN(2)]
	now := at(m.tick())
	old, there := m.shards[id]
	if there && m.chance(.15) {
		delete(m.shards, id)
		m.emit(modelEvent{state: ledger.State{Shard: id, AsOf: old.AsOf.Add(time.Microsecond), Gone: true}})
		return
	}
	counts := maps.Clone(old.Counts)
	if counts == nil {
		counts = ledger.Counts{}
	}
	fields := []string{"likes", "views"}
	m.Shuffle(2, func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	for _, field := range fields[:1+m.IntN(2)] {
		if counts[field] += []int64{1, 2, -1}[m.IntN(3)]; counts[field] == 0 {
			delete(counts, field)
		}
	}
	m.shards[id] = ledger.State{Shard: id, AsOf: now, Counts: counts}
	m.emit(modelEvent{state: m.shards[id]})
}

func (m *lifeModel) comment() {
	m.tick()
	if m.comments > 0 && m.IntN(3) == 0 {
		m.comments--
	} else {
		m.comments++
	}
	m.emit(modelEvent{comment: true})
}

// app is the app, and whoever ends lives.
func (m *lifeModel) app() {
	m.tick()
	switch p := m.Float64(); {
	case m.doc == nil && p < .5:
		m.doc = map[string]int64{}
	case m.doc == nil:
		m.doc = map[string]int64{"likes": 99, "comments": 7}
	case p < .4:
		m.doc = nil
	case p < .7:
		m.begin() // counters delete, and its next life
	case p < .8:
		m.doc[[]string{"likes", "views", "comments"}[m.IntN(3)]] = []int64{0, 5, 77}[m.IntN(3)]
	}
}

func (m *lifeModel) states() []ledger.State {
	return slices.Collect(maps.Values(m.shards))
}

// read is the ledger, which is adopted where there is none.
func (m *lifeModel) read(instance int) *ledger.Ledger {
	if m.ledger == nil {
		l := ledger.New(m.states())
		l.Created, l.Updated = at(m.tick()), at(m.now)
		l.Floor = l.Created
		m.ledger = l
	}
	m.copies[instance] = clone(m.ledger)
	m.knows(instance, m.ledger.Floor)
	return m.copies[instance]
}

func (m *lifeModel) knows(instance int, floor time.Time) {
	if floor.After(m.floors[instance]) {
		m.floors[instance] = floor
	}
}

// covered reports whether an instance answers the event of a state as it comes.
func (m *lifeModel) covered(instance int, s ledger.State) bool {
	return (!s.Gone || m.off == ruleTimeless) && !s.AsOf.After(m.floors[instance])
}

func clone(l *ledger.Ledger) *ledger.Ledger {
	c := *l
	c.States, c.Answers = maps.Clone(l.States), maps.Clone(l.Answers)
	return &c
}

// merge is Ledger.Merge, less a rule. It reports false for an answer that is to be asked for again.
func (m *lifeModel) merge(l *ledger.Ledger, instance int, states []ledger.State, answer *ledger.Answer) bool {
	if m.off == ruleDeletion {
		states = slices.DeleteFunc(slices.Clone(states), func(s ledger.State) bool { return s.Gone && !s.AsOf.After(l.Floor) })
	}
	if m.off == ruleCarry {
		states = slices.Clone(states)
		for i, s := range states {
			states[i].Counts = m.shownOf(instance, s.Counts, l.States[s.Shard].Counts)
		}
	}
	answers := map[string]ledger.Answer{}
	if answer != nil {
		answers[modelAnswer] = *answer
	}
	merging := *l
	if m.off == ruleFloor {
		merging.Floor = at(0)
	}
	if m.off == ruleCreated {
		merging.Created = at(0)
	}
	d := merging.Merge(states, answers)
	if m.off == ruleReadTime && answer != nil && len(d.Early) == 0 {
		d.Answers = answers
	}
	if len(d.Early) > 0 {
		return false
	}
	l.Apply(d)
	return true
}

// shownOf is what a revision would know of a shard if a state held only what it shows, beside what
// is known of the rest.
func (m *lifeModel) shownOf(instance int, counts, known ledger.Counts) ledger.Counts {
	kept := maps.Clone(known)
	if kept == nil {
		kept = ledger.Counts{}
	}
	for _, field := range modelFields[instance] {
		if field.Counted == nil {
			delete(kept, field.Shard)
			if n := counts[field.Shard]; n != 0 {
				kept[field.Shard] = n
			}
		}
	}
	return kept
}

// commit puts a ledger in its place.
func (m *lifeModel) commit(instance int, l *ledger.Ledger) {
	l.Updated = at(m.tick())
	m.ledger = l
	m.copies[instance] = clone(l)
	m.knows(instance, l.Floor)
}

// holds reports whether the ledger is still the version of a copy.
func (m *lifeModel) holds(l *ledger.Ledger) bool {
	return m.ledger != nil && (m.ledger.Updated.Equal(l.Updated) || m.off == ruleCondition)
}

// noted acknowledges events for the note.
func (m *lifeModel) noted() {
	if !m.note.there || m.note.begun && m.off != ruleBegun {
		m.note = modelNote{there: true, version: m.tick()}
	}
}

// reconcileNote reconciles for the note, and takes it away.
func (m *lifeModel) reconcileNote() {
	if !m.note.there {
		return
	}
	m.note = modelNote{there: true, begun: true, version: m.tick()}
	version := m.note.version
	if m.ledger == nil {
		m.read(2)
	} else {
		m.reconcile(m.off != ruleMoves)
	}
	if !m.quiet && m.chance(.3) {
		m.step(true)
	}
	if m.note.version == version || m.off == ruleTaken {
		m.note = modelNote{}
	}
}

// flush reports whether what it was given is counted, and false where it is to come again.
func (m *lifeModel) flush(instance int, states []ledger.State, answer *ledger.Answer) bool {
	shown := modelFields[instance]
	speaks := m.chance(.3)
	var snapshot *ledger.Snapshot
	for range 4 {
		held := m.copies[instance]
		if held == nil || m.doc == nil { // a copy of a ledger whose document is gone is read
			held = m.read(instance)
		}
		now := at(m.now)
		l := clone(held)
		before := l.Totals(shown...)
		if !m.merge(l, instance, states, answer) {
			return false
		}
		if speaks {
			if snapshot == nil {
				snapshot = &ledger.Snapshot{At: at(m.tick()), States: m.states()}
				now = snapshot.At
			}
			if m.off == ruleOlder {
				now = snapshot.At
			}
			if d := l.Correct(now, *snapshot); !d.Floor.IsZero() {
				l.Apply(d)
			}
			if m.off == ruleKnown {
				m.knows(instance, l.Floor)
			}
			if !m.quiet && m.chance(.1) { // it fails
				return false
			}
		}
		if !m.quiet && m.chance(.15) {
			m.step(true) // others, in between
		}
		if !m.holds(held) {
			m.read(instance)
			continue
		}
		if m.doc == nil {
			if m.off == ruleGone {
				return true
			}
			m.commit(instance, l)
		} else {
			differs := false
			for name, total := range l.Totals(shown...) {
				if delta := total - before[name]; delta != 0 || m.off != ruleZeros {
					m.doc[name] += delta
					differs = differs || m.doc[name] != total
				}
			}
			m.commit(instance, l)
			if differs && m.off != ruleCorrect {
				m.show(instance)
			}
		}
		if !m.quiet && m.chance(.1) { // the answer is lost: read, and do it again
			delete(m.copies, instance)
			continue
		}
		return true
	}
	return false
}

// show sets the document's fields to what the ledger has, unless the process dies before.
func (m *lifeModel) show(instance int) {
	l := m.copies[instance]
	if !m.quiet && m.chance(.1) || !m.holds(l) || m.doc == nil {
		return
	}
	maps.Copy(m.doc, l.Totals(modelFields[instance]...))
}

// reconcile corrects the ledger by a snapshot, which may be of a while ago when it is committed. It
// commits where something is wrong, or in any case.
func (m *lifeModel) reconcile(anyway bool) {
	if m.ledger == nil {
		return
	}
	now := at(m.tick())
	snapshot := ledger.Snapshot{At: now, States: m.states()}
	answer := ledger.Answer{ReadTime: now, Value: m.comments}
	if !m.quiet {
		for range m.IntN(5) {
			m.step(true)
		}
	}
	if m.ledger == nil {
		return
	}
	l := clone(m.ledger)
	if m.off == ruleYoung && !snapshot.At.After(l.Floor) {
		l.Floor = at(0)
	}
	if !l.Floor.Before(snapshot.At) && m.off != ruleYoung { // another was faster, which may know less
		snapshot = ledger.Snapshot{At: at(m.tick()), States: m.states()}
		answer = ledger.Answer{ReadTime: snapshot.At, Value: m.comments}
	}
	d := l.Correct(at(m.tick()), snapshot)
	if d.Empty() && !anyway {
		return
	}
	l.Apply(d)
	if answers := l.Merge(nil, map[string]ledger.Answer{modelAnswer: answer}); len(answers.Early) == 0 {
		l.Apply(answers)
	}
	m.commit(2, l)
	if m.doc != nil {
		maps.Copy(m.doc, l.Totals(modelFields[1]...))
	}
}

// deliver hands some events to an instance, in one flush.
func (m *lifeModel) deliver(instance int, last bool) {
	var batch, rest []modelEvent
	for range min(len(m.events), 1+m.IntN(3)) {
		i := m.IntN(len(m.events))
		if e := m.events[i]; e.comment || !m.covered(instance, e.state) {
			batch = append(batch, e)
		}
		m.events = slices.Delete(m.events, i, i+1)
	}
	var states []ledger.State
	var answer *ledger.Answer
	for _, e := range batch {
		switch {
		case e.comment && instance == 0: // its trigger brings none
			rest = append(rest, e)
		case e.comment && answer == nil:
			answer = &ledger.Answer{ReadTime: at(m.tick()), Value: m.comments}
		case !e.comment:
			states = append(states, e.state)
		}
	}
	m.events = append(m.events, rest...)
	batch = slices.DeleteFunc(batch, func(e modelEvent) bool { return e.comment && instance == 0 })
	if len(batch) == 0 {
		return
	}
	if answer != nil && !last && m.chance(.5) { // the query is slow
		for range 1 + m.IntN(8) {
			m.step(m.chance(.5))
		}
	}
	if !m.quiet && m.chance(.15) { // it can't be rolled up now
		m.noted()
		return
	}
	done := m.flush(instance, states, answer)
	if done {
		for _, s := range states {
			known := m.ledger.States[s.Shard].AsOf
			if known.Before(m.ledger.Floor) {
				known = m.ledger.Floor
			}
			if m.off != ruleGone && m.off != ruleCondition && known.Before(s.AsOf) {
				panic(modelWrong("acknowledged, and not in the ledger"))
			}
		}
	}
	if !done || m.chance(.15) { // again, or twice
		m.events = append(m.events, batch...)
	}
}

func (m *lifeModel) step(deliveries bool) {
	switch p := m.Float64(); {
	case p < .35:
		m.increment()
	case p < .5:
		m.comment()
	case p < .6:
		m.app()
	case p < .66:
		m.reconcile(m.chance(.5))
	case p < .7:
		m.reconcileNote()
	case deliveries:
		m.deliver(m.IntN(2), false)
	}
}

// end lets everything arrive, and says what is wrong then.
func (m *lifeModel) end() {
	m.quiet = true
	if m.doc == nil {
		m.doc = map[string]int64{"likes": 3}
	}
	for range 400 {
		if len(m.events) == 0 {
			break
		}
		m.deliver(m.IntN(2), true)
	}
	if len(m.events) > 0 {
		panic(modelWrong("events are never answered"))
	}
	if m.ledger == nil {
		m.read(1)
	}
	m.reconcileNote()
	// One more event of one shard: everything else is in the ledger.
	counts := maps.Clone(m.shards["a"].Counts)
	if counts == nil {
		counts = ledger.Counts{}
	}
	counts["likes"]++
	m.shards["a"] = ledger.State{Shard: "a", AsOf: at(m.tick()), Counts: counts}
	m.events = append(m.events, modelEvent{state: m.shards["a"]})
	for len(m.events) > 0 {
		m.deliver(1, true)
	}
	if m.lossy {
		m.reconcile(true)
	}
	want := map[string]int64{"likes": 0, "views": 0}
	for _, s := range m.shards {
		want["likes"] += s.Counts["likes"]
		want["views"] += s.Counts["views"]
	}
	if _, ok := m.ledger.Answers[modelAnswer]; ok {
		want["comments"] = m.comments
	}
	for name, n := range want {
		if m.doc[name] != n {
			panic(modelWrong(fmt.Sprintf("%s is %d, and should be %d", name, m.doc[name], n)))
		}
	}
}

// walk returns what is wrong, if anything is.
func walk(seed uint64, off modelRule) (wrong modelWrong) {
	defer func() {
		if r := recover(); r != nil {
			said, ok := r.(modelWrong)
			if !ok {
				panic(r)
			}
			wrong = said
		}
	}()
	m := newLifeModel(seed, off)
	for range 5 + m.IntN(36) {
		m.step(true)
	}
	m.end()
	return ""
}

var modelWalks = flag.Uint64("model.walks", 5000, "walks of TestModel")

func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range *modelWalks {
		if wrong := walk(seed, everyRule); wrong != "" {
			t.Fatalf("walk %d: %s", seed, wrong)
		}
	}
}

// shownBy are walks that show rules which the first thousand don't. The search begins there, and goes on if the model has
// become another.
var shownBy = map[modelRule]uint64{
	ruleMoves: 1932, ruleKnown: 3192, ruleReadTime: 3302, ruleOlder: 7466, ruleCreated: 16364, ruleBegun: 27864, ruleTaken: 27864, ruleYoung: 28670,
}

// The model is no use unless it fails without each of the rules.
func TestModelNeedsItsRules(t *testing.T) {
	t.Parallel()
	for _, rule := range modelRules {
		t.Run(string(rule), func(t *testing.T) {
			t.Parallel()
			for seed := shownBy[rule]; seed < 200_000; seed++ {
				if wrong := walk(seed, rule); wrong != "" {
					t.Logf("walk %d: %s", seed, wrong)
					return
				}
			}
			t.Error("no walk is wrong")
		})
	}
}
