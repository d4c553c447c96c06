package simulation

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"
)

// CheckCounted says what in a history breaks a promise about the fields that count documents, at most a handful. It is pure.
//
// The documents' own commits say what a field should be at any time. So each value in a ledger is held against what the
// collection came to as of the value's time, and events only have to be looked at for when a field has to have followed.
func CheckCounted(h History) []Violation {
	c := countedChecker{definitions: map[string]CountedField{}, newest: map[string]CountedField{}, counters: map[string]*countedCounter{}}
	for i, e := range h {
		c.at, c.now = i, e.At
		c.entry(e.What)
		if len(c.violations) >= 10 {
			break
		}
	}
	return c.violations
}

type countedChecker struct {
	at          int
	now         time.Time
	violations  []Violation
	rules       Counting
	hosted      *Hosted
	newest      map[string]CountedField // :: name
	definitions map[string]CountedField // :: key; of all revisions
	counters    map[string]*countedCounter
}

// countedCounter is what is known of a counter and of the documents below it.
type countedCounter struct {
	doc, ledger *Document
	made        int64     // when its document was made
	begun       int64     // when its ledger was made; that of a counter that is revived stays
	told        time.Time // when the event of a document that was written was last acknowledged for itself, by an instance that counts it
	collections map[string]*counted
	fields      map[string]*countedValue // :: name
}

// counted is a collection whose documents are counted.
type counted struct {
	docs    map[string]map[string]any
	samples map[string][]sample // :: key of a field → what the documents come to for it, over time
	changed int64               // when a document changed last
	written bool                // then one of them was written, and not only some deleted
	waiting map[event]bool      // events that nobody has acknowledged yet :: whether a document was written, and not deleted
	missed  int64               // the newest event that comes late or never
	changes map[string]int      // :: id of a document → writes of the app's that were not seen yet
}

// sample is what documents come to from a time on. It is no value where that is no integer.
type sample struct {
	from  int64
	value int64
	ok    bool
}

type event struct {
	doc Doc
	of  int64
}

// countedValue is a field of a counter's document.
type countedValue struct {
	set     State // by the system, last
	key     string
	writers int   // that are about to write it, and are not the system
	foreign bool  // one of them wrote it since, or made the document
	strange bool  // that was ever so, or another revision counts something else in it
	lost    int64 // of changes up to then, events are not to be expected
}

func (c *countedChecker) fail(format string, args ...any) {
	c.violations = append(c.violations, Violation{Entry: c.at, Message: fmt.Sprintf(format, args...)})
}

