package escrow

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// first has no choice fall to chance.
func first(int) int { return 0 }

func TestDecide(t *testing.T) {
	t.Parallel()
	type request = Request[string]
	one := func(n Balance) request { return request{"a": n} }
	take, give := func(n int64) request { return one(By(n, false, false)) }, func(n int64) request { return one(By(-n, false, false)) }
	join, leave := one(By(1, true, false)), one(By(-1, true, false))
	shards := func(held ...Balance) map[string][]Balance { return map[string][]Balance{"a": held} }
	plan := func(changes ...Addition) map[string][]Addition { return map[string][]Addition{"a": changes} }
	none := map[string][]Addition{}
	for _, test := range []struct {
		name     string
		known    map[string][]Balance
		looked   bool
		requests []request
		want     Decision[string]
	}{
		{"nothing is known", nil, false, []request{take(1)}, Decision[string]{Look: true}},
		{"a shard has room", shards(Balance{Share: 2}), false, []request{take(2)}, Decision[string]{Taken: []int{0}, Plan: plan(Addition{0, Balance{Count: 2}})}},
		{"there may be more elsewhere", shards(Balance{Share: 2}), false, []request{take(3)}, Decision[string]{Look: true}},
		{"there is no more", shards(Balance{Share: 2}), true, []request{take(3)}, Decision[string]{Refused: []int{0}, Plan: none}},
		{"another shard has room", shards(Balance{Count: 1, Share: 1}, Balance{Share: 1}), false, []request{take(1)}, Decision[string]{Taken: []int{0}, Plan: plan(Addition{1, Balance{Count: 1}})}},
		{"shards have room together", shards(Balance{Share: 1}, Balance{Count: 1, Share: 3}), true, []request{take(3)}, Decision[string]{Taken: []int{0}, Plan: plan(Addition{1, Balance{Count: 2}}, Addition{0, Balance{Count: 1}})}},
		{"who finds no room beside others waits", shards(Balance{Share: 1}), true, []request{take(1), take(1), take(2)}, Decision[string]{Refused: []int{2}, Taken: []int{0}, Plan: plan(Addition{0, Balance{Count: 1}})}},
		{"who finds none beside others looks first", shards(Balance{Share: 1}), false, []request{take(1), take(1)}, Decision[string]{Look: true}},
		{"a smaller one fits", shards(Balance{Share: 3}), true, []request{take(2), take(2), take(1)}, Decision[string]{Taken: []int{0, 2}, Plan: plan(Addition{0, Balance{Count: 3}})}},
		{"what is given back comes after what is taken", shards(Balance{Count: 1, Share: 3}), true, []request{take(1), give(1), take(1)}, Decision[string]{Taken: []int{0, 2}, Plan: plan(Addition{0, Balance{Count: 2}})}},
		{"and what is taken after what is given back", shards(Balance{Count: 2, Share: 3}), false, []request{give(1), take(1), give(1)}, Decision[string]{Taken: []int{0, 2}, Plan: plan(Addition{0, Balance{Count: -2}})}},
		{"what was full at the time of the look is refused", shards(Balance{Count: 1, Share: 1}), true, []request{take(1), give(1)}, Decision[string]{Refused: []int{0}, Taken: []int{1}, Plan: plan(Addition{0, Balance{Count: -1}})}},
		{"never below 0", shards(Balance{Count: 1, Share: 5}), true, []request{give(2)}, Decision[string]{Refused: []int{0}, Plan: none}},
		{"shards give back together", shards(Balance{Count: 1, Share: 5}, Balance{Count: 2, Share: 2}), true, []request{give(3)}, Decision[string]{Taken: []int{0}, Plan: plan(Addition{1, Balance{Count: -2}}, Addition{0, Balance{Count: -1}})}},
		{"a member's is not a caller's to give back", shards(Balance{Count: 1, Members: 1, Share: 5}), true, []request{give(1)}, Decision[string]{Refused: []int{0}, Plan: none}},
		{"what is held is not a caller's to give back", shards(Balance{Count: 1, Holds: 1, Share: 5}), true, []request{give(1)}, Decision[string]{Refused: []int{0}, Plan: none}},
		{"a caller's is not a member's", shards(Balance{Count: 1, Share: 5}), true, []request{leave}, Decision[string]{Refused: []int{0}, Plan: none}},
		{"a member leaves after another joins", shards(Balance{Count: 2, Members: 1, Share: 3}), true, []request{join, leave}, Decision[string]{Taken: []int{0}, Plan: plan(Addition{0, Balance{Count: 1, Members: 1}})}},
		{"a member joins", shards(Balance{Share: 1}), false, []request{join}, Decision[string]{Taken: []int{0}, Plan: plan(Addition{0, Balance{Count: 1, Members: 1}})}},
		{"a shard that has room for all is written alone", shards(Balance{Share: 2}, Balance{Share: 3}), false, []request{take(1), take(1), take(1)}, Decision[string]{Taken: []int{0, 1, 2}, Plan: plan(Addition{1, Balance{Count: 3}})}},
		{"or else few", shards(Balance{Share: 1}, Balance{Share: 5}, Balance{Share: 1}), false, []request{take(2), take(2), take(2)}, Decision[string]{Taken: []int{0, 1, 2}, Plan: plan(Addition{1, Balance{Count: 5}}, Addition{0, Balance{Count: 1}})}},
		{"nothing", shards(Balance{Count: 1, Share: 2}), false, []request{take(0)}, Decision[string]{Taken: []int{0}, Plan: map[string][]Addition{"a": nil}}},
		{"all places or none", map[string][]Balance{"a": {{Share: 1}}, "b": {{Count: 1, Share: 1}}}, true, []request{{"a": {Count: 1}, "b": {Count: 1}}, take(1)},
			Decision[string]{Refused: []int{0}, Taken: []int{1}, Plan: plan(Addition{0, Balance{Count: 1}})}},
		{"beyond an int64", shards(Balance{Count: 1, Share: math.MaxInt64}), true, []request{take(math.MaxInt64), give(math.MinInt64)},
			Decision[string]{Refused: []int{0, 1}, Plan: none}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := Decide(test.known, sums(test.known, test.looked), test.requests, first)
			if got.Parts, got.Waiting = nil, nil; !reflect.DeepEqual(got, test.want) {
				t.Errorf("Decide = %+v, want %+v", got, test.want)
			}
		})
	}
}

