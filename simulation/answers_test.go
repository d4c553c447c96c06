package simulation

import (
	"maps"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/settings"
)

// counting is a script of a history in which the comments of a counter are counted.
type counting struct{ *script }

func answer(value, at int64) Answer { return Answer{Value: value, ReadTime: at, Known: true} }

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

// recount enters values, all as of one time, and sets the fields.
func (s counting) recount(at, comments, public int64) {
	s.enter(at, comments, public, map[string]any{"comments": comments, "public": public})
}

// enter enters values, and sets the fields to others.
func (s counting) enter(at, comments, public int64, fields map[string]any) {
	s.commit(map[Doc]*Document{
		counterDoc(): {Data: fields},
		ledgerDoc():  {Answers: map[string]Answer{allComments.key(): answer(comments, at), publicComments.key(): answer(public, at)}},
	})
}

var starsOfComments = CountedField{Name: "stars", Collection: "comments", Sum: "stars"}

// sum makes a counter that sums up the stars of its comments, and one that has so many.
func (s counting) sum(stars float64) int64 {
	s.add(Counting{Fields: []CountedField{starsOfComments}})
	s.make()
	return s.app(map[string]map[string]any{"a": {"stars": stars}})
}

// stars enters their answer, and sets the field to its value.
func (s counting) stars(a Answer) {
	s.commit(map[Doc]*Document{
		counterDoc(): {Data: map[string]any{"stars": a.Value}}, ledgerDoc(): {Answers: map[string]Answer{starsOfComments.key(): a}},
	})
}

