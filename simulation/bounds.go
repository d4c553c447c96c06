package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Bounds says where a history in which nothing went wrong is slower than it may be, or writes more:
// a shard's state is counted within lag, and a counter's document is written at most perMinute
// times a minute, whatever is shown in it. It is pure.
func Bounds(h History, lag time.Duration, perMinute int) []Violation {
	var violations []Violation
	waiting := map[Doc][]int64{}        // :: shard → update times of its states that are not counted yet, oldest first
	written := map[string][]time.Time{} // :: counter → when its document was written in the last minute
	there := map[string]bool{}          // :: counter
	fail := func(i int, format string, args ...any) {
		violations = append(violations, Violation{Entry: i, Message: fmt.Sprintf(format, args...)})
	}
	for i, e := range h {
		for shard, times := range waiting {
			if late := e.At.Sub(time.UnixMicro(times[0])); late > lag {
				fail(i, "a state of %s is not counted after %s", shard, late)
				delete(waiting, shard)
			}
		}
		c, ok := e.What.(Commit)
		if !ok {
			continue
		}
		for _, ch := range c.Changes {
			if ch.Doc.Kind != "counter" {
				continue
			}
			if there[ch.Doc.Counter] = ch.After != nil && !ch.After.Deleting; !there[ch.Doc.Counter] { // nothing of it is counted any more
				maps.DeleteFunc(waiting, func(shard Doc, _ []int64) bool { return shard.Counter == ch.Doc.Counter })
			}
		}
		for _, ch := range c.Changes {
			switch id := ch.Doc.Counter; {
			case ch.Doc.Kind == "shard" && ch.Before != nil && ch.After != nil && there[id]:
				waiting[ch.Doc] = append(waiting[ch.Doc], ch.After.Updated)
			case ch.Doc.Kind == "shard" && ch.After == nil:
				delete(waiting, ch.Doc)
			case ch.Doc.Kind == "ledger" && ch.After != nil:
				for shard, s := range ch.After.States {
					name := Doc{Kind: "shard", Counter: id, Shard: shard}
					left := slices.DeleteFunc(waiting[name], func(t int64) bool { return t <= s.AsOf })
					if waiting[name] = left; len(left) == 0 {
						delete(waiting, name)
					}
				}
			case ch.Doc.Kind == "counter" && ch.Before != nil && ch.After != nil:
				written[id] = append(slices.DeleteFunc(written[id], func(t time.Time) bool { return e.At.Sub(t) > time.Minute }), e.At)
				if len(written[id]) > perMinute {
					fail(i, "the document of %q was written %d times within a minute", id, len(written[id]))
					written[id] = nil
				}
			}
		}
	}
	return violations
}
