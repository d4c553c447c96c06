package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// CheckAnswers says what in a history breaks a promise about the fields that count documents, at
// most a handful. It is pure.
//
// The documents' own commits say what a field should be at any time. So each value that a counter shows is held against
// what the collection came to at some time, and events only have to be looked at for when a field has to have followed.
func CheckAnswers(h History) []Violation {
	c := answersChecker{definitions: map[string]CountedField{}, newest: map[string]CountedField{}, counters: map[string]*countedCounter{}, snippets: map[int]string{}, whole: map[int64]bool{}}
	for i, e := range h {
		c.at, c.now = i, e.At
		c.entry(e.What)
		if len(c.violations) >= 10 {
			break
		}
	}
	return c.violations
}

type answersChecker struct {
	at          int
	now         time.Time
	violations  []Violation
	rules       Counting
	hosted      *Hosted
	older       []string                // fields that a revision beside doesn't know, or means something else by
	fair        bool                    // nothing goes wrong
	snippets    map[int]string          // calls of snippets that are about to make a counter :: counter
	newest      map[string]CountedField // :: name
	definitions map[string]CountedField // :: key; of all revisions
	counters    map[string]*countedCounter
	whole       map[int64]bool // titles with which the app writes its document whole
}

// countedCounter is what is known of a counter and of the documents below it.
type countedCounter struct {
	doc, base   *Document
	made        int64 // when its document was made
	again       bool  // a shard was written in fair weather
	noted       bool  // what is acknowledged is counted once it is not noted any more
	collections map[string]*counted
	fields      map[string]*countedValue // :: name
}

// countedValue is a field of a counter's document.
type countedValue struct {
	writers int   // that are about to write it, and are not the system
	stale   bool  // one of them wrote it since it was last right, or made the document
	drift   bool  // that was ever so
	lost    int64 // of changes up to then, events are not to be expected
	written int64 // when one of them wrote it last
	back    int64 // when the app last took our map back, with the same value: what had been asked before may be shown again
	from    int64 // it shows what the documents came to then, or later
}

func (c *answersChecker) fail(format string, args ...any) {
	c.violations = append(c.violations, Violation{Entry: c.at, Message: fmt.Sprintf(format, args...)})
}

func (c *answersChecker) counter(id string) *countedCounter {
	k := c.counters[id]
	if k == nil {
		k = &countedCounter{collections: map[string]*counted{}, fields: map[string]*countedValue{}}
		for name := range c.newest {
			k.fields[name] = &countedValue{}
		}
		c.counters[id] = k
	}
	return k
}

func (k *countedCounter) collection(id string) *counted {
	of := k.collections[id]
	if of == nil {
		of = &counted{docs: map[string]map[string]any{}, samples: map[string][]sample{}, waiting: map[event]bool{}, changes: map[string]int{}}
		k.collections[id] = of
	}
	return of
}

func (c *answersChecker) entry(what any) {
	switch e := what.(type) {
	case Counting:
		c.rules = e
		for _, f := range slices.Concat(e.Older, e.Fields) {
			c.definitions[f.key()] = f
		}
		for _, f := range e.Fields {
			c.newest[f.Name] = f
		}
	case Hosted:
		c.hosted = &e
	case Older:
		c.older = e.Fields
	case Begin:
		if e.Kind == Snippet {
			c.snippets[e.Call] = e.Counter
		}
	case End:
		delete(c.snippets, e.Call)
	case Fair:
		c.fair = true
	case AppWrites:
		c.whole[e.Title] = e.Whole
	case AppChanges:
		c.counter(e.Doc.Counter).collection(e.Doc.collection()).changes[e.Doc.Shard]++
	case Noted:
		k := c.counter(e.Counter)
		k.noted = e.There
		for _, collection := range slices.Sorted(maps.Keys(k.collections)) {
			c.covered(e.Counter, k, collection)
		}
	case Foreign:
		if f := c.counter(e.Counter).fields[e.Field]; f != nil {
			f.writers++
		}
	case Commit:
		c.commit(e)
	case Missed:
		k := c.counter(e.Doc.Counter)
		of := k.collection(e.Doc.collection())
		delete(of.waiting, event{e.Doc, e.Of})
		of.missed = max(of.missed, e.Of)
		for name, f := range k.fields {
			if c.newest[name].Collection == e.Doc.collection() {
				f.lost = max(f.lost, e.Of)
			}
		}
	case GaveUp:
		k := c.counter(e.Counter)
		for name, f := range k.fields {
			if c.newest[name].Collection == e.Collection { // by Firestore's clock
				f.lost = max(f.lost, k.collection(e.Collection).changed)
			}
		}
	case Acknowledged:
		if e.Doc.Kind == "counted" {
			c.acknowledged(e)
		}
	case Reconciled:
		for name, drift := range e.Others {
			if f := c.counter(e.Counter).fields[name]; f != nil && drift != 0 && !f.drift {
				c.fail("a reconcile found a drift of %d in %s of %q, and nothing else wrote it", drift, name, e.Counter)
			}
		}
	case Calm:
		for id, k := range c.each() {
			for collection, of := range k.collections {
				for waits := range of.waiting {
					c.fail("long after everything, the event of %s as of %d is not acknowledged", waits.doc, waits.of)
				}
				c.covered(id, k, collection)
			}
			for name, f := range k.fields { // whatever others have written there
				of := k.collection(c.newest[name].Collection)
				if k.doc == nil {
					continue
				}
				// An app that wrote its old copy back wrote our map, too: the field's next event puts it right, unless
				// an older revision takes that. What is noted waits for its reconcile, after which no note may be left.
				if _, once := of.when(c.newest[name], 0, k.doc.Data[name]); once && (of.changed <= max(f.written, f.lost) || of.missed == of.changed) {
					continue
				}
				if _, ok := of.asOf(c.newest[name], of.changed); ok && f.stale && !k.noted && k.there() && k.again && !k.shows(c.newest[name], f.written) {
					c.fail("long after everything, %s of %q is %v, which its documents come to at no moment since others wrote it", name, id, k.doc.Data[name])
				}
			}
		}
	case Settled:
		c.settled(e.Counted)
		c.fair = false
		for _, k := range c.counters {
			k.again = false
		}
	}
}