// moment is a time at which nothing happens.
func (s counting) moment() int64 {
	s.now = s.now.Add(time.Second)
	return s.now.UnixMicro()
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
		s.recount(s.moment(), 1, 1)
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
			s.recount(s.moment(), 1, 0)
			s.ack("a", at)
			at = s.app(map[string]map[string]any{"a": nil, "b": {}, "c": {}})
			s.recount(s.moment(), 2, 0)
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
			at := s.moment()
			second := s.comment("b", false)
			s.recount(at, 1, 1)
			s.ack("a", first)
			s.recount(s.moment(), 2, 1)
			s.ack("b", second)
		}},
		{"a value that never was", "it was 1", func(s counting) {
			s.begin()
			s.comment("a", true)
			s.recount(s.moment(), 2, 1)
		}},
		{"a value of the past with a time of the present", "it was 2", func(s counting) {
			s.begin()
			s.comment("a", true)
			s.comment("b", true)
			s.recount(s.moment(), 1, 2)
		}},
		{"a sum that is no integer", "an integer: false", func(s counting) {
			s.sum(0.5)
			at := s.moment()
			s.commit(map[Doc]*Document{
				counterDoc(): {Data: map[string]any{"stars": int64(0)}},
				ledgerDoc():  {Answers: map[string]Answer{starsOfComments.key(): answer(0, at)}},
			})
		}},
		{"a sum that is no integer keeps the one that was", "", func(s counting) {
			at := s.sum(2)
			s.stars(answer(2, s.moment()))
			s.add(Acknowledged{Doc: commentDoc("a"), Of: at, Fields: []string{"stars"}})
			at = s.app(map[string]map[string]any{"a": {"stars": 0.5}})
			s.stars(Answer{Value: 2, ReadTime: s.moment(), Known: true, Odd: true})
			s.add(Acknowledged{Doc: commentDoc("a"), Of: at, Fields: []string{"stars"}})
			s.add(Calm{})
		}},
		{"a sum is said to be no integer, and is one", "an integer: true", func(s counting) {
			s.sum(2)
			s.stars(Answer{ReadTime: s.moment(), Odd: true})
		}},
		{"a sum that is no integer takes the place of the one that was", "an integer: false", func(s counting) {
			s.sum(2)
			s.stars(answer(2, s.moment()))
			s.app(map[string]map[string]any{"a": {"stars": 0.5}})
			s.stars(Answer{Value: 1, ReadTime: s.moment(), Known: true, Odd: true})
		}},
		{"a value from the future", "later than its commit", func(s counting) {
			s.begin()
			s.recount(s.moment()+int64(time.Hour/time.Microsecond), 0, 0)
		}},
		{"an older value after a newer one", "goes back", func(s counting) {
			s.begin()
			s.comment("a", true)
			old := s.moment()
			s.comment("b", true)
			s.recount(s.moment(), 2, 2)
			s.recount(old, 1, 1)
		}},
		{"a field that is not what the ledger has", "leaves the field at 2", func(s counting) {
			s.begin()
			s.comment("a", true)
			s.enter(s.moment(), 1, 1, map[string]any{"comments": int64(2), "public": int64(1)})
		}},
		{"a field without its ledger", "and not its ledger", func(s counting) {
			one(s)
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"comments": int64(7), "public": int64(1)}}})
		}},
		{"another program's field, mended by a reconcile", "", func(s counting) {
			one(s)
			s.add(Foreign{Counter: named, Field: "comments"})
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"comments": int64(7), "public": int64(1)}}})
			s.add(Calm{})
			s.add(Reconciled{Counter: named, Others: map[string]int64{"comments": 6}})
			s.recount(s.moment(), 1, 1)
			s.add(Settled{})
		}},
		{"another program's field that a reconcile leaves", "its documents come to 1", func(s counting) {
			one(s)
			s.add(Foreign{Counter: named, Field: "comments"})
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"comments": int64(7), "public": int64(1)}}})
			s.add(Settled{Counted: true})
		}},
		{"another program's field that the walk leaves", "its ledger has 1", func(s counting) {
			one(s)
			s.add(Foreign{Counter: named, Field: "comments"})
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"comments": int64(7), "public": int64(1)}}})
			s.add(Settled{})
		}},
		{"drift out of nowhere", "found a drift of 2", func(s counting) {
			one(s)
			s.add(Reconciled{Counter: named, Others: map[string]int64{"comments": 2}})
		}},
		{"an event acknowledged without being counted", "was asked as of", func(s counting) {
			one(s)
			at := s.comment("b", true)
			s.ack("b", at)
		}},
		{"an event acknowledged for a value of before its change", "was asked as of", func(s counting) {
			one(s)
			at := s.moment()
			of := s.comment("b", true)
			s.recount(at, 1, 1)
			s.ack("b", of)
		}},
		{"a deletion acknowledged without being counted", "was asked as of", func(s counting) {
			one(s)
			at := s.app(map[string]map[string]any{"a": nil})
			s.ack("a", at)
		}},
		{"the first event acknowledged, and nothing counted", "was asked as of 0", func(s counting) {
			s.begin()
			s.ack("a", s.comment("a", true))
		}},
		{"a deletion before a counter has a ledger", "", func(s counting) {
			s.add(Counting{Fields: []CountedField{allComments, publicComments}})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1}})
			s.comment("a", true) // of which nothing is heard yet
			s.ack("a", s.app(map[string]map[string]any{"a": nil}))
		}},
		{"an earlier event acknowledged while a later one waits", "", func(s counting) {
			one(s)
			first := s.comment("b", true)
			second := s.comment("c", true)
			s.ack("b", first)
			s.recount(s.moment(), 3, 3)
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
		{"an event that is lost, and long after", "asked at", func(s counting) {
			one(s)
			s.add(Missed{Doc: commentDoc("b"), Of: s.comment("b", true)})
			s.now = s.now.Add(3 * time.Hour)
			s.add(Settled{})
		}},
		{"a later event makes up for one that is lost", "was asked as of", func(s counting) {
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
		{"an event after one that was given up", "was asked as of", func(s counting) {
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
		{"a ledger that loses a value", "out of the ledger", func(s counting) {
			one(s)
			s.commit(map[Doc]*Document{ledgerDoc(): {}})
		}},
		{"the next life is counted anew", "", func(s counting) {
			one(s)
			s.remove()
			s.make()
			at := s.comment("c", true)
			s.recount(s.moment(), 2, 2)
			s.ack("c", at)
		}},
		{"the next life has a value of this one", "of before it was made", func(s counting) {
			one(s)
			at := s.moment()
			s.remove()
			s.make()
			s.recount(at, 1, 1)
		}},
		{"without its document it is counted, and made again it shows that", "", func(s counting) {
			one(s)
			s.vanish()
			at := s.comment("b", true)
			s.commit(map[Doc]*Document{ledgerDoc(): {Answers: map[string]Answer{allComments.key(): answer(2, s.moment()), publicComments.key(): answer(2, s.now.UnixMicro())}}})
			s.ack("b", at)
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1, Data: map[string]any{"comments": int64(2), "public": int64(2)}}})
			s.add(Calm{})
		}},
		{"without its document, what is acknowledged is not counted", "was asked as of", func(s counting) {
			one(s)
			s.vanish()
			s.ack("b", s.comment("b", true))
		}},
		{"of a path without anything, what is acknowledged is not counted", "was asked as of 0", func(s counting) {
			s.add(Counting{Fields: []CountedField{allComments, publicComments}})
			s.ack("b", s.comment("b", true))
		}},
		{"what was acknowledged while a counter without a ledger was being deleted is of the life that ended", "", func(s counting) {
			s.add(Counting{Fields: []CountedField{allComments, publicComments}})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1, Deleting: true}})
			s.ack("b", s.comment("b", true))
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.add(Calm{})
		}},
		{"an event after the end of a counter without a ledger", "was asked as of 0", func(s counting) {
			s.add(Counting{Fields: []CountedField{allComments, publicComments}})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1, Deleting: true}})
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.ack("b", s.comment("b", true))
		}},
		{"a document goes that is being deleted, and its ledger stays", "", func(s counting) {
			one(s)
			at := s.moment()
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1, Deleting: true, Data: map[string]any{"comments": int64(1), "public": int64(1)}}})
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.commit(map[Doc]*Document{ledgerDoc(): {Answers: map[string]Answer{allComments.key(): answer(1, at), publicComments.key(): answer(1, at)}}})
		}},
		{"of a path without anything, nothing is to be counted", "", func(s counting) {
			s.add(Counting{Fields: []CountedField{publicComments}})
			s.ack("b", s.comment("b", false))
		}},
		{"made again, it shows what was before", "leaves the field at 0", func(s counting) {
			one(s)
			s.vanish()
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1, Data: map[string]any{"comments": int64(0), "public": int64(1)}}})
		}},
		{"a value of no field", "to no query", func(s counting) {
			one(s)
			counted := maps.Clone(s.docs[ledgerDoc()].Answers)
			counted["other"] = answer(1, s.moment())
			s.commit(map[Doc]*Document{ledgerDoc(): {Answers: counted}})
		}},
		{"the app makes it again with other numbers, and the next flush leaves them", "and its ledger has", func(s counting) {
			s.add(Hosted{CleanupAfter: time.Hour})
			one(s)
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"comments": int64(7), "public": int64(1)}}})
			s.add(Fair{})
			s.shard("0", 0)
			s.add(Calm{})
		}},
		{"the app makes it again, and a shard that holds no integer is flushed for nothing", "", func(s counting) {
			s.add(Hosted{CleanupAfter: time.Hour})
			one(s)
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"comments": int64(7), "public": int64(1)}}})
			s.add(Fair{})
			s.commit(map[Doc]*Document{{Kind: "shard", Counter: named, Shard: "0"}: {Odd: true}})
			s.add(Calm{})
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
		{"an average of none that is 0", "it was null", func(s counting) {
			s.rated("none")
			s.doubles(0.0, 0.0)
		}},
		{"an average that is cut off", "it was 2.5", func(s counting) {
			s.rated(2.5)
			s.doubles(2.0, 2.5)
		}},
		{"a sum as double that is an integer", "for score=sum(ratings.score) as double as of", func(s counting) {
			s.rated(2.0)
			s.doubles(2.0, int64(2))
		}},
		{"a reply comes and goes", "", func(s counting) {
			s.replies(2)
			replies := Plan{}.replies()
			doc, at := s.reply(nil, &Document{Data: map[string]any{}})
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"replies": int64(1)}}, ledgerDoc(): {Answers: map[string]Answer{replies.key(): answer(1, s.moment())}}})
			s.add(Acknowledged{Doc: doc, Of: at, Fields: []string{"replies"}})
			doc, at = s.reply(&Document{Data: map[string]any{}}, nil)
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"replies": int64(0)}}, ledgerDoc(): {Answers: map[string]Answer{replies.key(): answer(0, s.moment())}}})
			s.add(Acknowledged{Doc: doc, Of: at, Fields: []string{"replies"}})
			s.add(Calm{})
			s.add(Settled{Counted: true})
		}},
		{"the counter that a reply has left is not asked for", "was asked as of", func(s counting) {
			s.replies(2)
			doc, at := s.reply(nil, &Document{Data: map[string]any{}})
			s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"replies": int64(1)}}, ledgerDoc(): {Answers: map[string]Answer{Plan{}.replies().key(): answer(1, s.moment())}}})
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
		{"an older revision sets the field to something else", "", func(s counting) {
			other := CountedField{Name: "comments", Collection: "comments", Where: "public"}
			s.add(Older{Fields: []string{"comments"}})
			s.begin(other)
			at := s.comment("a", false)
			seen := s.moment()
			s.commit(map[Doc]*Document{
				counterDoc(): {Data: map[string]any{"comments": int64(0)}},
				ledgerDoc():  {Answers: map[string]Answer{other.key(): answer(0, seen)}},
			})
			s.add(Acknowledged{Doc: commentDoc("a"), Of: at})
			s.add(Calm{})
		}},
	} {
		stories = append(stories, story{told.name, told.wrong, func(s *script) { told.write(counting{s}) }})
	}
	return stories
}

// A field is written in FIELDS, and named in ledgers, as the system does.
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
