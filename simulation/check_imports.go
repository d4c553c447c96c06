package simulation

import (
	"slices"
)

// imports are what is known of a counter's source.
type imports struct {
	docs  map[Doc]*Document // its document, where that isn't the counter's own, and its shards
	value int64             // that they hold together
	held  []valued          // what that was, oldest first
	taken int64             // by the commit that is looked at, in place
	takes bool              // one of its shards was written by that commit, in place
	most  int64             // what that took off one of them, at most

	// of what is taken over live
	events  map[event]click // that nobody has acknowledged yet
	takenAt map[Doc]int64   // :: shard → when something was taken off it last, in microseconds of Firestore's
	debts   []event         // that were acknowledged for a note
	untold  bool            // what waits may be known to nobody
	acked   int64           // that clients have added
	told    int64           // of the same, and of what the document held, by imports
}

// valued is what a source held from a time on, in microseconds.
type valued struct{ at, value int64 }

func newImports() imports { return imports{docs: map[Doc]*Document{}, takenAt: map[Doc]int64{}} }

// oldDoc takes a change of a document of another kind of counter into what is known, and reports
// whether it was one.
func (c *checker) oldDoc(ch Change, at int64) bool {
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
		k.source.taken, k.source.takes, k.source.most = k.source.taken+less, true, max(k.source.most, less)
		k.source.takenAt[ch.Doc] = at
		if is < 0 || Named(ch.Doc.Counter) && was&less != less {
			c.fail("%d is taken off a shard of the extension's that holds %d of %q", less, was, ch.Doc.Counter)
		}
	}
	if c.live && ch.Doc.Kind == "source shard" {
		k.clicked(event{ch.Doc, at}, is)
	}
	return true
}

// oldDocs takes a commit's changes of such documents into what is known, and returns the others.
func (c *checker) oldDocs(e Commit) (others []Change) {
	of := map[*counter]string{}
	bases := map[string]bool{}
	for _, ch := range e.Changes {
		switch {
		case !c.oldDoc(ch, e.At.UnixMicro()):
			bases[ch.Doc.Counter] = bases[ch.Doc.Counter] || ch.Doc.Kind == "base"
			others = append(others, ch)
		case ch.Doc.Kind != "extension":
			of[c.counter(ch.Doc.Counter)] = ch.Doc.Counter
		}
	}
	for k, id := range of {
		k.source.held = append(k.source.held, valued{at: e.At.UnixMicro(), value: k.source.value})
		if k.source.takes && !bases[id] {
			c.fail("a commit takes %d off the extension's shards of %q, and imports nothing", k.source.taken, id)
		}
	}
	return others
}

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
	if n.commands.tell(func(a *applied) bool {
		return a.entry > k.entry && a.imports && (c.inPlace || a.value == e.Value) && a.added == e.Added
	}) {
		n.acked += e.Added
		n.source.told += e.Added
		return
	}
	if e.Added != 0 {
		c.fail("an import of %d into %q was acknowledged, with %d more than before: no commit has that", e.Value, k.Counter, e.Added)
	}
	had := func(b *beyond) bool {
		for g := range b.guesses {
			if g.imported == e.Value {
				return true
			}
		}
		return false
	}
	if !c.inPlace && !slices.ContainsFunc(n.series[k.from:], func(p point) bool { return had(p.beyond) }) {
		c.fail("an import into %q found all of %d there, which it never had", k.Counter, e.Value)
	}
}
