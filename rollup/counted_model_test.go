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

// countedModel is a field that counts documents, in a Firestore whose clock only moves on commits
// and reads, with the real recounts and the real ledger around it. Whenever every event is
// acknowledged, the field is how many documents there are.
type countedModel struct {
	*rapid.T
	broken countedRule
	clock  int

	documents map[string]int // :: id → update time
	made      int
	field     int64
	ledger    *ledger.Ledger // nil: none
	messages  []*countedMessage
	instances []*countedInstance

	deletionTime bool // whether a delete event's old update time is the deletion's own
}

// countedRule is a rule that the model can do without, to see that it finds out.
type countedRule string

const (
	noRuleBroken   countedRule = ""
	orderByCommit  countedRule = "the newest value is the one that is committed last"
	orderByValue   countedRule = "the newest value is the largest"
	coverEverybody countedRule = "an event is covered by a recount that had begun before it came"
	supersedeGone  countedRule = "a deletion is superseded like any change"
	takeEarly      countedRule = "a value of before the ledger counts"
	supersedeAny   countedRule = "any change that is held supersedes"
)

type countedMessage struct {
	at           int
	gone         bool
	acknowledged bool
}

// countedInstance is one process: what waits, the recount in flight, and what its query has said.
type countedInstance struct {
	pending  recounts[*countedMessage]
	inFlight *recount
	value    *ledger.Answer
}

func newCountedInstance() *countedInstance {
	return &countedInstance{pending: recounts[*countedMessage]{
		least: time.Second, most: time.Minute, longest: 5 * time.Second, maxWaiting: 50, maxFailures: 2,
		runs: runs[collection, *recountTask[*countedMessage]]{atOnce: 1},
	}}
}

var ofModel = collection{"c", "comments"}

func (m *countedModel) now() int {
	m.clock += rapid.SampledFrom([]int{1, 1, 10}).Draw(m.T, "µs")
	return m.clock
}

func (m *countedModel) aggregate() *ledger.Answer {
	return &ledger.Answer{ReadTime: at(m.now()), Value: int64(len(m.documents))}
}

func (m *countedModel) hand(in *countedInstance, msg *countedMessage, clock time.Time) {
	e := waitingEvent[*countedMessage]{at: at(msg.at), timeless: msg.gone && m.broken != supersedeGone, gone: msg.gone, event: msg}
	if m.broken == supersedeAny {
		if t := in.pending.tasks[ofModel]; t != nil && !e.timeless && len(slices.Concat(t.next, t.inFlight)) > 0 {
			msg.acknowledged = true
			return
		}
	}
	superseded, _ := in.pending.add(clock, ofModel, e, time.Hour)
	for _, msg := range superseded {
		msg.acknowledged = true
	}
}

// step is the next thing that an instance does: begin, ask, or commit.
func (m *countedModel) step(in *countedInstance, clock time.Time) {
	switch {
	case in.inFlight == nil:
		if b, ok := in.pending.start(clock); ok {
			in.inFlight = &b
		}
	case in.value == nil:
		in.value = m.aggregate()
	default:
		o := committed
		if rapid.IntRange(0, 4).Draw(m.T, "contention") == 0 {
			o = failed
		} else {
			m.commit(*in.value)
		}
		reads := rapid.Int64Range(1, 3).Draw(m.T, "reads")
		covered, _ := in.pending.done(clock, *in.inFlight, o, reads)
		if m.broken == coverEverybody && o == committed {
			covered = append(covered, in.pending.tasks[ofModel].next...)
		}
		for _, msg := range events(covered) {
			msg.acknowledged = true
		}
		in.inFlight, in.value = nil, nil
	}
}

// commit is what a flush does with an answer.
func (m *countedModel) commit(answer ledger.Answer) {
	if m.ledger == nil { // adopted
		m.ledger = &ledger.Ledger{Created: at(m.now())}
	}
	key := "k"
	d := m.ledger.Merge(nil, map[string]ledger.Answer{key: answer})
	value, _ := answer.Value.(int64)
	known, _ := m.ledger.Answers[key].Value.(int64)
	switch {
	case m.broken == orderByCommit, m.broken == takeEarly && len(d.Early) > 0, m.broken == orderByValue && value > known:
		d.Answers = map[string]ledger.Answer{key: answer}
	case m.broken == orderByValue:
		d.Answers = nil
	case len(d.Early) > 0: // asked again
		d = m.ledger.Merge(nil, map[string]ledger.Answer{key: *m.aggregate()})
	}
	m.now()
	m.ledger.Apply(d)
	if a, ok := d.Answers[key]; ok {
		m.field, _ = a.Value.(int64)
	}
}

