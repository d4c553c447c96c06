package book

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

var ofTests = layout.Place{Fields: "likes=count,views,score=avg(votes.stars)"}

// shown is a document of version 10 that shows 5 likes as of 4, and what else is in it.
func shown(t interface{ Fatal(...any) }, books Books, more values) *Book {
	names := books.db.Layout
	doc := &firestorepb.Document{Name: names.Counter("a"), Fields: values{}, UpdateTime: timestamppb.New(at(10))}
	b := books.open("a", doc, nil, at(10))
	b.baseVersion = at(9)
	b.Base = Base{Counts: map[string]int64{"count": 0, "views": 0}, Replaced: map[string]int64{"likes": 0, "views": 0}}
	b.wasBase = b.Base
	doc.UpdateTime = timestamppb.New(at(1))
	s := b.Show(map[string]Answer{"likes": {Value: store.Int(5), At: at(4)}}, time.Time{})
	if len(s.Changes) != 1 {
		t.Fatal(s)
	}
	b = s.Committed(&firestorepb.CommitResponse{WriteResults: []*firestorepb.WriteResult{{UpdateTime: timestamppb.New(at(10))}}, CommitTime: timestamppb.New(at(10))})
	for name, value := range more {
		if b.Doc.Fields[name] = value; value == nil {
			delete(b.Doc.Fields, name)
		}
	}
	return b
}

// ours changes an entry of the map that says what the document shows.
func ours(b *Book, entry string, value *firestorepb.Value) *Book {
	all := maps.Clone(rollupOf(b.Doc))
	put(&all, entry, value)
	b.Doc.Fields[layout.Rollup] = store.Map(all)
	return b
}

// What a document says of the time of a number is believed only beside that number, of this counter and definition, and
// if it isn't later than the document.
func TestAsOf(t *testing.T) {
	t.Parallel()
	books := booksOf(t, ofTests)
	likes, score := books.db.Layout.Sharded[0], books.db.Layout.Counted[0]
	entry := func(key string, n *firestorepb.Value) *firestorepb.Value {
		return store.Map(values{"likes": store.Map(values{shownKey: store.String(key), shownValue: n})})
	}
	for name, tt := range map[string]struct {
		b    *Book
		want time.Time
	}{
		"as it was written":               {shown(t, books, nil), at(4)},
		"as late as the document":         {ours(shown(t, books, nil), layout.AsOf, store.Map(values{"likes": store.Time(at(10))})), at(10)},
		"later than the document":         {ours(shown(t, books, nil), layout.AsOf, store.Map(values{"likes": store.Time(at(11))})), time.Time{}},
		"no time":                         {ours(shown(t, books, nil), layout.AsOf, store.Map(values{"likes": store.Int(4)})), time.Time{}},
		"another number":                  {shown(t, books, values{"likes": store.Int(6)}), time.Time{}},
		"the same number, as a double":    {shown(t, books, values{"likes": store.Double(5)}), time.Time{}},
		"no number any more":              {shown(t, books, values{"likes": nil}), time.Time{}},
		"the map is lost":                 {shown(t, books, values{layout.Rollup: nil}), time.Time{}},
		"a map that is none":              {shown(t, books, values{layout.Rollup: store.Int(1)}), time.Time{}},
		"copied from another document":    {ours(shown(t, books, nil), layout.CounterPath, store.String("counters/b")), time.Time{}},
		"the field was another one":       {ours(shown(t, books, nil), layout.LastShown, entry(score.Key(), store.Int(5))), time.Time{}},
		"nobody knows of what it is":      {ours(shown(t, books, nil), layout.LastShown, store.Map(values{"likes": store.Int(5)})), time.Time{}},
		"the document is missing":         {books.open("a", nil, nil, at(10)), time.Time{}},
		"nothing is counted in it so far": {books.open("a", &firestorepb.Document{UpdateTime: timestamppb.New(at(1))}, nil, at(10)), time.Time{}},
	} {
		if got := tt.b.AsOf(likes); !got.Equal(tt.want) {
			t.Errorf("%s: as of %v, want %v", name, got, tt.want)
		}
	}
	b := shown(t, books, values{"score": store.Double(math.NaN())})
	b = ours(b, layout.AsOf, store.Map(values{"score": store.Time(at(4))}))
	b = ours(b, layout.LastShown, store.Map(values{"score": store.Map(values{shownKey: store.String(score.Key()), shownValue: store.Double(math.NaN())})}))
	if !b.AsOf(score).Equal(at(4)) || len(b.Unknown()) > 0 {
		t.Error("NaN isn't the NaN that was shown")
	}
	if lost := ours(b, layout.AsOf, store.Int(0)); !slices.Equal(lost.Unknown().Names(), []string{"score"}) {
		t.Errorf("%v are unknown, want the score, of which nobody knows as of when it is", lost.Unknown().Names())
	}
}

