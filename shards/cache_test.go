package shards

import (
	"testing"
	"time"
)

// Of two reads that ended in the other order, the one that began later stays.
func TestCacheKeepsTheLaterRead(t *testing.T) {
	t.Parallel()
	c := newCache()
	began := time.Now()
	c.put(Snapshot{Counter: "a", Total: 2}, began)
	c.put(Snapshot{Counter: "a", Total: 1}, began.Add(-time.Millisecond))
	if s, ok := c.within(time.Hour, "a"); !ok || s.Total != 2 {
		t.Errorf("%+v, %v; want a total of 2", s, ok)
	}
}
