package engine

import (
	"context"
	"slices"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator/internal/document"
	"github.com/firestore-counters/counters/emulator/internal/query"
	"github.com/firestore-counters/counters/emulator/internal/versions"

	"github.com/firestore-counters/counters/emulator/internal/locks"
)

// RunQuery answers a query, one document a response.
func (e *Engine) RunQuery(ctx context.Context, req *pb.RunQueryRequest, send func(*pb.RunQueryResponse) error) error {
	if req.GetExplainOptions() != nil {
		return errExplain()
	}
	db, err := e.databaseFor(req.GetParent())
	if err != nil {
		return err
	}
	q, err := query.Parse(db.name, req.GetParent(), req.GetStructuredQuery())
	if err != nil {
		return err
	}
	c := consistency{transaction: req.GetTransaction(), begin: req.GetNewTransaction(), readTime: req.GetReadTime()}
	docs, skipped, scanned, m, err := db.results(ctx, q, c)
	if err != nil {
		return err
	}
	if err := e.waitForQuery(ctx, q, req.GetStructuredQuery(), nil); err != nil {
		return err
	}
	e.stats.reads.Add(int64(max(1, len(docs)+skipped)))
	e.stats.readUnits.Add(units(scanned, readUnit))
	if m.transaction != nil {
		if err := send(&pb.RunQueryResponse{Transaction: m.transaction}); err != nil {
			return err
		}
	}
	readTime := timestamp(m.at)
	if len(docs) == 0 {
		return send(&pb.RunQueryResponse{ReadTime: readTime, SkippedResults: int32(skipped)})
	}
	for _, doc := range docs {
		if q.Fields != nil {
			doc = document.Project(doc, q.Fields)
		}
		if err := send(&pb.RunQueryResponse{Document: doc, ReadTime: readTime, SkippedResults: int32(skipped)}); err != nil {
			return err
		}
		skipped = 0
	}
	return nil
}

// entriesPerRead is how many index entries an aggregation counts for the price of one read.
const entriesPerRead = 1000

// RunAggregation counts, sums and averages over the results of a query.
func (e *Engine) RunAggregation(ctx context.Context, req *pb.RunAggregationQueryRequest, send func(*pb.RunAggregationQueryResponse) error) error {
	if req.GetExplainOptions() != nil {
		return errExplain()
	}
	db, err := e.databaseFor(req.GetParent())
	if err != nil {
		return err
	}
	in := req.GetStructuredAggregationQuery()
	q, err := query.Parse(db.name, req.GetParent(), in.GetStructuredQuery())
	if err != nil {
		return err
	}
	aggs, err := query.ParseAggregations(in.GetAggregations())
	if err != nil {
		return err
	}
	var fields []document.Path
	for _, a := range aggs {
		if a.Path != nil {
			fields = append(fields, a.Path)
		}
	}
	if len(fields) > 0 && in.GetStructuredQuery().GetSelect() != nil {
		return invalid("Cannot apply property masks when aggregation fields are present.")
	}
	if !e.opts.Enterprise { // where a scan goes by no index, which leaves documents without the fields out
		if err := q.OrderForSums(fields); err != nil {
			return err
		}
	}
	c := consistency{transaction: req.GetTransaction(), begin: req.GetNewTransaction(), readTime: req.GetReadTime()}
	docs, skipped, scanned, m, err := db.results(ctx, q, c)
	if err != nil {
		return err
	}
	if err := e.waitForQuery(ctx, q, in.GetStructuredQuery(), fields); err != nil {
		return err
	}
	e.stats.reads.Add(max(1, int64(len(docs)+skipped+entriesPerRead-1)/entriesPerRead))
	e.stats.readUnits.Add(units(scanned, readUnit))
	return send(&pb.RunAggregationQueryResponse{
		Transaction: m.transaction,
		ReadTime:    timestamp(m.at),
		Result:      &pb.AggregationResult{AggregateFields: query.Aggregate(aggs, docs, e.opts.Enterprise)},
	})
}

// errExplain is of no use to a client that waits for a plan: there are no indexes here to explain.
func errExplain() error {
	return status.Error(codes.Unimplemented, "Query explain isn't covered here: this server has no indexes. Ask a real database.")
}

// results runs a query at the moment that a reader wants.
func (db *database) results(ctx context.Context, q *query.Query, c consistency) (docs []*pb.Document, skipped, scanned int, m moment, err error) {
	for {
		if m, err = db.moment(ctx, c, func(mode locks.Mode) []locks.Want { return wantsOf(q, mode) }); err != nil {
			return nil, 0, 0, m, err
		}
		docs, skipped, scanned = db.resultsAt(q, m.at)
		if err = db.checkKept(m.at); err == nil || m.pinned {
			return docs, skipped, scanned, m, err
		}
		if c.transaction != nil || c.begin != nil {
			return docs, skipped, scanned, m, nil // what a transaction has locked is as it was
		}
		// The past of the present was cut off while the query ran, which takes very many writes:
		// once more.
	}
}

// resultsAt runs a query on the documents as of a time. skipped is how many of them its offset
// passed over, scanned how many bytes it looked at without an index.
func (db *database) resultsAt(q *query.Query, at int64) (docs []*pb.Document, skipped, scanned int) {
	if q.ByNameOnly() {
		return db.byName(q, at)
	}
	for _, nodes := range db.candidates(q) {
		for _, n := range nodes {
			doc, size := n.SizeAt(at)
			scanned += size
			if doc != nil && q.Matches(doc) {
				docs = append(docs, doc)
			}
		}
	}
	slices.SortFunc(docs, q.Compare)
	skipped = min(q.Offset, len(docs))
	docs = docs[skipped:]
	if q.Limit >= 0 && len(docs) > q.Limit {
		docs = docs[:q.Limit]
	}
	return docs, skipped, scanned
}

// candidates are the nodes of all collections that a query covers.
func (db *database) candidates(q *query.Query) [][]*versions.Node {
	db.mu.Lock()
	defer db.mu.Unlock()
	if q.Collection != "" && !q.AllDescendants {
		if c := db.Collections[q.Parent+"/"+q.Collection]; c != nil {
			return c.Nodes().Parts()
		}
		return nil
	}
	var lists [][]*versions.Node
	for _, part := range db.below(q.Collection, q.Parent).Parts() {
		for _, c := range part {
			if q.Covers(c.Parent, c.ID) {
				lists = append(lists, c.Nodes().Parts()...)
			}
		}
	}
	return lists
}
