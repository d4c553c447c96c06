package versions

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A list is in order and has all that is not gone, whatever is added and dropped in whichever order; what was looked at
// before stays as it was; and what is gone is less than half of it, but for a few.
func TestOrderedAgainstSlice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var o ordered[*Node]
		var live []*Node
		type look struct {
			list List[*Node]
			ids  []string
		}
		var looks []look
		ids := func(l List[*Node]) (ids []string) {
			for n, ok := End(&l, false); ok; n, ok = End(&l, false) {
				ids = append(ids, n.id)
				Cut(&l, false)
			}
			return ids
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				for range rapid.IntRange(1, 40).Draw(t, "added") {
					n := &Node{id: fmt.Sprint(rapid.IntRange(0, 1000).Draw(t, "id"))}
					if !slices.ContainsFunc(live, func(l *Node) bool { return l.id == n.id }) {
						o.add(n)
						live = append(live, n)
					}
				}
			case 2:
				for range min(len(live), rapid.IntRange(1, 40).Draw(t, "dropped")) {
					i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
					live[i].Gone = true
					o.drop()
					live = slices.Delete(live, i, i+1)
				}
			case 3:
				l := o.look()
				looks = append(looks, look{l, ids(l)})
				var want, got []string
				for _, n := range live {
					want = append(want, n.id)
				}
				slices.SortFunc(want, strings.Compare)
				for _, part := range l.Parts() {
					for _, n := range part {
						if !n.Gone {
							got = append(got, n.id)
						}
					}
				}
				slices.SortFunc(got, strings.Compare)
				if !slices.Equal(got, want) {
					t.Fatalf("%v are listed, want %v", got, want)
				}
				if all := ids(l); !slices.IsSorted(all) {
					t.Fatalf("out of order: %v", all)
				}
				least := fmt.Sprint(rapid.IntRange(0, 1000).Draw(t, "least"))
				from := l.From(func(n *Node) bool { return n.id >= least })
				until := l.Until(func(n *Node) bool { return n.id >= least })
				if both := append(ids(until), ids(from)...); !slices.Equal(both, ids(l)) {
					t.Fatalf("cut at %s: %v", least, both)
				}
				var back []string
				for n, ok := End(&l, true); ok; n, ok = End(&l, true) {
					back = append(back, n.id)
					Cut(&l, true)
				}
				slices.Reverse(back)
				if !slices.Equal(back, ids(o.look())) {
					t.Fatalf("backwards: %v", back)
				}
			}
			if n := len(o.list.main) + len(o.list.tail) + len(o.fresh); o.len() != len(live) || n > 2*len(live)+16 {
				t.Fatalf("%d are kept and %d counted of %d", n, o.len(), len(live))
			}
		}
		for _, l := range looks {
			if got := ids(l.list); !slices.Equal(got, l.ids) {
				t.Fatalf("a look has changed: %v, was %v", got, l.ids)
			}
		}
	})
}
