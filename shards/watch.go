package shards

import (
	"context"
	"fmt"
	"iter"
)

// Watch yields the counter as it is, and again with every change of its document, as long as ctx and the loop last.
// Changes that follow each other quickly may come as one. It ends with an error: [ErrNotFound] when there is no such
// counter any more, or the client library's; when ctx ends it just ends.
func (c Counter) Watch(ctx context.Context) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		for doc, err := range c.client.db.Watch(ctx, c.client.db.Counter(c.id)) {
			s, ok := Snapshot{}, false
			if err == nil {
				if s, ok = snapshotOf(c.id, doc); !ok {
					err = ErrNotFound
				}
			}
			if err != nil {
				yield(Snapshot{}, fmt.Errorf("watch counter %q: %w", c.id, err))
				return
			}
			if !yield(s, nil) {
				return
			}
		}
	}
}