// sums are what all shards hold, if somebody has looked.
func sums[P comparable](known map[P][]Balance, looked bool) map[P]Balance {
	if !looked {
		return nil
	}
	all := map[P]Balance{}
	for place, shards := range known {
		all[place] = Sum(shards...)
	}
	return all
}

// Some of the shards are known beside what all held together: who finds no room in these, and would in all, waits.
func TestDecideByLessThanAll(t *testing.T) {
	t.Parallel()
	known, all := map[string][]Balance{"a": {{Count: 1, Share: 3}}}, map[string]Balance{"a": {Count: 5, Share: 9}}
	requests := []Request[string]{{"a": By(3, false, false)}, {"a": By(2, false, false)}, {"a": By(5, false, false)}, {"a": By(1, false, false)}}
	d := Decide(known, all, requests, first)
	if want := (Decision[string]{Waiting: []int{0, 3}, Taken: []int{1}, Refused: []int{2}}); !slices.Equal(d.Waiting, want.Waiting) || !slices.Equal(d.Taken, want.Taken) || !slices.Equal(d.Refused, want.Refused) {
		t.Errorf("Decide = %+v, want %+v", d, want)
	}
	all["a"] = Balance{Count: 9, Share: 9} // when these were summed up; there is room by now
	if d = Decide(known, all, requests[1:2], first); len(d.Taken) != 1 {
		t.Errorf("Decide = %+v, and what is known has room", d)
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		shards []Balance
		limit  int64
		want   []int64
	}{
		{"raised evenly", []Balance{{Share: 1}, {Share: 1}}, 5, []int64{2, 1}},
		{"as it is", []Balance{{Count: 1, Share: 1}}, 1, []int64{0}},
		{"lowered evenly", []Balance{{Share: 5}, {Share: 5}}, 7, []int64{-2, -1}},
		{"what one can't give, others do", []Balance{{Count: 4, Share: 5}, {Share: 5}, {Count: 5, Share: 5}}, 10, []int64{-1, -4, 0}},
		{"all that is free", []Balance{{Count: 4, Share: 5}, {Share: 5}}, 4, []int64{-1, -5}},
		{"more is taken", []Balance{{Count: 4, Share: 5}, {Share: 5}}, 3, nil},
		{"no shards", nil, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, ok := ShareChanges(test.shards, test.limit)
			if !slices.Equal(got, test.want) || ok != (test.want != nil) {
				t.Errorf("Limit = %v, %t, want %v", got, ok, test.want)
			}
		})
	}
}