// An answer is shown in the place of an older one, or if it is newer than the document. Everything else is left alone.
func TestShow(t *testing.T) {
	t.Parallel()
	books := booksOf(t, ofTests)
	likes := books.db.Layout.Sharded[0]
	half, infinite := store.Double(7.5), store.Double(math.Inf(1))
	for name, tt := range map[string]struct {
		more    values
		answer  Answer
		base    int64
		want    *FieldDiff // nil: nothing is shown
		early   bool
		problem string
	}{
		"newer":                             {answer: Answer{Value: store.Int(8), At: at(12)}, want: &FieldDiff{After: store.Int(8), Delta: 3}},
		"newer, with a base":                {answer: Answer{Value: store.Int(8), At: at(12)}, base: -10, want: &FieldDiff{After: store.Int(-2), Delta: -7}},
		"newer than shown, and slow":        {answer: Answer{Value: store.Int(8), At: at(5)}, want: &FieldDiff{After: store.Int(8), Delta: 3}},
		"equal":                             {answer: Answer{Value: store.Int(5), At: at(12)}, want: &FieldDiff{After: store.Int(5)}},
		"as old as what is shown":           {answer: Answer{Value: store.Int(8), At: at(4)}},
		"older":                             {answer: Answer{Value: store.Int(8), At: at(3)}},
		"of nothing":                        {answer: Answer{Value: null, At: at(12)}, want: &FieldDiff{After: store.Int(0), Delta: -5}},
		"a fraction":                        {answer: Answer{Value: half, At: at(12)}, want: &FieldDiff{After: store.Int(7), Delta: 2}},
		"infinite":                          {answer: Answer{Value: infinite, At: at(12)}, problem: "not finite"},
		"beyond an int64":                   {answer: Answer{Value: store.Int(math.MaxInt64), At: at(12)}, base: 1, problem: "beyond"},
		"another number, and older":         {more: values{"likes": store.Int(9)}, answer: Answer{Value: store.Int(8), At: at(9)}, early: true},
		"another number":                    {more: values{"likes": store.Int(9)}, answer: Answer{Value: store.Int(8), At: at(10)}, want: &FieldDiff{After: store.Int(8), Delta: -1, Drift: 4}},
		"another number, which is right":    {more: values{"likes": store.Int(8)}, answer: Answer{Value: store.Int(8), At: at(12)}, want: &FieldDiff{After: store.Int(8), Drift: 3}},
		"a fraction in its place":           {more: values{"likes": half}, answer: Answer{Value: store.Int(8), At: at(12)}, want: &FieldDiff{After: store.Int(8), Delta: 1, Drift: 2}},
		"null in its place":                 {more: values{"likes": null}, answer: Answer{Value: store.Int(8), At: at(12)}, want: &FieldDiff{After: store.Int(8), Delta: 8, Drift: -5}},
		"a text in its place":               {more: values{"likes": store.String("9")}, answer: Answer{Value: store.Int(8), At: at(12)}, problem: "is no number"},
		"a map in its place":                {more: values{"likes": store.Map(nil)}, answer: Answer{Value: store.Int(8), At: at(12)}, problem: "is no number"},
		"more than an increment can change": {more: values{"likes": store.Int(math.MinInt64)}, answer: Answer{Value: store.Int(1), At: at(12)}, want: &FieldDiff{After: store.Int(1), Delta: math.MaxInt64, Drift: math.MinInt64}},
	} {
		b := shown(t, books, tt.more)
		b.Base.Counts = map[string]int64{"count": tt.base}
		b.wasBase = b.Base
		before := proto.Clone(b.Doc)
		s := b.Show(map[string]Answer{"likes": tt.answer, "unknown": {Value: store.Int(1), At: at(12)}}, time.Time{})
		if !proto.Equal(before, b.Doc) {
			t.Errorf("%s: the book itself has changed", name)
		}
		if early := slices.Equal(s.AskAgain, []string{"likes"}); early != tt.early || (tt.problem == "") != (len(s.Problems) == 0) || !strings.Contains(strings.Join(s.Problems, ""), tt.problem) {
			t.Errorf("%s: early %v, problems %q", name, s.AskAgain, s.Problems)
		}
		if tt.want == nil {
			if len(s.Changes)+len(s.Writes) > 0 {
				t.Errorf("%s: shows %+v by %v", name, s.Changes, s.Writes)
			}
			continue
		}
		tt.want.Field, tt.want.Before = likes, b.Doc.GetFields()["likes"]
		if diff := cmp.Diff([]FieldDiff{*tt.want}, s.Changes, protocmp.Transform()); diff != "" || len(s.Writes) != 1 || !s.Writes[0].GetCurrentDocument().GetUpdateTime().AsTime().Equal(at(10)) {
			t.Errorf("%s: (-want +got)\n%s%v", name, diff, s.Writes)
			continue
		}
		next := s.Committed(&firestorepb.CommitResponse{WriteResults: []*firestorepb.WriteResult{{UpdateTime: timestamppb.New(at(20))}}})
		if !next.AsOf(likes).Equal(tt.answer.At) || !proto.Equal(next.Doc.GetFields()["likes"], tt.want.After) {
			t.Errorf("%s: afterwards %v as of %v", name, next.Doc.GetFields()["likes"], next.AsOf(likes))
		}
		// On condition of the version an increment and a set come to the same.
		for _, transform := range s.Writes[0].GetUpdateTransforms() {
			if by := transform.GetIncrement(); by != nil && tt.want.Before.GetIntegerValue()+by.GetIntegerValue() != tt.want.After.GetIntegerValue() {
				t.Errorf("%s: increments %v by %v", name, tt.want.Before, by)
			}
		}
	}
}

