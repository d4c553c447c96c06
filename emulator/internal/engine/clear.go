package engine

import (
	"strings"

	"github.com/firestore-counters/counters/emulator/internal/document"
)

// Clear deletes everything at and below a resource name: a document, a collection, or the
// database's documents as a whole. It is one commit, that listeners see and functions of OnCommit
// do not, as by the official emulator: the next test is to begin with nothing, not with the events
// of the last one's end. Open transactions end.
func (e *Engine) Clear(name string) error {
	db, err := e.databaseFor(name)
	if err != nil {
		return err
	}
	path, ok := document.Relative(db.name, name)
	if !ok {
		return invalid("%q is not a name of documents.", name)
	}
	if _, err := document.CheckIDs(name, path); err != nil {
		return err
	}
	db.clear(name)
	return nil
}

// Reset clears all databases.
func (e *Engine) Reset() {
	e.mu.RLock()
	all := make([]*database, 0, len(e.databases))
	for _, db := range e.databases {
		all = append(all, db)
	}
	e.mu.RUnlock()
	for _, db := range all {
		db.clear(db.root)
	}
}

func (db *database) clear(name string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, tx := range db.transactions.open {
		db.abort(tx)
		db.locks.Refuse(&tx.Owner, errTransactionAborted())
		db.locks.Release(&tx.Owner)
	}
	s := staging{db: db, time: db.commitTime(0), silent: true}
	for _, n := range db.Nodes {
		doc := n.Current()
		if doc != nil && (n.Name == name || strings.HasPrefix(n.Name, name+"/")) {
			s.docs = append(s.docs, staged{name: n.Name, node: n, before: doc})
		}
	}
	s.publish()
}
