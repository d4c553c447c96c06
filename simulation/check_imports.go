package simulation

import (
	"slices"
	"time"
)

// imports are what is known of a counter's source, and of what was imported from it.
type imports struct {
	docs  map[Doc]*Document // of the source: its document, where that isn't the counter's own, and its shards
	value int64             // that they hold together
	held  []held            // what that was, oldest first
	taken int64             // by the commit that is looked at, in place
	takes bool              // one of its shards was written by that commit, in place

	done   []brought
	asked  int // imports
	failed int // of these
	bases  int // commands that were asked for and may change the base
}

// held is what a source held from a time on, in microseconds.
type held struct{ at, value int64 }

// brought is what a commit has imported.
type brought struct {
	value, added int64
	told         bool // to one of the callers
}

// oldDoc takes a change of a document of another kind of counter into what is known, and reports whether it was one.
func (c *checker) oldDoc(ch Change) bool {
	switch ch.Doc.Kind {
	case "extension":
		c.extension = c.now
		return true
	case "source", "source shard":
	default:
		return false
	}
	k := c.counter(ch.Doc.Counter)
	var was, is int64
	if before := k.source.docs[ch.Doc]; before != nil {
		was = before.Count
	}
	if k.source.docs[ch.Doc] = ch.After; ch.After != nil {
		is = ch.After.Count
	}
	k.source.value += is - was
	if less := was - is; c.inPlace && less > 0 {
		k.source.taken, k.source.takes = k.source.taken+less, true
		if is < 0 || Named(ch.Doc.Counter) && was&less != less {
			c.fail("%d is taken off a shard of the extension's that holds %d of %q", less, was, ch.Doc.Counter)
		}
	}
	return true
}

// oldDocs takes a commit's changes of such documents into what is known, and returns the others.
func (c *checker) oldDocs(e Commit) (others []Change) {
	of := map[*counter]string{}
	ledgers := map[string]bool{}
	for _, ch := range e.Changes {
		switch {
		case !c.oldDoc(ch):
			ledgers[ch.Doc.Counter] = ledgers[ch.Doc.Counter] || ch.Doc.Kind == "ledger"
			others = append(others, ch)
		case ch.Doc.Kind != "extension":
			of[c.counter(ch.Doc.Counter)] = ch.Doc.Counter
		}
	}
	for k, id := range of {
		k.source.held = append(k.source.held, held{at: e.At.UnixMicro(), value: k.source.value})
		if k.source.takes && !ledgers[id] {
			c.fail("a commit takes %d off the extension's shards of %q, and imports nothing", k.source.taken, id)
		}
	}
	return others
}

// based checks what a commit did to the base of a counter, and to what its ledger says was imported. was and before are the
// ledger and the counter's document as they were.
func (c *checker) based(id string, k *counter, d deed, was, before *Document, revived bool) {
	taken, takes := k.source.taken, k.source.takes
	k.source.taken, k.source.takes = 0, false
	is := k.ledger
	switch {
	case is == nil || is == was || is.Lacks:
		return
	case was == nil || was.LedgerID != is.LedgerID:
		c.basedAnew(id, k, was, before, revived)
		return
	case was.Lacks: // it is counted from now on
		if is.Base != 0 || is.Took {
			c.fail("%q is counted from now on, with a base of %d", id, is.Base)
		}
		return
	case was.Took && !is.Took:
		c.fail("the ledger of %q forgets that %d was imported", id, was.Imported)
		return
	}
	added := is.Base - was.Base
	if is.Took == was.Took && is.Imported == was.Imported {
		if added != 0 && (k.source.bases == 0 || !d.command) {
			c.fail("the base of %q changes by %d; no command was to do that", id, added)
		}
		if takes {
			c.fail("a commit takes %d off the extension's shards of %q, and imports nothing", taken, id)
		}
		return
	}
	switch {
	case !d.command:
		c.fail("an import into %q has no id", id)
	case d.delta != 0:
		c.fail("an import into %q changes its shards by %d", id, d.delta)
	case added != is.Imported-was.Imported:
		c.fail("an import into %q adds %d to its base, and notes %d", id, added, is.Imported-was.Imported)
	case !c.inPlace && !k.source.holds(is.Imported, was.Updated):
		c.fail("an import into %q has %d of a source that held %v", id, is.Imported, k.source.since(was.Updated))
	}
	value := is.Imported
	if c.inPlace {
		value = is.sum()
		if !was.Took { // adoption has replaced what the document held
			taken += was.Replaced
			k.attempted += was.Replaced
		}
		if added != taken {
			c.fail("an import into %q takes %d off the extension's, and adds %d", id, taken, added)
		}
	}
	if k.source.done = append(k.source.done, brought{value: value, added: added}); len(k.source.done) > k.source.asked-k.source.failed {
		c.fail("%d imports into %q are applied; %d were asked for, and %d of these refused", len(k.source.done), id, k.source.asked, k.source.failed)
	}
}

