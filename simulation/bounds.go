package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Bounds says where a history in which nothing went wrong is slower than it may be, or writes more: a total is no older
// than lag, and a counter's document is written at most perMinute times a minute, whatever is shown in it. It is pure.
func Bounds(h History, lag time.Duration, perMinute int) []Violation {
	var violations []Violation
	c := newChecker()
	since := map[string]int{}           // :: counter → the point of its series that its total shows
	written := map[string][]time.Time{} // :: counter → when its document was written in the last minute
	for i, e := range h {
		c.at, c.now = i, e.At
		c.entry(e.What)
		commit, ok := e.What.(Commit)
		if !ok {
			continue
		}
		for _, ch := range commit.Changes {
			id := ch.Doc.Counter
			// An app's document that is made again shows its path's counts with the next refresh. No event of a shard's
			// says that there is one, so that is what the next change has to follow: whatever it showed first is the
			// app's.
			if ch.Doc.Kind == "counter" && ch.Before == nil && c.hosted != nil {
				since[id] = len(c.counter(id).series) - 1
			}
			if ch.Doc.Kind == "counter" && ch.Before != nil && ch.After != nil {
				written[id] = append(slices.DeleteFunc(written[id], func(t time.Time) bool { return e.At.Sub(t) > time.Minute }), e.At)
				if len(written[id]) > perMinute {
					violations = append(violations, Violation{Entry: i, Message: fmt.Sprintf("the document of %q was written %d times within a minute", id, len(written[id]))})
					written[id] = nil
				}
			}
		}
		for _, id := range slices.Sorted(maps.Keys(c.counters)) {
			k := c.counters[id]
			last := len(k.series) - 1
			if !k.there() || k.base == nil {
				since[id] = last
				continue
			}
			for at := last; at > since[id]; at-- { // the newest that it may be
				if p := k.series[at]; p.holds(k.doc.Total) {
					since[id] = at
				}
			}
			if next := since[id] + 1; next <= last && e.At.Sub(k.series[next].at) > lag {
				violations = append(violations, Violation{Entry: i, Message: fmt.Sprintf("the total of %q is older than %s: %s", id, lag, describe(k.series[since[id]:]))})
				since[id] = last
			}
		}
	}
	return violations
}
