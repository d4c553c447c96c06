package shards

import (
	"context"
	"fmt"
	"iter"

	"cloud.google.com/go/firestore"
)

// listPage is how many counters are read at a time. A query of all of them might take longer than Firestore lets one.
const listPage = 500

// List yields all counters, in the order of their ids. It ends with the first error, which is the client library's.
func (c *Client) List(ctx context.Context) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		query := c.db.Collection(c.layout.Collection).OrderBy(firestore.DocumentID, firestore.Asc).Limit(listPage)
		for page := query; ; {
			docs, err := page.Documents(ctx).GetAll()
			if err != nil {
				yield(Snapshot{}, fmt.Errorf("list counters: %w", err))
				return
			}
			for _, doc := range docs {
				if s, ok := snapshotOf(doc.Ref.ID, doc); ok && !yield(s, nil) {
					return
				}
			}
			if len(docs) < listPage {
				return
			}
			page = query.StartAfter(docs[len(docs)-1].Ref.ID)
		}
	}
}