// basedAnew checks a new ledger: nothing is imported, and there is no base but what the extension has left in the document of the app's.
func (c *checker) basedAnew(id string, k *counter, was, before *Document, revived bool) {
	is := k.ledger
	if is.Took {
		c.fail("the ledger of %q is new, and %d was imported", id, is.Imported)
	}
	switch {
	case is.Base == 0, was != nil && revived: // what only another revision counts is made up for
	case c.inPlace && before != nil && is.Base == before.Total:
		k.attempted += is.Base
	default:
		c.fail("the ledger of %q is new, and has a base of %d", id, is.Base)
	}
}

// holds reports whether a source held a value at some moment since a time in microseconds.
func (i *imports) holds(value, since int64) bool { return slices.Contains(i.since(since), value) }

// since are the values that a source held since a time.
func (i *imports) since(at int64) []int64 {
	values := []int64{0}
	for _, h := range i.held {
		if h.at <= at {
			values[0] = h.value
		} else {
			values = append(values, h.value)
		}
	}
	return values
}

// asks is the begin of an import.
func (i *imports) asks(k *call, l *Document, extension time.Time) {
	i.asked++
	k.imported, k.extension = len(i.done), extension
	if l != nil {
		k.ledger = *l
	}
}

// endImport checks what the caller of an import was told.
func (c *checker) endImport(k *call, e End) {
	n := c.counter(k.Counter)
	switch e.Outcome {
	case OK:
		if c.inPlace && c.now.Sub(k.extension) < oldUninstall {
			c.fail("an import into %q was acknowledged, and the extension has last run %v ago", k.Counter, c.now.Sub(k.extension))
		}
		for at := k.imported; at < len(n.source.done); at++ {
			if b := &n.source.done[at]; !b.told && b.value == e.Value && b.added == e.Added {
				b.told = true
				n.acked += e.Added
				return
			}
		}
		if e.Added != 0 {
			c.fail("an import of %d into %q was acknowledged, with %d more than before: no commit has that, of %v", e.Value, k.Counter, e.Added, n.source.done[k.imported:])
		}
		imported := func(b brought) bool { return b.value == e.Value }
		if !c.inPlace && e.Value != k.ledger.Imported && !slices.ContainsFunc(n.source.done[k.imported:], imported) {
			c.fail("an import into %q found all of %d there, which it had %d of", k.Counter, e.Value, k.ledger.Imported)
		}
	case Refused:
		if l := c.own(n); l == nil || l.LedgerID != k.ledger.LedgerID {
			return // of a counter that is gone
		}
		if n.source.failed++; len(n.source.done) > n.source.asked-n.source.failed {
			c.fail("an import into %q was refused (%s), and is applied", k.Counter, e.Detail)
		}
	}
}

func newImports() imports { return imports{docs: map[Doc]*Document{}} }