var held = rapid.Custom(func(t *rapid.T) Balance {
	share := rapid.Int64Range(0, 6).Draw(t, "share")
	count := rapid.Int64Range(0, share).Draw(t, "count")
	members := rapid.Int64Range(0, count).Draw(t, "members")
	return Balance{Count: count, Members: members, Holds: rapid.Int64Range(0, count-members).Draw(t, "holds"), Share: share}
})

// asked is a request of some of the places 0, 1 and 2.
var asked = rapid.Custom(func(t *rapid.T) Request[int] {
	r := Request[int]{}
	for range rapid.IntRange(1, 3).Draw(t, "places") {
		member := rapid.Bool().Draw(t, "member")
		by := rapid.Int64Range(-4, 4).Filter(func(n int64) bool { return n != 0 }).Draw(t, "by")
		place := rapid.IntRange(0, 2).Draw(t, "place")
		if r[place] = By(by, member, false); rapid.IntRange(0, 2).Draw(t, "hold") == 0 {
			r[place] = By(max(by, -by), false, true)
		}
	}
	return r
})

// Whatever is decided and then committed, no shard counts more than its share or less than nothing, shares
// stay as they are, and the counts grow by what was taken. What is refused had no room; what isn't is
// counted after a few looks.
func TestDecideProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		known := map[int][]Balance{}
		for place := range 3 {
			known[place] = rapid.SliceOfN(held, 1, 4).Draw(t, "shards")
		}
		requests := rapid.SliceOfN(asked, 1, 6).Draw(t, "requests")
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") }
		for len(requests) > 0 {
			looked := rapid.Bool().Draw(t, "looked")
			d := Decide(known, sums(known, looked), requests, pick)
			if d.Look {
				if looked || len(d.Taken)+len(d.Refused)+len(d.Plan) > 0 {
					t.Fatalf("after a look: %+v", d)
				}
				looked = true
				d = Decide(known, sums(known, looked), requests, pick)
			}
			if len(d.Taken)+len(d.Refused) == 0 {
				t.Fatalf("nothing is decided: %+v", d)
			}
			takes := map[int]bool{}
			for _, i := range d.Taken {
				for place, ask := range requests[i] {
					if before, is := takes[place]; is && before != (ask.Count > 0) {
						t.Fatalf("a commit takes and gives back: %v of %v", d.Taken, requests)
					}
					takes[place] = ask.Count > 0
				}
			}
			want := map[int]Balance{}
			for place, shards := range known {
				want[place] = Sum(shards...)
			}
			for _, i := range d.Refused {
				room := true
				for place, ask := range requests[i] {
					room = room && want[place].Fits(ask)
				}
				if room {
					t.Fatalf("%v is refused, and there is room: %v", requests[i], known)
				}
			}
			for _, i := range d.Taken {
				for place, ask := range requests[i] {
					want[place] = want[place].Plus(ask)
				}
			}
			for place, changes := range d.Plan {
				seen := map[int]bool{}
				for _, c := range changes {
					if seen[c.Shard] {
						t.Fatalf("a shard is changed twice: %v", changes)
					}
					seen[c.Shard] = true
					known[place][c.Shard] = known[place][c.Shard].Plus(c.By)
				}
				left := map[int]Balance{}
				for n, i := range d.Taken {
					var all Balance
					for _, c := range d.Parts[place][n] {
						all, left[c.Shard] = all.Plus(c.By), left[c.Shard].Plus(c.By)
					}
					if all != requests[i][place] {
						t.Fatalf("%+v has %+v", requests[i][place], d.Parts[place][n])
					}
				}
				for _, c := range changes {
					if left[c.Shard] != c.By {
						t.Fatalf("requests have %v, and a commit does %v", left, changes)
					}
				}
			}
			for place, shards := range known {
				for _, s := range shards {
					if !s.Valid() {
						t.Fatalf("a shard holds %+v", s)
					}
				}
				if got := Sum(shards...); got != want[place] {
					t.Fatalf("shards hold %+v, want %+v", got, want[place])
				}
			}
			if n := len(d.Taken) + len(d.Refused) + len(d.Waiting); n != len(requests) {
				t.Fatalf("of %d requests %d are decided: %+v", len(requests), n, d)
			}
			var left []Request[int]
			for _, i := range d.Waiting {
				left = append(left, requests[i])
			}
			requests = left
		}
	})
}

