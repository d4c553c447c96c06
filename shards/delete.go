package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// A counter's life ends in steps, each a transaction, so that each is on condition of what it has
// read. Of more than one commit takes, members go first, page by page, each page with its -1s; then
// shards, which leave what they hold to one that stays. What one commit takes goes in one: members,
// shards, ledger and document. So wherever that stops, the sum of a field's shards is still the
// number of its members and what was counted otherwise, and whoever goes on, or makes the document
// again, finds it so.

// errBack says that a counter which was to be removed is there, or has counted something.
var errBack = errors.New("the counter is back")

// DeleteOptions are the choices in deleting a counter.
type DeleteOptions struct {
	// Progress is called after each commit, with how many documents are gone so far, members and
	// shards among them.
	Progress func(removed int)
}

// Delete deletes the counter, its members, shards and ledger, and whatever is left of one without a document. Up
// to 500 shards and members go in one commit. A larger counter is marked first, so that nobody finds it. Clients
// that have read it within Config.CacheTTL may still add to it: that is deleted, too. If the deletion is cut
// short, delete the counter again, or call [Client.Remove]. Errors: [ErrNotFound], [ErrHosted] while the app's own
// document exists, [ErrBusy], [ErrUnknown], or the client library's.
func (c Counter) Delete(ctx context.Context, opts DeleteOptions) error {
	return c.call("delete", func() error {
		return (&removal{Counter: c}).run(ctx, opts.Progress)
	})
}

// Remove removes what is left of a counter. Its document is missing, and its ledger still has the given update
// time, or an earlier deletion or removal was cut short. It reports false if the counter is back, or ctx ended
// first. Errors are those of [Counter.Delete], and [ErrInvalidID].
func (c *Client) Remove(ctx context.Context, counter string, version time.Time) (removed bool, err error) {
	of, err := c.Counter(counter)
	if err != nil {
		return false, err
	}
	err = of.call("remove what is left of", func() error {
		r := removal{Counter: of, version: &version}
		err := r.run(ctx, nil)
		removed = err == nil && !r.off || errors.Is(err, ErrNotFound)
		if removed || r.off || errors.Is(err, errBack) || r.begun != nil && ctx.Err() != nil {
			return nil // or it is large, and whoever comes next goes on
		}
		return err
	})
	return removed, err
}

// removal is the end of a counter's life, on its way.
type removal struct {
	Counter
	// of the ledger, if the document is missing; nil removes whatever there is
	version *time.Time
	fields  layout.Fields // that may have members: see learn
	begun   *book.Life    // that is being ended, once a step was sent
	off     bool          // something was counted since the last step
}

// run takes one step after another.
func (r *removal) run(ctx context.Context, progress func(removed int)) error {
	defer r.client.known.Remove(r.id)
	db := r.client.db
	return r.inSteps(ctx, progress, func(ctx context.Context, tx *store.Tx, try int) (going int, more bool, err error) {
		books, docs, err := r.client.books.Get(ctx, tx, []string{r.id}, db.Layout.EndingOf(r.id))
		if err != nil {
			return 0, false, err
		}
		shards, err := r.client.books.Shards(ctx, tx, r.id, time.Time{})
		if err != nil {
			return 0, false, err
		}
		k, last := books[0], docs[0]
		marked, ending, now := book.Deleting(db.Layout, k.Doc), k.Ending(), k.Life()
		switch {
		case r.begun != nil && !marked && r.begun.Over(now):
			// by this call, whose answer was lost, or another: what is there by now
			// is another life's
			return 0, false, nil
		case r.version != nil && !marked && (k.Doc != nil || !ending && (!k.Version().Equal(*r.version) || uncounted(k, shards))):
			return 0, false, errBack
		case r.version != nil && !marked && ending && last != nil && newer(shards, last.GetUpdateTime().AsTime()):
			// what is left has its whole time again
			k.Stay(tx)
			r.off = true
			return 0, false, nil
		case k.Doc != nil && db.Layout.Hosted:
			return 0, false, ErrHosted
		case try > 2 && k.Doc != nil && !marked: // it is being added to
			k.Mark(tx)
			more = true
		default:
			going, more, err = r.step(ctx, tx, k, shards)
		}
		switch {
		case err != nil:
			return 0, false, err
		case r.begun == nil && going == 0 && !more:
			return 0, false, ErrNotFound
		}
		r.begun = &now // it may have got a ledger since the try before, by which the next life is told from it
		return going, more, nil
	})
}

