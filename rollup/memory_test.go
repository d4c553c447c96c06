package rollup

import (
	"sync"
	"testing"

	lru "github.com/hashicorp/golang-lru/v2"
)

// No two refreshes of one counter have the same memory, however their takes and keeps interleave.
func TestNoTwoRefreshesShareAMemory(t *testing.T) {
	t.Parallel()
	known, err := lru.New[string, *memory](remembered)
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{memories: known}
	var taken sync.Map // :: *memory → it is taken
	var refreshes sync.WaitGroup
	for range 8 {
		refreshes.Go(func() {
			for range 20_000 {
				m := c.take("c")
				if _, shared := taken.LoadOrStore(m, true); shared {
					t.Error("two refreshes have one memory")
					return
				}
				taken.Delete(m)
				c.memories.Add("c", m)
			}
		})
	}
	refreshes.Wait()
}
