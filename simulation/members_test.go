package simulation

import (
	"testing"
	"time"
)

func memberDoc(name string) Doc { return Doc{Kind: "member", Counter: named, Member: name} }

// asks is the begin of a call about the member ann, and answers its end.
func (s *script) asks(call int, kind Kind) {
	s.add(Begin{Call: call, Kind: kind, Counter: named, Member: "ann"})
}

func (s *script) answers(call int, outcome Outcome, there bool) {
	s.add(End{Call: call, Outcome: outcome, There: there})
}

// joins makes the membership of ann beside a shard's count, and leaves deletes it.
func (s *script) joins(shard string, count int64) int64 {
	at := s.now.Add(time.Second).UnixMicro() // of the commit
	s.commit(map[Doc]*Document{memberDoc("ann"): {CountedOn: shard, Since: at}, shardDoc(shard): {Count: count}})
	return at
}

func (s *script) leaves(shard string, count int64) {
	s.commit(map[Doc]*Document{memberDoc("ann"): nil, shardDoc(shard): {Count: count}})
}

// joined is a call that makes ann a member.
func (s *script) joined(call int, count int64) {
	s.asks(call, Join)
	s.joins("0", count)
	s.answers(call, OK, false)
}

// removeWith deletes the counter as a command does that has a member to take off, up to its last
// commit.
func (s *script) removeWith(member func()) {
	s.add(Begin{Call: 99, Kind: Delete, Counter: named})
	s.commit(map[Doc]*Document{counterDoc(): nil, baseDoc(): {Deleting: true}})
	member()
	s.commit(map[Doc]*Document{baseDoc(): nil, shardDoc("0"): nil, shardDoc("1"): nil})
}

// TestCheckMembers tells right histories of members from wrong ones, as TestCheck does.
func TestCheckMembers(t *testing.T) {
	t.Parallel()
	judge(t, Check, storiesOfMembers())
}

