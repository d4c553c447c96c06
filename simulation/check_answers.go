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
// The documents' own commits say what a field should be at any time. So each value in a ledger is
// held against what the collection came to as of the value's time, and events only have to be
// looked at for when a field has to have followed.
func CheckAnswers(h History) []Violation {
	c := answersChecker{definitions: map[string]CountedField{}, newest: map[string]CountedField{}, counters: map[string]*countedCounter{}, snippets: map[int]string{}}
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
}

// countedCounter is what is known of a counter and of the documents below it.
type countedCounter struct {
	doc, ledger *Document
	made        int64 // when its document was made
	begun       int64 // when its ledger was made or was gone, or its life ended without one
	again       bool  // a shard was written in fair weather
	noted       bool  // what is acknowledged is counted once it is not noted any more
	collections map[string]*counted
	fields      map[string]*countedValue // :: name
}

type event struct {
	doc Doc
	of  int64
}

// countedValue is a field of a counter's document.
type countedValue struct {
	writers int   // that are about to write it, and are not the system
	stale   bool  // one of them wrote it since it was last right, or made the document
	drift   bool  // that was ever so
	lost    int64 // of changes up to then, events are not to be expected
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
				if a := k.answer(c.newest[name]); a.Known && f.stale && k.doc != nil && k.again {
					c.fail("long after everything, %s of %q is %v, and its ledger has %v", name, id, k.doc.Data[name], a.value())
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
		if ch.Doc.Kind == "shard" {
			c.counter(ch.Doc.Counter).again = c.fair && ch.counts() || c.counter(ch.Doc.Counter).again
		}
		if ch.Doc.Kind == "counter" || ch.Doc.Kind == "ledger" {
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

// value is what a field holds that shows the answer.
func (a Answer) value() any {
	if a.Double != nil {
		return a.Double
	}
	return a.Value
}

// answer is what the ledger has for a field; the zero answer is none.
func (k *countedCounter) answer(f CountedField) Answer {
	if k.ledger == nil {
		return Answer{}
	}
	return k.ledger.Answers[f.key()]
}

func (c *answersChecker) commitTo(id string, at int64, changes []Change) {
	k := c.counter(id)
	doc, was := k.doc, k.ledger
	for _, ch := range changes {
		if ch.Doc.Kind == "counter" {
			k.doc = ch.After
		} else {
			k.ledger = ch.After
		}
	}
	if k.doc != nil && doc == nil {
		k.made = at
	}
	// a ledger is made, or a life ends: that of a counter that is being deleted may have none
	if (k.ledger == nil) != (was == nil) || k.ledger == nil && k.doc == nil && doc != nil && doc.Deleting {
		k.begun = at
	}
	c.entered(id, k, at, was)
	for _, name := range slices.Sorted(maps.Keys(k.fields)) {
		c.viewed(id, k, name, doc, was)
	}
}

// viewed checks that a field of the counter's document is what its ledger has, as [checker.viewed]
// does.
func (c *answersChecker) viewed(id string, k *countedCounter, name string, doc, was *Document) {
	f, a := k.fields[name], k.answer(c.newest[name])
	if k.doc == nil {
		return
	}
	var before any
	if doc != nil {
		before = doc.Data[name]
	}
	is := k.doc.Data[name]
	older := slices.Contains(c.older, name) // it leaves the field out, or sets it to something else
	others := false
	switch {
	case a.Known && is == a.value():
		f.stale = false
		return
	case doc == nil:
		others = is != nil && !a.Known || c.hosted != nil || older || c.bySnippet(id)
	case is != before && k.ledger == was:
		if others = f.writers > 0 || c.hosted != nil && doc.Title != k.doc.Title || older; !others {
			c.fail("a commit changes %s of %q from %v to %v, and not its ledger", name, id, before, is)
			others = true
		}
		f.writers = max(0, f.writers-1)
	case f.stale:
		return
	default:
		others = older
	}
	if others {
		f.stale, f.drift = a.Known || is != nil, true
	} else if a.Known && !f.stale {
		c.fail("a commit enters %+v for %s in the ledger of %q, and leaves the field at %v", a, name, id, is)
		f.stale = true // said once
	}
}

// bySnippet reports whether a snippet is about to make a counter.
func (c *answersChecker) bySnippet(id string) bool {
	for _, counter := range c.snippets {
		if counter == id {
			return true
		}
	}
	return false
}

// entered checks what a commit wrote into the ledger, which was as given before.
func (c *answersChecker) entered(id string, k *countedCounter, at int64, before *Document) {
	if k.ledger == nil {
		return
	}
	if before == nil {
		before = &Document{}
	}
	for key := range before.Answers {
		if _, there := k.ledger.Answers[key]; !there {
			c.fail("a commit takes %s out of the ledger of %q", c.definitions[key], id)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(k.ledger.Answers)) {
		a := k.ledger.Answers[key]
		was, had := before.Answers[key]
		if had && was == a {
			continue
		}
		f, known := c.definitions[key]
		switch value, ok := k.collection(f.Collection).asOf(f, a.ReadTime); {
		case !known:
			c.fail("the ledger of %q has an answer %+v to no query", id, a)
		case had && a.ReadTime <= was.ReadTime:
			c.fail("the ledger of %q goes back: %s is %+v after %+v", id, f, a, was)
		case a.ReadTime < k.begun:
			c.fail("the ledger of %q has %s as of %d, of before it was made at %d", id, f, a.ReadTime, k.begun)
		case a.ReadTime >= at:
			c.fail("the ledger of %q has %s as of %d, later than its commit at %d", id, f, a.ReadTime, at)
		case a.Odd && (ok || a.Value != was.Value || a.Known != was.Known):
			c.fail("the ledger of %q has %+v for %s after %+v; it was %v (an integer: %v)", id, a, f, was, value, ok)
		case !a.Odd && (!ok || value != a.value() || !a.Known):
			c.fail("the ledger of %q has %v for %s as of %d; it was %v (an integer: %v)", id, a.value(), f, a.ReadTime, value, ok)
		}
	}
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

// covered checks that what a collection's fields hold is not older than its last change, if all of
// its events have been acknowledged.
func (c *answersChecker) covered(id string, k *countedCounter, collection string) {
	of := k.collection(collection)
	if len(of.waiting) > 0 || k.noted || k.ledger == nil && !c.adopts(k, of, collection) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(k.fields)) {
		f, definition := k.fields[name], c.newest[name]
		if definition.Collection != collection || of.changed <= max(f.lost, k.begun) { // or it was acknowledged for another ledger
			continue
		}
		a := k.answer(definition)
		if a == (Answer{}) && !of.written { // an event of a deletion adopts nothing
			continue
		}
		if a.ReadTime < of.changed {
			c.fail("all events of %s of %q are acknowledged, the last one of a change at %d, and %s was asked as of %d", collection, id, of.changed, definition, a.ReadTime)
			f.lost = of.changed // said once
		}
	}
}

// adopts reports whether a counter without a ledger gets one for what its documents come to: it has
// a document, or they come to something. What a reply names may be no counter.
func (c *answersChecker) adopts(k *countedCounter, of *counted, collection string) bool {
	if k.doc != nil || collection == repliesAt {
		return k.doc != nil && !k.doc.Deleting && k.made <= of.changed
	}
	for _, f := range c.newest {
		if value, ok := of.asOf(f, of.changed); f.Collection == collection && ok && value != int64(0) && value != 0.0 && value != none {
			return true
		}
	}
	return false
}

// settled checks that fields are what their documents come to after a reconcile: all of them where
// that is said, and else those that a walk counts at once. A walk finds the app's documents by
// their ledgers, and those whose ids have several parts.
func (c *answersChecker) settled(all bool) {
	if !all && c.rules.RecountReads < 1000 {
		return // the walk may have spent all reads on others
	}
	for id, k := range c.each() {
		if k.doc == nil || k.doc.Deleting || (c.hosted != nil || nested(id)) && k.ledger == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(k.fields)) {
			f, definition := k.fields[name], c.newest[name]
			of := k.collection(definition.Collection)
			value, ok := of.asOf(definition, of.changed)
			a := k.answer(definition)
			is, there := k.doc.Data[name]
			switch {
			case !ok:
			case all && of.changed == 0 && (!there || a == Answer{}): // it was not named
			case all && is != value:
				c.fail("after a reconcile, %s of %q is %v, and its documents come to %v", name, id, is, value)
			case a == Answer{}:
				c.fail("after a reconcile of all counters, %s of %q was never asked", name, id)
			case a.Known && is != a.value():
				c.fail("after a reconcile, %s of %q is %v, and its ledger has %v", name, id, is, a.value())
			case c.now.Sub(time.UnixMicro(a.ReadTime)) > c.rules.RecountAge+time.Hour && is != value:
				c.fail("after a reconcile of all counters, %s of %q is %v, asked at %d; its documents come to %v", name, id, is, a.ReadTime, value)
			}
			f.stale = f.stale && is != a.value()
		}
	}
}
