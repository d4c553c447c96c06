package simulation

import (
	"math"
	"testing"
)

// TestCheckLives tells right histories from wrong ones of how counters begin and end.
func TestCheckLives(t *testing.T) {
	t.Parallel()
	judge(t, Check, storiesOfLives())
}

// start is a commit that makes the counter from a number.
func (s *script) start(from int64) {
	s.commit(map[Doc]*Document{
		counterDoc(): {NumShards: 1, Total: from}, baseDoc(): {}, shardDoc("0"): {},
	})
}

// gone is the commit that deletes such a counter.
func (s *script) gone() {
	s.commit(map[Doc]*Document{counterDoc(): nil, baseDoc(): nil, shardDoc("0"): nil, shardDoc("1"): nil})
}

// pieces is a commit of a snippet that makes a counter of shards only.
func (s *script) pieces(call int) {
	s.add(Begin{Call: call, Kind: Snippet, Counter: named})
	s.commit(map[Doc]*Document{shardDoc("0"): {}, shardDoc("1"): {}})
	s.end(call, OK)
}

func storiesOfLives() []story {
	create := func(s *script, call int, start int64) {
		s.add(Begin{Call: call, Kind: Create, Counter: named, Start: start})
	}
	return []story{
		{"a counter from a number, which others count on and delete", "", func(s *script) {
			create(s, 1, 7000)
			s.start(7000)
			s.begin(2, 1, 1)
			s.shard("0", 1)
			s.end(2, OK)
			s.read(3, ExactRead, 7001, nothing)
			s.add(Begin{Call: 4, Kind: Delete, Counter: named})
			s.gone()
			s.end(4, OK)
			s.end(1, OK)
			create(s, 5, 7001)
			s.start(7001)
			s.end(5, OK)
		}},
		{"a counter from a number comes back once it is deleted", "is made twice", func(s *script) {
			create(s, 1, 7000)
			s.start(7000)
			s.add(Begin{Call: 4, Kind: Delete, Counter: named})
			s.gone()
			s.end(4, OK)
			s.start(7000)
			s.end(1, OK)
		}},
		{"a counter from a number that nobody asked for", "nobody has asked for that", func(s *script) {
			create(s, 1, 7000)
			s.start(7002)
		}},
		{"a document that is made again shows its number once more", "", func(s *script) {
			create(s, 1, 7000)
			s.start(7000)
			s.end(1, OK)
			s.vanish()
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1, Total: 7000}})
		}},
		{"a creation is refused that was carried out", "was refused", func(s *script) {
			create(s, 1, 7000)
			s.start(7000)
			s.end(1, Refused)
		}},
		{"lives of shards only, each of which is deleted", "", func(s *script) {
			for n := range 2 {
				s.pieces(10 * n)
				s.add(Begin{Call: 10*n + 1, Kind: Delete, Counter: named})
				s.gone()
				s.end(10*n+1, OK)
			}
		}},
		{"a deletion takes the next life along", "2 lives of", func(s *script) {
			s.pieces(1)
			s.add(Begin{Call: 2, Kind: Delete, Counter: named})
			s.gone()
			s.pieces(3)
			s.gone()
			s.end(2, OK)
		}},
		{"of two deletions one is refused, and both were carried out", "2 lives of", func(s *script) {
			s.pieces(1)
			s.add(Begin{Call: 2, Kind: Delete, Counter: named})
			s.add(Begin{Call: 3, Kind: Delete, Counter: named})
			s.gone()
			s.pieces(4)
			s.gone()
			s.end(2, OK)
			s.end(3, Refused)
		}},
		{"a sweep takes a shard that came after the mark", "changes by", func(s *script) {
			s.marked()
			s.commit(map[Doc]*Document{baseDoc(): {Deleting: true, Since: 1}, shardDoc("0"): nil})
		}},
		{"a sweep takes a shard that came after the mark, and before somebody wrote the mark", "", func(s *script) {
			s.marked()
			s.commit(map[Doc]*Document{baseDoc(): {Deleting: true, Since: 2}})
			s.commit(map[Doc]*Document{baseDoc(): {Deleting: true, Since: 2}, shardDoc("0"): nil})
			s.commit(map[Doc]*Document{baseDoc(): nil})
			s.end(99, OK)
		}},
		{"a sweep takes a shard that came after somebody wrote the mark", "changes by", func(s *script) {
			s.make()
			s.add(Begin{Call: 99, Kind: Delete, Counter: named})
			s.gone()
			s.commit(map[Doc]*Document{baseDoc(): {Deleting: true, Since: 1}})
			s.commit(map[Doc]*Document{baseDoc(): {Deleting: true, Since: 2}})
			s.add(Begin{Call: 98, Kind: Snippet, Counter: named})
			s.shard("0", 0)
			s.end(98, OK)
			s.begin(2, 2, 2)
			s.shard("0", 2)
			s.commit(map[Doc]*Document{baseDoc(): {Deleting: true, Since: 2}, shardDoc("0"): nil})
		}},
		{"a base is deleted by hand, and shown until there is one again", "", func(s *script) {
			at := s.loseBase()
			s.ack("0", at)
			s.begin(4, 4, 2)
			s.ack("1", s.shardShown("1", 2, 9)) // 6 are lost
			s.add(Calm{})
			s.begin(5, 5, 4)
			s.shard("1", 6)
			s.rebase(7)
			s.add(Settled{})
		}},
		{"a base is deleted by hand, and what it held stays until the field is asked for again", "", func(s *script) {
			at := s.loseBase()
			s.commit(map[Doc]*Document{baseDoc(): {}}) // by a refresh of another field
			s.ack("0", at)
			s.begin(4, 4, 2)
			s.ack("1", s.shardShown("1", 2, 3))
			s.add(Calm{})
		}},
		{"a base is deleted by hand, and what it held is shown for a later event", "is acknowledged", func(s *script) {
			s.loseBase()
			s.commit(map[Doc]*Document{baseDoc(): {}})
			s.begin(4, 4, 2)
			s.ack("1", s.shard("1", 2))
		}},
		{"a base is deleted by hand, and what it held is shown beside the next one", "a commit changes the total", func(s *script) {
			s.loseBase()
			s.rebase(1)
			s.begin(4, 4, 2)
			s.shardShown("1", 2, 9)
		}},
		{"a base is deleted by hand, and a document shows neither what it held nor nothing of it", "a commit changes the total", func(s *script) {
			s.loseBase()
			s.begin(4, 4, 2)
			s.shardShown("1", 2, 8)
		}},
		{"a base is deleted by hand, and what it held is shown after a reconcile", "long after everything, reconciled: true", func(s *script) {
			s.loseBase()
			s.commit(map[Doc]*Document{baseDoc(): {}})
			s.add(Settled{})
		}},
		{"a base is deleted by hand after its document, which shows what it held once it is made again", "nobody has asked for that", func(s *script) {
			s.loseBase()
			s.vanish()
			s.rebase(7)
		}},
		{"of what is deleted by hand something is left, which a document doesn't show that is made beside it", "nobody has asked for that", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shardShown("0", 1, 1)
			s.end(1, OK)
			s.add(Begin{Call: 2, Kind: DeleteByHand, Counter: named})
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.commit(map[Doc]*Document{baseDoc(): nil})
			s.end(2, OK)
			s.rebase(0)
		}},
		{"an older revision makes the document again, and knows nothing of the field", "", func(s *script) {
			s.remake(true, func() { s.add(Older{}) })
			s.rebase(1)
		}},
		{"an older revision makes the document again, and what was counted is shown never", "long after everything", func(s *script) {
			s.remake(true, func() { s.add(Older{}) })
			s.add(Settled{})
		}},
		{"an older revision makes the document again with a number of its own", "a commit changes the total", func(s *script) {
			s.remake(false, func() { s.add(Older{}) })
		}},
		{"the newest revision makes the document again without the field", "a commit changes the total", func(s *script) {
			s.remake(true, func() {})
		}},
		{"in fair weather a document is made again without the field", "a commit changes the total", func(s *script) {
			s.remake(true, func() { s.add(Older{}); s.add(Fair{}) })
		}},
		{"a snippet makes the document again with a number of its own", "a commit changes the total", func(s *script) {
			s.remake(false, func() { s.add(Begin{Call: 5, Kind: Snippet, Counter: named}) })
		}},
		{"near the ends of an int64 a resize moves what there is", "", func(s *script) {
			s.near()
			s.resize()
			s.commit(map[Doc]*Document{shardDoc("0"): {Count: 1 << 62}, shardDoc("1"): nil, shardDoc("2"): nil, shardDoc("3"): nil})
			s.read(3, ExactRead, 1<<62, nothing)
		}},
		{"near the ends of an int64 a resize loses some", "changes its shards by", func(s *script) {
			s.near()
			s.resize()
			s.commit(map[Doc]*Document{shardDoc("0"): {Count: -1}, shardDoc("1"): nil, shardDoc("2"): nil, shardDoc("3"): nil})
		}},
	}
}

