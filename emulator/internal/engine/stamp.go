package engine

import (
	"context"
	"time"
)

// A server timestamp is a commit's time in whole milliseconds. Two commits that stamp one document
// are a millisecond apart at least, so that the stamps tell them apart: the second waits for the
// next one.

// nextStamp is the first time, in microseconds, at which the documents that a commit stamps can be
// stamped again. The caller holds the lock.
func (db *database) nextStamp(ops []operation) int64 {
	next := int64(0)
	for i := range ops {
		if !ops[i].stamps {
			continue
		}
		if doc := db.Nodes[ops[i].name].Current(); doc != nil {
			next = max(next, micros(doc.UpdateTime)/1000*1000+1000)
		}
	}
	return next
}

// waitForStamp waits for that time, rather than let commits run ahead of the clock. What comes
// meanwhile, and clocks that stand still, are left to commitTime.
func (db *database) waitForStamp(ctx context.Context, ops []operation) error {
	stamps := false
	for i := range ops {
		stamps = stamps || ops[i].stamps
	}
	if !stamps {
		return nil
	}
	db.mu.RLock()
	next := db.nextStamp(ops)
	db.mu.RUnlock()
	wait := time.Duration(next-db.engine.now()) * time.Microsecond
	return db.engine.sleep(ctx, min(wait, time.Millisecond))
}
