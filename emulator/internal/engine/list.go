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
		until := ""
		if len(docs) > size {
			until = docs[size].Name
		}
		docs = append(docs, db.missing(q, after, until, m.at)...)
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
// them: the first behind a name, as many as the query's limit, and none behind another name, unless
// that is "".
func (db *database) missing(q *query.Query, after, until string, at int64) (out []*pb.Document) {
	within := q.Parent
	if q.Collection != "" {
		within += "/" + q.Collection
	}
	db.eachAbove(within, after, at, func(below string) (name string) {
		id, rest, _ := strings.Cut(below[len(q.Parent)+1:], "/")
		if rest == "" {
			return "" // a collection right below the parent, in which nothing is missing
		}
		doc, _, _ := strings.Cut(rest, "/")
		return q.Parent + "/" + id + "/" + doc
	}, func(name string) bool {
		if until != "" && document.CompareNames(name, until) > 0 {
			return false
		}
		if db.lookup(name, at) == nil {
			out = append(out, &pb.Document{Name: name})
		}
		return len(out) < q.Limit
	})
	return out
}

// eachAbove calls found, until it returns false, with what lies above the collections below a name, as above says it,
// in the order of names and behind a name: where there are documents as of a time. It costs what is found, and not what
// is below that.
func (db *database) eachAbove(name, after string, at int64, above func(collection string) string, found func(name string) bool) {
	db.mu.Lock()
	rest := db.below("", name)
	db.mu.Unlock()
	behind := func(name string) func(*versions.Collection) bool {
		return func(c *versions.Collection) bool {
			return document.CompareNames(c.Name, name) > 0 && !strings.HasPrefix(c.Name, name+"/")
		}
	}
	if after != "" {
		rest = rest.From(behind(after))
	}
	for {
		c, ok := versions.End(&rest, false)
		if !ok {
			return
		}
		name := above(c.Name)
		switch {
		case name == "" || !db.anyAt(c, at):
			versions.Cut(&rest, false)
			continue
		case !found(name):
			return
		}
		rest = rest.From(behind(name))
	}
}

// anyAt reports whether a collection has a document as of a time.
func (db *database) anyAt(c *versions.Collection, at int64) bool {
	db.mu.Lock()
	nodes := c.Nodes()
	db.mu.Unlock()
	return slices.ContainsFunc(nodes.Parts(), func(part []*versions.Node) bool {
		return slices.ContainsFunc(part, func(n *versions.Node) bool { return n.At(at) != nil })
	})
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
	if after != "" {
		after = req.GetParent() + "/" + after
	}
	var ids []string
	db.eachAbove(req.GetParent(), after, m.at, func(below string) string {
		id, _, _ := strings.Cut(below[len(req.GetParent())+1:], "/")
		return req.GetParent() + "/" + id
	}, func(name string) bool {
		ids = append(ids, name[len(req.GetParent())+1:])
		return len(ids) <= size
	})
	if err := db.checkKept(m.at); err != nil {
		return nil, err
	}
	resp := &pb.ListCollectionIdsResponse{CollectionIds: ids}
	if len(ids) > size {
		resp.CollectionIds = ids[:size]
		resp.NextPageToken = encodePage(ids[size-1])
	}
	e.stats.reads.Add(1)
	return resp, nil
}