// marked is a counter whose deletion has begun, and taken all shards along. One of them comes back.
func (s *script) marked() {
	s.make()
	s.add(Begin{Call: 99, Kind: Delete, Counter: named})
	s.commit(map[Doc]*Document{counterDoc(): nil, baseDoc(): {Deleting: true, Since: 1}, shardDoc("0"): nil, shardDoc("1"): nil})
	s.add(Begin{Call: 98, Kind: Snippet, Counter: named})
	s.shard("0", 0)
	s.end(98, OK)
	s.begin(2, 2, 2)
	s.shard("0", 2)
}

// loseBase has somebody delete a base by hand that holds 6, below a document that shows 7. It returns when the shard
// was written that holds the rest.
func (s *script) loseBase() (at int64) {
	s.make()
	s.add(Begin{Call: 1, Kind: Rebase, Counter: named, To: 6})
	s.rebase(6)
	s.end(1, OK)
	s.begin(2, 2, 1)
	at = s.shardShown("0", 1, 7)
	s.add(Begin{Call: 3, Kind: DeleteByHand, Counter: named})
	s.commit(map[Doc]*Document{baseDoc(): nil})
	s.end(3, OK)
	return at
}

// shardShown sets a shard's count, and then the total. It returns the time of the shard's commit.
func (s *script) shardShown(id string, count, total int64) (at int64) {
	at = s.shard(id, count)
	s.show(total)
	return at
}