// uncounted reports whether shards hold what the ledger, which a reconcile has just found right,
// doesn't know.
func uncounted(k *book.Book, shards book.Shards) bool {
	if k.Ledger == nil {
		return false
	}
	since := k.Ledger.Merge(shards.States(), nil)
	return !since.Empty() || len(since.Full) > 0
}

// newer reports whether a shard was written after a removal's last step: one commit gives all that it
// writes one time.
func newer(shards book.Shards, last time.Time) bool {
	for _, shard := range shards {
		if shard.GetUpdateTime().AsTime().After(last) {
			return true
		}
	}
	return false
}

// step writes the next step of a removal. It tells how many documents that removes, and whether there
// is another step.
func (r *removal) step(ctx context.Context, tx *store.Tx, k *book.Book, shards book.Shards) (going int, more bool, err error) {
	db := r.client.db
	if errors.Is(k.Unusable, book.ErrOthers) {
		return 0, false, k.Unusable // its deletion would take what they have counted along
	}
	r.learn(shards, k.Ledger)
	members, err := r.someMembers(ctx, r.fields, maxWrites, time.Time{}, tx)
	if err != nil {
		return 0, false, err
	}
	large := len(members)+len(shards) >= maxWrites
	if large && k.Doc == nil && k.HasLedger() {
		// Whoever comes next goes on at once, unless something is counted in between. A ledger that says so
		// says that the document is missing.
		tx.Write(store.Update(db.Layout.EndingOf(r.id), nil, nil, nil, store.Increment("steps", 1)))
		if !k.Ending() {
			k.End(tx)
		}
	}
	switch {
	case large && k.Doc != nil && !book.Deleting(db.Layout, k.Doc):
		k.Mark(tx)
		return 0, true, nil
	case large && len(members) > 0:
		limited := shards.Limited()
		members = members[:min(len(members), max(atOnce-len(limited), 1))]
		if len(limited) > 0 || k.Limited() { // of which none is made
			tx.Write(r.giveBack(members, r.fields, limited)...)
		} else {
			tx.Write(r.takeOff(members, r.fields)...)
		}
		k.Uneven(tx)
		return len(members), true, nil
	case large:
		k.Uneven(tx)
		if going = atOnce + 1 - fold(tx, shards[:atOnce+1], false); going == 0 {
			return 0, false, fmt.Errorf("%w: %d hold about 2⁶³ each, and no fewer can; set some to 0, and delete it again", ErrInvalidShards, atOnce+1)
		}
		return going, true, nil
	}
	beside, err := tx.Documents(ctx, store.Query{Collection: path.Dir(db.Layout.LedgerOf(r.id)), Names: true})
	if err != nil {
		return 0, false, fmt.Errorf("read what is left: %w", err)
	}
	all := slices.Concat(members, shards, beside)
	if k.Doc != nil {
		all = append(all, k.Doc)
	}
	for _, d := range all {
		tx.Write(store.Delete(d.GetName()))
	}
	return len(all), false, nil
}

// learn collects fields that may have members: those shown, and, because another revision may show
// others, those in the ledger and the shards. Memberships that stayed would keep the next life's
// members from joining.
func (r *removal) learn(shards book.Shards, l *ledger.Ledger) {
	if r.fields == nil {
		r.fields = slices.Clone(r.client.db.Layout.Fields)
	}
	names := map[string]bool{}
	if l != nil { // of one that is damaged nothing is known
		for _, counts := range append(slices.Collect(maps.Values(l.States)), ledger.Entry{Counts: l.Base}) {
			for name := range counts.Counts {
				names[name] = true
			}
		}
	}
	for _, shard := range shards {
		for name, value := range shard.GetFields() {
			if _, ok := store.Integer(value); ok && layout.CountsField(name) {
				names[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !slices.ContainsFunc(r.fields, func(f layout.Field) bool { return f.Name == name }) {
			r.fields = append(r.fields, layout.Field{Name: name, Shard: name})
		}
	}
}
