package simulation

import (
	"slices"
	"testing"
	"time"
)

// TestCheckOdd tells right histories of shards that hold no integer, of callers who must not count,
// and of clicks in pages, from wrong ones, as TestCheck does.
func TestCheckOdd(t *testing.T) {
	t.Parallel()
	judge(t, Check, slices.Concat(storiesOfOdd(), storiesOfLooks(), storiesOfStrangers(), storiesOfClicks()))
}

func storiesOfOdd() []story {
	const plain = "plain-1"
	doc := func(kind, shard string) Doc { return Doc{Kind: kind, Counter: plain, Shard: shard} }
	counter, ledger, shard := doc("counter", ""), doc("ledger", ""), doc("shard", "0")
	make := func(s *script) {
		s.commit(map[Doc]*Document{counter: {NumShards: 2}, ledger: {}, shard: {}, doc("shard", "1"): {}})
	}
	keep := func(s *script, total, base int64, shards map[string]State) {
		s.commit(map[Doc]*Document{counter: {NumShards: 2, Total: total}, ledger: {Base: base, States: shards}})
	}
	flush := func(s *script, total int64, shards map[string]State) { keep(s, total, 0, shards) }
	add := func(s *script, by int64) int64 { // to what the shard holds, as its first increment
		s.add(Begin{Call: 1, Kind: Increment, Intent: 1, Adds: []Add{{plain, by, ""}}})
		at := s.commit(map[Doc]*Document{shard: {Count: by}})
		s.end(1, OK)
		return at
	}
	odd := func(s *script, fraction bool) int64 {
		s.add(Odd{Counter: plain})
		return s.commit(map[Doc]*Document{shard: {Odd: true, Fraction: fraction, Blank: !fraction, Empty: fraction}})
	}
	ack := func(s *script, of int64) { s.add(Acknowledged{Doc: shard, Of: of}) }
	return []story{
		{"what was counted of a shard stays when it is no integer any more", "", func(s *script) {
			make(s)
			at := add(s, 5)
			flush(s, 5, map[string]State{"0": {5, at}})
			ack(s, at)
			at = odd(s, true)
			flush(s, 5, map[string]State{"0": {5, at}})
			ack(s, at)
			s.add(Calm{})
			s.add(Settled{})
		}},
		{"what was counted of it goes into the base when it is no number any more, and comes on top of what it is then", "", func(s *script) {
			make(s)
			at := add(s, 5)
			flush(s, 5, map[string]State{"0": {5, at}})
			ack(s, at)
			text := odd(s, false)
			one := add(s, 5)
			keep(s, 5, 5, map[string]State{"0": {0, text}})
			ack(s, text)
			keep(s, 10, 5, map[string]State{"0": {5, one}})
			ack(s, one)
			s.add(Calm{})
			s.add(Settled{})
		}},
		{"nobody has seen that it was no number, or both at once", "", func(s *script) {
			make(s)
			at := add(s, 5)
			flush(s, 5, map[string]State{"0": {5, at}})
			odd(s, false)
			one := add(s, 5)
			flush(s, 5, map[string]State{"0": {5, one}})
			odd(s, false)
			two := add(s, 5)
			keep(s, 10, 5, map[string]State{"0": {5, two}})
		}},
		{"its shard is gone from the snapshot that is counted with it", "", func(s *script) {
			make(s)
			beyond := doc("shard", "2")
			s.add(Begin{Call: 1, Kind: Increment, Intent: 1, Adds: []Add{{plain, 5, ""}}})
			at := s.commit(map[Doc]*Document{beyond: {Count: 5}})
			s.end(1, OK)
			flush(s, 5, map[string]State{"2": {5, at}})
			s.add(Odd{Counter: plain})
			s.commit(map[Doc]*Document{beyond: {Odd: true, Blank: true}})
			s.commit(map[Doc]*Document{beyond: nil})
			keep(s, 5, 5, map[string]State{})
		}},
		{"its shard was not known before that snapshot", "", func(s *script) {
			make(s)
			beyond := doc("shard", "2")
			s.add(Begin{Call: 1, Kind: Increment, Intent: 1, Adds: []Add{{plain, 5, ""}}})
			s.commit(map[Doc]*Document{beyond: {Count: 5}})
			s.end(1, OK)
			s.add(Odd{Counter: plain})
			s.commit(map[Doc]*Document{beyond: {Odd: true, Blank: true}})
			gone := s.commit(map[Doc]*Document{beyond: nil})
			s.commit(map[Doc]*Document{counter: {NumShards: 2, Total: 5}, ledger: {Base: 5, Floor: gone}})
		}},
		{"it goes into the base twice", "the base of \"plain-1\" changes by 5", func(s *script) {
			make(s)
			at := add(s, 5)
			flush(s, 5, map[string]State{"0": {5, at}})
			keep(s, 5, 5, map[string]State{"0": {0, odd(s, false)}})
			keep(s, 10, 10, map[string]State{"0": {0, odd(s, false)}})
		}},
		{"a fraction goes into the base", "no command was to do that, nor fields", func(s *script) {
			make(s)
			at := add(s, 5)
			flush(s, 5, map[string]State{"0": {5, at}})
			keep(s, 5, 5, map[string]State{"0": {0, odd(s, true)}})
		}},
		{"an event of no number is acknowledged, and the ledger doesn't know", "which the ledger has as of", func(s *script) {
			make(s)
			at := add(s, 5)
			flush(s, 5, map[string]State{"0": {5, at}})
			ack(s, at)
			ack(s, odd(s, false))
		}},
		{"the last integer may not have been counted before", "", func(s *script) {
			make(s)
			add(s, 5)
			at := odd(s, true)
			flush(s, 5, map[string]State{"0": {5, at}})
		}},
		{"an event without an integer is acknowledged, and nothing is counted", "", func(s *script) {
			make(s)
			at := add(s, 5)
			flush(s, 5, map[string]State{"0": {5, at}})
			ack(s, at)
			ack(s, odd(s, true))
			s.add(Calm{})
		}},
		{"an event of another field's integer is acknowledged, and nothing is counted", "which the ledger has as of", func(s *script) {
			make(s)
			at := add(s, 5)
			flush(s, 5, map[string]State{"0": {5, at}})
			s.add(Odd{Counter: plain})
			ack(s, s.commit(map[Doc]*Document{shard: {Odd: true}}))
		}},
		{"a shard that is no number any more loses what was counted of it", "the base of \"plain-1\" changes by 0", func(s *script) {
			make(s)
			at := add(s, 5)
			flush(s, 5, map[string]State{"0": {5, at}})
			flush(s, 0, map[string]State{"0": {0, odd(s, false)}})
		}},
		{"it goes back to what was counted before", "when it was no integer; it had 7", func(s *script) {
			make(s)
			at := add(s, 5)
			flush(s, 5, map[string]State{"0": {5, at}})
			s.add(Begin{Call: 2, Kind: Increment, Intent: 2, Adds: []Add{{plain, 2, ""}}})
			at = s.commit(map[Doc]*Document{shard: {Count: 7}})
			flush(s, 7, map[string]State{"0": {7, at}})
			flush(s, 5, map[string]State{"0": {5, odd(s, true)}})
		}},
		{"an exact read of a fraction", "which it was at no moment", func(s *script) {
			make(s)
			odd(s, true)
			s.add(Begin{Call: 3, Kind: ExactRead, Counter: plain})
			s.add(End{Call: 3, Outcome: OK})
		}},
		{"an exact read beside a text", "", func(s *script) {
			make(s)
			odd(s, false)
			s.add(Begin{Call: 3, Kind: ExactRead, Counter: plain})
			s.add(End{Call: 3, Outcome: OK})
		}},
		{"a shard that the system makes no integer", "nothing else wrote there", func(s *script) {
			make(s)
			s.commit(map[Doc]*Document{shard: {Odd: true}})
		}},
	}
}