// remake has a document made again that showed 1, with the field at 0 or without it, after something else.
func (s *script) remake(bare bool, after func()) {
	s.make()
	s.begin(1, 1, 1)
	s.shardShown("0", 1, 1)
	s.vanish()
	after()
	s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Bare: bare}})
}

// near is a counter with shards beyond the ends of an int64 together, which add up to 2⁶².
func (s *script) near() {
	s.add(Begin{Call: 1, Kind: Snippet, Counter: named})
	s.begin(2, 1, 1<<62)
	counts := map[Doc]*Document{counterDoc(): {NumShards: 2}, shardDoc("0"): {Count: math.MinInt64}}
	for _, id := range []string{"1", "2", "3"} {
		counts[shardDoc(id)] = &Document{Count: 1 << 62}
	}
	s.commit(counts)
	s.end(2, OK)
	s.end(1, OK)
}

// A sum ends at the largest and the smallest int64, whatever it was on the way.
func TestWide(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		terms []int64
		want  int64
	}{
		{[]int64{math.MinInt64, 1 << 62, 1 << 62, 1 << 62}, 1 << 62},
		{[]int64{1 << 62, 1 << 62}, math.MaxInt64},
		{[]int64{math.MaxInt64, math.MaxInt64, math.MinInt64, math.MinInt64}, -2},
		{[]int64{math.MinInt64, -1}, math.MinInt64},
		{[]int64{math.MinInt64}, math.MinInt64},
		{[]int64{-1, 1}, 0},
	} {
		var sum wide
		for _, n := range test.terms {
			sum.add(n)
		}
		if got := sum.int64(); got != test.want {
			t.Errorf("%d add up to %d, want %d", test.terms, got, test.want)
		}
	}
}
