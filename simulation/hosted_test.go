package simulation

import (
	"testing"
	"time"
)

// host is the app making its document, with a base and two shards below it.
func (s *script) host() {
	s.add(Hosted{CleanupAfter: time.Hour})
	s.add(AppWrites{Counter: named, Title: 1})
	s.commit(map[Doc]*Document{counterDoc(): {Title: 1}})
	s.commit(map[Doc]*Document{baseDoc(): {}, shardDoc("0"): {}, shardDoc("1"): {}})
}

// TestCheckHosted tells right histories of documents of the app's own from wrong ones, as TestCheck
// does.
func TestCheckHosted(t *testing.T) {
	t.Parallel()
	judge(t, Check, storiesOfHosted())
}

func storiesOfHosted() []story {
	flush := func(s *script, title, total int64) {
		s.commit(map[Doc]*Document{counterDoc(): {Title: title, Total: total}, baseDoc(): {}})
	}
	remove := func(s *script) { s.commit(map[Doc]*Document{counterDoc(): nil}) }
	clean := func(s *script) {
		s.commit(map[Doc]*Document{baseDoc(): nil, shardDoc("0"): nil, shardDoc("1"): nil})
	}
	stale := func(s *script) { // the app writes a total back
		s.host()
		s.begin(1, 1, 1)
		s.shard("0", 1)
		flush(s, 1, 1)
		s.add(AppWrites{Counter: named, Title: 2})
		s.add(Foreign{Counter: named})
		s.commit(map[Doc]*Document{counterDoc(): {Title: 2}})
	}
	neverThere := func(s *script) { // until it is there for five minutes
		s.add(Hosted{CleanupAfter: time.Hour})
		s.commit(map[Doc]*Document{baseDoc(): {}})
		s.now = s.now.Add(30 * time.Minute)
		s.add(AppWrites{Counter: named, Title: 1})
		s.commit(map[Doc]*Document{counterDoc(): {Title: 1}})
		s.now = s.now.Add(5 * time.Minute)
		remove(s)
	}
	return []story{
		{"the app's document is counted", "", func(s *script) {
			s.host()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.end(1, OK)
			flush(s, 1, 1)
			s.add(Calm{})
		}},
		{"an event finds no document, which the app then makes with a number that was right before", "", func(s *script) {
			s.host()
			remove(s)
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.add(AppWrites{Counter: named, Title: 2})
			s.commit(map[Doc]*Document{counterDoc(): {Title: 2}})
			s.ack("0", at)
		}},
		{"a hold ends while the app's document is away, and an exact read finds one less", "", func(s *script) {
			s.host()
			alice := Doc{Kind: "member", Counter: named, Member: "m1"}
			s.add(Begin{Call: 1, Kind: Join, Counter: named, Member: "m1", Holds: true})
			at := s.now.Add(time.Second) // of the next commit
			s.commit(map[Doc]*Document{alice: {Since: at.UnixMicro(), Until: at.Add(3 * time.Second).UnixMicro(), CountedOn: "0"}, shardDoc("0"): {Count: 1}})
			s.end(1, OK)
			remove(s)
			s.now = s.now.Add(5 * time.Second)
			s.commit(map[Doc]*Document{alice: nil, shardDoc("0"): {}})
			s.add(AppWrites{Counter: named, Title: 2})
			s.commit(map[Doc]*Document{counterDoc(): {Title: 2}})
			s.add(Begin{Call: 2, Kind: ExactRead, Counter: named})
			s.add(End{Call: 2, Outcome: OK})
		}},
		{"a flush puts a stale total right", "", func(s *script) {
			stale(s)
			s.begin(2, 2, 2)
			s.shard("1", 2)
			flush(s, 2, 3)
		}},
		{"a flush only adds to a stale total", "a commit changes the total", func(s *script) {
			stale(s)
			s.add(Fair{})
			s.begin(2, 2, 2)
			s.shard("1", 2)
			flush(s, 2, 2)
			s.add(Calm{})
		}},
		{"a flush writes the app's title", "never wrote", func(s *script) {
			s.host()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			flush(s, 7, 1)
		}},
		{"a flush leaves a field of its own on the app's document", "nobody's", func(s *script) {
			s.host()
			s.commit(map[Doc]*Document{counterDoc(): {Title: 1, Others: []string{"updated_at"}}, baseDoc(): {}})
		}},
		{"made again, it goes on with what is below it", "", func(s *script) {
			s.host()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			flush(s, 1, 1)
			remove(s)
			s.add(AppWrites{Counter: named, Title: 2})
			s.commit(map[Doc]*Document{counterDoc(): {Title: 2}})
			s.begin(2, 2, 2)
			s.shard("1", 2)
			flush(s, 2, 3)
			s.add(Calm{})
			s.add(Settled{})
		}},
		{"what is below it is removed in time", "", func(s *script) {
			s.host()
			remove(s)
			s.now = s.now.Add(2 * time.Hour)
			clean(s)
		}},
		{"a document is made where none ever was, and gone soon, and what is below it is removed in time", "", func(s *script) {
			neverThere(s)
			s.now = s.now.Add(30 * time.Minute)
			clean(s)
		}},
		{"a document is made where none ever was, and gone soon, and what is below it is removed too early", "was gone for", func(s *script) {
			neverThere(s)
			clean(s)
		}},
		{"what is below it is removed in time, while somebody deletes the document again", "", func(s *script) {
			s.host()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.end(1, OK)
			flush(s, 1, 1)
			remove(s)
			s.now = s.now.Add(2 * time.Hour)
			s.add(Begin{Call: 2, Kind: DeleteDocument, Counter: named})
			clean(s)
			s.add(AppWrites{Counter: named, Title: 2})
			s.commit(map[Doc]*Document{counterDoc(): {Title: 2}})
			s.read(3, ExactRead, 0, func() {})
		}},
		{"what is below it is removed at once, as somebody has asked", "", func(s *script) {
			s.host()
			remove(s)
			s.add(Begin{Call: 1, Kind: Delete, Counter: named})
			clean(s)
		}},
		{"what is below it is removed too early", "was gone for", func(s *script) {
			s.host()
			remove(s)
			s.now = s.now.Add(time.Minute)
			clean(s)
		}},
		{"what is below it is removed although it is there", "is removed", func(s *script) {
			s.host()
			s.now = s.now.Add(2 * time.Hour)
			s.commit(map[Doc]*Document{baseDoc(): nil})
		}},
	}
}

