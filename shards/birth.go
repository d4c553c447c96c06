package shards

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// births are counters that a batch makes in the same commit that adds to them, so that one that is
// not applied has made nothing: "nothing was counted" must not leave documents that nobody asks for
// again. It is done where nothing lies below the path yet. Beside what a path has counted, a counter
// is made as [Counter.Create] does, in a commit of its own.
//
// Such a counter has no ledger. The first roll-up adopts it, from its shards as they are.
type births struct {
	now map[string]bool // the next commit makes these
	met map[string]bool // something was in the way of that, so that another look is due
}

func newBirths() *births { return &births{now: map[string]bool{}, met: map[string]bool{}} }

// found says what becomes of a batch whose markers were looked at because a document was there already: next, unless that may
// be a counter that is made meanwhile. Dropped says that some of its requests had been counted before, which explains it.
func (b *births) found(next step, dropped bool) step {
	if len(b.now) == 0 || next != sendCommit {
		return next
	}
	if !dropped {
		maps.Copy(b.met, b.now)
	}
	return pickShards
}

// unborn returns those of the counters of which there is nothing, neither a document nor shards, ledger or members. Where
// Reconcile finds counters by their ledgers only, a counter is made with one, and so there are none.
func (c *Client) unborn(ctx context.Context, counters []string) (map[string]bool, error) {
	unborn := make(map[string]bool, len(counters))
	if c.db.ByLedgers() || len(counters) == 0 {
		return unborn, nil
	}
	ledgers := make([]string, len(counters))
	for i, id := range counters {
		ledgers[i] = c.db.LedgerOf(id)
	}
	docs, at, err := c.db.Get(ctx, ledgers...)
	if err != nil {
		return nil, err
	}
	nothing := make([]bool, len(counters))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creationsAtOnce)
	for i, id := range counters {
		group.Go(func() (err error) {
			if docs[i] == nil {
				nothing[i], err = c.isBare(ctx, id, at)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, id := range counters {
		if nothing[i] {
			unborn[id] = true
		}
	}
	return unborn, nil
}

// isBare reports whether a counter has neither shards nor members.
func (c *Client) isBare(ctx context.Context, id string, at time.Time) (bool, error) {
	collections := []string{c.db.ShardsOf(id)}
	for _, field := range c.db.FieldNames() {
		collections = append(collections, c.db.MembersOf(id, field))
	}
	for _, collection := range collections {
		docs, err := c.db.Documents(ctx, store.Query{Collection: collection, Limit: 1, At: at})
		if err != nil || len(docs) > 0 {
			return false, err
		}
	}
	return true, nil
}

// expect has the next commit make counters, and picks their shards.
func (b *births) expect(counters map[string]bool, picked picks, n int) {
	for id := range counters {
		b.now[id] = true
		picked[id] = rand.IntN(n)
	}
}

// birth is the writes that make a counter whose picked shard holds what is added to it. All shards are made at once where
// that is not too much for a commit, because clients that write by themselves update shards that exist.
func (c *Client) birth(of sum, picked int, whole bool) []*firestorepb.Write {
	n := c.cfg.NumShards
	totals := map[string]*firestorepb.Value{layout.NumShards: store.Int(int64(n))}
	for _, name := range c.db.FieldNames() {
		totals[name] = store.Int(0)
	}
	writes := []*firestorepb.Write{
		store.Create(c.db.Counter(of.counter), totals, store.ServerTime(layout.CreatedAt), store.ServerTime(layout.UpdatedAt)),
		store.Check(c.db.LedgerOf(of.counter), false),
	}
	for i := range n {
		if i != picked && !whole {
			continue
		}
		holds := c.db.NoCounts()
		if i == picked {
			for _, by := range of.fields {
				holds[c.shardField(by.Field)] = store.Int(by.By)
			}
		}
		writes = append(writes, store.Create(c.db.Shard(of.counter, layout.ShardID(i)), holds))
	}
	return writes
}

// bornWhole reports whether a commit may make all shards of that many counters.
func (c *Client) bornWhole(counters int) bool { return counters*(c.cfg.NumShards+2) <= maxWrites }

// grown makes the shards that counters were made without. Where that fails, later increments make those that they need.
func (c *Client) grown(ctx context.Context, counters []string) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creationsOfOne)
	for some := range slices.Chunk(counters, max(1, maxWrites/c.cfg.NumShards)) {
		group.Go(func() error {
			return c.db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error {
				names := make([]string, len(some))
				for i, id := range some {
					names[i] = c.db.Counter(id)
				}
				docs, _, err := tx.Get(ctx, names...)
				if err != nil {
					return err
				}
				var missing []string
				for i, doc := range docs {
					if _, there := c.snapshotOf(some[i], doc); !there {
						continue // deleted since: no shard comes back
					}
					for n := range c.cfg.NumShards {
						missing = append(missing, c.db.Shard(some[i], layout.ShardID(n)))
					}
				}
				return c.createMissingShards(ctx, tx, missing)
			})
		})
	}
	if err := group.Wait(); err != nil {
		c.log.Warn("shards of new counters are made by their increments", "counters", len(counters), "error", err)
	}
}