func (c *answersChecker) each() func(yield func(string, *countedCounter) bool) {
	return func(yield func(string, *countedCounter) bool) {
		for _, id := range slices.Sorted(maps.Keys(c.counters)) {
			if !yield(id, c.counters[id]) {
				return
			}
		}
	}
}

// commit takes a commit into what is known, and checks what it did.
func (c *answersChecker) commit(e Commit) {
	at := e.At.UnixMicro()
	for _, reply := range e.Replies {
		c.written(reply)
	}
	type where struct{ counter, collection string }
	touched := map[where]bool{}
	for _, ch := range e.Counted {
		id, collection := ch.Doc.Counter, ch.Doc.collection()
		of := c.counter(id).collection(collection)
		if collection != repliesAt {
			c.written(ch.Doc)
		}
		of.waiting[event{ch.Doc, at}] = ch.After != nil
		if of.changed = max(of.changed, at); ch.After == nil {
			delete(of.docs, ch.Doc.Shard)
		} else {
			of.docs[ch.Doc.Shard] = ch.After.Data
		}
		touched[where{id, collection}] = true
	}
	for w := range touched {
		of := c.counter(w.counter).collection(w.collection)
		for key, f := range c.definitions {
			if f.Collection == w.collection {
				value, ok := f.of(of.docs)
				of.samples[key] = append(of.samples[key], sample{at, value, ok})
			}
		}
	}
	changes := map[string][]Change{}
	for _, ch := range e.Changes {
		if ch.Doc.Kind == "shard" {
			c.counter(ch.Doc.Counter).again = c.fair && ch.counts() || c.counter(ch.Doc.Counter).again
		}
		if ch.Doc.Kind == "counter" || ch.Doc.Kind == "base" {
			changes[ch.Doc.Counter] = append(changes[ch.Doc.Counter], ch)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(changes)) {
		c.commitTo(id, at, changes[id])
	}
}

// written checks that it was the app that wrote a document.
func (c *answersChecker) written(doc Doc) {
	of := c.counter(doc.Counter).collection(doc.collection())
	if of.changes[doc.Shard]--; of.changes[doc.Shard] < 0 {
		c.fail("a commit changes %s, which the app didn't", doc)
		of.changes[doc.Shard] = 0
	}
}

func (c *answersChecker) commitTo(id string, at int64, changes []Change) {
	k := c.counter(id)
	before := k.doc
	for _, ch := range changes {
		if ch.Doc.Kind == "counter" {
			k.doc = ch.After
		} else {
			k.base = ch.After
		}
	}
	if k.doc != nil && before == nil {
		k.made = at
	}
	for _, name := range slices.Sorted(maps.Keys(k.fields)) {
		c.viewed(id, k, name, at, before)
	}
}

// shows reports whether the document shows of a field what its documents came to at a time, or later.
func (k *countedCounter) shows(f CountedField, from int64) bool {
	of := k.collection(f.Collection)
	at, ok := of.when(f, max(from, k.fields[f.Name].from), k.doc.Data[f.Name])
	if ok {
		k.fields[f.Name].from = at
	}
	return ok
}

// viewed checks that what a commit shows of a field is what its documents came to since the last time, unless somebody
// else wrote it.
func (c *answersChecker) viewed(id string, k *countedCounter, name string, at int64, before *Document) {
	f := k.fields[name]
	if k.doc == nil {
		return
	}
	var was any
	if before != nil {
		was = before.Data[name]
	}
	is := k.doc.Data[name]
	// What the app has read before takes our map back with it: older answers may follow.
	back := c.hosted != nil && before != nil && before.Title != k.doc.Title && c.whole[k.doc.Title]
	switch {
	case is == was && before != nil:
		if back {
			f.from, f.back = max(0, f.from-backBy), at
		}
		return
	case is != nil && !back && k.shows(c.newest[name], 0):
		f.stale = false
		of := k.collection(c.newest[name].Collection)
		if _, since := of.when(c.newest[name], f.back, is); !since { // an answer that is older than what the app took back
			f.written = at
		}
		if now, _ := of.asOf(c.newest[name], of.changed); is != now && slices.Contains(c.older, name) {
			f.written = at // perhaps by who means something else by it
		}
		return
	case before != nil && f.writers == 0 && !(c.hosted != nil && before.Title != k.doc.Title) && !slices.Contains(c.older, name):
		c.fail("a commit changes %s of %q from %v to %v, which its documents came to at no moment since %d", name, id, was, is, f.from)
	case before == nil && is != nil && c.hosted == nil && !c.bySnippet(id) && !slices.Contains(c.older, name):
		c.fail("a commit makes %q, and %s of it is %v", id, name, is)
	}
	if before != nil || c.hosted != nil { // or the system makes it: others write only what is there
		f.writers = max(0, f.writers-1)
	}
	f.stale, f.drift, f.written, f.from = true, f.drift || is != nil, at, max(0, f.from-backBy) // it may be what the app had read before
}

// backBy is how old what an app had read before may be, in microseconds.
const backBy = 30 * 60e6

// bySnippet reports whether a snippet is about to make a counter.
func (c *answersChecker) bySnippet(id string) bool {
	for _, counter := range c.snippets {
		if counter == id {
			return true
		}
	}
	return false
}

func (c *answersChecker) acknowledged(e Acknowledged) {
	k, collection := c.counter(e.Doc.Counter), e.Doc.collection()
	of := k.collection(collection)
	_, waited := of.waiting[event{e.Doc, e.Of}]
	delete(of.waiting, event{e.Doc, e.Of})
	for name, f := range k.fields {
		if waited && c.newest[name].Collection == collection && !slices.Contains(e.Fields, name) {
			f.lost = max(f.lost, e.Of) // an older revision took it
		}
	}
	c.covered(e.Doc.Counter, k, collection)
}

// covered checks that what a collection's fields hold is what its documents come to, if all of its events have been
// acknowledged.
func (c *answersChecker) covered(id string, k *countedCounter, collection string) {
	of := k.collection(collection)
	if len(of.waiting) > 0 || k.noted || !k.there() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(k.fields)) {
		f, definition := k.fields[name], c.newest[name]
		if definition.Collection != collection || of.changed <= max(f.lost, f.written, k.made) { // or it was acknowledged for another document
			continue
		}
		if value, ok := of.asOf(definition, of.changed); ok && !k.shows(definition, of.changed) {
			c.fail("all events of %s of %q are acknowledged, the last one of a change at %d, and %s is %v; its documents come to %v", collection, id, of.changed, definition, k.doc.Data[name], value)
			f.lost = of.changed // said once
		}
	}
}

