package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// maxRequestBytes bounds the body of a request.
const maxRequestBytes = 16 << 20

// request is one of the REST API.
type request struct {
	ctx   context.Context
	name  string // resource name that the path gives
	body  []byte
	query url.Values
}

// parent cuts the name's last id off.
func (r *request) parent() (parent, id string) {
	i := strings.LastIndexByte(r.name, '/')
	return r.name[:i], r.name[i+1:]
}

// database is what the name begins with: projects/{p}/databases/{d}.
func (r *request) database() string {
	return strings.Join(strings.SplitN(r.name, "/", 5)[:4], "/")
}

// document reports whether the name is a document's, and not a collection's.
func (r *request) document() bool { return strings.Count(r.name, "/")%2 == 0 }

// serveREST answers /v1/projects/{p}/databases/{d}/documents…
func (h *Handler) serveREST(w http.ResponseWriter, r *http.Request) {
	resp, err := h.answer(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, resp)
}

func (h *Handler) answer(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	name, verb, err := parsePath(r)
	if err != nil {
		return nil, err
	}
	call := h.call(r.Method, name, verb)
	if call == nil {
		return nil, status.Errorf(codes.NotFound, "There is no %s %s.", r.Method, r.URL.Path)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	return call(&request{ctx: incoming(r.Context(), r.Header), name: name, body: body, query: r.URL.Query()})
}

// parsePath finds the resource name in the path, and the verb behind it. A colon of an id may be
// there as it is, or escaped; in a POST the last one that is not escaped is the verb's.
func parsePath(r *http.Request) (name, verb string, err error) {
	_, path, _ := strings.Cut(strings.TrimSuffix(r.URL.EscapedPath()[1:], "/"), "/") // without the version
	if i := strings.LastIndexByte(path, ':'); i > strings.LastIndexByte(path, '/') && r.Method == http.MethodPost {
		path, verb = path[:i], path[i+1:]
	}
	ids := strings.Split(path, "/")
	if len(ids) < 5 || ids[0] != "projects" || ids[2] != "databases" || ids[4] != "documents" {
		return "", "", status.Errorf(codes.NotFound, "No such path: %s.", r.URL.Path)
	}
	name, err = unescape(ids)
	return name, verb, err
}

// call finds what answers a request; nil: nothing does.
func (h *Handler) call(method, name, verb string) func(*request) ([]byte, error) {
	s := h.Service
	named := &request{name: name}
	root := strings.Count(name, "/") == 4
	switch {
	case verb != "":
		return h.verb(verb)
	case root:
		return nil
	case method == http.MethodGet && named.document():
		return unary(s.GetDocument, (*request).get)
	case method == http.MethodGet:
		return unary(s.ListDocuments, (*request).list)
	case method == http.MethodPost:
		return unary(s.CreateDocument, (*request).create)
	case method == http.MethodPatch:
		return unary(s.UpdateDocument, (*request).update)
	case method == http.MethodDelete:
		return unary(s.DeleteDocument, (*request).remove)
	}
	return nil
}

func (h *Handler) verb(verb string) func(*request) ([]byte, error) {
	s := h.Service
	switch verb {
	case "commit":
		return unary(s.Commit, inDatabase(func(m *pb.CommitRequest, db string) { m.Database = db }))
	case "batchWrite":
		return unary(s.BatchWrite, inDatabase(func(m *pb.BatchWriteRequest, db string) { m.Database = db }))
	case "beginTransaction":
		return unary(s.BeginTransaction, inDatabase(func(m *pb.BeginTransactionRequest, db string) { m.Database = db }))
	case "rollback":
		return unary(s.Rollback, inDatabase(func(m *pb.RollbackRequest, db string) { m.Database = db }))
	case "batchGet":
		return streamed(func(m *pb.BatchGetDocumentsRequest, c *collector[pb.BatchGetDocumentsResponse]) error {
			return s.BatchGetDocuments(m, c)
		}, inDatabase(func(m *pb.BatchGetDocumentsRequest, db string) { m.Database = db }))
	case "runQuery":
		return streamed(func(m *pb.RunQueryRequest, c *collector[pb.RunQueryResponse]) error {
			return s.RunQuery(m, c)
		}, below(func(m *pb.RunQueryRequest, parent string) { m.Parent = parent }))
	case "runAggregationQuery":
		return streamed(func(m *pb.RunAggregationQueryRequest, c *collector[pb.RunAggregationQueryResponse]) error {
			return s.RunAggregationQuery(m, c)
		}, below(func(m *pb.RunAggregationQueryRequest, parent string) { m.Parent = parent }))
	case "listCollectionIds":
		return unary(s.ListCollectionIds, below(func(m *pb.ListCollectionIdsRequest, parent string) { m.Parent = parent }))
	case "partitionQuery":
		return unary(s.PartitionQuery, below(func(m *pb.PartitionQueryRequest, parent string) { m.Parent = parent }))
	}
	return nil
}

// inDatabase reads a request whose body is the message, and whose path names a database.
func inDatabase[T any, M message[T]](set func(m M, database string)) func(*request, M) error {
	return func(r *request, m M) error {
		if err := r.decodeBody(m); err != nil {
			return err
		}
		set(m, r.database())
		return nil
	}
}

// below reads a request whose body is the message, and whose path names the document or the root it
// is about.
func below[T any, M message[T]](set func(m M, parent string)) func(*request, M) error {
	return func(r *request, m M) error {
		if err := r.decodeBody(m); err != nil {
			return err
		}
		set(m, r.name)
		return nil
	}
}

func (r *request) decodeBody(into proto.Message) error {
	if len(r.body) == 0 {
		return nil
	}
	return decode(r.body, into)
}

func (r *request) get(m *pb.GetDocumentRequest) error {
	m.Name = r.name
	return setParams(m, r.query)
}

func (r *request) list(m *pb.ListDocumentsRequest) error {
	m.Parent, m.CollectionId = r.parent()
	return setParams(m, r.query)
}

func (r *request) create(m *pb.CreateDocumentRequest) error {
	m.Document = &pb.Document{}
	if err := r.decodeBody(m.Document); err != nil {
		return err
	}
	m.Parent, m.CollectionId = r.parent()
	return setParams(m, r.query)
}

func (r *request) update(m *pb.UpdateDocumentRequest) error {
	m.Document = &pb.Document{}
	if err := r.decodeBody(m.Document); err != nil {
		return err
	}
	m.Document.Name = r.name
	return setParams(m, r.query)
}

func (r *request) remove(m *pb.DeleteDocumentRequest) error {
	m.Name = r.name
	return setParams(m, r.query)
}
