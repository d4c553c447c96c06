package engine

import "sync/atomic"

// Stats counts what an engine has done since it was made or ResetStats was called.
type Stats struct {
	Commits int64 // commits applied, those that changed nothing included; each write of a BatchWrite is one
	Expired int64 // documents deleted because of TTL

	// What Firestore bills. Reads: one for each document that a read or a listener gets, at least
	// one a query, one for each missing document that is asked for by name, one for every 1,000
	// index entries that an aggregation counts.
	Reads   int64
	Writes  int64
	Deletes int64
	// What its Enterprise edition bills instead of reads and writes: 4 KiB of a document that is read by name, or of
	// all that a query scans; 1 KiB of a document that is written.
	ReadUnits  int64
	WriteUnits int64

	LockWaits   int64 // requests that waited for a transaction's locks
	LockRefused int64 // of those, the ones that failed with ABORTED: the wait was too long, or went in a cycle
	HotWaits    int64 // commits that waited for a slot of a hot document
	HotRefused  int64 // commits refused, as their wait would have been too long
	OpenLocks   int   // resources locked or waited for, now
	Targets     int   // what is being listened to, now: the targets of all listeners
}

type stats struct {
	commits, expired, reads, writes, deletes     atomic.Int64
	readUnits, writeUnits                        atomic.Int64
	lockWaits, lockRefused, hotWaits, hotRefused atomic.Int64
}

// Stats reads the counters.
func (e *Engine) Stats() Stats {
	s := &e.stats
	out := Stats{
		Commits: s.commits.Load(), Expired: s.expired.Load(), Reads: s.reads.Load(), Writes: s.writes.Load(), Deletes: s.deletes.Load(),
		ReadUnits: s.readUnits.Load(), WriteUnits: s.writeUnits.Load(),
		LockWaits: s.lockWaits.Load(), LockRefused: s.lockRefused.Load(),
		HotWaits: s.hotWaits.Load(), HotRefused: s.hotRefused.Load(),
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, db := range e.databases {
		db.mu.RLock()
		out.OpenLocks += db.locks.Len()
		out.Targets += db.listeners.count
		db.mu.RUnlock()
	}
	return out
}

// ResetStats sets the counters to zero.
func (e *Engine) ResetStats() {
	s := &e.stats
	for _, c := range []*atomic.Int64{&s.commits, &s.expired, &s.reads, &s.writes, &s.deletes, &s.readUnits, &s.writeUnits, &s.lockWaits, &s.lockRefused, &s.hotWaits, &s.hotRefused} {
		c.Store(0)
	}
}

// What a unit of the Enterprise edition is, in bytes.
const readUnit, writeUnit = 4 << 10, 1 << 10

func units(bytes, each int) int64 { return int64(max(1, (bytes+each-1)/each)) }

func (s *stats) billWrites(ops []operation) {
	writes, deletes := 0, 0
	for i := range ops {
		switch {
		case ops[i].remove:
			deletes++
		case !ops[i].verify:
			writes++
		}
	}
	s.commits.Add(1)
	s.deletes.Add(int64(deletes))
	s.writes.Add(int64(writes))
}
