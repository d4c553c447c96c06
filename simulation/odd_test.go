package simulation

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"
)

// TestCheckOdd tells right histories of shards that hold no integer, of callers who must not count,
// and of clicks in pages, from wrong ones, as TestCheck does.
func TestCheckOdd(t *testing.T) {
	t.Parallel()
	judge(t, Check, slices.Concat(storiesOfOdd(), storiesOfStrangers(), storiesOfClicks()))
}

func storiesOfOdd() []story {
	const plain = "plain-1"
	doc := func(kind, shard string) Doc { return Doc{Kind: kind, Counter: plain, Shard: shard} }
	shard := doc("shard", "0")
	make := func(s *script) {
		s.commit(map[Doc]*Document{doc("counter", ""): {NumShards: 2}, doc("base", ""): {}, shard: {}, doc("shard", "1"): {}})
	}
	show := func(s *script, total int64) {
		s.commit(map[Doc]*Document{doc("counter", ""): {NumShards: 2, Total: total}})
	}
	write := func(s *script, d Document) {
		s.add(Odd{Counter: plain})
		s.commit(map[Doc]*Document{shard: &d})
	}
	add := func(s *script, n int64) { // to the other shard, which held n-1
		s.add(Begin{Call: 10 + int(n), Kind: Increment, Intent: int(n), Adds: []Add{{plain, 1, ""}}})
		s.commit(map[Doc]*Document{doc("shard", "1"): {Count: n}})
	}
	rebaseBlindly := func(s *script) {
		make(s)
		write(s, Document{Odd: true, Double: true, Endless: true})
		s.add(Begin{Call: 2, Kind: Rebase, Counter: plain, To: 7})
		s.commit(map[Doc]*Document{doc("counter", ""): {NumShards: 2, Total: 7}, doc("base", ""): {}})
		s.add(End{Call: 2, Outcome: OK})
		at := s.commit(map[Doc]*Document{shard: {}})
		show(s, 9)
		s.add(Acknowledged{Doc: shard, Of: at, Fields: []string{""}}) // so it isn't as of before
	}
	rebaseHuge := func(s *script) {
		make(s)
		write(s, Document{Count: math.MinInt64 + 1})
		s.add(Begin{Call: 1, Kind: Increment, Intent: 9, Adds: []Add{{plain, 100, ""}}})
		s.commit(map[Doc]*Document{doc("shard", "1"): {Count: 100}})
		s.add(Begin{Call: 2, Kind: Rebase, Counter: plain, To: 7})
		s.commit(map[Doc]*Document{doc("counter", ""): {NumShards: 2, Total: 7}, doc("base", ""): {}})
		s.add(End{Call: 2, Outcome: OK})
	}
	return []story{
		{"a text counts nothing while it is there", "", func(s *script) {
			make(s)
			s.add(Begin{Call: 1, Kind: Increment, Intent: 1, Adds: []Add{{plain, 5, ""}}})
			s.commit(map[Doc]*Document{shard: {Count: 5}})
			show(s, 5)
			write(s, Document{Odd: true})
			show(s, 0)
			s.add(Calm{})
		}},
		{"what a text has replaced is kept", "long after everything", func(s *script) {
			make(s)
			s.add(Begin{Call: 1, Kind: Increment, Intent: 1, Adds: []Add{{plain, 5, ""}}})
			s.commit(map[Doc]*Document{shard: {Count: 5}})
			show(s, 5)
			write(s, Document{Odd: true})
			s.add(Calm{})
		}},
		{"two halves are a whole", "", func(s *script) {
			make(s)
			write(s, Document{Odd: true, Double: true, Rest: 0.5})
			s.commit(map[Doc]*Document{doc("shard", "1"): {Odd: true, Double: true, Rest: 0.5}})
			show(s, 1)
			s.add(Calm{})
		}},
		{"two halves are cut one by one", "long after everything", func(s *script) {
			make(s)
			write(s, Document{Odd: true, Double: true, Rest: 0.5})
			s.commit(map[Doc]*Document{doc("shard", "1"): {Odd: true, Double: true, Rest: 0.5}})
			s.add(Calm{})
		}},
		{"a sum that is no number", "", func(s *script) {
			make(s)
			write(s, Document{Odd: true, Double: true, Endless: true})
			s.add(Calm{})
		}},
		{"a rebase while a sum is no number, and what it has set is known by the next total", "", func(s *script) {
			rebaseBlindly(s)
			s.add(Calm{})
			add(s, 1)
			show(s, 10)
			s.add(Settled{})
		}},
		{"a rebase while a sum is no number, and each total is another", "a commit changes the total", func(s *script) {
			rebaseBlindly(s)
			add(s, 1)
			show(s, 12)
		}},
		{"a rebase while a sum is no number, and somebody else writes the total", "", func(s *script) {
			rebaseBlindly(s)
			s.add(Foreign{Counter: plain})
			show(s, 99)
			add(s, 1)
			show(s, 10)
			s.add(Calm{})
		}},
		{"a rebase makes up for huge shards, and no total can show it without them", "", func(s *script) {
			rebaseHuge(s)
			s.add(Acknowledged{Doc: shard, Of: s.commit(map[Doc]*Document{shard: {Odd: true}}), Fields: []string{""}})
			s.add(Begin{Call: 3, Kind: Increment, Intent: 10, Adds: []Add{{plain, 1, ""}}})
			s.add(Acknowledged{Doc: doc("shard", "1"), Of: s.commit(map[Doc]*Document{doc("shard", "1"): {Count: 101}}), Fields: []string{""}})
		}},
		{"a rebase makes up for huge shards, and what is taken over since doesn't tell more", "", func(s *script) {
			s.add(Hosted{CleanupAfter: time.Hour, InPlace: true, Live: true})
			s.add(AppWrites{Counter: plain, Title: 1})
			s.commit(map[Doc]*Document{doc("counter", ""): {Title: 1}})
			hosted := func(total int64, more map[Doc]*Document) {
				docs := map[Doc]*Document{doc("counter", ""): {NumShards: 2, Title: 1, Total: total}, doc("base", ""): {}}
				maps.Copy(docs, more)
				s.commit(docs)
			}
			hosted(0, map[Doc]*Document{shard: {}, doc("shard", "1"): {}})
			write(s, Document{Count: math.MinInt64 + 1})
			s.add(Begin{Call: 1, Kind: Increment, Intent: 9, Adds: []Add{{plain, 100, ""}}})
			s.commit(map[Doc]*Document{doc("shard", "1"): {Count: 100}})
			s.add(Begin{Call: 2, Kind: Rebase, Counter: plain, To: 7})
			hosted(7, nil)
			s.add(End{Call: 2, Outcome: OK})
			s.add(Acknowledged{Doc: shard, Of: s.commit(map[Doc]*Document{shard: {Odd: true}}), Fields: []string{""}})
			s.add(Begin{Call: 3, Kind: Old, Intent: 10, Adds: []Add{{Counter: plain, By: 4}}})
			s.commit(map[Doc]*Document{doc("source shard", "a"): {Count: 4}})
			hosted(7, map[Doc]*Document{doc("source shard", "a"): {}})
			for n := range 2 {
				s.add(Begin{Call: 4 + n, Kind: Increment, Intent: 11 + n, Adds: []Add{{plain, 1, ""}}})
				s.add(Acknowledged{Doc: doc("shard", "1"), Of: s.commit(map[Doc]*Document{doc("shard", "1"): {Count: int64(101 + n)}}), Fields: []string{""}})
			}
			s.add(Calm{})
		}},
		{"somebody else writes the total while nobody can tell what the shards hold, and a reconcile finds that", "", func(s *script) {
			make(s)
			write(s, Document{Count: math.MinInt64 + 1})
			s.add(Begin{Call: 1, Kind: Increment, Intent: 9, Adds: []Add{{plain, 100, ""}}})
			s.commit(map[Doc]*Document{doc("shard", "1"): {Count: 100}})
			show(s, math.MinInt64+101)
			s.add(Foreign{Counter: plain})
			show(s, 42)
			show(s, math.MinInt64+101)
			s.add(Reconciled{Counter: plain, Looked: true, Drift: math.MaxInt64})
		}},
		{"a shard that the system makes no integer", "nothing else wrote there", func(s *script) {
			make(s)
			s.commit(map[Doc]*Document{shard: {Odd: true}})
		}},
	}
}