// The number that stood in a field before it was first shown is noted in the base, once.
func TestReplaced(t *testing.T) {
	t.Parallel()
	books := booksOf(t, ofTests)
	for name, tt := range map[string]struct {
		noted    map[string]int64
		is       *firestorepb.Value
		ours     bool // this module has written it
		replaced int64
		writes   bool // the base
	}{
		"a number":                    {is: store.Int(9), replaced: 9, writes: true},
		"a whole double":              {is: store.Double(9), replaced: 9, writes: true},
		"nothing":                     {writes: true},
		"null":                        {is: null, writes: true},
		"noted before":                {noted: map[string]int64{"likes": 7}, is: store.Int(9)},
		"the base is lost":            {is: store.Int(5), ours: true, writes: true},
		"another field's is noted":    {noted: map[string]int64{"views": 7}, is: store.Int(9), replaced: 9, writes: true},
		"a reset came before a total": {noted: map[string]int64{"likes": 0}, is: store.Int(9)},
	} {
		b := shown(t, books, nil)
		if !tt.ours {
			b.Doc.Fields = values{"likes": tt.is}
			if tt.is == nil {
				b.Doc.Fields = values{}
			}
		}
		if b.Base = (Base{Replaced: tt.noted}); tt.noted == nil {
			b.baseVersion = time.Time{}
		}
		b.wasBase = b.Base
		s := b.Show(map[string]Answer{"likes": {Value: store.Int(1), At: at(12)}}, time.Time{})
		if s.Changes[0].Replaced != tt.replaced || (len(s.Writes) == 2) != tt.writes {
			t.Errorf("%s: %+v with %d writes", name, s.Changes, len(s.Writes))
			continue
		}
		if tt.writes {
			base := s.Writes[1].GetUpdate().GetFields()[BaseReplaced].GetMapValue().GetFields()["likes"].GetIntegerValue()
			if base != tt.replaced || s.After.Base.Replaced["likes"] != tt.replaced || s.Writes[1].GetUpdateMask() == nil != (tt.noted == nil) {
				t.Errorf("%s: %v", name, s.Writes[1])
			}
			if _, named := s.After.Base.Counts["count"]; !named { // a deletion by a revision that doesn't show it looks for its members
				t.Errorf("%s: the base doesn't name the field of the shards: %v", name, s.After.Base)
			}
		}
		resp := &firestorepb.CommitResponse{WriteResults: []*firestorepb.WriteResult{{UpdateTime: timestamppb.New(at(20))}, {UpdateTime: timestamppb.New(at(20))}}}
		next := s.Committed(resp)
		if again := next.Show(map[string]Answer{"likes": {Value: store.Int(2), At: at(22)}}, time.Time{}); again.Changes[0].Replaced != 0 || len(again.Writes) != 1 {
			t.Errorf("%s, again: %+v", name, again.Changes)
		}
		if !b.HasBase() && b.Show(nil, time.Time{}).Writes != nil {
			t.Errorf("%s: without an answer a base is made", name)
		}
	}
}

