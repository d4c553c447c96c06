package shards

import (
	"context"
	"fmt"
	"iter"
	"path"

	"github.com/firestore-counters/counters/internal/store"
)

// listPage is how many counters are read at a time. A query of all of them might take longer than Firestore lets one.
const listPage = 500

// List yields all counters, in the order of their ids. It ends with the first error, which is the client library's.
func (c *Client) List(ctx context.Context) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		for q := (store.Query{Collection: c.db.Counters(), Limit: listPage}); ; {
			docs, err := c.db.Documents(ctx, q)
			if err != nil {
				yield(Snapshot{}, fmt.Errorf("list counters: %w", err))
				return
			}
			for _, doc := range docs {
				if s, ok := snapshotOf(path.Base(doc.GetName()), doc); ok && !yield(s, nil) {
					return
				}
			}
			if len(docs) < listPage {
				return
			}
			q.After = docs[len(docs)-1].GetName()
		}
	}
}
