// Package schema is the data model: which documents counters keeps in Firestore, what they are called, and how their
// fields are written and read. It knows no client and does nothing.
//
//	{collection}/{id}                            num_shards, total, created_at, updated_at, ledger_id
//	{collection}/{id}/shards/{n}                 count
//	{collection}/{id}/counter_rollup/ledger      id, shards, base, ops
//	counter_requests/{hash}                      expire_at, and what was asked
//	counter_rollup/reconcile                     where the last walk over all counters stopped
//
// The first two rows are the layout of Google's public "distributed counters" page. The names of the rest begin with
// counter_ because TTL policies and index exemptions hold for a collection group in the whole database.
package schema

import "strings"

// Names of collections and documents below and beside a counter.
const (
	Shards    = "shards"
	Rollup    = "counter_rollup"
	Ledger    = "ledger"
	Requests  = "counter_requests"
	Reconcile = "reconcile"
)

// Fields of a counter's document.
const (
	NumShards       = "num_shards"
	NumShardsLegacy = "numShards" // what Google's Web and Node.js snippets write
	Total           = "total"
	CreatedAt       = "created_at"
	UpdatedAt       = "updated_at"
	LedgerID        = "ledger_id" // id of the ledger that its total goes by
	Deleting        = "deleting"  // true while a deletion too large for one commit is under way
)

// ExpireAt is the field of a request marker that the TTL policy looks at.
const ExpireAt = "expire_at"

// Layout says where one deployment's counters are.
type Layout struct {
	Database   string // projects/{project}/databases/{database}
	Collection string // top-level collection of the counters, "counters" unless set otherwise
	CountField string // field of a shard that holds its count, "count" unless set otherwise
}

func (l Layout) root() string { return l.Database + "/documents/" }

// Counters is the resource name of the collection's parent, for listing.
func (l Layout) Counters() string { return l.Database + "/documents" }

// Counter is the resource name of a counter's document.
func (l Layout) Counter(id string) string { return l.root() + l.Collection + "/" + id }

// Shard is the resource name of a shard of a counter.
func (l Layout) Shard(id, shard string) string { return l.Counter(id) + "/" + Shards + "/" + shard }

// LedgerOf is the resource name of a counter's ledger.
func (l Layout) LedgerOf(id string) string { return l.Counter(id) + "/" + Rollup + "/" + Ledger }

// Request is the resource name of a request marker.
func (l Layout) Request(hash string) string { return l.root() + Requests + "/" + hash }

// Cursor is the resource name of the document that says where the last walk over all counters stopped.
func (l Layout) Cursor() string { return l.root() + Rollup + "/" + Reconcile }

// ShardName is the resource name of a shard, taken apart.
type ShardName struct {
	Database   string // projects/{project}/databases/{database}
	Collection string
	Counter    string
	Shard      string
}

// ParseShardName takes the resource name of a shard apart. It reports false for a name of any other form.
func ParseShardName(name string) (ShardName, bool) {
	// projects/p/databases/d/documents/counters/c/shards/s
	s := strings.Split(name, "/")
	if len(s) != 9 || s[0] != "projects" || s[2] != "databases" || s[4] != "documents" || s[7] != Shards {
		return ShardName{}, false
	}
	for _, i := range []int{1, 3, 5, 6, 8} {
		if s[i] == "" {
			return ShardName{}, false
		}
	}
	return ShardName{Database: strings.Join(s[:4], "/"), Collection: s[5], Counter: s[6], Shard: s[8]}, true
}
