package engine

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/emulator/internal/document"
	"github.com/firestore-counters/counters/emulator/internal/query"
	"github.com/firestore-counters/counters/emulator/internal/versions"
)

// maxPage is how many documents or ids a page of a list holds at most.
const maxPage = 300

func pageSize(asked int32) (int, error) {
	switch {
	case asked < 0:
		return 0, invalid("page_size must not be negative.")
	case asked == 0 || asked > maxPage:
		return maxPage, nil
	}
	return int(asked), nil
}

// A page token is the name or id after which the next page begins.

func encodePage(after string) string { return base64.RawURLEncoding.EncodeToString([]byte(after)) }

func decodePage(token string) (after string, err error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", invalid("Invalid page token.")
	}
	return string(b), nil
}

// ListDocuments lists the documents of a collection by name, a page at a time; with show_missing
// also names of documents that don't exist and have documents below them.
func (e *Engine) ListDocuments(ctx context.Context, req *pb.ListDocumentsRequest) (*pb.ListDocumentsResponse, error) {
	db, err := e.databaseFor(req.GetParent())
	if err != nil {
		return nil, err
	}
	orders, err := parseOrderBy(req.GetOrderBy())
	if err != nil {
		return nil, err
	}
	size, err := pageSize(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	mask, err := document.ParseMask(req.GetMask())
	if err != nil {
		return nil, err
	}
	q, err := query.Parse(db.name, req.GetParent(), &pb.StructuredQuery{
		From:    []*pb.StructuredQuery_CollectionSelector{{CollectionId: req.GetCollectionId()}},
		OrderBy: orders,
	})
	if err != nil {
		return nil, err
	}
	if req.GetShowMissing() && len(orders) > 0 {
		return nil, invalid("cannot specify an order when show_missing is true")
	}
	after, err := db.pageStart(req, q)
	if err != nil {
		return nil, err
	}
	q.Limit = size + 1
	q.Missing = req.GetShowMissing()
	c := consistency{transaction: req.GetTransaction(), readTime: req.GetReadTime()}
	docs, _, _, m, err := db.results(ctx, q, c)
	if err != nil {
		return nil, err
	}
	if q.Missing {
		docs = append(docs, db.missing(q, after, m.at)...)
		slices.SortFunc(docs, q.Compare)
	}
	resp := &pb.ListDocumentsResponse{}
	if len(docs) > size {
		docs = docs[:size]
		resp.NextPageToken = pageAfter(q, docs[size-1])
	}
	e.stats.reads.Add(int64(max(1, len(docs))))
	e.stats.readUnits.Add(int64(max(1, len(docs))))
	for _, doc := range docs {
		if mask != nil {
			doc = document.Project(doc, mask)
		}
		resp.Documents = append(resp.Documents, doc)
	}
	return resp, nil
}

// parseOrderBy reads an order as ListDocuments has it: paths of fields, each with asc or desc or
// neither, and commas.
func parseOrderBy(text string) ([]*pb.StructuredQuery_Order, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var orders []*pb.StructuredQuery_Order
	for part := range strings.SplitSeq(text, ",") {
		words := strings.Fields(part)
		direction := pb.StructuredQuery_ASCENDING
		if len(words) == 2 {
			switch strings.ToLower(words[1]) {
			case "asc":
			case "desc":
				direction = pb.StructuredQuery_DESCENDING
			default:
				words = nil
			}
		}
		if len(words) == 0 || len(words) > 2 {
			return nil, invalid("Invalid order_by %q: want paths of fields, each with asc or desc if need be, separated by commas.", text)
		}
		orders = append(orders, &pb.StructuredQuery_Order{Field: &pb.StructuredQuery_FieldReference{FieldPath: words[0]}, Direction: direction})
	}
	return orders, nil
}

// pageAfter is the token of the page that begins behind a document: its name, or what it is ordered
// by.
func pageAfter(q *query.Query, doc *pb.Document) string {
	if q.ByNameOnly() {
		return encodePage(doc.Name)
	}
	place := &pb.ArrayValue{}
	for _, o := range q.Orders {
		place.Values = append(place.Values, query.FieldOf(doc, o.Path))
	}
	data, _ := proto.Marshal(place) // of values that were sent and stored
	return encodePage(string(data))
}

// pageStart lets the query begin where the page does, and returns the name behind which, in the
// order of names; "" for the first page.
func (db *database) pageStart(req *pb.ListDocumentsRequest, q *query.Query) (after string, err error) {
	if req.GetPageToken() == "" {
		return "", nil
	}
	after, err = decodePage(req.GetPageToken())
	if err != nil {
		return "", err
	}
	if !q.ByNameOnly() {
		var place pb.ArrayValue
		if proto.Unmarshal([]byte(after), &place) != nil || len(place.Values) != len(q.Orders) {
			return "", invalid("Invalid page token.")
		}
		q.Start = &query.Cursor{Values: place.Values}
		return "", nil
	}
	if document.CheckName(db.name, after) != nil || !strings.HasPrefix(after, req.GetParent()+"/") {
		return "", invalid("Invalid page token.")
	}
	q.Start = &query.Cursor{Values: []*pb.Value{{ValueType: &pb.Value_ReferenceValue{ReferenceValue: after}}}}
	return after, nil
}

// missing are the documents of the query's collection that don't exist, but have documents below
// them.
func (db *database) missing(q *query.Query, after string, at int64) []*pb.Document {
	db.mu.Lock()
	below := make(map[string][][]*versions. // name of a document of the collection → what is below it
						Node)
	for _, c := range db.Collections {
		rest, ok := strings.CutPrefix(c.Parent, q.Parent+"/")
		if !ok {
			continue
		}
		id, rest, _ := strings.Cut(rest, "/")
		if q.Collection != "" && id != q.Collection {
			continue
		}
		doc, _, _ := strings.Cut(rest, "/")
		name := q.Parent + "/" + id + "/" + doc
		if after == "" || document.CompareNames(name, after) > 0 {
			below[name] = append(below[name], c.Nodes())
		}
	}
	db.mu.Unlock()
	var out []*pb.Document
	for name, lists := range below {
		if db.lookup(name, at) == nil && slices.ContainsFunc(lists, func(l []*versions.Node) bool { return anyAt(l, at) }) {
			out = append(out, &pb.Document{Name: name})
		}
	}
	return out
}

func anyAt(nodes []*versions.Node, at int64) bool {
	return slices.ContainsFunc(nodes, func(n *versions.Node) bool { return n.At(at) != nil })
}

// ListCollectionIDs lists the ids of the collections under a document, or at the root, that have
// documents, at whatever depth.
func (e *Engine) ListCollectionIDs(ctx context.Context, req *pb.ListCollectionIdsRequest) (*pb.ListCollectionIdsResponse, error) {
	db, err := e.databaseFor(req.GetParent())
	if err != nil {
		return nil, err
	}
	if err := document.CheckParent(db.name, req.GetParent()); err != nil {
		return nil, err
	}
	size, err := pageSize(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	after, err := decodePage(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	m, err := db.moment(ctx, consistency{readTime: req.GetReadTime()}, nil)
	if err != nil {
		return nil, err
	}
	ids := db.collectionIDs(req.GetParent(), m.at)
	if err := db.checkKept(m.at); err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return after != "" && document.CompareIDs(id, after) <= 0 })
	resp := &pb.ListCollectionIdsResponse{CollectionIds: ids}
	if len(ids) > size {
		resp.CollectionIds = ids[:size]
		resp.NextPageToken = encodePage(ids[size-1])
	}
	e.stats.reads.Add(1)
	return resp, nil
}

func (db *database) collectionIDs(parent string, at int64) []string {
	db.mu.Lock()
	below := make(map[string][][]*versions.Node)
	for _, c := range db.Collections {
		if rest, ok := strings.CutPrefix(c.Name, parent+"/"); ok {
			id, _, _ := strings.Cut(rest, "/")
			below[id] = append(below[id], c.Nodes())
		}
	}
	db.mu.Unlock()
	var ids []string
	for id, lists := range below {
		if slices.ContainsFunc(lists, func(l []*versions.Node) bool { return anyAt(l, at) }) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, document.CompareIDs)
	return ids
}