// walkCountedModel returns what is wrong, if anything is.
func walkCountedModel(t *rapid.T, broken countedRule) (wrong string) {
	m := &countedModel{T: t, broken: broken, documents: map[string]int{}}
	m.deletionTime = rapid.Bool().Draw(t, "an old update time is the deletion's own")
	clock := time.Unix(0, 0)
	for range rapid.IntRange(1, 3).Draw(t, "instances") {
		m.instances = append(m.instances, newCountedInstance())
	}
	pick := func(t *rapid.T) string {
		if len(m.documents) == 0 {
			t.Skip("no document")
		}
		return rapid.SampledFrom(slices.Sorted(maps.Keys(m.documents))).Draw(t, "document")
	}
	send := func(msg *countedMessage) { m.messages = append(m.messages, msg) }
	left := func() (left []*countedMessage) {
		for _, msg := range m.messages {
			if !msg.acknowledged {
				left = append(left, msg)
			}
		}
		return left
	}
	actions := map[string]func(*rapid.T){
		"create": func(t *rapid.T) { // several in one commit
			now := m.now()
			for range rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "documents") {
				m.made++
				m.documents[fmt.Sprint(m.made)] = now
				send(&countedMessage{at: now})
			}
		},
		"edit": func(t *rapid.T) {
			id := pick(t)
			m.documents[id] = m.now()
			send(&countedMessage{at: m.documents[id]})
		},
		"delete": func(t *rapid.T) {
			id := pick(t)
			old, now := m.documents[id], m.now()
			delete(m.documents, id)
			if m.deletionTime {
				old = now
			}
			send(&countedMessage{at: old, gone: true})
		},
		"deliver": func(t *rapid.T) {
			of := left()
			if len(m.messages) > 0 && rapid.IntRange(0, 9).Draw(t, "again") == 0 {
				of = m.messages
			}
			if len(of) == 0 {
				t.Skip()
			}
			m.hand(rapid.SampledFrom(m.instances).Draw(t, "to"), rapid.SampledFrom(of).Draw(t, "event"), clock)
		},
		"step": func(t *rapid.T) { m.step(rapid.SampledFrom(m.instances).Draw(t, "instance"), clock) },
		"in one go": func(t *rapid.T) {
			of := left()
			if len(of) == 0 {
				t.Skip()
			}
			in := rapid.SampledFrom(m.instances).Draw(t, "to")
			m.hand(in, rapid.SampledFrom(of).Draw(t, "event"), clock)
			clock = clock.Add(time.Minute)
			for range 3 {
				m.step(in, clock)
			}
		},
		"time": func(*rapid.T) { clock = clock.Add(20 * time.Second) },
		"kill": func(t *rapid.T) { *rapid.SampledFrom(m.instances).Draw(t, "instance") = *newCountedInstance() },
		"the ledger is deleted": func(t *rapid.T) {
			if m.ledger == nil {
				t.Skip()
			}
			m.ledger = nil
		},
		"": func(*rapid.T) {
			if len(m.messages) > 0 && len(left()) == 0 && m.field != int64(len(m.documents)) {
				wrong = fmt.Sprintf("all events are acknowledged, and the field is %d of %d documents", m.field, len(m.documents))
			}
		},
	}
	for _, often := range []string{"deliver", "step", "in one go", "the ledger is deleted"} {
		for i := range 8 {
			actions[fmt.Sprint(often, i)] = actions[often]
		}
	}
	for range 3 { // longer than the default
		t.Repeat(actions)
	}
	for _, in := range m.instances {
		*in = *newCountedInstance()
	}
	for round := 0; len(left()) > 0; round++ {
		if round == 10_000 {
			m.Fatal("events are never answered")
		}
		m.hand(m.instances[0], rapid.SampledFrom(left()).Draw(t, "event"), clock)
		clock = clock.Add(time.Minute)
		m.step(m.instances[0], clock)
		m.step(m.instances[0], clock)
		m.step(m.instances[0], clock)
	}
	actions[""](t)
	return wrong
}

func TestCountedModel(t *testing.T) {
	t.Parallel()
	for range 20 {
		rapid.Check(t, func(t *rapid.T) {
			if wrong := walkCountedModel(t, noRuleBroken); wrong != "" {
				t.Fatal(wrong)
			}
		})
	}
}

// The model is no use unless it fails without each of the rules.
func TestCountedModelNeedsItsRules(t *testing.T) {
	t.Parallel()
	for _, rule := range []countedRule{orderByCommit, orderByValue, coverEverybody, supersedeGone, takeEarly, supersedeAny} {
		t.Run(string(rule), func(t *testing.T) {
			t.Parallel()
			walks := rapid.Custom(func(t *rapid.T) string { return walkCountedModel(t, rule) })
			for seed := range 20_000 {
				if wrong := walks.Example(seed); wrong != "" {
					t.Logf("walk %d: %s", seed, wrong)
					return
				}
			}
			t.Error("no walk is wrong")
		})
	}
}
