package simulation

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// History is what happened, in the order in which it did.
type History []Entry

// Of is the history of one counted field: of increments what they add to it, of documents what they
// hold of it. The field of an entry that doesn't say is "", the first one.
func (h History) Of(field string) History {
	var of History
	others := map[int]bool{} // :: number of a call that is not about the field
	limited := false
	for _, e := range h {
		switch what := e.What.(type) {
		case Begin:
			if what.Kind == Import && what.Field != field || what.Kind == Rebase && field != "" || limited && (what.Kind == Reset || what.Kind == ResetMembers) {
				what.Kind = Elsewhere
			}
			if field != "" {
				what.Start = 0
			}
			if what.Kind == Increment || what.Kind == Old {
				what.Adds = slices.DeleteFunc(slices.Clone(what.Adds), func(a Add) bool { return a.Field != field })
				if len(what.Adds) == 0 {
					others[what.Call] = true
					continue
				}
			}
			if (what.Member != "" || what.Kind == Limit || what.Hold != "") && what.Field != field {
				others[what.Call] = true
				continue
			}
			e.What = what
		case End:
			if others[what.Call] {
				continue
			}
			if field != "" {
				what.Total, what.Audit = what.Totals[field], what.Audits[field]
			}
			if what.Full != nil && what.Full.Field != field {
				what.Full = nil
			}
			e.What = what
		case Commit:
			if field != "" {
				what.Changes = what.Others[field]
			}
			e.What = what
		case Acknowledged:
			if strings.HasSuffix(what.Doc.Kind, "shard") && !slices.Contains(what.Fields, field) { // by who doesn't show it: it says nothing of the field
				e.What = Dropped{Counter: what.Doc.Counter, Shard: what.Doc.Shard, Of: what.Of, Elsewhere: true}
			}
		case Came:
			if what.Fields != nil && !slices.Contains(what.Fields, field) {
				continue
			}
		case Declared:
			if what.Field != field {
				continue
			}
			limited = true
		case Older:
			if !slices.Contains(what.Fields, field) {
				continue
			}
		case Odd:
			if what.Field != field {
				continue
			}
		case Foreign:
			if what.Field != field {
				continue
			}
		case Reconciled:
			if field != "" {
				if what.Drift = what.Others[field]; what.Counter == "" {
					continue
				}
			}
			e.What = what
		}
		of = append(of, e)
	}
	return of
}

// Entry is one thing that happened: a [Begin], [End], [Commit], [Dropped], [Came], [Foreign], [Odd],
// [Clicked], [Wished], [Answered], [Reconciling], [Reconciled], [Hosted], [Older], [AppWrites], [Fair], [Calm],
// [Settled], [Counting], [AppChanges], [Acknowledged], [Missed], [GaveUp] or [Operations].
type Entry struct {
	At   time.Time
	What any
}

// Kind is a kind of call.
type Kind string

// Kinds of calls.
const (
	Increment Kind = "increment" // of one counter or several, by a function or a snippet
	ExactRead Kind = "exact read"
	Read      Kind = "read"
	Create    Kind = "create"
	Delete    Kind = "delete"
	Reset     Kind = "reset"
	Rebase    Kind = "rebase"
	Resize    Kind = "resize"
	Import    Kind = "import" // of one field, from a counter of another kind
	Old       Kind = "old"    // an increment of such a counter
	Limit     Kind = "limit"  // of a field, which is set
	Elsewhere Kind = "import or rebase of another field"

	Join         Kind = "join"               // of a member, by a function or by the SDK: one attempt
	Leave        Kind = "leave"              // of a member
	Look         Kind = "look"               // whether a member is there
	Confirm      Kind = "confirm"            // of a seat that a member holds
	Audit        Kind = "audit"              // what the fields are made of
	ResetMembers Kind = "reset with members" // which takes them off

	Reserve  Kind = "reserve" // an amount, until a time
	Settle   Kind = "settle"  // what is held, for what was used
	GiveBack Kind = "give back"

	Snippet        Kind = "snippet"         // makes a counter, or its shards alone, and sets to zero what is there
	DeleteDocument Kind = "delete document" // of the counter, in a console, and nothing below it
	DeleteByHand   Kind = "delete by hand"  // all of it one by one, by a tool that knows nothing of counters
)

