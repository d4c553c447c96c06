package engine

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator/internal/document"
	"github.com/firestore-counters/counters/emulator/internal/query"
)

// entryKept is for how long a query scans over an entry of an index after the document has another one: as long as
// Firestore keeps versions (https://cloud.google.com/firestore/docs/use-pitr).
const entryKept = time.Hour

// indexes is a model of how long queries take.
//
// A query takes its latency. One that reads an index also scans over entries of versions that were replaced within the
// last hour: each 10,000 of them take some time. Google says that such queries slow down
// (https://cloud.google.com/firestore/docs/best-practices, on deleted data), and not by how much. Entries of numbers
// are counted here, of the field that the query sums up or orders by first, from the filter's lower bound on; queries
// by name have none.
type indexes struct {
	latency    atomic.Int64 // time.Duration; of a query
	tombstones atomic.Int64 // time.Duration; of 10,000 dead entries; 0: none are noted

	mu   sync.Mutex
	dead map[index][]deadEntry // in the order of their deaths
}

// index is of a field in a collection.
type index struct{ collection, path string }

type deadEntry struct {
	died  int64 // microseconds
	value float64
}

// SetQueryLatency makes every query take at least so long.
func (e *Engine) SetQueryLatency(d time.Duration) { e.indexes.latency.Store(int64(max(d, 0))) }

// SetIndexTombstones says how long a query takes to scan over 10,000 dead entries of its index. With 0 none are noted.
func (e *Engine) SetIndexTombstones(d time.Duration) {
	x := &e.indexes
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.tombstones.Store(int64(max(d, 0))); d <= 0 {
		x.dead = nil
	}
}

// note notes which entries of a version are dead, now that another has taken its place.
func (x *indexes) note(now int64, before, after *pb.Document) {
	if x.tombstones.Load() == 0 || before == nil {
		return
	}
	collection, _ := document.SplitParent(before.GetName())
	x.mu.Lock()
	defer x.mu.Unlock()
	x.noteFields(now, collection, nil, before.GetFields(), after.GetFields())
}

func (x *indexes) noteFields(now int64, collection string, below document.Path, before, after map[string]*pb.Value) {
	for name, was := range before {
		path := append(below[:len(below):len(below)], name)
		switch is := after[name]; {
		case was.GetMapValue() != nil:
			x.noteFields(now, collection, path, was.GetMapValue().GetFields(), is.GetMapValue().GetFields())
		case document.IsNumber(was) && !document.Identical(was, is):
			if x.dead == nil {
				x.dead = map[index][]deadEntry{}
			}
			of := index{collection, path.String()}
			list := x.dead[of]
			for len(list) > 0 && now-list[0].died > entryKept.Microseconds() {
				list = list[1:]
			}
			x.dead[of] = append(list, deadEntry{now, document.Float(was)})
		}
	}
}

// scanned is how many dead entries a query scans over in the index of a field.
func (x *indexes) scanned(now int64, of index, least float64) (n int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.dead[of] {
		if e.value >= least && now-e.died <= entryKept.Microseconds() {
			n++
		}
	}
	return n
}

// lowerBound is the least number that a filter lets through in a field.
func lowerBound(f *pb.StructuredQuery_Filter, path string) float64 {
	least := math.Inf(-1)
	for _, part := range f.GetCompositeFilter().GetFilters() {
		if f.GetCompositeFilter().GetOp() == pb.StructuredQuery_CompositeFilter_AND {
			least = max(least, lowerBound(part, path))
		}
	}
	field := f.GetFieldFilter()
	switch field.GetOp() {
	case pb.StructuredQuery_FieldFilter_GREATER_THAN, pb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL, pb.StructuredQuery_FieldFilter_EQUAL:
		if field.GetField().GetFieldPath() == path && document.IsNumber(field.GetValue()) {
			return document.Float(field.GetValue())
		}
	}
	return least
}

// waitForQuery waits for as long as a query takes, which may sum up fields.
func (e *Engine) waitForQuery(ctx context.Context, q *query.Query, in *pb.StructuredQuery, sums []document.Path) error {
	x := &e.indexes
	takes := time.Duration(x.latency.Load())
	path := q.Orders[0].Path
	if path.IsName() && len(sums) > 0 {
		path = sums[0]
	}
	if each := x.tombstones.Load(); each > 0 && !path.IsName() {
		n := x.scanned(e.now(), index{q.Parent + "/" + q.Collection, path.String()}, lowerBound(in.GetWhere(), path.String()))
		takes += time.Duration(each * n / 10_000)
	}
	return e.sleep(ctx, takes)
}
