package simulation

import (
	"testing"
	"time"
)

// limited is a commit that sets the limit of a counter with two shards.
func (s *script) limited(limit int64) {
	shown := Document{NumShards: 2, Limits: 1, Limited: true, Limit: limit}
	counter, ledger := shown, shown
	s.commit(map[Doc]*Document{
		counterDoc(): &counter, ledgerDoc(): &ledger, shardDoc("0"): nil, shardDoc("1"): nil,
		shardDoc("limited-0"): seat(0, 0, limit-limit/2), shardDoc("limited-1"): seat(0, 0, limit/2),
	})
}

// seat is a shard of a field with a limit.
func seat(count, joined, share int64) *Document {
	return &Document{Count: count, Joined: joined, Shared: true, Share: share, Room: count < share}
}

// limit makes the counter, with a limit that a call asks for.
func (s *script) limit(n int64) {
	s.make()
	s.add(Begin{Call: 50, Kind: Limit, Counter: named, To: n})
	s.limited(n)
	s.end(50, OK)
}

// unlimited is a commit that removes the limit.
func (s *script) unlimited() {
	s.commit(map[Doc]*Document{
		counterDoc(): {NumShards: 2}, ledgerDoc(): {}, shardDoc("0"): {}, shardDoc("1"): {}, shardDoc("limited-0"): nil, shardDoc("limited-1"): nil,
	})
}

// full ends a call that was refused for the limit.
func (s *script) full(call int, left int64) {
	s.add(End{Call: call, Outcome: Refused, Full: &Full{Counter: named, Left: left}})
}

// TestCheckLimits tells right histories of limits from wrong ones, as TestCheck does.
func TestCheckLimits(t *testing.T) {
	t.Parallel()
	judge(t, Check, storiesOfLimits())
}

// TestCheckHolds tells right histories of seats that are held from wrong ones, as TestCheck does.
func TestCheckHolds(t *testing.T) {
	t.Parallel()
	judge(t, Check, storiesOfHolds())
}

func storiesOfHolds() []story {
	alice := Doc{Kind: "member", Counter: named, Member: "m1"}
	shard := func(n int64) *Document { return seat(n, n, 1) }
	since := func(s *script) int64 { return s.now.UnixMicro() + 1_000_000 } // the next commit
	hold := func(s *script, until time.Duration) {
		s.limit(1)
		s.add(Begin{Call: 1, Kind: Join, Counter: named, Member: "m1", Holds: until > 0})
		m := &Document{Since: since(s), CountedOn: "limited-0"}
		if until > 0 {
			m.Until = s.now.Add(until).UnixMicro()
		}
		s.commit(map[Doc]*Document{shardDoc("limited-0"): shard(1), alice: m})
		s.end(1, OK)
	}
	flush := func(s *script) { // which tells what time it is
		s.commit(map[Doc]*Document{ledgerDoc(): {Limits: 1, Limited: true, Limit: 1, States: map[string]State{"limited-0": {Count: 1, AsOf: s.docs[shardDoc("limited-0")].Updated}}}, counterDoc(): {NumShards: 2, Total: 1, Limits: 1, Limited: true, Limit: 1}})
	}
	end := func(s *script) { s.commit(map[Doc]*Document{shardDoc("limited-0"): shard(0), alice: nil}) }
	ask := func(s *script, e End) {
		s.add(Begin{Call: 2, Kind: Confirm, Counter: named, Member: "m1"})
		e.Call = 2
		s.add(e)
	}
	return []story{
		{"a seat is held and kept", "", func(s *script) {
			hold(s, time.Minute)
			s.add(Begin{Call: 2, Kind: Confirm, Counter: named, Member: "m1"})
			s.commit(map[Doc]*Document{alice: {Since: s.docs[alice].Since, CountedOn: "limited-0"}})
			s.end(2, OK)
		}},
		{"a hold is over, and ends", "", func(s *script) {
			hold(s, 3*time.Second)
			s.now = s.now.Add(5 * time.Second)
			end(s)
			ask(s, End{Outcome: Refused, Missing: true})
		}},
		{"a seat changes hands beside another field", "", func(s *script) {
			hold(s, 0)
			s.add(Begin{Call: 2, Kind: Leave, Counter: named, Member: "m1"})
			s.add(Begin{Call: 3, Kind: Join, Counter: named, Member: "m2"})
			other := Doc{Kind: "member", Counter: named, Member: "m2"}
			s.commit(map[Doc]*Document{alice: nil, other: {Since: since(s), CountedOn: "limited-0"}, shardDoc("limited-1"): {Shared: true}})
		}},
		{"a membership that names a shard of which as much is taken as given back", "", func(s *script) {
			s.limit(2)
			s.begin(1, 1, 1)
			s.add(Begin{Call: 2, Kind: Increment, Intent: 2, Adds: []Add{{named, -1, ""}}})
			s.add(Begin{Call: 3, Kind: Join, Counter: named, Member: "m1"})
			s.commit(map[Doc]*Document{alice: {Since: since(s), CountedOn: "limited-1"}, shardDoc("limited-0"): shard(1)})
		}},
		{"a membership that names another shard with a limit", "names shard", func(s *script) {
			s.limit(2)
			s.add(Begin{Call: 1, Kind: Join, Counter: named, Member: "m1"})
			s.commit(map[Doc]*Document{alice: {Since: since(s), CountedOn: "limited-1"}, shardDoc("limited-0"): shard(1)})
		}},
		{"a hold ends before its time", "for which there is no call", func(s *script) {
			hold(s, time.Minute)
			end(s)
		}},
		{"a seat that is kept ends", "for which there is no call", func(s *script) {
			hold(s, 0)
			end(s)
		}},
		{"who holds nothing keeps it", "and she keeps no seat", func(s *script) {
			s.limit(1)
			ask(s, End{Outcome: OK})
		}},
		{"who joins holds a seat yet", "and she keeps no seat", func(s *script) {
			hold(s, time.Minute)
			s.add(Begin{Call: 2, Kind: Join, Counter: named, Member: "m1"})
			s.add(End{Call: 2, Outcome: OK, There: true})
		}},
		{"who is said to keep a seat holds it yet", "and she keeps no seat", func(s *script) {
			hold(s, time.Minute)
			ask(s, End{Outcome: OK})
		}},
		{"who has a seat hears that it is gone", "and she has a seat", func(s *script) {
			hold(s, 0)
			ask(s, End{Outcome: Refused, Missing: true})
		}},
		{"who is refused could have had a seat", "and the hold of m1 was over", func(s *script) {
			hold(s, 2*time.Second)
			s.now = s.now.Add(5 * time.Second)
			flush(s)
			s.begin(3, 3, 1)
			s.full(3, 0)
		}},
		{"who is refused could not have had a seat that is held late", "", func(s *script) {
			s.limit(0)
			s.begin(3, 3, 1)
			s.add(Begin{Call: 1, Kind: Join, Counter: named, Member: "m1", Holds: true})
			s.add(Begin{Call: 2, Kind: Unlimit, Counter: named})
			s.unlimited()
			s.commit(map[Doc]*Document{alice: {Since: since(s), CountedOn: "0", Until: 1}, shardDoc("0"): {Count: 1}})
			s.full(3, 0)
		}},
		{"a hold outlasts a reconcile", "and its time was over", func(s *script) {
			hold(s, 2*time.Second)
			s.now = s.now.Add(5 * time.Minute)
			flush(s)
			s.add(Settled{})
		}},
	}
}

