package simulation

import (
	"maps"
	"slices"
)

// Clicked is a user clicking in a page: its calls have that intent, and nothing it asks for is
// lost.
type Clicked struct {
	Intent int
	Adds   []Add
}

// Wished is a member who asks for a change in a page. What was asked for last holds in the end.
type Wished struct {
	Counter, Member string
	Joined          bool
}

// Answered says that all that was asked for in pages has had the time that it takes.
type Answered struct{}

// answered checks that nothing clicked was lost, once it has had its time.
func (c *checker) answered() {
	for _, i := range c.clicks {
		if !i.applied {
			c.fail("a click for %v is in no commit", i.adds)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.counters)) {
		k := c.counters[id]
		for _, member := range slices.Sorted(maps.Keys(k.wishes)) {
			if is := k.members[member] != nil; is != k.wishes[member] {
				c.fail("%q/%s is a member: %v, and its last click says %v", id, member, is, k.wishes[member])
			}
		}
	}
}