func storiesOfMembers() []story {
	return []story{
		{"a member joins, joins again, and leaves", "", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.asks(2, Join)
			s.answers(2, OK, true)
			s.asks(3, Leave)
			s.leaves("1", -1)
			s.answers(3, OK, false)
			s.asks(4, Leave)
			s.answers(4, OK, true)
		}},
		{"a member shares a commit with an increment", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1024)
			s.asks(2, Join)
			s.joins("0", 1025)
			s.end(1, OK)
			s.answers(2, OK, false)
		}},
		{"one leaves and one joins, and the shard stays as it is", "", func(s *script) {
			s.make()
			s.joined(1, 1)
			bob := memberDoc("ann")
			bob.Member = "bob"
			s.asks(2, Leave)
			s.add(Begin{Call: 3, Kind: Join, Counter: named, Member: "bob"})
			s.commit(map[Doc]*Document{memberDoc("ann"): nil, bob: {CountedOn: "0", Since: s.now.Add(time.Second).UnixMicro()}})
			s.answers(2, OK, false)
			s.answers(3, OK, false)
		}},
		{"a membership is changed", "changes the membership", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.commit(map[Doc]*Document{memberDoc("ann"): {CountedOn: "1"}})
		}},
		{"a membership without its count", "no shard", func(s *script) {
			s.make()
			s.asks(1, Join)
			s.commit(map[Doc]*Document{memberDoc("ann"): {CountedOn: "0", Since: s.now.Add(time.Second).UnixMicro()}})
		}},
		{"a membership that counts twice", "changes its shards by 2", func(s *script) {
			s.make()
			s.asks(1, Join)
			s.joins("0", 2)
		}},
		{"a count without its membership", "changes its shards by 1", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.shard("0", 2)
		}},
		{"a count without its membership, beside increments", "changes its shards by 1025", func(s *script) {
			s.make()
			s.begin(1, 1, 1024)
			s.asks(2, Join)
			s.shard("0", 1025)
		}},
		{"a member leaves and stays counted", "no shard", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.asks(2, Leave)
			s.commit(map[Doc]*Document{memberDoc("ann"): nil})
		}},
		{"a membership that names another shard", "names shard", func(s *script) {
			s.make()
			s.asks(1, Join)
			s.commit(map[Doc]*Document{memberDoc("ann"): {CountedOn: "1", Since: s.now.Add(time.Second).UnixMicro()}, shardDoc("0"): {Count: 1}})
		}},
		{"one joins and one leaves in a commit that makes further shards", "", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.asks(2, Leave)
			s.add(Begin{Call: 3, Kind: Join, Counter: named, Member: "ben"})
			s.commit(map[Doc]*Document{
				memberDoc("ann"): nil, memberDoc("ben"): {CountedOn: "0", Since: s.now.Add(time.Second).UnixMicro()},
				counterDoc(): {NumShards: 3, Total: s.docs[counterDoc()].Total}, shardDoc("2"): {},
			})
		}},
		{"a member joins in a commit that only makes a shard", "no shard", func(s *script) {
			s.make()
			s.asks(1, Join)
			s.commit(map[Doc]*Document{
				memberDoc("ann"): {CountedOn: "2", Since: s.now.Add(time.Second).UnixMicro()},
				counterDoc():     {NumShards: 3, Total: s.docs[counterDoc()].Total}, shardDoc("2"): {},
			})
		}},
		{"a membership of another time", "another time", func(s *script) {
			s.make()
			s.asks(1, Join)
			s.commit(map[Doc]*Document{memberDoc("ann"): {CountedOn: "0", Since: s.now.UnixMicro()}, shardDoc("0"): {Count: 1}})
		}},
		{"counted, and there is no commit", "there is no commit", func(s *script) {
			s.make()
			s.asks(1, Join)
			s.answers(1, OK, false)
		}},
		{"counted, and the commit comes later", "there is no call", func(s *script) {
			s.make()
			s.asks(1, Join)
			s.answers(1, OK, false)
			s.joins("0", 1)
		}},
		{"nobody asked", "there is no call", func(s *script) {
			s.make()
			s.joins("0", 1)
		}},
		{"refused, and joined later", "there is no call", func(s *script) {
			s.make()
			s.asks(1, Join)
			s.answers(1, Refused, false)
			s.joins("0", 1)
		}},
		{"unknown, and joined later", "", func(s *script) {
			s.make()
			s.asks(1, Join)
			s.answers(1, Unknown, false)
			s.joins("0", 1)
		}},
		{"unknown, and never joined", "", func(s *script) {
			s.make()
			s.asks(1, Join)
			s.answers(1, Unknown, false)
		}},
		{"two are told that they have counted, and one did", "there is no commit", func(s *script) {
			s.make()
			s.asks(1, Join)
			s.asks(2, Join)
			s.joins("0", 1)
			s.answers(1, OK, false)
			s.answers(2, OK, false)
		}},
		{"one call joins twice", "there is no call", func(s *script) {
			s.make()
			s.asks(1, Join)
			s.joins("0", 1)
			s.asks(2, Leave)
			s.leaves("0", 0)
			s.answers(2, OK, false)
			s.joins("0", 1)
			s.answers(1, OK, false)
		}},
		{"a call whose answer was lost may have done it, and another one after it", "", func(s *script) {
			s.make()
			s.asks(1, Join)
			s.asks(2, Join)
			s.joins("0", 1)
			s.answers(1, Unknown, false)
			s.asks(3, Leave)
			s.leaves("0", 0)
			s.answers(3, OK, false)
			s.joins("0", 1)
			s.answers(2, OK, false)
		}},
		{"a late commit takes off who was told to be there", "", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.asks(2, Leave)
			s.answers(2, Unknown, false)
			s.asks(3, Join)
			s.answers(3, OK, true)
			s.leaves("0", 0)
		}},
		{"so already, and it never was", "so already", func(s *script) {
			s.make()
			s.asks(1, Join)
			s.answers(1, OK, true)
		}},
		{"so already, which it was before", "so already", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.asks(2, Leave)
			s.leaves("0", 0)
			s.answers(2, OK, false)
			s.asks(3, Join)
			s.answers(3, OK, true)
		}},
		{"so already, and then carried out by the same call", "there is no call", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.asks(2, Leave)
			s.asks(3, Join)
			s.answers(3, OK, true)
			s.leaves("0", 0)
			s.answers(2, OK, false)
			s.joins("0", 1)
		}},
		{"looks", "", func(s *script) {
			s.make()
			s.asks(1, Look)
			s.answers(1, OK, false)
			s.asks(2, Join)
			s.asks(3, Look)
			at := s.joins("0", 1)
			s.answers(2, OK, false)
			s.add(End{Call: 3, Outcome: OK, There: true, Since: at})
		}},
		{"a look misses a member", "at no moment", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.asks(2, Look)
			s.answers(2, OK, false)
		}},
		{"a look has another time", "at no moment", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.asks(2, Look)
			s.add(End{Call: 2, Outcome: OK, There: true, Since: 1})
		}},
		{"a look finds no counter", "no counter", func(s *script) {
			s.make()
			s.asks(1, Look)
			s.add(End{Call: 1, Outcome: OK, Missing: true})
		}},
		{"an audit", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1024)
			s.shard("0", 1024)
			s.joined(2, 1025)
			s.add(Begin{Call: 3, Kind: Audit, Counter: named})
			s.add(End{Call: 3, Outcome: OK, Audit: &Audited{Shards: 1025, Members: 1}})
		}},
		{"an audit of two times", "audit", func(s *script) {
			s.make()
			s.add(Begin{Call: 3, Kind: Audit, Counter: named})
			s.joined(2, 1)
			s.add(End{Call: 3, Outcome: OK, Audit: &Audited{Shards: 1}})
		}},
		{"a reset with members", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1024)
			s.shard("1", 1024)
			s.joined(2, 1)
			s.add(Begin{Call: 3, Kind: ResetMembers, Counter: named})
			s.begin(4, 4, 2048) // is committed between the reset's look and its commit
			s.shard("1", 3072)
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2}, baseDoc(): {}, memberDoc("ann"): nil})
			s.add(End{Call: 3, Outcome: OK})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Total: 2048}})
			s.read(5, ExactRead, 2048, nothing)
		}},
		{"a reset with the members that alone were counted", "", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.show(0) // a rebase to less, by then
			s.add(Begin{Call: 3, Kind: ResetMembers, Counter: named})
			s.commit(map[Doc]*Document{memberDoc("ann"): nil, counterDoc(): {NumShards: 2}})
			s.end(3, OK)
		}},
		{"who was there when the deletion began leaves beside an increment", "", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.begin(2, 2, 2048)
			s.removeWith(func() {
				s.asks(3, Leave)
				s.leaves("1", 2047)
				s.answers(3, OK, false)
				s.end(2, OK)
			})
			s.end(99, OK)
		}},
		{"a reset that was to keep members", "no shard", func(s *script) {
			s.make()
			s.joined(2, 1)
			s.add(Begin{Call: 3, Kind: Reset, Counter: named})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2}, baseDoc(): {}, memberDoc("ann"): nil})
		}},
		{"a reset takes members off the shards, too", "changes its shards by -1", func(s *script) {
			s.make()
			s.begin(1, 1, 1024)
			s.joined(2, 1)
			s.add(Begin{Call: 3, Kind: ResetMembers, Counter: named})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2}, baseDoc(): {}, memberDoc("ann"): nil})
			s.shard("0", 0)
		}},
		{"a snippet sets to zero what counts members", "multiples of it", func(s *script) {
			s.make()
			s.begin(1, 1, 1024)
			s.joined(2, 1)
			s.add(Begin{Call: 3, Kind: Snippet, Counter: named})
			s.shard("0", 0)
		}},
		{"a deletion with members, and the next life", "", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.removeWith(func() { s.leaves("0", 0) })
			s.make()
			s.joined(2, 1)
		}},
		{"a member leaves while the counter is deleted", "", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.asks(2, Leave)
			s.removeWith(func() { s.leaves("0", 0) })
			s.answers(2, OK, false)
		}},
		{"a deletion takes a member with all the rest", "", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.add(Begin{Call: 2, Kind: Delete, Counter: named})
			s.commit(map[Doc]*Document{counterDoc(): nil, baseDoc(): nil, shardDoc("0"): nil, shardDoc("1"): nil, memberDoc("ann"): nil})
		}},
		{"a deletion leaves members", "[member ann] stay", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.removeWith(func() {})
		}},
		{"a deletion takes members without their counts", "", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.removeWith(func() { s.commit(map[Doc]*Document{memberDoc("ann"): nil}) })
		}},
		{"a deletion takes shards before members", "", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.removeWith(func() {
				s.commit(map[Doc]*Document{shardDoc("0"): nil})
				s.commit(map[Doc]*Document{memberDoc("ann"): nil})
			})
		}},
		{"a counter is marked as being deleted, and nobody asks for that", "nobody has asked for", func(s *script) {
			s.make()
			s.commit(map[Doc]*Document{counterDoc(): nil, baseDoc(): {Deleting: true}})
		}},
		{"members stay with the path whose document is gone", "", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.vanish()
			s.asks(2, Leave)
			s.leaves("1", -1)
			s.answers(2, OK, false)
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2}})
			s.joined(3, 2)
		}},
		{"members of a path whose document is gone are taken off, and nobody asked", "there is no call", func(s *script) {
			s.make()
			s.joined(1, 1)
			s.vanish()
			s.leaves("0", 0)
		}},
		{"a cleanup takes members with their counts", "", func(s *script) {
			s.host()
			s.joined(1, 1)
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.now = s.now.Add(2 * time.Hour)
			s.leaves("0", 0)
			s.commit(map[Doc]*Document{baseDoc(): nil, shardDoc("0"): nil, shardDoc("1"): nil})
		}},
		{"a cleanup takes members without their counts", "no shard", func(s *script) {
			s.host()
			s.joined(1, 1)
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.now = s.now.Add(2 * time.Hour)
			s.commit(map[Doc]*Document{memberDoc("ann"): nil})
		}},
		{"a cleanup leaves members", "stay", func(s *script) {
			s.host()
			s.joined(1, 1)
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.now = s.now.Add(2 * time.Hour)
			s.commit(map[Doc]*Document{baseDoc(): nil, shardDoc("0"): nil, shardDoc("1"): nil})
		}},
		{"a member leaves while its document is gone", "", func(s *script) {
			s.host()
			s.joined(1, 1)
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.asks(2, Leave)
			s.leaves("0", 0)
			s.answers(2, OK, false)
		}},
	}
}

