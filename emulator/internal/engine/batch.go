package engine

import (
	"context"
	"crypto/rand"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator/internal/document"
)

// parseBatch checks the writes of a batch.
func parseBatch(req *pb.BatchWriteRequest) ([]operation, error) {
	ops, err := parseWrites(req.GetDatabase(), req.GetWrites())
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(ops))
	for i := range ops {
		if seen[ops[i].name] {
			return nil, invalid("A batch write must not write to one document twice: %s.", ops[i].name)
		}
		seen[ops[i].name] = true
	}
	return ops, nil
}

// CheckBatch tells what is wrong with a BatchWrite that is not going to be done.
func (e *Engine) CheckBatch(req *pb.BatchWriteRequest) error {
	_, err := parseBatch(req)
	return err
}

// BatchWrite applies each write on its own, and answers each with a status of its own. A write that
// makes no sense, or a document that is written twice, fails the request as a whole.
func (e *Engine) BatchWrite(ctx context.Context, req *pb.BatchWriteRequest) (*pb.BatchWriteResponse, error) {
	db, err := e.database(req.GetDatabase())
	if err != nil {
		return nil, err
	}
	ops, err := parseBatch(req)
	if err != nil {
		return nil, err
	}
	resp := &pb.BatchWriteResponse{}
	for i := range ops {
		result := &pb.WriteResult{}
		committed, err := db.commit(ctx, nil, ops[i:i+1])
		if err == nil {
			result = committed.WriteResults[0]
		}
		s := status.Convert(err)
		resp.WriteResults = append(resp.WriteResults, result)
		resp.Status = append(resp.Status, &spb.Status{Code: int32(s.Code()), Message: s.Message()})
	}
	return resp, nil
}

// Create makes a document, with an id of the server's choice if the request has none.
func (e *Engine) Create(ctx context.Context, req *pb.CreateDocumentRequest) (*pb.Document, error) {
	database, err := document.DatabaseOf(req.GetParent())
	if err != nil {
		return nil, err
	}
	if req.GetDocument().GetName() != "" {
		return nil, invalid("document.name must not be set.")
	}
	if strings.Contains(req.GetCollectionId(), "/") || strings.Contains(req.GetDocumentId(), "/") {
		return nil, invalid("An id can't contain a slash.")
	}
	id := req.GetDocumentId()
	if id == "" {
		id = rand.Text()[:20]
	}
	name := req.GetParent() + "/" + req.GetCollectionId() + "/" + id
	return e.writeOne(ctx, database, req.GetMask(), &pb.Write{
		Operation:       &pb.Write_Update{Update: &pb.Document{Name: name, Fields: req.GetDocument().GetFields()}},
		CurrentDocument: &pb.Precondition{ConditionType: &pb.Precondition_Exists{}},
	})
}

// Update writes a document, or the fields of its mask.
func (e *Engine) Update(ctx context.Context, req *pb.UpdateDocumentRequest) (*pb.Document, error) {
	database, err := document.DatabaseOf(req.GetDocument().GetName())
	if err != nil {
		return nil, err
	}
	return e.writeOne(ctx, database, req.GetMask(), &pb.Write{
		Operation:       &pb.Write_Update{Update: req.GetDocument()},
		UpdateMask:      req.GetUpdateMask(),
		CurrentDocument: req.GetCurrentDocument(),
	})
}

// writeOne commits one write and reads what it has made of the document.
func (e *Engine) writeOne(ctx context.Context, database string, mask *pb.DocumentMask, w *pb.Write) (*pb.Document, error) {
	fields, err := document.ParseMask(mask)
	if err != nil {
		return nil, err
	}
	resp, err := e.Commit(ctx, &pb.CommitRequest{Database: database, Writes: []*pb.Write{w}})
	if err != nil {
		return nil, err
	}
	db, err := e.database(database)
	if err != nil {
		return nil, err
	}
	doc := db.lookup(w.GetUpdate().GetName(), micros(resp.CommitTime))
	if fields != nil && doc != nil {
		doc = document.Project(doc, fields)
	}
	return doc, nil
}

// Delete deletes a document.
func (e *Engine) Delete(ctx context.Context, req *pb.DeleteDocumentRequest) error {
	database, err := document.DatabaseOf(req.GetName())
	if err != nil {
		return err
	}
	_, err = e.Commit(ctx, &pb.CommitRequest{Database: database, Writes: []*pb.Write{{
		Operation:       &pb.Write_Delete{Delete: req.GetName()},
		CurrentDocument: req.GetCurrentDocument(),
	}}})
	return err
}