func (c *countedChecker) counter(id string) *countedCounter {
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

// own is the counter's own ledger.
func (c *countedChecker) own(k *countedCounter) *Document {
	if k.doc == nil || k.ledger == nil || c.hosted == nil && k.doc.LedgerID != k.ledger.LedgerID {
		return nil
	}
	return k.ledger
}

func (c *countedChecker) entry(what any) {
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
	case AppChanges:
		c.counter(e.Doc.Counter).collection(e.Doc.collection()).changes[e.Doc.Shard]++
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
		for name, f := range c.counter(e.Counter).fields {
			if c.newest[name].Collection == e.Collection {
				f.lost = max(f.lost, c.now.UnixMicro())
			}
		}
	case Acknowledged:
		if e.Doc.Kind == "counted" {
			c.acknowledged(e)
		}
	case Reconciled:
		for name, drift := range e.Others {
			if f := c.counter(e.Counter).fields[name]; f != nil && drift != 0 && !f.strange {
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
		}
	case Settled:
		c.settled(e.Counted)
	}
}

func (c *countedChecker) each() func(yield func(string, *countedCounter) bool) {
	return func(yield func(string, *countedCounter) bool) {
		for _, id := range slices.Sorted(maps.Keys(c.counters)) {
			if !yield(id, c.counters[id]) {
				return
			}
		}
	}
}

// commit takes a commit into what is known, and checks what it did.
func (c *countedChecker) commit(e Commit) {
	at := e.At.UnixMicro()
	type where struct{ counter, collection string }
	touched := map[where]bool{}
	for _, ch := range e.Counted {
		id, collection := ch.Doc.Counter, ch.Doc.collection()
		of := c.counter(id).collection(collection)
		if of.changes[ch.Doc.Shard]--; of.changes[ch.Doc.Shard] < 0 {
			c.fail("a commit changes %s, which the app didn't", ch.Doc)
			of.changes[ch.Doc.Shard] = 0
		}
		of.waiting[event{ch.Doc, at}] = ch.After != nil
		if of.changed < at {
			of.changed, of.written = at, false
		}
		if ch.After == nil {
			delete(of.docs, ch.Doc.Shard)
		} else {
			of.docs[ch.Doc.Shard], of.written = ch.After.Data, true
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
		if ch.Doc.Kind == "counter" || ch.Doc.Kind == "ledger" {
			changes[ch.Doc.Counter] = append(changes[ch.Doc.Counter], ch)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(changes)) {
		c.commitTo(id, at, changes[id])
	}
}

// of is what documents come to. It reports false where that is no integer.
func (f CountedField) of(docs map[string]map[string]any) (value int64, ok bool) {
	var sum float64
	for _, doc := range docs {
		if f.Where != "" && doc[f.Where] != true {
			continue
		}
		switch v := doc[f.Sum].(type) {
		case int64:
			sum += float64(v)
		case float64:
			sum += v
		}
		if f.Sum == "" {
			sum++
		}
	}
	return int64(sum), float64(int64(sum)) == sum
}

// asOf is what a collection came to at a time.
func (of *counted) asOf(key string, at int64) (value int64, ok bool) {
	samples := of.samples[key]
	n := sort.Search(len(samples), func(i int) bool { return samples[i].from > at })
	if n == 0 {
		return 0, true
	}
	return samples[n-1].value, samples[n-1].ok
}

func (c *countedChecker) commitTo(id string, at int64, changes []Change) {
	k := c.counter(id)
	doc, ledger := k.doc, k.ledger
	for _, ch := range changes {
		if ch.Doc.Kind == "counter" {
			k.doc = ch.After
		} else {
			k.ledger = ch.After
		}
	}
	if k.doc != nil && doc == nil {
		k.made = at
		for name, f := range k.fields { // events that came while it was gone have been acknowledged
			f.lost, f.foreign, f.set = max(f.lost, at), true, State{}
			// With what its ledger doesn't have, or without what it has.
			f.strange = f.strange || k.doc.Data[name] != nil || k.ledger != nil && len(k.ledger.Counted) > 0
		}
	}
	if k.ledger != nil && ledger == nil {
		k.begun, ledger = at, &Document{}
	}
	entered := c.entered(id, k, at, ledger)
	if k.doc == nil || doc == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(k.fields)) {
		f := k.fields[name]
		was, is := doc.Data[name], k.doc.Data[name]
		if key, ok := entered[name]; ok {
			f.set, f.key, f.foreign = k.ledger.Counted[key], key, false
			f.strange = f.strange || key != c.newest[name].key()
			if is != f.set.Count {
				c.fail("a commit enters %d for %s in the ledger of %q, and leaves the field at %v", f.set.Count, name, id, is)
				f.foreign = true
			}
			continue
		}
		if was == is {
			continue
		}
		if app := c.hosted != nil && doc.Title != k.doc.Title; !app && f.writers == 0 {
			c.fail("a commit changes %s of %q from %v to %v, and not its ledger", name, id, was, is)
		}
		f.writers, f.foreign, f.strange = max(0, f.writers-1), true, true
	}
}

// entered checks what a commit wrote into the ledger, which was as given before, and returns the keys of the values by the
// names of their fields.
func (c *countedChecker) entered(id string, k *countedCounter, at int64, before *Document) map[string]string {
	if k.ledger == nil {
		return nil
	}
	for key := range before.Counted { // of an earlier counter that is revived, too
		if _, there := k.ledger.Counted[key]; !there {
			c.fail("a commit takes %s out of the ledger of %q", c.definitions[key], id)
		}
	}
	entered := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(k.ledger.Counted)) {
		s := k.ledger.Counted[key]
		was, had := before.Counted[key]
		if had && was == s {
			continue
		}
		f, known := c.definitions[key]
		switch value, ok := k.collection(f.Collection).asOf(key, s.AsOf); {
		case !known:
			c.fail("the ledger of %q has a value %v of no field", id, s)
			continue
		case had && s.AsOf <= was.AsOf:
			c.fail("the ledger of %q goes back: %s is %v after %v", id, f, s, was)
		case s.AsOf < k.begun:
			c.fail("the ledger of %q has %s as of %d, of before it was made at %d", id, f, s.AsOf, k.begun)
		case s.AsOf >= at:
			c.fail("the ledger of %q has %s as of %d, later than its commit at %d", id, f, s.AsOf, at)
		case !ok || value != s.Count:
			c.fail("the ledger of %q has %d for %s as of %d; it was %d (an integer: %v)", id, s.Count, f, s.AsOf, value, ok)
		}
		if k.doc == nil {
			c.fail("a commit enters %s in the ledger of %q, which isn't there", f, id)
		}
		entered[f.Name] = key
	}
	return entered
}

func (c *countedChecker) acknowledged(e Acknowledged) {
	k, collection := c.counter(e.Doc.Counter), e.Doc.collection()
	of := k.collection(collection)
	written, waited := of.waiting[event{e.Doc, e.Of}]
	delete(of.waiting, event{e.Doc, e.Of})
	if written && len(e.Fields) > 0 && e.Of > of.missed && !of.waitsAfter(e.Of) { // not for a newer one, which may get lost
		k.told = c.now
	}
	for name, f := range k.fields {
		if waited && c.newest[name].Collection == collection && !slices.Contains(e.Fields, name) {
			f.lost = max(f.lost, e.Of) // an older revision took it
		}
	}
	c.covered(e.Doc.Counter, k, collection)
}

// waitsAfter reports whether an event waits that is newer than a time.
func (of *counted) waitsAfter(at int64) bool {
	for e := range of.waiting {
		if e.of > at {
			return true
		}
	}
	return false
}

// covered checks that what a collection's fields hold is not older than its last change, if all of its events have been
// acknowledged.
func (c *countedChecker) covered(id string, k *countedCounter, collection string) {
	of := k.collection(collection)
	if len(of.waiting) > 0 || k.doc == nil || k.doc.Deleting {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(k.fields)) {
		f, definition := k.fields[name], c.newest[name]
		key := definition.key()
		if definition.Collection != collection || of.changed <= f.lost {
			continue
		}
		if _, ok := of.asOf(key, of.changed); !ok || f.key == key && !f.foreign && f.set.AsOf >= of.changed {
			continue
		}
		var entry State
		known := false
		if own := c.own(k); own != nil {
			entry, known = own.Counted[key]
		}
		if !known && !of.written { // an event of a deletion adopts nothing
			continue
		}
		if entry.AsOf < of.changed {
			c.fail("all events of %s of %q are acknowledged, the last one of a change at %d, and %s was counted as of %d", collection, id, of.changed, definition, entry.AsOf)
			f.lost = of.changed // said once
		}
	}
}

// settled checks that fields are what their documents come to after a reconcile: all of them where that is said, and else those
// that a walk counts at once.
func (c *countedChecker) settled(all bool) {
	if !all && c.rules.RecountReads < 1000 {
		return // the walk may have spent all reads on others
	}
	for id, k := range c.each() {
		if k.doc == nil || k.doc.Deleting || !c.found(k) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(k.fields)) {
			f, definition := k.fields[name], c.newest[name]
			of := k.collection(definition.Collection)
			value, ok := of.asOf(definition.key(), of.changed)
			var entry State
			known := false
			if own := c.own(k); own != nil {
				entry, known = own.Counted[definition.key()]
			}
			is, there := k.doc.Data[name]
			switch {
			case !ok:
			case all && !there && of.changed == 0: // it was not named
			case all && is != value:
				c.fail("after a reconcile, %s of %q is %v, and its documents come to %d", name, id, is, value)
			case known && is != entry.Count:
				c.fail("after a reconcile, %s of %q is %v, and its ledger has %d", name, id, is, entry.Count)
			case !known:
				c.fail("after a reconcile of all counters, %s of %q was never counted", name, id)
			case entry.AsOf <= k.made && is != value:
				c.fail("after a reconcile of all counters, %s of %q is %v, as before its document was made anew; its documents come to %d", name, id, is, value)
			case c.now.Sub(time.UnixMicro(entry.AsOf)) > c.rules.RecountAge+time.Hour && is != value:
				c.fail("after a reconcile of all counters, %s of %q is %v, counted at %d; its documents come to %d", name, id, is, entry.AsOf, value)
			}
			f.foreign = f.foreign && is != value
		}
	}
}

// found reports whether a walk over all counters finds one. Where documents are the app's own it goes by ledgers, and by the notes
// that events leave of documents that aren't there yet, for a while.
func (c *countedChecker) found(k *countedCounter) bool {
	return c.hosted == nil || k.ledger != nil || time.UnixMicro(k.made).Sub(k.told) < c.hosted.CleanupAfter
}
