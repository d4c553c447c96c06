package rollup

import (
	"context"
	"errors"
	"fmt"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/store"
)

// read reads a counter's book. If there is no ledger it makes one, provided that there is a document, a
// shard, or an event of a collection that holds something. Deletions alone make none: Google's tools
// delete a counter's document first and then what is below it.
func (c *Client) read(ctx context.Context, counter string, adopts, counts bool) (*book.Book, error) {
	return c.books.Read(ctx, counter, func(k *book.Book) (bool, error) {
		if !adopts {
			return false, nil
		}
		if k.Missing() && !counts {
			// Late events of a deleted counter come here. They look without a transaction, which would
			// wait for the locks of a killed process, for up to a minute.
			shards, err := c.db.Documents(ctx, store.Query{Collection: c.db.Layout.ShardsOf(counter), Limit: 1, Names: true})
			if err != nil {
				return false, fmt.Errorf("look for shards: %w", err)
			}
			if len(shards) == 0 {
				return false, nil
			}
		}
		adopted, _, err := c.adopt(ctx, counter, counts)
		return adopted, err
	})
}

// adopt makes a ledger for a counter that has none. It reports false if there is nothing to adopt, and
// what is wrong with the shards.
func (c *Client) adopt(ctx context.Context, counter string, anyway bool) (adopted bool, problem string, err error) {
	l, shards, err := c.books.Adopt(ctx, counter, anyway)
	switch {
	case errors.Is(err, book.ErrNothing):
		return false, "", nil
	case err != nil:
		return false, "", fmt.Errorf("adopt: %w", err)
	case l == nil: // another instance was faster
		return true, "", nil
	}
	for _, field := range c.db.Layout.Fields {
		total, _ := l.Total(field)
		log := c.log.With("counter", counter, "field", field.Name, "shards", len(shards), "total", total)
		if was := l.Replaced[field.Name]; was != 0 {
			log = log.With("replaced_total", was)
		}
		log.InfoContext(ctx, logAdopted)
	}
	if problem = c.problemOf(shards); problem != "" {
		c.log.WarnContext(ctx, logProblem, "counter", counter, "problem", problem)
	}
	return true, problem, nil
}