// Begin is the begin of a call.
type Begin struct {
	Call    int
	Kind    Kind
	Counter string // of all but increments
	Intent  int    // of increments: calls that repeat one another under a key have the same
	Adds    []Add

	Field, Member string // of what a member does, of imports and of limits; the field "" is the first
	Holds         bool   // of one who joins: until a time
	Hold          string // what the caller calls a hold of an amount
	Stranger      bool   // the caller must not be let in
	Asked         bool   // of a reset: a function was asked for it
	To            int64  // of a rebase, and a limit that is set: no other call sets the same; of a hold, how much
	Start         int64  // of a create, what the first field starts from: no other call has the same; or 0
}

// Add is the part of an increment that is one field's of one counter.
type Add struct {
	Counter string
	By      int64
	Field   string // "" is the first
}

// Outcome is what a caller was told.
type Outcome string

// Outcomes.
const (
	OK       Outcome = "ok"
	Replayed Outcome = "replayed" // counted by an earlier call of the same intent
	Refused  Outcome = "refused"  // certainly nothing was done
	Unknown  Outcome = "unknown"  // or no answer at all
)

// End is the end of a call.
type End struct {
	Call    int
	Outcome Outcome
	Total   int64            // of reads
	Totals  map[string]int64 // of further fields
	Value   int64            // of imports, what the source holds; in place, the total
	Added   int64            // of imports
	Missing bool             // of reads: there is no such counter
	Detail  string
	HeldUp  bool // of a read: it is from memory, however old, because the ceiling has no reads left

	There  bool                // of a member who joins or leaves: it was as asked before; of a look: it is a member
	Since  int64               // of a look: when it joined, in microseconds
	Audit  *Audited            // of an audit
	Audits map[string]*Audited // of further fields

	Full *Full // of a call that was refused for a limit
	Hold *HoldAnswer
}

// HoldAnswer is what a caller was told about a hold of an amount.
type HoldAnswer struct {
	State      string // held, settled, or ended
	Held, Used int64
}

// Full is what the caller was told who was refused for a limit.
type Full struct {
	Counter, Field string // "" is the first field
	Left           int64
	Taken          int64 // instead, where the limit was to be lowered
}

// Audited is what a field is made of.
type Audited struct{ Shards, Members, Base, Total int64 }

// Commit is a commit that changed something.
type Commit struct {
	At      time.Time // the commit's own time, which its documents have too
	Changes []Change
	Others  map[string][]Change // :: a further field → the same changes, of it
	Counted []Change            // of documents that fields count
	Replies []Doc               // those of them that name their counters, without these
}

// Change is one document's change.
type Change struct {
	Doc           Doc
	Before, After *Document // nil: it isn't there
}

// counts reports whether a shard's change is one of the field. An event is done when the fields that it has changed are
// shown: a shard that comes or goes without the field is no change of it, and leaves the sum as it was.
func (c Change) counts() bool {
	before, after := documentOr(c.Before), documentOr(c.After)
	return before.Count != after.Count || before.Has != after.Has || before.Double != after.Double || before.What != after.What || before.Rest != after.Rest ||
		before.Endless != after.Endless
}

// documentOr is what a document holds, which may be missing.
func documentOr(d *Document) Document {
	if d == nil {
		return Document{}
	}
	return *d
}

// Doc names a document of a counter's.
type Doc struct {
	Kind    string // "counter", "base", "shard", "member" or "counted"; "source" or "source shard" of what is imported; "extension"
	Counter string
	Shard   string // or collection and id of one that is counted
	Member  string
	Field   string // of a member; "" is the first
}

// Document is what a document held, of what callers and other clients may know of it. Of a base, which is beside the
// counter, that is nothing but when it was written.
type Document struct {
	Updated   int64   // update time, in microseconds
	Total     int64   // of a counter
	Bare      bool    // of a counter: it doesn't have the field
	Deleting  bool    // of a base: the counter is being deleted
	NumShards int64   // of a counter, how many it says it has; 0 where it doesn't
	Count     int64   // of a shard, and of what belongs to a source
	Has       bool    // of a shard: it has the field; an event tells 0 from none
	Double    bool    // of a shard: the field holds one
	Odd       bool    // of a shard: the field holds something that is no integer, nor a double that stands for one
	What      string  // which says what that is: a text after null is a change, too
	Rest      float64 // which is that double
	Endless   bool    // which is too large, or no number
	CountedOn string  // of a membership: the shard that it names
	Since     int64   // of a membership: when it says that it was made; of a base, since when the counter is being deleted; in microseconds
	Until     int64   // of a membership: until when it is held, in microseconds; 0 is for good
	Limited   bool    // of a counter: it shows a limit of the field
	Limit     int64   // which is that
	Shared    bool    // of a shard: it has a share of the field's limit
	Share     int64   // how much that is
	Joined    int64   // and how much of what it counts is members'
	Held      int64   // and open holds'

	// of a hold of an amount
	ID, State    string
	Amount, Used int64

	Data map[string]any // of a counter, its fields that count documents; of a document that is counted, its fields

	Hearts int64    // of a counter, likes by the name that an older revision has for them
	Title  int64    // of an app's document, what the app wrote last
	Others []string // of an app's document, fields that are neither its nor counted
}