// A total is the base and the whole part of a sum: whatever is shown, sum and base come to it, in any order of the
// shards.
func TestSums(t *testing.T) {
	t.Parallel()
	field := layout.Field{Name: "likes", Shard: "count"}
	for name, tt := range map[string]struct {
		shards []*firestorepb.Value
		want   *firestorepb.Value
		whole  int64
		ok     bool
	}{
		"none":                        {nil, store.Int(0), 0, true},
		"integers":                    {[]*firestorepb.Value{store.Int(3), store.Int(-5)}, store.Int(-2), -2, true},
		"what is no number":           {[]*firestorepb.Value{store.String("7"), null, nil, store.Bool(true), store.Int(2)}, store.Int(2), 2, true},
		"two halves":                  {[]*firestorepb.Value{store.Double(0.5), store.Double(1.5)}, store.Double(2), 2, true},
		"a half below 0":              {[]*firestorepb.Value{store.Double(-0.5), store.Int(-1)}, store.Double(-1.5), -1, true},
		"ends that meet":              {[]*firestorepb.Value{store.Int(math.MaxInt64), store.Int(5), store.Int(-10)}, store.Int(math.MaxInt64 - 5), math.MaxInt64 - 5, true},
		"beyond":                      {[]*firestorepb.Value{store.Int(math.MaxInt64), store.Int(5)}, store.Double(1 << 63), 0, false},
		"the least that is an int64":  {[]*firestorepb.Value{store.Int(math.MinInt64)}, store.Int(math.MinInt64), math.MinInt64, true},
		"not finite":                  {[]*firestorepb.Value{store.Double(math.Inf(-1)), store.Int(5)}, store.Double(math.Inf(-1)), 0, false},
		"not a number":                {[]*firestorepb.Value{store.Double(math.NaN()), store.Int(5)}, store.Double(math.NaN()), 0, false},
		"a double that is an integer": {[]*firestorepb.Value{store.Double(3), store.Int(5)}, store.Double(8), 8, true},
	} {
		var shards Shards
		for _, value := range tt.shards {
			fields := values{}
			if value != nil {
				fields["count"] = value
			}
			shards = append(shards, &firestorepb.Document{Fields: fields})
		}
		for range 2 {
			got := shards.SumOf(field)
			n, ok := Whole(got)
			if !proto.Equal(got, tt.want) || n != tt.whole || ok != tt.ok {
				t.Errorf("%s: %v, whole %d, %v; want %v", name, got, n, ok, tt.want)
			}
			slices.Reverse(shards)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 3), rapid.Just[int64](math.MaxInt64), rapid.Just[int64](math.MinInt64))
		base, sum := number.Draw(t, "base"), number.Draw(t, "sum")
		total, ok := Base{Counts: map[string]int64{"count": base}}.Total(field, store.Int(sum))
		if fits := (base >= 0) != (sum >= 0) || (base+sum >= 0) == (base >= 0); ok != fits || ok && total != base+sum {
			t.Fatalf("%d and %d come to %d, %v", base, sum, total, ok)
		}
	})
}