// Calls are matched with commits as a whole: whichever comes first, no call is taken that another
// one needs.
func TestMembersAreMatchedAsAWhole(t *testing.T) {
	t.Parallel()
	change := func(entry int, made bool, who author) *membershipChange {
		return &membershipChange{entry: entry, made: made, who: who}
	}
	call := func(begin, end int, outcome Outcome) *memberCall {
		return &memberCall{begin: begin, end: end, join: true, outcome: outcome}
	}
	for _, test := range []struct {
		name  string
		m     member
		wrong int // violations
	}{
		{"the unknown one gives way", member{
			changes: []*membershipChange{change(5, true, anyCall), change(15, true, anyCall)},
			calls:   []*memberCall{call(1, forever, Unknown), call(2, 8, OK)},
		}, 0},
		{"a cleanup may have done what a call has not", member{
			changes: []*membershipChange{change(3, true, maybeCall), change(5, true, anyCall)},
			calls:   []*memberCall{call(1, 8, OK)},
		}, 0},
		{"a cleanup's is found for a call", member{
			changes: []*membershipChange{change(3, true, maybeCall)},
			calls:   []*memberCall{call(1, 8, OK)},
		}, 0},
		{"one of three is too much", member{
			changes: []*membershipChange{change(3, true, anyCall), change(5, true, anyCall)},
			calls:   []*memberCall{call(1, 8, OK), call(1, 9, OK), call(1, 6, OK)},
		}, 1},
		{"what a reset did was no call", member{
			changes: []*membershipChange{change(3, true, ownRight)},
			calls:   []*memberCall{call(1, 8, OK)},
		}, 1},
	} {
		c := checker{counters: map[string]*counter{named: {ofMembers: map[string]*member{"ann": &test.m}}}}
		c.matched()
		if len(c.violations) != test.wrong {
			t.Errorf("%s: %d violations, want %d: %v", test.name, len(c.violations), test.wrong, c.violations)
		}
	}
}

// What a member does is in the history of its field, and in no other.
func TestHistoryOfMembers(t *testing.T) {
	t.Parallel()
	var commit Commit
	commit.member(Doc{Kind: "member", Field: "likes"}, Change{After: &Document{}})
	all := History{
		{What: Begin{Call: 1, Kind: Join, Counter: named, Field: "likes", Member: "ann"}},
		{What: commit},
		{What: End{Call: 1, Outcome: OK}},
		{What: Begin{Call: 2, Kind: Audit, Counter: named}},
		{What: End{Call: 2, Outcome: OK, Audit: &Audited{Shards: 1}, Audits: map[string]*Audited{"": {Shards: 1}, "likes": {Shards: 2}}}},
	}
	first, likes := all.Of(""), all.Of("likes")
	if len(first) != 3 || len(first[0].What.(Commit).Changes) > 0 || first[2].What.(End).Audit.Shards != 1 {
		t.Errorf("the first field has %v", first)
	}
	if len(likes) != 5 || len(likes[1].What.(Commit).Changes) != 1 || likes[4].What.(End).Audit.Shards != 2 {
		t.Errorf("likes have %v", likes)
	}
}
