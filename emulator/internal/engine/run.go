package engine

import (
	"context"
	"slices"
	"sort"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-counters/counters/emulator/internal/document"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	q, err := parseQuery(db.name, req.GetParent(), req.GetStructuredQuery())
	if err != nil {
		return err
	}
	c := consistency{transaction: req.GetTransaction(), begin: req.GetNewTransaction(), readTime: req.GetReadTime()}
	docs, skipped, m, err := db.results(ctx, q, c)
	if err != nil {
		return err
	}
	e.stats.reads.Add(int64(max(1, len(docs)+skipped)))
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
		if q.fields != nil {
			doc = document.Project(doc, q.fields)
		}
		if err := send(&pb.RunQueryResponse{Document: doc, ReadTime: readTime, SkippedResults: int32(skipped)}); err != nil {
			return err
		}
		skipped = 0
	}
	return nil
}

// errExplain is of no use to a client that waits for a plan: there are no indexes here to explain.
func errExplain() error {
	return status.Error(codes.Unimplemented, "Query explain isn't covered here: this server has no indexes. Ask a real database.")
}

// results runs a query at the moment that a reader wants.
func (db *database) results(ctx context.Context, q *query, c consistency) (docs []*pb.Document, skipped int, m moment, err error) {
	for {
		if m, err = db.moment(ctx, c, q.wants); err != nil {
			return nil, 0, m, err
		}
		docs, skipped = db.resultsAt(q, m.at)
		if err = db.checkKept(m.at); err == nil || m.pinned {
			return docs, skipped, m, err
		}
		if c.transaction != nil || c.begin != nil {
			return docs, skipped, m, nil // what a transaction has locked is as it was
		}
		// The past of the present was cut off while the query ran, which takes very many writes: once more.
	}
}

// resultsAt runs a query on the documents as of a time. skipped is how many of them its offset passed over.
func (db *database) resultsAt(q *query, at int64) (docs []*pb.Document, skipped int) {
	lists := db.candidates(q)
	if len(lists) == 1 && q.byNameOnly() {
		return q.scan(lists[0], at)
	}
	for _, nodes := range lists {
		for _, n := range nodes {
			if doc := n.at(at); doc != nil && q.matches(doc) {
				docs = append(docs, doc)
			}
		}
	}
	slices.SortFunc(docs, q.compare)
	skipped = min(q.offset, len(docs))
	docs = docs[skipped:]
	if q.limit >= 0 && len(docs) > q.limit {
		docs = docs[:q.limit]
	}
	return docs, skipped
}

// candidates are the nodes of all collections that a query covers.
func (db *database) candidates(q *query) [][]*node {
	db.mu.Lock()
	defer db.mu.Unlock()
	if q.collection != "" && !q.allDescendants {
		if c := db.collections[q.parent+"/"+q.collection]; c != nil {
			return [][]*node{c.nodes()}
		}
		return nil
	}
	in := db.collections
	if q.collection != "" {
		in = db.groups[q.collection]
	}
	var lists [][]*node
	for _, c := range in {
		if q.covers(c) {
			lists = append(lists, c.nodes())
		}
	}
	return lists
}

// scan runs a query that orders by name on the nodes of one collection, and stops as soon as its window is full: pages
// through a large collection cost what they hold.
func (q *query) scan(nodes []*node, at int64) (docs []*pb.Document, skipped int) {
	first, step := 0, 1
	if q.orders[0].desc {
		first, step = len(nodes)-1, -1
	} else if q.start != nil {
		first = sort.Search(len(nodes), func(i int) bool {
			return document.CompareNames(nodes[i].name, q.start.values[0].GetReferenceValue()) >= 0
		})
	}
	for i := first; i >= 0 && i < len(nodes) && (q.limit < 0 || len(docs) < q.limit); i += step {
		doc := nodes[i].at(at)
		switch {
		case doc == nil || !q.matches(doc):
		case skipped < q.offset:
			skipped++
		default:
			docs = append(docs, doc)
		}
	}
	return docs, skipped
}
