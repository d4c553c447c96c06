package simulation

import (
	"testing"
	"time"
)

// limited is a commit that sets the limit of a counter with two shards.
func (s *script) limited(limit int64) {
	s.commit(map[Doc]*Document{shardDoc("total~0"): seat(0, 0, limit-limit/2), shardDoc("total~1"): seat(0, 0, limit/2)})
}

// declared makes the counter, whose total has a limit.
func (s *script) declared() {
	s.add(Declared{Limit: 99})
	s.make()
}

// seat is a shard of a field with a limit.
func seat(count, joined, share int64) *Document {
	return &Document{Count: count, Joined: joined, Shared: true, Share: share}
}

// limit makes the counter, with a limit that a call asks for.
func (s *script) limit(n int64) {
	s.declared()
	s.add(Begin{Call: 50, Kind: Limit, Counter: named, To: n})
	s.limited(n)
	s.end(50, OK)
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
		m := &Document{Since: since(s), CountedOn: "total~0"}
		if until > 0 {
			m.Until = s.now.Add(until).UnixMicro()
		}
		s.commit(map[Doc]*Document{shardDoc("total~0"): shard(1), alice: m})
		s.end(1, OK)
	}
	flush := func(s *script) { // which tells what time it is
		s.commit(map[Doc]*Document{baseDoc(): {}, counterDoc(): {NumShards: 2, Total: 1, Limited: true, Limit: 1}})
	}
	end := func(s *script) { s.commit(map[Doc]*Document{shardDoc("total~0"): shard(0), alice: nil}) }
	ask := func(s *script, e End) {
		s.add(Begin{Call: 2, Kind: Confirm, Counter: named, Member: "m1"})
		e.Call = 2
		s.add(e)
	}
	return []story{
		{"a seat is held and kept", "", func(s *script) {
			hold(s, time.Minute)
			s.add(Begin{Call: 2, Kind: Confirm, Counter: named, Member: "m1"})
			s.commit(map[Doc]*Document{alice: {Since: s.docs[alice].Since, CountedOn: "total~0"}})
			s.end(2, OK)
		}},
		{"a hold is over, and ends", "", func(s *script) {
			hold(s, 3*time.Second)
			s.now = s.now.Add(5 * time.Second)
			end(s)
			ask(s, End{Outcome: Refused, Missing: true})
		}},
		{"a membership that names another shard with a limit", "names shard", func(s *script) {
			s.limit(2)
			s.add(Begin{Call: 1, Kind: Join, Counter: named, Member: "m1"})
			s.commit(map[Doc]*Document{alice: {Since: since(s), CountedOn: "total~1"}, shardDoc("total~0"): shard(1)})
		}},
		{"a hold is over, and nothing has been committed since", "", func(s *script) {
			hold(s, 3*time.Second)
			s.now = s.now.Add(5 * time.Second)
			ask(s, End{Outcome: Refused, Missing: true})
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
		{"a hold outlasts a reconcile", "and its time was over", func(s *script) {
			hold(s, 2*time.Second)
			s.now = s.now.Add(5 * time.Minute)
			flush(s)
			s.add(Settled{})
		}},
	}
}

// TestCheckAmounts tells right histories of amounts that are held from wrong ones, as TestCheck does.
func TestCheckAmounts(t *testing.T) {
	t.Parallel()
	judge(t, Check, storiesOfAmounts())
}

func storiesOfAmounts() []story {
	job := Doc{Kind: "hold", Counter: named, Member: "r1"}
	shard := func(count, held, share int64) *Document {
		return &Document{Count: count, Held: held, Shared: true, Share: share}
	}
	const room = 5 // the first shard's share of a limit of 10
	record := func(amount int64) *Document { return &Document{ID: "j1", State: "held", Amount: amount} }
	settled := func(used int64) *Document {
		return &Document{ID: "j1", State: "settled", Amount: 4, Used: used}
	}
	ask := func(s *script, call int, kind Kind, amount int64) {
		s.add(Begin{Call: call, Kind: kind, Counter: named, Hold: "j1", To: amount})
	}
	reserve := func(s *script, limit, amount int64, lasts time.Duration) {
		s.limit(limit)
		ask(s, 1, Reserve, amount)
		r := record(amount)
		r.Until = s.now.Add(lasts).UnixMicro()
		s.commit(map[Doc]*Document{job: r, shardDoc("total~0"): shard(amount, amount, limit-limit/2)})
		s.add(End{Call: 1, Outcome: OK, Hold: &HoldAnswer{State: "held", Held: amount}})
	}
	settle := func(s *script, used, count int64) {
		s.commit(map[Doc]*Document{job: settled(used), shardDoc("total~0"): shard(count, 0, room)})
	}
	later := func(s *script, d time.Duration) {
		s.now = s.now.Add(d)
		s.commit(map[Doc]*Document{baseDoc(): {}, counterDoc(): {NumShards: 2, Total: 1, Limited: true, Limit: 1}})
	}
	return []story{
		{"an amount is held and settled", "", func(s *script) {
			reserve(s, 10, 4, time.Minute)
			ask(s, 2, Settle, 3)
			settle(s, 3, 3)
			s.add(End{Call: 2, Outcome: OK, Hold: &HoldAnswer{State: "settled", Held: 4, Used: 3}})
		}},
		{"an open hold is deleted", "is deleted", func(s *script) {
			reserve(s, 10, 4, time.Minute)
			s.commit(map[Doc]*Document{job: nil, shardDoc("total~0"): shard(0, 0, room)})
		}},
		{"a hold for which nobody asks", "for which nobody asks", func(s *script) {
			s.limit(10)
			ask(s, 1, Reserve, 2)
			s.commit(map[Doc]*Document{job: record(4), shardDoc("total~0"): shard(4, 4, room)})
		}},
		{"a hold begins settled", "begins settled", func(s *script) {
			s.limit(10)
			ask(s, 1, Settle, 3)
			settle(s, 3, 3)
		}},
		{"a settle for which nobody asks", "is settled for 2, for which nobody asks", func(s *script) {
			reserve(s, 10, 4, time.Minute)
			ask(s, 2, Settle, 3)
			settle(s, 2, 2)
		}},
		{"a hold is settled twice", "that was over changes", func(s *script) {
			reserve(s, 10, 4, time.Minute)
			ask(s, 2, Settle, 3)
			settle(s, 3, 3)
			ask(s, 3, Settle, 2)
			settle(s, 2, 2)
		}},
		{"more comes back than was left", "the shards are to count", func(s *script) {
			reserve(s, 10, 4, time.Minute)
			ask(s, 2, Settle, 3)
			settle(s, 3, 2)
		}},
		{"a shard says less of its holds", "and its open holds have 4", func(s *script) {
			s.limit(10)
			ask(s, 1, Reserve, 4)
			s.commit(map[Doc]*Document{job: record(4), shardDoc("total~0"): shard(4, 3, room)})
		}},
		{"an answer without a record", "and there is no record", func(s *script) {
			s.limit(10)
			ask(s, 1, Settle, 1)
			s.add(End{Call: 1, Outcome: OK, Hold: &HoldAnswer{State: "settled", Held: 1, Used: 1}})
		}},
		{"a settle is acknowledged, and the hold is open", "was acknowledged, and its record is", func(s *script) {
			reserve(s, 10, 4, time.Minute)
			ask(s, 2, Settle, 3)
			s.add(End{Call: 2, Outcome: OK, Hold: &HoldAnswer{State: "settled", Held: 4, Used: 3}})
		}},
		{"a hold has ended by an answer alone", "and its record is", func(s *script) {
			reserve(s, 10, 4, time.Minute)
			ask(s, 2, GiveBack, 0)
			s.add(End{Call: 2, Outcome: OK, Hold: &HoldAnswer{State: "ended", Held: 4}})
		}},
		{"who is refused could have had what was held too long", "and the hold j1 of 1 was over", func(s *script) {
			reserve(s, 1, 1, 2*time.Second)
			later(s, 5*time.Second)
			s.begin(3, 3, 1)
			s.full(3, 0)
		}},
		{"a hold of an amount outlasts a reconcile", "and its time was over", func(s *script) {
			reserve(s, 1, 1, 2*time.Second)
			later(s, 5*time.Minute)
			s.add(Settled{})
		}},
	}
}

func storiesOfLimits() []story {
	const signed = signedNames + "1"
	give := func(s *script, total int64) { // after 4 are taken
		shard := Doc{Kind: "shard", Counter: signed, Shard: "0"}
		s.commit(map[Doc]*Document{{Kind: "counter", Counter: signed}: {NumShards: 1}, {Kind: "base", Counter: signed}: {}, shard: {}})
		for n, by := range []int64{4, 16, -1} {
			s.add(Begin{Call: n, Kind: Increment, Intent: n, Adds: []Add{{Counter: signed, By: by}}})
		}
		s.commit(map[Doc]*Document{shard: {Count: 4}})
		s.commit(map[Doc]*Document{shard: {Count: total}})
	}
	return []story{
		{"a limit is set, reached, refused and raised", "", func(s *script) {
			s.limit(2)
			s.begin(1, 1, 2)
			s.commit(map[Doc]*Document{shardDoc("total~0"): seat(1, 0, 1), shardDoc("total~1"): seat(1, 0, 1)})
			s.end(1, OK)
			s.begin(2, 2, 1)
			s.full(2, 0)
			s.add(Begin{Call: 3, Kind: Limit, Counter: named, To: 1})
			s.add(End{Call: 3, Outcome: Refused, Full: &Full{Counter: named, Taken: 2}})
			s.add(Begin{Call: 4, Kind: Limit, Counter: named, To: 3})
			s.commit(map[Doc]*Document{shardDoc("total~0"): seat(1, 0, 2)})
			s.end(4, OK)
		}},
		{"who takes first makes the shards with what is declared", "", func(s *script) {
			s.declared()
			s.limited(99)
		}},
		{"a shard of another field's", "and has a share: true", func(s *script) {
			s.make()
			s.limited(99)
		}},
		{"it is counted in another shard", "counts 1, and has a share: false", func(s *script) {
			s.limit(2)
			s.begin(1, 1, 1)
			s.commit(map[Doc]*Document{shardDoc("0"): {Count: 1}})
		}},
		{"a shard without a share", "has a share: false", func(s *script) {
			s.limit(2)
			s.commit(map[Doc]*Document{shardDoc("total~2"): {}})
		}},
		{"shares are lost", "which nobody asks for", func(s *script) {
			s.limit(2)
			s.commit(map[Doc]*Document{shardDoc("total~0"): seat(0, 0, 0)})
		}},
		{"its shards are taken away", "takes the shares", func(s *script) {
			s.limit(2)
			s.commit(map[Doc]*Document{shardDoc("total~0"): nil, shardDoc("total~1"): nil})
		}},
		{"a reconcile doesn't show it", "after a reconcile the document of", func(s *script) {
			s.limit(2)
			s.add(Settled{})
		}},
		{"a commit takes 16 and gives 1 back", "", func(s *script) { give(s, 19) }},
		{"a commit gives 1 back that nobody gives", "no call ever asked", func(s *script) { give(s, 15) }},
		{"a shard counts more than its share", "with a share of 1", func(s *script) {
			s.limit(2)
			s.begin(1, 1, 2)
			s.commit(map[Doc]*Document{shardDoc("total~0"): seat(2, 0, 1)})
		}},
		{"a caller's is said to be a member's", "say that 1 are members'", func(s *script) {
			s.limit(2)
			s.begin(1, 1, 1)
			s.commit(map[Doc]*Document{shardDoc("total~0"): seat(1, 1, 1)})
		}},
		{"a limit that nobody has asked for", "which nobody asks for", func(s *script) {
			s.declared()
			s.limited(2)
		}},
		{"a limit is set twice", "which nobody asks for", func(s *script) {
			s.limit(2)
			s.add(Begin{Call: 1, Kind: Limit, Counter: named, To: 4})
			s.limited(4)
			s.limited(2)
		}},
		{"a limit is refused, and applied", "and is applied", func(s *script) {
			s.declared()
			s.add(Begin{Call: 1, Kind: Limit, Counter: named, To: 2})
			s.limited(2)
			s.end(1, Refused)
		}},
		{"a limit is refused for what was never taken", "which were at no moment", func(s *script) {
			s.declared()
			s.add(Begin{Call: 1, Kind: Limit, Counter: named, To: 2})
			s.add(End{Call: 1, Outcome: Refused, Full: &Full{Counter: named, Taken: 3}})
		}},
		{"a limit is acknowledged, and there was none", "was acknowledged, which it had at no moment", func(s *script) {
			s.declared()
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
			s.declared()
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
			s.commit(map[Doc]*Document{shardDoc("total~0"): seat(1, 0, 1)})
			s.end(1, OK)
			s.begin(2, 1, 1)
			s.full(2, 1)
		}},
		{"who is a member is refused", "she was one all the time", func(s *script) {
			s.limit(1)
			s.add(Begin{Call: 1, Kind: Join, Counter: named, Member: "m1"})
			s.commit(map[Doc]*Document{shardDoc("total~0"): seat(1, 1, 1), {Kind: "member", Counter: named, Member: "m1"}: {Since: s.now.UnixMicro() + 1_000_000, CountedOn: "total~0"}})
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
