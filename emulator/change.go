package emulator

import (
	"context"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator/internal/engine"
)

// Change is one document's change by one commit. The documents must not be changed.
type Change struct {
	Name       string                // full resource name: projects/{p}/databases/{d}/documents/…
	Old, New   *firestorepb.Document // nil where there is none
	UpdateMask []string              // for an update, the paths of the fields that differ, sorted
	CommitTime time.Time             // in UTC
}

// OnCommit calls f for every commit that changed something, with all of its changes, soon after the
// commit and outside of any lock. It calls f for one commit after the other, in their order within a
// database. f must be quick: when it falls 10,000 changes behind, commits wait. It must not commit
// or close the server. After cancel no further call begins.
func (s *Server) OnCommit(f func([]Change)) (cancel func()) {
	return s.engine.OnCommit(func(changes []engine.Change) {
		out := make([]Change, len(changes))
		for i, c := range changes {
			out[i] = Change(c)
		}
		f(out)
	})
}

// WaitForChanges returns when the functions of OnCommit and OnChange have seen every commit that was
// answered so far. If the context ends or the server is closed before, it returns an error.
func (s *Server) WaitForChanges(ctx context.Context) error { return s.engine.WaitForChanges(ctx) }

// OnChange is OnCommit for functions that look at one document at a time.
func (s *Server) OnChange(f func(Change)) (cancel func()) {
	return s.engine.OnCommit(func(changes []engine.Change) {
		for _, c := range changes {
			f(Change(c))
		}
	})
}