// The count of documents took longer than the document stayed as it is. What says since when its answer is shown is
// believed for this counter and definition, not if it is later than the document, and a revision that doesn't show the
// field leaves it out.
func TestSince(t *testing.T) {
	t.Parallel()
	books := booksOf(t, ofTests)
	score := books.db.Layout.Counted[0]
	early := map[string]Answer{"score": {Value: store.Double(4), At: at(9)}}
	b := shown(t, books, nil)
	b.Doc.Fields[layout.Rollup] = nil
	s := b.Show(early, time.Time{})
	if len(s.AskAgain) != 1 || len(s.Writes) != 1 {
		t.Fatalf("early %v, %d writes; want that it is asked again, and since when", s.AskAgain, len(s.Writes))
	}
	commit := func(s Draft, version int) *Book {
		b := s.Committed(&firestorepb.CommitResponse{WriteResults: []*firestorepb.WriteResult{{UpdateTime: timestamppb.New(at(version))}}, CommitTime: timestamppb.New(at(version))})
		return b
	}
	b = commit(s, 20)
	if s := b.Show(early, time.Time{}); len(s.AskAgain) != 1 || len(s.Writes) != 0 {
		t.Errorf("early %v, %d writes; want that it is asked again", s.AskAgain, len(s.Writes))
	}
	if !b.AsOf(score).IsZero() || b.Doc.GetFields()["score"] != nil {
		t.Error("something is shown")
	}
	late := map[string]Answer{"score": {Value: store.Double(5), At: at(11)}}
	if s := b.Show(late, time.Time{}); len(s.Changes) != 1 || !commit(s, 21).AsOf(score).Equal(at(11)) {
		t.Errorf("%+v, want that the answer is shown", s)
	}
	other := *b
	other.books = booksOf(t, layout.Place{Fields: "likes=count"})
	left := *commit(other.Show(map[string]Answer{"likes": {Value: store.Int(1), At: at(20)}}, time.Time{}), 21)
	left.books = books
	for name, b := range map[string]*Book{
		"another counter's": ours(commit(s, 20), layout.CounterPath, store.String("counters/b")),
		"left out":          &left,
	} {
		if s := b.Show(late, time.Time{}); len(s.AskAgain) != 1 {
			t.Errorf("%s: %+v, want that it is asked again", name, s)
		}
	}
}