func storiesOfLimits() []story {
	const signed = signedNames + "1"
	give := func(s *script, total int64) { // after 4 are taken
		shard := Doc{Kind: "shard", Counter: signed, Shard: "0"}
		s.commit(map[Doc]*Document{{Kind: "counter", Counter: signed}: {NumShards: 1}, {Kind: "ledger", Counter: signed}: {}, shard: {}})
		for n, by := range []int64{4, 16, -1} {
			s.add(Begin{Call: n, Kind: Increment, Intent: n, Adds: []Add{{Counter: signed, By: by}}})
		}
		s.commit(map[Doc]*Document{shard: {Count: 4}})
		s.commit(map[Doc]*Document{shard: {Count: total}})
	}
	return []story{
		{"a limit is set, reached, raised, lowered and removed", "", func(s *script) {
			s.limit(2)
			s.begin(1, 1, 2)
			s.commit(map[Doc]*Document{shardDoc("limited-0"): seat(1, 0, 1), shardDoc("limited-1"): seat(1, 0, 1)})
			s.end(1, OK)
			s.begin(2, 2, 1)
			s.full(2, 0)
			s.add(Begin{Call: 3, Kind: Limit, Counter: named, To: 1})
			s.add(End{Call: 3, Outcome: Refused, Full: &Full{Counter: named, Taken: 2}})
			s.add(Begin{Call: 4, Kind: Resize, Counter: named})
			s.end(4, Refused)
			s.add(Begin{Call: 5, Kind: Unlimit, Counter: named})
			s.commit(map[Doc]*Document{
				counterDoc(): {NumShards: 2}, ledgerDoc(): {}, shardDoc("0"): {Count: 1}, shardDoc("1"): {Count: 1}, shardDoc("limited-0"): nil, shardDoc("limited-1"): nil,
			})
			s.end(5, OK)
		}},
		{"a commit takes 16 and gives 1 back", "", func(s *script) { give(s, 19) }},
		{"a commit gives 1 back that nobody gives", "no call ever asked", func(s *script) { give(s, 15) }},
		{"a shard counts more than its share", "with a share of 1", func(s *script) {
			s.limit(2)
			s.begin(1, 1, 2)
			s.commit(map[Doc]*Document{shardDoc("limited-0"): seat(2, 0, 1)})
		}},
		{"a shard that is full says that it has room", "says that it has room: true", func(s *script) {
			s.limit(2)
			s.begin(1, 1, 1)
			full := seat(1, 0, 1)
			full.Room = true
			s.commit(map[Doc]*Document{shardDoc("limited-0"): full})
		}},
		{"a shard with room says that it has none", "says that it has room: false", func(s *script) {
			s.limit(2)
			s.commit(map[Doc]*Document{shardDoc("limited-0"): {Shared: true, Share: 1}})
		}},
		{"a shard without a share", "has a share: false", func(s *script) {
			s.limit(2)
			s.commit(map[Doc]*Document{shardDoc("limited-2"): {}})
		}},
		{"a shard that those find who don't know of the limit", "the ledger has 1 limits", func(s *script) {
			s.limit(2)
			s.commit(map[Doc]*Document{shardDoc("0"): seat(0, 0, 0)})
		}},
		{"shares are lost", "are 1 together", func(s *script) {
			s.limit(2)
			s.commit(map[Doc]*Document{shardDoc("limited-0"): seat(0, 0, 0)})
		}},
		{"a caller's is said to be a member's", "say that 1 are members'", func(s *script) {
			s.limit(2)
			s.begin(1, 1, 1)
			s.commit(map[Doc]*Document{shardDoc("limited-0"): seat(1, 1, 1)})
		}},
		{"the document shows no limit", "shows a limit of 0", func(s *script) {
			s.limit(2)
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2}})
		}},
		{"it is reset", "which has a limit", func(s *script) {
			s.limit(2)
			s.add(Begin{Call: 1, Kind: Reset, Counter: named})
			s.commit(map[Doc]*Document{ledgerDoc(): {Limits: 1, Limited: true, Limit: 2, Ops: map[string]bool{"A": true}}})
		}},
		{"a resize is said to be done", "which had a limit all the time", func(s *script) {
			s.limit(2)
			s.add(Begin{Call: 1, Kind: Resize, Counter: named})
			s.end(1, OK)
		}},
		{"a limit that nobody has asked for", "which nobody asks for", func(s *script) {
			s.make()
			s.limited(2)
		}},
		{"a limit is set twice", "which nobody asks for", func(s *script) {
			s.limit(2)
			s.add(Begin{Call: 1, Kind: Limit, Counter: named, To: 4})
			s.limited(4)
			s.limited(2)
		}},
		{"a limit is removed, as nobody has asked", "removes the limit", func(s *script) {
			s.limit(2)
			s.unlimited()
		}},
		{"a limit is refused, and applied", "and is applied", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Limit, Counter: named, To: 2})
			s.limited(2)
			s.end(1, Refused)
		}},
		{"a limit is refused for what was never taken", "which were at no moment", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Limit, Counter: named, To: 2})
			s.add(End{Call: 1, Outcome: Refused, Full: &Full{Counter: named, Taken: 3}})
		}},
		{"a limit is acknowledged, and there was none", "was acknowledged, which it had at no moment", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Limit, Counter: named, To: 2})
			s.end(1, OK)
		}},
		{"there was room", "it had no room for that at no moment", func(s *script) {
			s.limit(2)
			s.begin(1, 1, 2)
			s.full(1, 2)
		}},
		{"it is the limit of another counter", "of which it asks nothing", func(s *script) {
			s.limit(2)
			s.begin(1, 1, 4)
			s.add(End{Call: 1, Outcome: Refused, Full: &Full{}})
		}},
		{"there was another number left", "it had no room for that at no moment", func(s *script) {
			s.limit(2)
			s.begin(1, 1, 4)
			s.full(1, 1)
		}},
		{"there was no room a while before", "it had no room for that at no moment", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Limit, Counter: named, To: 0})
			s.limited(0)
			s.add(Begin{Call: 2, Kind: Limit, Counter: named, To: 4})
			s.limited(4)
			s.begin(3, 3, 4)
			s.full(3, 0)
		}},
		{"what was counted is refused", "and was acknowledged before", func(s *script) {
			s.limit(2)
			s.begin(1, 1, 1)
			s.commit(map[Doc]*Document{shardDoc("limited-0"): seat(1, 0, 1)})
			s.end(1, OK)
			s.begin(2, 1, 1)
			s.full(2, 1)
		}},
		{"who is a member is refused", "she was one all the time", func(s *script) {
			s.limit(1)
			s.add(Begin{Call: 1, Kind: Join, Counter: named, Member: "m1"})
			s.commit(map[Doc]*Document{shardDoc("limited-0"): seat(1, 1, 1), {Kind: "member", Counter: named, Member: "m1"}: {Since: s.now.UnixMicro() + 1_000_000, CountedOn: "limited-0"}})
			s.end(1, OK)
			s.add(Begin{Call: 2, Kind: Join, Counter: named, Member: "m1"})
			s.full(2, 0)
		}},
		{"who leaves is refused", "it had no room for that at no moment", func(s *script) {
			s.limit(0)
			s.add(Begin{Call: 1, Kind: Leave, Counter: named, Member: "m1"})
			s.full(1, 0)
		}},
		{"who joins finds it full", "", func(s *script) {
			s.limit(0)
			s.add(Begin{Call: 1, Kind: Join, Counter: named, Member: "m1"})
			s.full(1, 0)
		}},
	}
}