// TestCheckHostedLimits tells right histories of limits on documents of the app's own from wrong ones.
func TestCheckHostedLimits(t *testing.T) {
	t.Parallel()
	judge(t, Check, storiesOfHostedLimits())
}

func storiesOfHostedLimits() []story {
	shows := func(title, limit int64) *Document { return &Document{Title: title, Limited: true, Limit: limit} }
	host := func(s *script) {
		s.add(Declared{Limit: 99})
		s.host()
		s.add(Begin{Call: 50, Kind: Limit, Counter: named, To: 3})
		s.commit(map[Doc]*Document{shardDoc("total~0"): seat(0, 0, 2), shardDoc("total~1"): seat(0, 0, 1)})
		s.end(50, OK)
		s.add(AppWrites{Counter: named, Title: 2}) // all of its document
		s.commit(map[Doc]*Document{counterDoc(): shows(2, 9)})
	}
	return []story{
		{"a reconcile leaves what the app wrote back", "after a reconcile the document", func(s *script) {
			host(s)
			s.add(Settled{})
		}},
		{"a reconcile puts it right", "", func(s *script) {
			host(s)
			s.commit(map[Doc]*Document{counterDoc(): shows(2, 3)})
			s.add(Settled{})
		}},
	}
}

// The history of a field has what is about the field, as if there were no other.
func TestHistoryOfAField(t *testing.T) {
	t.Parallel()
	of := func(count int64) []Change { return []Change{{Doc: shardDoc("0"), After: &Document{Count: count}}} }
	all := History{
		{What: Begin{Call: 1, Kind: Increment, Intent: 1, Adds: []Add{{Counter: named, By: 1}, {Counter: named, By: 2, Field: "likes"}}}},
		{What: Begin{Call: 2, Kind: Increment, Intent: 2, Adds: []Add{{Counter: named, By: 4}}}},
		{What: Commit{Changes: of(5), Others: map[string][]Change{"likes": of(2)}}},
		{What: End{Call: 1, Outcome: OK}},
		{What: End{Call: 2, Outcome: OK}},
		{What: Begin{Call: 3, Kind: ExactRead, Counter: named}},
		{What: End{Call: 3, Outcome: OK, Total: 5, Totals: map[string]int64{"likes": 2}}},
		{What: Older{Fields: []string{"likes"}}},
		{What: Foreign{Counter: named}},
		{What: Reconciled{Counter: named, Drift: 7, Others: map[string]int64{"likes": 0}}},
	}
	first, likes := all.Of(""), all.Of("likes")
	if n := len(first); n != 9 { // without the older revision, which knows it
		t.Errorf("%d entries of the first field: %v", n, first)
	}
	if n := len(likes); n != 7 { // without the call that is not about them, its end, and the foreign write
		t.Errorf("%d entries of likes: %v", n, likes)
	}
	if adds := likes[0].What.(Begin).Adds; len(adds) != 1 || adds[0].By != 2 {
		t.Errorf("likes have %v", adds)
	}
	if c := likes[1].What.(Commit).Changes[0].After.Count; c != 2 {
		t.Errorf("a shard holds %d likes, want 2", c)
	}
	if total := likes[4].What.(End).Total; total != 2 {
		t.Errorf("a read returned %d likes, want 2", total)
	}
	if drift := likes[6].What.(Reconciled).Drift; drift != 0 {
		t.Errorf("a drift of %d likes", drift)
	}
}
