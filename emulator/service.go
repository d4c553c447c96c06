package emulator

import (
	"context"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/firestore-counters/counters/emulator/internal/engine"
)

// service is the gRPC face of the engine.
type service struct {
	firestorepb.UnimplementedFirestoreServer
	server *Server
	engine *engine.Engine
}

// maxRequestBytes is Firestore's limit on a request.
const maxRequestBytes = 10 << 20

func checkRequestSize(req proto.Message) error {
	if proto.Size(req) > maxRequestBytes {
		return status.Errorf(codes.InvalidArgument, "Request payload size exceeds the limit: %d bytes.", maxRequestBytes)
	}
	return nil
}

func (s *service) Commit(ctx context.Context, req *firestorepb.CommitRequest) (*firestorepb.CommitResponse, error) {
	if err := checkRequestSize(req); err != nil {
		return nil, err
	}
	return s.server.commit(ctx, req)
}

func (s *service) BatchGetDocuments(req *firestorepb.BatchGetDocumentsRequest, stream firestorepb.Firestore_BatchGetDocumentsServer) error {
	return refuse(stream, s.engine.BatchGet(stream.Context(), req, stream.Send))
}

func (s *service) GetDocument(ctx context.Context, req *firestorepb.GetDocumentRequest) (*firestorepb.Document, error) {
	return s.engine.Get(ctx, req)
}

func (s *service) CreateDocument(ctx context.Context, req *firestorepb.CreateDocumentRequest) (*firestorepb.Document, error) {
	return s.engine.Create(ctx, req)
}

func (s *service) UpdateDocument(ctx context.Context, req *firestorepb.UpdateDocumentRequest) (*firestorepb.Document, error) {
	return s.engine.Update(ctx, req)
}

func (s *service) DeleteDocument(ctx context.Context, req *firestorepb.DeleteDocumentRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, s.engine.Delete(ctx, req)
}

func (s *service) BatchWrite(ctx context.Context, req *firestorepb.BatchWriteRequest) (*firestorepb.BatchWriteResponse, error) {
	if err := checkRequestSize(req); err != nil {
		return nil, err
	}
	if denied := checkAdmin(ctx, "BatchWrite"); denied != nil {
		if err := s.engine.CheckBatch(req); err != nil { // first of all, as by the official emulator
			return nil, err
		}
		return nil, denied
	}
	return s.engine.BatchWrite(ctx, req)
}

func (s *service) ListDocuments(ctx context.Context, req *firestorepb.ListDocumentsRequest) (*firestorepb.ListDocumentsResponse, error) {
	if req.GetShowMissing() {
		if err := checkAdmin(ctx, "ListDocuments with show_missing"); err != nil {
			return nil, err
		}
	}
	return s.engine.ListDocuments(ctx, req)
}

func (s *service) ListCollectionIds(ctx context.Context, req *firestorepb.ListCollectionIdsRequest) (*firestorepb.ListCollectionIdsResponse, error) {
	if err := checkAdmin(ctx, "ListCollectionIds"); err != nil {
		return nil, err
	}
	return s.engine.ListCollectionIDs(ctx, req)
}

func (s *service) BeginTransaction(_ context.Context, req *firestorepb.BeginTransactionRequest) (*firestorepb.BeginTransactionResponse, error) {
	return s.engine.Begin(req)
}

func (s *service) Rollback(_ context.Context, req *firestorepb.RollbackRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, s.engine.Rollback(req)
}

func (s *service) RunQuery(req *firestorepb.RunQueryRequest, stream firestorepb.Firestore_RunQueryServer) error {
	return refuse(stream, s.engine.RunQuery(stream.Context(), req, stream.Send))
}

func (s *service) RunAggregationQuery(req *firestorepb.RunAggregationQueryRequest, stream firestorepb.Firestore_RunAggregationQueryServer) error {
	return refuse(stream, s.engine.RunAggregation(stream.Context(), req, stream.Send))
}

// refuse ends a stream with an error that no repetition helps, behind headers: a stream that ends
// without any is begun again by Node's client, whatever its code, for seven seconds.
func refuse(stream grpc.ServerStream, err error) error {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.Unimplemented, codes.FailedPrecondition, codes.NotFound, codes.PermissionDenied:
		_ = stream.SendHeader(nil) // sent already, or the client is gone
	}
	return err
}

func (s *service) PartitionQuery(ctx context.Context, req *firestorepb.PartitionQueryRequest) (*firestorepb.PartitionQueryResponse, error) {
	if err := checkAdmin(ctx, "PartitionQuery"); err != nil {
		return nil, err
	}
	return s.engine.PartitionQuery(ctx, req)
}

func (s *service) ExecutePipeline(*firestorepb.ExecutePipelineRequest, firestorepb.Firestore_ExecutePipelineServer) error {
	return status.Error(codes.Unimplemented, "Pipelines aren't covered here: use RunQuery, or a database of the Enterprise edition.")
}
