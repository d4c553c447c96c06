package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// session is one scenario's conversation with one server.
type session struct {
	*testing.T
	ctx    context.Context
	client *firestore.Client  // the official client
	api    pb.FirestoreClient // the same connection, raw
	addr   string
	db     string // projects/{project}/databases/(default)
	lines  []string

	// lockWaits is how many calls have waited for a lock so far, where the server says so.
	lockWaits func() int64
}

func newSession(ctx context.Context, t *testing.T, addr, project string) *session {
	t.Helper()
	conn, err := grpc.NewClient(addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(owner{}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	client, err := firestore.NewClient(ctx, project, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); conn.Close() })
	db := "projects/" + project + "/databases/(default)"
	ctx = metadata.AppendToOutgoingContext(ctx, "google-cloud-resource-prefix", db)
	return &session{T: t, ctx: ctx, addr: addr, client: client, api: pb.NewFirestoreClient(conn), db: db}
}

// owner is what clients of an emulator send for credentials.
type owner struct{}

func (owner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

func (owner) RequireTransportSecurity() bool { return false }

// must ends the scenario: what fails is only the way to what it is about.
func (s *session) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *session) root() string            { return s.db + "/documents" }
func (s *session) name(path string) string { return s.root() + "/" + path }

// Writes. fields are Go values, as value takes them.

type fields map[string]any

func (s *session) set(path string, f fields) *pb.Write {
	return &pb.Write{Operation: &pb.Write_Update{Update: &pb.Document{Name: s.name(path), Fields: values(f)}}}
}

// patch writes the fields of a mask; without paths the mask is there, and empty.
func (s *session) patch(path string, f fields, mask ...string) *pb.Write {
	w := s.set(path, f)
	w.UpdateMask = &pb.DocumentMask{FieldPaths: mask}
	return w
}

func (s *session) remove(path string) *pb.Write {
	return &pb.Write{Operation: &pb.Write_Delete{Delete: s.name(path)}}
}

func exists(w *pb.Write, yes bool) *pb.Write {
	w.CurrentDocument = &pb.Precondition{ConditionType: &pb.Precondition_Exists{Exists: yes}}
	return w
}

func transformed(w *pb.Write, transforms ...*pb.DocumentTransform_FieldTransform) *pb.Write {
	w.UpdateTransforms = transforms
	return w
}

// send commits without noting anything.
func (s *session) send(writes ...*pb.Write) (*pb.CommitResponse, error) {
	return s.api.Commit(s.ctx, &pb.CommitRequest{Database: s.db, Writes: writes})
}

// given commits what the scenario starts from.
func (s *session) given(writes ...*pb.Write) *pb.CommitResponse {
	s.Helper()
	resp, err := s.send(writes...)
	s.must(err)
	return resp
}

// commit notes what becomes of a commit.
func (s *session) commit(label string, writes ...*pb.Write) *pb.CommitResponse {
	resp, err := s.send(writes...)
	s.note(label, resp, err)
	return resp
}

// document reads one document; nil when there is none.
func (s *session) document(req *pb.BatchGetDocumentsRequest, path string) (*pb.Document, error) {
	req.Database, req.Documents = s.db, []string{s.name(path)}
	stream, err := s.api.BatchGetDocuments(s.ctx, req)
	if err != nil {
		return nil, err
	}
	var doc *pb.Document
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return doc, nil
		}
		if err != nil {
			return nil, err
		}
		if resp.GetFound() != nil {
			doc = resp.GetFound()
		}
	}
}

// get notes a document.
func (s *session) get(label, path string) *pb.Document {
	doc, err := s.document(&pb.BatchGetDocumentsRequest{}, path)
	s.note(label, doc, err)
	return doc
}

// results reads all of a query.
func (s *session) results(req *pb.RunQueryRequest) ([]*pb.Document, error) {
	if req.Parent == "" {
		req.Parent = s.root()
	}
	stream, err := s.api.RunQuery(s.ctx, req)
	if err != nil {
		return nil, err
	}
	docs := []*pb.Document{}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, err
		}
		if resp.GetDocument() != nil {
			docs = append(docs, resp.GetDocument())
		}
	}
}

// query notes the ids of a query's results, in their order.
func (s *session) query(label string, q *pb.StructuredQuery) {
	docs, err := s.results(&pb.RunQueryRequest{QueryType: &pb.RunQueryRequest_StructuredQuery{StructuredQuery: q}})
	s.note(label, s.paths(docs), err)
}

// paths are the documents' names below the root.
func (s *session) paths(docs []*pb.Document) []string {
	out := []string{}
	for _, d := range docs {
		out = append(out, d.Name[len(s.root())+1:])
	}
	return out
}

// all are the paths of a query of the official client.
func (s *session) all(it *firestore.DocumentIterator) ([]string, error) {
	defer it.Stop()
	out := []string{}
	for {
		doc, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, doc.Ref.Path[len(s.root())+1:])
	}
}

func numbered(format string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(format, i)
	}
	return out
}