func storiesOfClicks() []story {
	click := func(s *script) { s.add(Clicked{Intent: 1, Adds: []Add{{named, 1, ""}}}) }
	return []story{
		{"a click is counted by its second request", "", func(s *script) {
			s.make()
			click(s)
			s.begin(1, 1, 1)
			s.end(1, Unknown)
			s.begin(2, 1, 1)
			s.shard("0", 1)
			s.end(2, OK)
			s.add(Answered{})
		}},
		{"a click is lost", "a click for", func(s *script) {
			s.make()
			click(s)
			s.add(Answered{})
		}},
		{"a click is counted twice", "is applied twice", func(s *script) {
			s.make()
			click(s)
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.shard("0", 2)
		}},
		{"the last click holds", "", func(s *script) {
			s.make()
			s.add(Wished{Counter: named, Member: "ann", Joined: false})
			s.add(Wished{Counter: named, Member: "ann", Joined: true})
			s.add(Begin{Call: 1, Kind: Join, Counter: named, Member: "ann"})
			s.commit(map[Doc]*Document{memberDoc("ann"): {CountedOn: "0", Since: s.now.Add(time.Second).UnixMicro()}, shardDoc("0"): {Count: 1}})
			s.end(1, OK)
			s.add(Answered{})
		}},
		{"an earlier click holds", "its last click says true", func(s *script) {
			s.make()
			s.add(Wished{Counter: named, Member: "ann", Joined: false})
			s.add(Wished{Counter: named, Member: "ann", Joined: true})
			s.add(Answered{})
		}},
	}
}

func storiesOfStrangers() []story {
	return []story{
		{"a stranger is not let in", "", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Increment, Intent: 1, Adds: []Add{{named, 1, ""}}, Stranger: true})
			s.end(1, Refused)
			s.add(Begin{Call: 2, Kind: Join, Counter: named, Member: "ann", Stranger: true})
			s.end(2, Refused)
		}},
		{"a stranger's increment is answered as counted", "of one who must not count", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Increment, Intent: 1, Adds: []Add{{named, 1, ""}}, Stranger: true})
			s.end(1, OK)
		}},
		{"a stranger's increment is counted", "was refused, and is applied", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Increment, Intent: 1, Adds: []Add{{named, 1, ""}}, Stranger: true})
			s.shard("0", 1)
		}},
		{"one joins in another's name", "of one who must not count", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Join, Counter: named, Member: "ann", Stranger: true})
			s.end(1, OK)
		}},
		{"one joins in another's name, and hears nothing of it", "for which there is no call", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Join, Counter: named, Member: "ann", Stranger: true})
			s.commit(map[Doc]*Document{memberDoc("ann"): {CountedOn: "0", Since: s.now.Add(time.Second).UnixMicro()}, shardDoc("0"): {Count: 1}})
		}},
	}
}
