package simulation

import (
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/settings"
)

// counting is a script of a history in which the comments of a counter are counted.
type counting struct{ *script }

func commentDoc(id string) Doc { return countedDoc(named, "comments", id) }

// begin says what is counted, and makes the counter.
func (s counting) begin(older ...CountedField) {
	s.add(Counting{Fields: []CountedField{allComments, publicComments}, Older: older, RecountAge: time.Hour, RecountReads: 10_000})
	s.make()
}

// app writes documents, or deletes them where they are nil, in one commit.
func (s counting) app(docs map[string]map[string]any) int64 {
	for id := range docs {
		s.add(AppChanges{Doc: commentDoc(id)})
	}
	s.now = s.now.Add(time.Second)
	c := Commit{At: s.now}
	for id, data := range docs {
		ch := Change{Doc: commentDoc(id), Before: s.docs[commentDoc(id)]}
		if data != nil {
			ch.After = &Document{Updated: s.now.UnixMicro(), Data: data}
		}
		s.docs[commentDoc(id)] = ch.After
		c.Counted = append(c.Counted, ch)
	}
	s.history = append(s.history, Entry{At: s.now, What: c})
	return s.now.UnixMicro()
}

// comment makes a comment, which is public or not.
func (s counting) comment(id string, public bool) int64 {
	return s.app(map[string]map[string]any{id: {"public": public}})
}

func (s counting) ack(id string, of int64) {
	s.add(Acknowledged{Doc: commentDoc(id), Of: of, Fields: []string{"comments", "public"}})
}

// recount sets the fields.
func (s counting) recount(comments, public int64) {
	s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"comments": comments, "public": public}}})
}

var starsOfComments = CountedField{Name: "stars", Collection: "comments", Sum: "stars"}

// sum makes a counter that sums up the stars of its comments, and one that has so many.
func (s counting) sum(stars float64) int64 {
	s.add(Counting{Fields: []CountedField{starsOfComments}})
	s.make()
	return s.app(map[string]map[string]any{"a": {"stars": stars}})
}

// stars sets the field.
func (s counting) stars(n int64) {
	s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"stars": n}}})
}

// TestCheckAnswers tells right histories of fields that count documents from wrong ones, as
// TestCheck does.
func TestCheckAnswers(t *testing.T) {
	t.Parallel()
	judge(t, CheckAnswers, storiesOfAnswers())
}

