package ledger

import (
	"fmt"
	"testing"
)

func TestSpeak(t *testing.T) {
	t.Parallel()
	ledger := func() *Ledger {
		return &Ledger{States: map[string]Entry{"0": {at(100), of(5)}, "1": {at(100), of(7)}}, Floor: at(100), Created: at(50)}
	}
	snapshot := Snapshot{At: at(300), States: []State{{Shard: "0", AsOf: at(250), Counts: of(6)}, {Shard: "2", AsOf: at(260), Counts: of(1)}}}
	batch := []State{{Shard: "0", AsOf: at(250), Counts: of(6)}}

	l := ledger()
	l.Apply(l.Merge(batch, nil))
	d, spoke := l.Speak(at(300), snapshot)
	if l.total() != 13 {
		t.Errorf("the ledger itself was changed: %d", l.total())
	}
	if l.Apply(d); !spoke || l.total() != 7 || !l.Floor.Equal(at(300)) || len(l.States) != 2 {
		t.Errorf("%v: %+v", spoke, l)
	}

	// Beside an earlier snapshot what is newer stays.
	l = ledger()
	newer := []State{{Shard: "0", AsOf: at(350), Counts: of(9)}, {Shard: "1", AsOf: at(340), Counts: of(8)}}
	l.Apply(l.Merge(newer, nil))
	d, spoke = l.Speak(at(400), snapshot)
	if l.Apply(d); !spoke || l.total() != 9+8+1 {
		t.Errorf("%v: %+v", spoke, l)
	}

	// What was told of a field before it was a text is kept, and the snapshot after it.
	l = ledger()
	text := []State{{Shard: "0", AsOf: at(200), Blank: []string{"count"}, Was: of(20)}}
	l.Apply(l.Merge(text, nil))
	d, spoke = l.Speak(at(300), snapshot)
	if l.Apply(d); !spoke || l.total() != 20+6+1 {
		t.Errorf("%v: %+v", spoke, l)
	}

	// A snapshot that is no younger than the floor, one beside what can't be, and one for which there
	// is no room have no part in it.
	for name, change := range map[string]func(*Ledger, *Snapshot){
		"old":        func(l *Ledger, _ *Snapshot) { l.Floor = at(300) },
		"impossible": func(l *Ledger, _ *Snapshot) { l.States["1"] = Entry{at(1000), of(7)} },
		"too large": func(_ *Ledger, s *Snapshot) {
			for n := range MaxNumbers {
				s.States = append(s.States, State{Shard: fmt.Sprint("more ", n), AsOf: at(200), Counts: of(1)})
			}
		},
	} {
		l, s := ledger(), snapshot
		change(l, &s)
		before := l.total()
		l.Apply(l.Merge(batch, nil))
		d, spoke := l.Speak(at(300), s)
		if l.Apply(d); spoke || !d.Floor.IsZero() {
			t.Errorf("%s: %v, %+v", name, spoke, d)
		}
		if want := before + 1; name != "old" && l.total() != want {
			t.Errorf("%s: %d, want %d", name, l.total(), want)
		}
	}
}