// The shares add up to the new limit, whatever it is, and no shard counts more than its share. A limit
// that is refused is less than what is taken.
func TestLimitProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.SliceOfN(held, 1, 6).Draw(t, "shards")
		limit := rapid.Int64Range(0, 40).Draw(t, "limit")
		shares, ok := ShareChanges(shards, limit)
		if taken := Sum(shards...).Count; ok != (limit >= taken) {
			t.Fatalf("a limit of %d is taken: %t; %d is", limit, ok, taken)
		}
		if !ok {
			return
		}
		for i := range shards {
			if shards[i].Share += shares[i]; !shards[i].Valid() {
				t.Fatalf("a shard holds %+v", shards[i])
			}
		}
		if got := Sum(shards...).Share; got != limit {
			t.Fatalf("the shares are %d together, want %d", got, limit)
		}
	})
}

// The largest limit that there is may become any other.
func TestTheLargestLimitIsLowered(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{0, 1, 8, math.MaxInt64 - 1} {
		var shards []Balance
		for _, share := range Even(math.MaxInt64, 10) {
			shards = append(shards, Balance{Share: share})
		}
		less, _ := ShareChanges(shards, limit)
		var shares int64
		for i := range shards {
			if shards[i].Share += less[i]; less[i] > 0 || !shards[i].Valid() {
				t.Errorf("limit %d: a shard holds %+v", limit, shards[i])
			}
			shares += shards[i].Share
		}
		if shares != limit {
			t.Errorf("the shares are %d together, want %d", shares, limit)
		}
	}
}

// Parts differ by 1, add up, and grow with what is split: so shards that are made for what is taken and
// for a limit have room for it.
func TestEvenProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.IntRange(1, 9).Draw(t, "parts")
		n := rapid.Int64Range(0, math.MaxInt64).Draw(t, "n")
		less := Even(rapid.Int64Range(0, n).Draw(t, "less"), parts)
		var sum int64
		for i, part := range Even(n, parts) {
			if sum += part; less[i] > part || part < n/int64(parts) || part-n/int64(parts) > 1 {
				t.Fatalf("part %d of %d is %d, and of less %d", i, n, part, less[i])
			}
		}
		if sum != n {
			t.Fatalf("parts of %d are %d", n, sum)
		}
	})
}