// Whatever answers come, twice, late or in any order, and whatever the app writes in between: the document shows one
// answer after another, each whole, and says of none that it is of another time. A commit on an older version fails.
func TestShowsOneAnswerAfterAnother(t *testing.T) {
	t.Parallel()
	books := booksOf(t, ofTests)
	likes := books.db.Layout.Sharded[0]
	rapid.Check(t, func(t *rapid.T) {
		now := 100
		truth := map[int]int64{} // :: time → what the shards hold since
		holds := func(at int) (n int64) {
			for since := 0; since <= at; since++ {
				if is, changed := truth[since]; changed {
					n = is
				}
			}
			return n
		}
		b := books.open("a", &firestorepb.Document{Name: books.db.Layout.Counter("a"), Fields: values{}, UpdateTime: timestamppb.New(at(now))}, nil, at(now))
		var old []*firestorepb.Document
		var answers []int
		t.Repeat(map[string]func(*rapid.T){
			"a shard is written": func(t *rapid.T) { now++; truth[now] = rapid.Int64Range(-5, 5).Draw(t, "holds") },
			"a question":         func(t *rapid.T) { now++; answers = append(answers, now) },
			"an answer": func(t *rapid.T) {
				if len(answers) == 0 {
					t.Skip()
				}
				asked := rapid.SampledFrom(answers).Draw(t, "asked")
				before := b.AsOf(likes)
				s := b.Show(map[string]Answer{"likes": {Value: store.Int(holds(asked)), At: at(asked)}}, time.Time{})
				if len(s.Writes) == 0 {
					return
				}
				now++
				results := []*firestorepb.WriteResult{{UpdateTime: timestamppb.New(at(now))}, {UpdateTime: timestamppb.New(at(now))}}
				old = append(old, b.Doc)
				b = s.Committed(&firestorepb.CommitResponse{WriteResults: results, CommitTime: timestamppb.New(at(now))})
				if !b.AsOf(likes).After(before) {
					t.Fatalf("shown as of %v, after %v", b.AsOf(likes), before)
				}
			},
			"the app writes": func(t *rapid.T) {
				now++
				old = append(old, b.Doc)
				from, fields := b.Doc, values{}
				switch rapid.IntRange(0, 3).Draw(t, "what") {
				case 0:
					fields["likes"] = store.Int(rapid.Int64Range(-5, 5).Draw(t, "likes"))
				case 1:
					fields["title"] = store.String("x")
				case 2:
					from = nil // the document is made anew
				case 3:
					from = rapid.SampledFrom(old).Draw(t, "an older version")
				}
				doc := &firestorepb.Document{Name: b.Doc.GetName(), Fields: maps.Clone(from.GetFields())}
				if doc.Fields == nil {
					doc.Fields = values{}
				}
				maps.Copy(doc.Fields, fields)
				doc.UpdateTime = timestamppb.New(at(now))
				b.Doc = doc
			},
			"": func(t *rapid.T) {
				if as := b.AsOf(likes); !as.IsZero() {
					was := int(as.Sub(at(0)).Microseconds())
					if got := b.Doc.GetFields()["likes"].GetIntegerValue(); got != holds(was) {
						t.Fatalf("shows %d as of %d, when the shards held %d", got, was, holds(was))
					}
				}
			},
		})
	})
}

// A field whose shards nobody has made has the limit that is declared, and then what they say.
func TestALimitThatIsDeclared(t *testing.T) {
	t.Parallel()
	limit := layout.Field{Name: "seats_limit", Shard: "share(seats)", LimitOf: "seats", Limit: new(int64(500))}
	shard := func(share int64) *firestorepb.Document {
		return &firestorepb.Document{Name: "shards/seats~0", Fields: map[string]*firestorepb.Value{"seats": store.Int(1), "share(seats)": store.Int(share)}}
	}
	for name, tt := range map[string]struct {
		shards Shards
		want   int64
	}{
		"none": {nil, 500}, "another's": {Shards{{Name: "shards/0"}}, 500}, "less": {Shards{shard(3), shard(4)}, 7}, "none is left": {Shards{shard(0)}, 0},
	} {
		if got, ok := Whole(tt.shards.SumOf(limit)); !ok || got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

var null = &firestorepb.Value{ValueType: &firestorepb.Value_NullValue{}}