// settled checks that fields are what their documents come to after a reconcile: all of them where
// that is said, and else those that a walk counts at once. A walk finds the app's documents by what is
// beside them, and those whose ids have several parts.
func (c *answersChecker) settled(all bool) {
	if !all && c.rules.RecountReads < 1000 {
		return // the walk may have spent all reads on others
	}
	for id, k := range c.each() {
		if !k.there() || (c.hosted != nil || nested(id)) && k.base == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(k.fields)) {
			f, definition := k.fields[name], c.newest[name]
			of := k.collection(definition.Collection)
			value, ok := of.asOf(definition, of.changed)
			is, there := k.doc.Data[name]
			switch {
			case !ok:
			case all && of.changed == 0 && !there: // it was not named
			case all && is != value:
				c.fail("after a reconcile, %s of %q is %v, and its documents come to %v", name, id, is, value)
			case !there:
				c.fail("after a reconcile of all counters, %s of %q was never asked", name, id)
			case c.now.Sub(time.UnixMicro(max(of.changed, f.written))) > c.rules.RecountAge+time.Hour && is != value:
				c.fail("after a reconcile of all counters, %s of %q is %v; its documents come to %v, since %d", name, id, is, value, of.changed)
			}
			f.stale = f.stale && is != value
		}
	}
}

// there reports whether the counter is, and isn't being deleted.
func (k *countedCounter) there() bool { return k.doc != nil && (k.base == nil || !k.base.Deleting) }
