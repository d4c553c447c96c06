package doctor

import (
	"time"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Target says which deployment to read.
type Target struct {
	// Where the counters are. When a field is empty, the project is found from the credentials, and the rest is
	// what the functions' settings say.
	layout.Place

	// Location of the Firestore database, or region of the functions. The functions are looked for
	// everywhere when it is empty.
	Location string

	// Emulator is the host and port of the emulator that is read instead of Google Cloud, which has
	// counters and nothing else; empty without one.
	Emulator string

	// Prefix begins the functions' names. When it is empty, that is "counters", and a function that
	// has no such name is known by its entry point.
	Prefix string

	// Most is how many counters are read at most, those with the first ids.
	Most int
}

// Deployment is what was read of a deployment. A nil pointer is something that could not be read:
// NotChecked says why.
type Deployment struct {
	Target Target // with the empty fields filled in

	Off       []string // APIs that are turned off, and that a deployment needs
	Functions *Functions
	Runtimes  resources.Object // that the platform has
	Access    Policy           // who may do what in the whole project
	Images    Policy           // who may do what in the repository of the functions' images
	NoImages  bool             // there is none
	Project   resources.Object
	Database  *Database
	Parts     []Part // of the list of resources, in its order, without those that could not be read
	Rules     *Rules
	Watches   []*Trigger       // that call Rollup's service beside its own; only with Watched
	Watched   bool             // whether Watches could be read
	Jobs      resources.Object // of Scheduler, in the functions' region
	Budget    *Budget
	Counters  *Counters

	NotChecked []NotChecked
}

// NotChecked is a part of a deployment that could not be read.
type NotChecked struct {
	Part string `json:"part"`
	Why  string `json:"why"`
	Fix  string `json:"fix,omitempty"` // the command that lets doctor read it
}

// Functions are the three functions; nil is one that isn't there.
type Functions struct {
	Increment, Rollup, Reconcile *Function

	// Unreachable are regions that the platform could not list: a function that is missing may be
	// there.
	Unreachable []string
}

func (f *Functions) all() []*Function {
	var there []*Function
	if f != nil {
		for _, function := range []*Function{f.Increment, f.Rollup, f.Reconcile} {
			if function != nil {
				there = append(there, function)
			}
		}
	}
	return there
}

// Function is one function.
type Function struct {
	resources.Object // as the platform says it

	Name, Region string
	EntryPoint   string
	Env          map[string]string

	Trigger  *Trigger
	Invokers Policy // of its Cloud Run service
	Open     bool   // its Cloud Run service takes calls without a token
	Pinned   string // an older revision that its Cloud Run service sends requests to; empty for none

	Billing cost.Billing // empty when it could not be read
	Week    *Week        // nil when it could not be read
}

// Week is what a function has had in the last seven days. Instances are what it took in all.
type Week struct {
	Requests float64
	InFlight time.Duration // of all requests, added up
	Billed   time.Duration // of instances, in whatever way they were billed
	There    time.Duration // of instances, busy or not
}

// Trigger is what calls a function with events.
type Trigger struct {
	Name    string // resource name at Eventarc; may be empty
	Missing bool   // Eventarc has none of that name
	Created time.Time
	Region  string
	Filters []resources.Object // on events
	Retry   bool
	Account string

	Subscription string           // that the events wait in; empty where none is known
	Waits        resources.Object // that, as Pub/Sub says it; nil when it could not be read, or is Gone
	Gone         bool
	// Waiting are the events in it, and Oldest is for how long the first of them has been; 0 is also
	// what could not be read.
	Waiting int64
	Oldest  time.Duration
}

// filter is the condition on an attribute of events; nil where there is none.
func (t *Trigger) filter(attribute string) resources.Object {
	for _, f := range t.Filters {
		if f.Text("attribute") == attribute {
			return f
		}
	}
	return nil
}

// Policy says who has which role on a resource, as its API does; nil when it could not be read.
type Policy resources.Object

// Database is the Firestore database; nil where there is none.
type Database struct{ resources.Object }

// Counters are the counters that were read.
type Counters struct {
	Read []Counter
	More bool // whether there are others
	// of all counters, those that can't be rolled up: the first ten to be tried again
	Noted []store.Note
	// Extension is why Firebase's extension, whose clients are taken over, is taken to run; nil where it isn't.
	Extension error
}

// Counter is a counter, its shards and its base, all as of one time.
type Counter struct {
	*book.Book
	Shards   book.Shards
	Recounts map[string]Recount // :: field that counts documents → what they come to
}

// Recount is what the documents of a counted collection come to.
type Recount struct {
	Held
	Refused string // why they can't be counted: an index is missing
	Never   bool   // none would help
	Slow    bool   // there are so many that doctor didn't wait
	// Fractions names some of the documents by which a sum is not an integer. Searched is how many
	// were looked at, where there are more; 0 is all.
	Fractions []string
	Searched  int
}

// Held is what a document holds in a counted field.
type Held struct {
	There   bool // it has the field
	Count   int64
	Bad     string // what it holds instead of an integer, or a whole double that counts as one
	Double  bool   // it is a whole double
	Kept    bool   // it is what no total replaces: see [book.Overwritable]
	List    bool   // it is a list
	Nearest *int64 // the integer nearest to what it holds; nil where that is no number, or too large
	// what it holds, of a field that is a double; nil where that is not a number
	Number *float64
}