// storiesOfLooks are of reconciles by name.
func storiesOfLooks() []story {
	look := func(s *script, do func()) {
		s.add(Reconciling{Number: 1, Counters: []string{named}})
		do()
		s.add(Reconciled{Number: 1, Counter: named, Looked: true})
	}
	one := func(s *script, shard string) int64 { // that is in the shard
		s.make()
		s.begin(1, 1, 1)
		at := s.shard(shard, 1)
		s.end(1, OK)
		return at
	}
	return []story{
		{"a reconcile enters each shard, and something is counted beside it", "", func(s *script) {
			at := one(s, "0")
			was := s.docs[shardDoc("1")].Updated
			look(s, func() {
				s.begin(2, 2, 2)
				s.shard("1", 2)
				s.end(2, OK)
				s.flush(1, map[string]State{"0": {1, at}, "1": {0, was}})
			})
		}},
		{"a reconcile enters one of two shards", "which was changed at", func(s *script) {
			one(s, "0")
			look(s, func() { s.flush(0, map[string]State{"1": {0, s.docs[shardDoc("1")].Updated}}) })
		}},
		{"a rebase of what the shards hold", "", func(s *script) {
			at := one(s, "0")
			s.add(Begin{Call: 2, Kind: Rebase, Counter: named, To: 7})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Total: 7},
				ledgerDoc(): {Base: 6, Ops: map[string]bool{"a": true}, States: map[string]State{"0": {1, at}, "1": {0, s.docs[shardDoc("1")].Updated}}}})
			s.end(2, OK)
		}},
		{"a rebase of what the ledger has", "to 7, with shard 0 as of 0", func(s *script) {
			one(s, "0")
			s.add(Begin{Call: 2, Kind: Rebase, Counter: named, To: 7})
			s.rebase("a", 7)
			s.end(2, OK)
		}},
		{"a rebase to another total", "to 8, of which nobody asked for", func(s *script) {
			one(s, "0")
			s.add(Begin{Call: 2, Kind: Rebase, Counter: named, To: 7})
			s.rebase("a", 8)
			s.end(2, OK)
		}},
		{"a reconcile leaves a shard that is gone", "which was gone before that began", func(s *script) {
			at := one(s, "1")
			s.flush(1, map[string]State{"1": {1, at}})
			s.resize()
			moved := s.commit(map[Doc]*Document{shardDoc("0"): {Count: 1}, shardDoc("1"): nil})
			look(s, func() { s.flush(2, map[string]State{"0": {1, moved}, "1": {1, at}}) })
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
