package book

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// ErrMany says that a counter has had too many commands lately. A command's id takes room in the ledger
// for [ledger.InDoubt]. It is a [store.ErrContention].
var ErrMany = fmt.Errorf("%w: %d commands within %v", store.ErrContention, ledger.MaxOps, ledger.InDoubt)

// A command goes on for about fifteen seconds, and is in doubt for commandTimeout at most: far less
// than [ledger.InDoubt], after which its id may be gone.
var commandPatience = store.Patience{Conflicts: 20, Doubts: 20}

const commandTimeout = ledger.InDoubt / 3

// Command carries out once what must not be applied twice, such as a reset. It is one commit, on
// condition that the ledger is as it was read, and it leaves an id in the ledger. If the commit's
// answer is lost, the id tells whether it was applied.
//
// decide may be called several times, and reports false if there is nothing to do. A counter without a
// ledger gets one. Errors are decide's, [ErrNotFound], [ErrMany], [store.ErrContention],
// [store.ErrDoubt], [ErrLedgerFull], or the client library's.
func (b Books) Command(ctx context.Context, counter string, decide func(context.Context, *Book) (do bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	tried := map[string]*Book{} // by the id of the attempt
	var last *Book
	var life time.Time // of the ledger that the command is about
	_, err := b.update(ctx, commandPatience, func(ctx context.Context) (*Book, error) {
		k, err := b.readExisting(ctx, counter)
		if err != nil {
			return nil, err
		}
		for id, book := range tried { // also where the counter is gone, or being deleted, by now
			if _, applied := k.Ledger.Ops[id]; applied {
				last = book
				return nil, nil
			}
		}
		if k.Doc == nil || k.Deleting() || !life.IsZero() && !k.Ledger.Created.Equal(life) {
			// gone, or another was made, which a late command leaves alone
			return nil, ErrNotFound
		}
		life = k.Ledger.Created
		past := pastDoubt(k.Ledger, k.At)
		if len(k.Ledger.Ops)-len(past) >= ledger.MaxOps {
			return nil, ErrMany
		}
		last = nil
		if do, err := decide(ctx, k); err != nil || !do {
			return nil, err
		}
		id := rand.Text()
		last, tried[id] = k, k
		k.removed = append(k.removed, past...)
		k.transforms = append(k.transforms, store.ServerTime(layout.FieldPath(LedgerOps, id)))
		return k, nil
	})
	if err == nil && last != nil && last.Applied != nil {
		last.Applied()
	}
	return err
}

// readExisting reads the book of a counter that is there, and makes its ledger if there is none.
func (b Books) readExisting(ctx context.Context, counter string) (*Book, error) {
	k, err := b.Read(ctx, counter, func(k *Book) (bool, error) {
		if k.Doc == nil || k.Deleting() {
			return false, nil
		}
		if _, _, err := b.Adopt(ctx, counter, false); err != nil && !errors.Is(err, ErrNothing) {
			return false, err
		}
		return true, nil // or else it is gone by now, or being deleted
	})
	if k.Ledger == nil {
		k.Ledger = &ledger.Ledger{}
	}
	return k, err
}

// pastDoubt are the paths of ids that are no longer in doubt at a time of Firestore's.
func pastDoubt(l *ledger.Ledger, now time.Time) (paths []string) {
	for id, at := range l.Ops {
		if now.Sub(at) > ledger.InDoubt {
			paths = append(paths, layout.FieldPath(LedgerOps, id))
		}
	}
	return paths
}
