package simulation

import (
	"maps"
	"slices"
)

// imports are what is known of a counter's source.
type imports struct {
	docs  map[Doc]*Document // its document, where that isn't the counter's own, and its shards
	value int64             // that they hold together
	held  []held            // what that was, oldest first
	taken int64             // by the commit that is looked at, in place
	takes bool              // one of its shards was written by that commit, in place
}

// held is what a source held from a time on, in microseconds.
type held struct{ at, value int64 }

func newImports() imports { return imports{docs: map[Doc]*Document{}} }

// oldDoc takes a change of a document of another kind of counter into what is known, and reports
// whether it was one.
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

// based checks what a commit did to the base of a counter, and to what its ledger says was
// imported. was and before are the ledger and the counter's document as they were. a is the command
// that the commit is of, if it is of one; started says that it makes the counter from a number.
func (c *checker) based(id string, k *counter, d deed, was, before *Document, a *applied, started bool) {
	taken, takes := k.source.taken, k.source.takes
	k.source.taken, k.source.takes = 0, false
	is := k.ledger
	switch {
	case is == nil || is == was:
		return
	}
	if had := was != nil && was.Replaced == is.Replaced; is.Replaced != 0 && !had && !k.showed(is.Replaced, was) {
		c.fail("the ledger of %q says that a total of %d was replaced, which it never was", id, is.Replaced)
	}
	switch {
	case was == nil:
		c.basedAnew(id, k, before, started)
		return
	case was.Took && !is.Took:
		c.fail("the ledger of %q forgets that %d was imported", id, was.Imported)
		return
	}
	added := is.Base - was.Base
	if is.Took == was.Took && is.Imported == was.Imported {
		// beyond an int64 it depends on what came first
		may := func(w wide) bool { return w.int64() == is.Base || w != wideOf(w.int64()) }
		switch bases := slices.Collect(maps.Keys(k.bases(was, is))); {
		case slices.ContainsFunc(bases, may), started:
		case k.commands.bases == 0 || a == nil:
			c.fail("the base of %q changes by %d; no command was to do that, nor fields that are no numbers any more", id, added)
		default:
			c.rebased(id, k)
		}
		if takes {
			c.fail("a commit takes %d off the extension's shards of %q, and imports nothing", taken, id)
		}
		return
	}
	if noted := is.Imported - was.Imported; wideOf(was.Base).and(wideOf(noted)).int64() == is.Base {
		added = noted // or as much of it as an int64 takes
	}
	switch {
	case a == nil:
		c.fail("an import into %q has no id", id)
		return
	case d.delta != 0:
		c.fail("an import into %q changes its shards by %d", id, d.delta)
	case added != is.Imported-was.Imported:
		c.fail("an import into %q adds %d to its base, and notes %d", id, added, is.Imported-was.Imported)
	case !c.inPlace && !k.source.holds(is.Imported, was.Updated):
		c.fail("an import into %q has %d of a source that held %v", id, is.Imported, k.source.since(was.Updated))
	}
	a.imports, a.value, a.added = true, is.Imported, added
	if c.inPlace {
		a.value = is.sum()
		if !was.Took { // the total has replaced what the document held
			taken += is.Replaced
			k.attempted += is.Replaced
		}
		if added != taken {
			c.fail("an import into %q takes %d off the extension's, and adds %d", id, taken, added)
		}
	}
}

// showed reports whether the counter's document has held a total since its ledger was as given
// before.
func (k *counter) showed(total int64, was *Document) bool {
	for _, p := range slices.Backward(k.series) {
		if p.total == total {
			return true
		}
		if was != nil && p.at.UnixMicro() < was.Updated {
			break
		}
	}
	return false
}

// basedAnew checks a new ledger: nothing is imported, and there is no base but what the extension
// has left in the document of the app's.
func (c *checker) basedAnew(id string, k *counter, before *Document, started bool) {
	is := k.ledger
	if is.Took {
		c.fail("the ledger of %q is new, and %d was imported", id, is.Imported)
	}
	switch {
	case is.Base == 0, started:
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

// endImport checks what the caller of an import was told that went well.
func (c *checker) endImport(k *call, e End) {
	n := c.counter(k.Counter)
	if c.inPlace && c.now.Sub(k.extension) < oldUninstall {
		c.fail("an import into %q was acknowledged, and the extension has last run %v ago", k.Counter, c.now.Sub(k.extension))
	}
	if n.commands.tell(k.entry, func(a *applied) bool { return a.imports && a.value == e.Value && a.added == e.Added }) {
		n.acked += e.Added
		return
	}
	if e.Added != 0 {
		c.fail("an import of %d into %q was acknowledged, with %d more than before: no commit has that", e.Value, k.Counter, e.Added)
	}
	others := func(a *applied) bool { return a.entry > k.entry && a.imports && a.value == e.Value }
	if !c.inPlace && e.Value != k.imported && !slices.ContainsFunc(n.commands.applied, others) {
		c.fail("an import into %q found all of %d there, which it had %d of", k.Counter, e.Value, k.imported)
	}
}
