package functions

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/shards"
)

// request is a request to Increment, as [readRequest] reads it.
type request struct {
	*http.Request
	kind    kind
	counter string        // an id, which [shards.Client.Counter] checks
	field   string        // of a member or a hold; of a read, the field that a web page watches
	member  string        // as the path names it, which may be [me]
	holdID  string        // of a hold of an amount, as the path names it
	exact   bool          // a read sums over the shards
	hold    time.Duration // of a seat; 0 is for good

	caller string // by its token; "" if it had none
	payer  string // whose rate it counts against

	lately   float64         // units that the payer has asked for in the last minute
	promised ceiling.Amounts // of the budget, until it is over
}

// kind is what a request asks for.
type kind string

const (
	addOne   kind = "add"      // POST   /{counter}
	addMany  kind = "add many" // POST   /
	read     kind = "read"     // GET    /{counter}
	reset    kind = "reset"    // POST   /{counter}/reset
	setLimit kind = "limit"    // PUT    /{counter}/limit
	join     kind = "join"     // PUT    /{counter}/{field}/{member}
	leave    kind = "leave"    // DELETE /{counter}/{field}/{member}
	joined   kind = "joined"   // GET    /{counter}/{field}/{member}
	confirm  kind = "confirm"  // POST   /{counter}/{field}/{member}/confirm
	reserve  kind = "reserve"  // POST   /{counter}/{field}/holds, or PUT /{counter}/{field}/holds/{id}
	held     kind = "held"     // GET    /{counter}/{field}/holds/{id}
	giveBack kind = "giveBack" // DELETE /{counter}/{field}/holds/{id}
	settle   kind = "settle"   // POST   /{counter}/{field}/holds/{id}/settle
)

// kinds are by what follows the counter in the path, and by method.
var kinds = map[string]map[string]kind{
	"nothing": {http.MethodGet: read, http.MethodPost: addOne},
	"several": {http.MethodPost: addMany},
	"reset":   {http.MethodPost: reset},
	"limit":   {http.MethodPut: setLimit},
	"member":  {http.MethodGet: joined, http.MethodPut: join, http.MethodDelete: leave},
	"confirm": {http.MethodPost: confirm},
	"holds":   {http.MethodPost: reserve},
	"hold":    {http.MethodGet: held, http.MethodPut: reserve, http.MethodDelete: giveBack},
	"settle":  {http.MethodPost: settle},
}

// holds stands in the place of a member: it is no member's name here.
const holds = "holds"

// readRequest reads method, path and query of a request, once. Each part of the path is percent-decoded by itself.
// The parameter counter takes the counter's place in any path, for ids that a path can't carry: PUT
// /likes/alice?counter=healthz. Errors are problems with 400 or 405.
func readRequest(r *http.Request, partsOfID int) (*request, error) {
	query, queryErr := url.ParseQuery(r.URL.RawQuery)
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	byParameter := query.Has("counter") || path == "" && r.Method == http.MethodGet
	n := partsOfID // so many parts of the path are the counter's
	if byParameter {
		n = 0
	}
	follows, id, field, member, hold := "nothing", path, "", "", ""
	switch parts := strings.SplitN(path, "/", n+5); { // no request has n+5 parts
	case path == "" && !byParameter:
		follows = "several"
	case len(parts) == n+1 && (parts[n] == "reset" || parts[n] == "limit"):
		follows, id = parts[n], strings.Join(parts[:n], "/")
	case len(parts) == n+2 && parts[n+1] == holds:
		follows, id, field = "holds", strings.Join(parts[:n], "/"), parts[n]
	case len(parts) == n+3 && parts[n+1] == holds:
		follows, id, field, hold = "hold", strings.Join(parts[:n], "/"), parts[n], parts[n+2]
	case len(parts) == n+4 && parts[n+1] == holds && parts[n+3] == "settle":
		follows, id, field, hold = "settle", strings.Join(parts[:n], "/"), parts[n], parts[n+2]
	case len(parts) == n+2 && r.Method != http.MethodPost: // or else the caller took a document's path for an id
		follows, id, field, member = "member", strings.Join(parts[:n], "/"), parts[n], parts[n+1]
	case len(parts) == n+3 && parts[n+2] == "confirm":
		follows, id, field, member = "confirm", strings.Join(parts[:n], "/"), parts[n], parts[n+1]
	}
	kind, ok := kinds[follows][r.Method]
	if !ok {
		return nil, wrongMethod(slices.Sorted(maps.Keys(kinds[follows]))...)
	}
	if queryErr != nil { // what is left out could take a seat for good that was to be held
		return nil, bad("the query can't be read: %v", queryErr)
	}
	var known []string
	if byParameter {
		known = append(known, "counter")
	}
	switch {
	case kind == read && byParameter:
		known = append(known, "exact", "field")
	case kind == read:
		known = append(known, "exact")
	case kind == join:
		known = append(known, "hold")
	}
	if err := checkQuery(query, known...); err != nil {
		return nil, err
	}
	if byParameter && id != "" {
		return nil, bad("the path and the parameter counter both name a counter: want one of them")
	}
	q := &request{Request: r, kind: kind}
	var errs [4]error
	q.counter, errs[0] = url.PathUnescape(id)
	q.field, errs[1] = url.PathUnescape(field)
	q.member, errs[2] = url.PathUnescape(member)
	q.holdID, errs[3] = url.PathUnescape(hold)
	if err := cmp.Or(errs[:]...); err != nil {
		return nil, bad("the path can't be read: %v", err)
	}
	if q.member == holds {
		return nil, bad("%q is no member's name here: holds of amounts have its place", holds)
	}
	if byParameter {
		q.counter, q.field = query.Get("counter"), cmp.Or(q.field, query.Get("field"))
	}
	if query.Has("field") && q.field == "" {
		return nil, bad("field is empty; leave it out for the whole counter")
	}
	if exact := query.Get("exact"); exact == "true" {
		q.exact = true
	} else if exact != "" && exact != "false" {
		return nil, bad("exact is %q; want true or false", exact)
	}
	if query.Has("hold") {
		d, err := time.ParseDuration(query.Get("hold"))
		if err != nil || d < shards.MinHold || d > shards.MaxHold {
			return nil, bad("hold is %q; want a time from 1s to 720h, such as 10m", query.Get("hold"))
		}
		q.hold = d
	}
	return q, nil
}

// checkQuery refuses parameters other than the known ones, and those that come twice: exakt=true, left out, would be
// answered from memory.
func checkQuery(query url.Values, known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case !slices.Contains(known, name):
			return bad("unknown parameter %q; want %s", name, cmp.Or(strings.Join(known, ", "), "none"))
		case len(query[name]) > 1:
			return bad("the parameter %q comes twice", name)
		}
	}
	return nil
}