// Dropped is the event of a shard that comes late or never.
type Dropped struct {
	Counter string
	Shard   string
	Of      int64 // the time of its commit, in microseconds
	// Elsewhere: an instance acknowledged it that doesn't show the field. A copy of it may wait with one that does.
	Elsewhere bool
}

// Came is such an event that comes late.
type Came struct {
	Doc    Doc
	Of     int64
	Fields []string // that the instance shows to which it comes; nil as long as it has come to none
}

// Noted says that a counter is noted as one that must be reconciled, or no longer.
type Noted struct {
	Counter string
	There   bool
}

// Foreign is something else than the system writing a total.
type Foreign struct{ Counter, Field string } // "" is the first field

// Reconciling is the begin of a reconcile of counters that are named.
type Reconciling struct {
	Number   int
	Counters []string
}

// Reconciled is the answer of a reconcile.
type Reconciled struct {
	Counter string // "" is all of them
	Number  int    // of its begin
	Looked  bool   // it says that nothing is wrong now
	Drift   int64
	Others  map[string]int64 // the drift of further fields
}

// Hosted says that the counters' documents are the app's own, and how long one has to be gone
// before what is below it is removed.
type Hosted struct {
	CleanupAfter time.Duration
	InPlace      bool // imports are of that same document
	Live         bool // and what clients of the extension add there is taken over at once
}

// Bounded says that each instance has a ceiling: what waits for its budget may be left to the next walk.
type Bounded struct{}

// Declared says that a field has a limit, and which one until another is set.
type Declared struct {
	Field string
	Limit int64
}

// Older says that instances of an older revision run beside, until a fair time, which don't know
// these fields, or mean something else by them. What they write of a counter's document leaves them
// out.
type Older struct{ Fields []string }

// AppWrites is the app about to write its document, with that title. It may write totals too.
type AppWrites struct {
	Counter string
	Title   int64
	Whole   bool // all of the document, as it may have been before
}

// Fair says that nothing goes wrong from now on, and that all instances are of the newest revision.
// Then every counter in use is incremented once more.
type Fair struct{}

// Calm says that since a while nothing has been asked for and nothing went wrong: every event that
// was not lost for good has been delivered.
type Calm struct{}

// Settled says that after a calm a reconcile of all counters has ended well. Where it says so, what
// events of counted documents were lost was made up for too: the counters were named, or
// RECOUNT_AGE is over.
type Settled struct{ Counted bool }

// Faults are how often what went wrong.
type Faults map[string]int

// String is the entry as a line or two.
func (e Entry) String() string {
	at := e.At.Format("15:04:05.000000 ")
	c, ok := e.What.(Commit)
	if !ok {
		return at + fmt.Sprintf("%T %+v", e.What, e.What)
	}
	var b strings.Builder
	b.WriteString(at + "commit")
	for _, ch := range slices.Concat(c.Changes, c.Counted) {
		fmt.Fprintf(&b, "\n    %s: %s → %s", ch.Doc, ch.Before, ch.After)
	}
	return b.String()
}

func (d *Document) String() string {
	if d == nil {
		return "none"
	}
	var b strings.Builder
	v := reflect.ValueOf(*d)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() && v.Type().Field(i).Name != "Others" {
			fmt.Fprintf(&b, " %s:%+v", v.Type().Field(i).Name, v.Field(i))
		}
	}
	return "{" + strings.TrimPrefix(b.String(), " ") + "}"
}

func (d Doc) String() string {
	s := d.Kind + " " + strconv.Quote(d.Counter)
	if own := d.Shard + d.Member; own != "" { // it is one of them
		s += "/" + own
	}
	return s
}
