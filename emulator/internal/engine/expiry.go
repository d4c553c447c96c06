package engine

import (
	"context"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator/internal/document"
	"github.com/firestore-counters/counters/emulator/internal/versions"
)

// expiryBatch is how many expired documents one commit deletes: it holds the database's lock, while
// others commit.
const expiryBatch = 500

// sweepUntilClosed deletes what has expired, every now and then.
func (e *Engine) sweepUntilClosed() {
	ticker := time.NewTicker(e.opts.SweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			e.Sweep()
		case <-e.done:
			return
		}
	}
}

// Sweep deletes the documents that have expired, and returns how many. It is what a TTL policy
// does: a commit like any other, which listeners and functions of OnCommit see. What a transaction
// holds is left for the next time.
func (e *Engine) Sweep() (deleted int) {
	e.mu.RLock()
	all := make([]*database, 0, len(e.databases))
	for _, db := range e.databases {
		all = append(all, db)
	}
	e.mu.RUnlock()
	for _, db := range all {
		for group, field := range e.opts.TTL {
			path := document.Path{field}
			expired := db.expired(group, path)
			for len(expired) > 0 {
				n := min(expiryBatch, len(expired))
				if e.feed.room(context.Background(), e) != nil {
					return deleted // closed
				}
				deleted += db.deleteExpired(expired[:n], path)
				expired = expired[n:]
			}
		}
	}
	return deleted
}

func isExpired(doc *pb.Document, path document.Path, now int64) bool {
	t := document.Lookup(doc.GetFields(), path).GetTimestampValue()
	return t != nil && micros(t) <= now
}

// expired are the documents of a collection group that look expired.
func (db *database) expired(group string, path document.Path) []*versions.Node {
	db.mu.Lock()
	var lists [][]*versions.Node
	for _, part := range db.Group(group).Parts() {
		for _, c := range part {
			lists = append(lists, c.Nodes().Parts()...)
		}
	}
	db.mu.Unlock()
	now := db.engine.now()
	var out []*versions.Node
	for _, nodes := range lists {
		for _, n := range nodes {
			if isExpired(n.Current(), path, now) {
				out = append(out, n)
			}
		}
	}
	return out
}

// deleteExpired deletes in one commit those that are expired still.
func (db *database) deleteExpired(nodes []*versions.Node, path document.Path) int {
	db.mu.Lock()
	defer db.mu.Unlock()
	s := staging{db: db, time: db.commitTime(0)}
	now := db.engine.now()
	for _, n := range nodes {
		doc := n.Current()
		if n.Gone || !isExpired(doc, path, now) || db.locks.Wanted(db.writeWants([]string{n.Name})) {
			continue
		}
		s.docs = append(s.docs, staged{name: n.Name, node: n, before: doc})
	}
	s.publish()
	db.engine.stats.expired.Add(int64(len(s.docs)))
	db.engine.stats.deletes.Add(int64(len(s.docs)))
	return len(s.docs)
}