func storiesOfAnswers() []story {
	one := func(s counting) { // is counted
		s.begin()
		at := s.comment("a", true)
		s.recount(1, 1)
		s.ack("a", at)
	}
	var stories []story
	for _, told := range []struct {
		name  string
		wrong string // "" is right
		write func(counting)
	}{
		{"comments are made, edited and deleted", "", func(s counting) {
			one(s)
			at := s.comment("a", false)
			s.recount(1, 0)
			s.ack("a", at)
			at = s.app(map[string]map[string]any{"a": nil, "b": {}, "c": {}})
			s.recount(2, 0)
			for _, id := range []string{"a", "b", "c"} {
				s.ack(id, at)
			}
			s.add(Calm{})
			s.add(Settled{})
			s.add(Settled{Counted: true})
		}},
		{"a value of the past", "", func(s counting) {
			s.begin()
			first := s.comment("a", true)
			second := s.comment("b", false)
			s.recount(1, 1)
			s.ack("a", first)
			s.recount(2, 1)
			s.ack("b", second)
		}},
		{"the app writes back an older value, which it is again by now, and a slow answer follows again", "", func(s counting) {
			s.add(Hosted{})
			s.begin()
			s.comment("a", true)
			s.recount(1, 1)
			s.comment("b", true)
			s.app(map[string]map[string]any{"b": nil})
			s.recount(2, 2)
			s.add(AppWrites{Counter: named, Title: 1, Whole: true})
			s.commit(map[Doc]*Document{counterDoc(): {Title: 1, Data: map[string]any{"comments": int64(1), "public": int64(1)}}})
			s.commit(map[Doc]*Document{counterDoc(): {Title: 1, Data: map[string]any{"comments": int64(2), "public": int64(2)}}})
		}},
		{"the app takes an older map back with the same value, and a slow answer follows once all is acknowledged", "", func(s counting) {
			s.add(Hosted{})
			s.begin()
			one := s.comment("a", true)
			s.recount(1, 1)
			s.ack("a", one)
			second := s.comment("b", true)
			third := s.app(map[string]map[string]any{"b": nil})
			s.add(AppWrites{Counter: named, Title: 1, Whole: true})
			s.commit(map[Doc]*Document{counterDoc(): {Title: 1, Data: map[string]any{"comments": int64(1), "public": int64(1)}}})
			s.ack("b", third)
			s.commit(map[Doc]*Document{counterDoc(): {Title: 1, Data: map[string]any{"comments": int64(2), "public": int64(2)}}})
			s.ack("b", second)
		}},
		{"a slow answer follows once all is acknowledged", "are acknowledged, the last one of a change", func(s counting) {
			s.add(Hosted{})
			s.begin()
			one := s.comment("a", true)
			s.recount(1, 1)
			s.ack("a", one)
			second := s.comment("b", true)
			third := s.app(map[string]map[string]any{"b": nil})
			s.ack("b", third)
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"comments": int64(2), "public": int64(2)}}})
			s.ack("b", second)
		}},
		{"a value that never was", "a commit changes comments", func(s counting) {
			s.begin()
			s.comment("a", true)
			s.recount(2, 1)
		}},
		{"an older value after a newer one", "a commit changes comments", func(s counting) {
			s.begin()
			s.comment("a", true)
			s.comment("b", true)
			s.recount(2, 2)
			s.recount(1, 1)
		}},
		{"another program's field, mended by a reconcile", "", func(s counting) {
			one(s)
			s.add(Foreign{Counter: named, Field: "comments"})
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"comments": int64(7), "public": int64(1)}}})
			s.add(Calm{})
			s.add(Reconciled{Counter: named, Others: map[string]int64{"comments": 6}})
			s.recount(1, 1)
			s.add(Settled{})
		}},
		{"another program's field, from before the counter is made", "", func(s counting) {
			s.add(Foreign{Counter: named, Field: "comments"})
			s.begin()
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"comments": int64(7)}}})
		}},
		{"another program's field that a reconcile leaves", "its documents come to 1", func(s counting) {
			one(s)
			s.add(Foreign{Counter: named, Field: "comments"})
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"comments": int64(7), "public": int64(1)}}})
			s.add(Settled{Counted: true})
		}},
		{"another program's field that the walk leaves", "its documents come to 1, since", func(s counting) {
			one(s)
			s.add(Foreign{Counter: named, Field: "comments"})
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"comments": int64(7), "public": int64(1)}}})
			s.now = s.now.Add(3 * time.Hour)
			s.add(Settled{})
		}},
		{"drift out of nowhere", "found a drift of 2", func(s counting) {
			one(s)
			s.add(Reconciled{Counter: named, Others: map[string]int64{"comments": 2}})
		}},
		{"an event acknowledged without being counted", "are acknowledged, the last one of a change", func(s counting) {
			one(s)
			at := s.comment("b", true)
			s.ack("b", at)
		}},
		{"a deletion acknowledged without being counted", "are acknowledged, the last one of a change", func(s counting) {
			one(s)
			at := s.app(map[string]map[string]any{"a": nil})
			s.ack("a", at)
		}},
		{"the first event acknowledged, and nothing counted", "are acknowledged, the last one of a change", func(s counting) {
			s.begin()
			s.ack("a", s.comment("a", true))
		}},
		{"an earlier event acknowledged while a later one waits", "", func(s counting) {
			one(s)
			first := s.comment("b", true)
			second := s.comment("c", true)
			s.ack("b", first)
			s.recount(3, 3)
			s.ack("c", second)
		}},
		{"an event that is lost", "", func(s counting) {
			one(s)
			s.add(Missed{Doc: commentDoc("b"), Of: s.comment("b", true)})
			s.add(Calm{})
			s.add(Settled{})
		}},
		{"an event that is lost, and never made up for", "its documents come to 2", func(s counting) {
			one(s)
			s.add(Missed{Doc: commentDoc("b"), Of: s.comment("b", true)})
			s.add(Settled{Counted: true})
		}},
		{"an event that is lost, and long after", "its documents come to 2, since", func(s counting) {
			one(s)
			s.add(Missed{Doc: commentDoc("b"), Of: s.comment("b", true)})
			s.now = s.now.Add(3 * time.Hour)
			s.add(Settled{})
		}},
		{"a later event makes up for one that is lost", "are acknowledged, the last one of a change", func(s counting) {
			one(s)
			s.add(Missed{Doc: commentDoc("b"), Of: s.comment("b", true)})
			s.ack("c", s.comment("c", true))
		}},
		{"an event that was given up", "", func(s counting) {
			one(s)
			at := s.comment("b", true)
			s.now = s.now.Add(-time.Minute) // of the instance, whose clock is behind
			s.add(GaveUp{Counter: named, Collection: "comments"})
			s.ack("b", at)
		}},
		{"an event after one that was given up", "are acknowledged, the last one of a change", func(s counting) {
			one(s)
			s.ack("b", s.comment("b", true))
			s.add(GaveUp{Counter: named, Collection: "comments"})
			s.ack("c", s.comment("c", true))
		}},
		{"an event that is never acknowledged", "is not acknowledged", func(s counting) {
			one(s)
			s.comment("b", true)
			s.add(Calm{})
		}},
		{"a comment that the app didn't delete", "which the app didn't", func(s counting) {
			one(s)
			at := s.now.Add(time.Second)
			s.history = append(s.history, Entry{At: at, What: Commit{At: at, Counted: []Change{{Doc: commentDoc("a"), Before: s.docs[commentDoc("a")]}}}})
		}},
		{"the next life is counted anew", "", func(s counting) {
			one(s)
			s.remove()
			s.make()
			at := s.comment("c", true)
			s.recount(2, 2)
			s.ack("c", at)
		}},
		{"of a path without anything, nothing is to be counted", "", func(s counting) {
			s.add(Counting{Fields: []CountedField{publicComments}})
			s.ack("b", s.comment("b", false))
		}},
		{"a sum is the whole part", "", func(s counting) {
			at := s.sum(2.5)
			s.stars(2)
			s.add(Acknowledged{Doc: commentDoc("a"), Of: at, Fields: []string{"stars"}})
			s.add(Calm{})
		}},
		{"made again, it is counted with its next event", "", func(s counting) {
			one(s)
			s.vanish()
			s.ack("b", s.comment("b", true))
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1}})
			s.recount(2, 2)
			s.add(Calm{})
		}},
		{"an older revision makes it again, and counts something else", "", func(s counting) {
			s.add(Older{Fields: []string{"comments"}})
			one(s)
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1, Data: map[string]any{"comments": int64(7), "public": int64(1)}}})
		}},
		{"made again, it has a number from nowhere", "a commit makes", func(s counting) {
			one(s)
			s.vanish()
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1, Data: map[string]any{"comments": int64(7), "public": int64(1)}}})
		}},
		{"the app makes it again with other numbers, and the next event leaves them", "at no moment since others wrote it", func(s counting) {
			s.add(Hosted{CleanupAfter: time.Hour})
			one(s)
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"comments": int64(7), "public": int64(1)}}})
			s.add(Fair{})
			s.shard("0", 1)
			s.add(Calm{})
		}},
		{"the app makes it again, and no event of the counter's has come", "", func(s counting) {
			s.add(Hosted{CleanupAfter: time.Hour})
			one(s)
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"comments": int64(7), "public": int64(1)}}})
			s.add(Fair{})
			s.add(Calm{})
		}},
		{"an older revision sets the field to something else", "", func(s counting) {
			s.add(Older{Fields: []string{"comments"}})
			s.begin(CountedField{Name: "comments", Collection: "comments", Where: "public"})
			at := s.comment("a", false)
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"comments": int64(0)}}})
			s.add(Acknowledged{Doc: commentDoc("a"), Of: at})
			s.add(Calm{})
		}},
		{"an older revision sets the field to something else, which it once was", "", func(s counting) {
			s.add(Older{Fields: []string{"comments"}})
			s.begin()
			first := s.comment("a", true)
			second := s.comment("b", false)
			s.recount(2, 1)
			s.ack("a", first)
			s.recount(1, 1) // by the older one, which counts those that are public
			third := s.app(map[string]map[string]any{"a": nil})
			s.recount(1, 0)
			s.ack("a", third)
			s.recount(0, 0) // by the older one
			s.add(Acknowledged{Doc: commentDoc("b"), Of: second})
		}},
		{"a counter that the walk passes over", "never asked", func(s counting) {
			s.begin()
			s.add(Missed{Doc: commentDoc("b"), Of: s.comment("b", true)})
			s.add(Settled{})
		}},
		{"an average, and a sum of halves", "", func(s counting) {
			s.rated(2.5)
			s.doubles(2.5, 2.5)
		}},
		{"the average of none is null, and their sum 0", "", func(s counting) {
			s.rated("none")
			s.doubles(none, 0.0)
		}},
		{"an average of none that is 0", "a commit changes rating", func(s counting) {
			s.rated("none")
			s.doubles(0.0, 0.0)
		}},
		{"an average that is cut off", "a commit changes rating", func(s counting) {
			s.rated(2.5)
			s.doubles(2.0, 2.5)
		}},
		{"a sum as double that is an integer", "a commit changes score", func(s counting) {
			s.rated(2.0)
			s.doubles(2.0, int64(2))
		}},
		{"a reply comes and goes", "", func(s counting) {
			s.replies(2)
			doc, at := s.reply(nil, &Document{Data: map[string]any{}})
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"replies": int64(1)}}})
			s.add(Acknowledged{Doc: doc, Of: at, Fields: []string{"replies"}})
			doc, at = s.reply(&Document{Data: map[string]any{}}, nil)
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"replies": int64(0)}}})
			s.add(Acknowledged{Doc: doc, Of: at, Fields: []string{"replies"}})
			s.add(Calm{})
			s.add(Settled{Counted: true})
		}},
		{"the counter that a reply has left is not asked for", "are acknowledged, the last one of a change", func(s counting) {
			s.replies(2)
			doc, at := s.reply(nil, &Document{Data: map[string]any{}})
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"replies": int64(1)}}})
			s.add(Acknowledged{Doc: doc, Of: at, Fields: []string{"replies"}})
			doc, at = s.reply(&Document{Data: map[string]any{}}, nil)
			s.add(Acknowledged{Doc: doc, Of: at, Fields: []string{"replies"}})
		}},
		{"a reply to a counter that isn't there makes nothing", "", func(s counting) {
			s.add(Counting{Fields: []CountedField{Plan{}.replies()}})
			s.add(AppChanges{Doc: Doc{Kind: "counted", Shard: repliesAt + "/a"}})
			doc, at := s.reply(nil, &Document{Data: map[string]any{}})
			s.add(Acknowledged{Doc: doc, Of: at, Fields: []string{"replies"}})
			s.add(Calm{})
		}},
		{"a reply that the app didn't move", "which the app didn't", func(s counting) {
			s.replies(0)
			s.reply(nil, &Document{Data: map[string]any{}})
		}},
	} {
		stories = append(stories, story{told.name, told.wrong, func(s *script) { told.write(counting{s}) }})
	}
	return stories
}

// A field is written in FIELDS, and named in notes, as the system does.
func TestCountedFieldNames(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		p := PlanOf(seed)
		s, err := settings.Parse(p.newest())
		if err != nil {
			t.Fatal(err)
		}
		_, counted := s.Fields.Split()
		if len(counted) != len(p.Counted) {
			t.Fatalf("seed %d: %v of %v", seed, counted, p.Counted)
		}
		for i, f := range p.Counted {
			if counted[i].Key() != f.key() || counted[i].String() != f.String() {
				t.Errorf("%s has the key %s, want %s of %s", f, f.key(), counted[i].Key(), counted[i])
			}
		}
	}
}

// About a third of all plans count documents.
func TestCountedPlans(t *testing.T) {
	t.Parallel()
	n := 0
	for seed := range uint64(600) {
		if p := PlanOf(seed); len(p.Counted) > 0 {
			n++
		}
	}
	if n < 150 || n > 250 {
		t.Errorf("%d of 600 plans count documents, want about a third", n)
	}
}
