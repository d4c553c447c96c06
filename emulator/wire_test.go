package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/slots"
)

func TestMain(m *testing.M) {
	slots.Widen()
	goleak.VerifyTestMain(m)
}

// wire speaks the protocol itself, for what the official client never says.
type wire struct {
	t testing.TB
	pb.FirestoreClient
	db string // projects/{p}/databases/(default)
}

func newWire(t testing.TB, i *emulator.Instance, project string) wire {
	return wire{t: t, FirestoreClient: pb.NewFirestoreClient(i.Conn(t)), db: "projects/" + project + "/databases/(default)"}
}

func (w wire) name(path string) string { return w.db + "/documents/" + path }

func (w wire) commit(tx []byte, writes ...*pb.Write) (*pb.CommitResponse, error) {
	return w.Commit(context.Background(), &pb.CommitRequest{Database: w.db, Writes: writes, Transaction: tx})
}

func (w wire) mustCommit(tx []byte, writes ...*pb.Write) *pb.CommitResponse {
	w.t.Helper()
	resp, err := w.commit(tx, writes...)
	if err != nil {
		w.t.Fatalf("commit: %v", err)
	}
	return resp
}

// set is a write that replaces a document; fields alternates names and values.
func (w wire) set(path string, fields ...any) *pb.Write {
	return &pb.Write{Operation: &pb.Write_Update{Update: &pb.Document{Name: w.name(path), Fields: fieldsOf(fields...)}}}
}

func (w wire) delete(path string) *pb.Write {
	return &pb.Write{Operation: &pb.Write_Delete{Delete: w.name(path)}}
}

// get reads a document; nil if there is none.
func (w wire) get(req *pb.BatchGetDocumentsRequest, path string) (*pb.Document, *timestamppb.Timestamp, error) {
	req.Database, req.Documents = w.db, []string{w.name(path)}
	stream, err := w.BatchGetDocuments(context.Background(), req)
	if err != nil {
		return nil, nil, err
	}
	var doc *pb.Document
	var at *timestamppb.Timestamp
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return doc, at, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if r.GetFound() != nil {
			doc = r.GetFound()
		}
		at = r.ReadTime
	}
}

func (w wire) mustGet(path string) *pb.Document {
	w.t.Helper()
	doc, _, err := w.get(&pb.BatchGetDocumentsRequest{}, path)
	if err != nil {
		w.t.Fatalf("get %s: %v", path, err)
	}
	return doc
}

func (w wire) begin() []byte {
	w.t.Helper()
	resp, err := w.BeginTransaction(context.Background(), &pb.BeginTransactionRequest{Database: w.db})
	if err != nil {
		w.t.Fatalf("begin: %v", err)
	}
	return resp.Transaction
}

func (w wire) getIn(tx []byte, path string) (*pb.Document, error) {
	doc, _, err := w.get(&pb.BatchGetDocumentsRequest{
		ConsistencySelector: &pb.BatchGetDocumentsRequest_Transaction{Transaction: tx}}, path)
	return doc, err
}

func when(w *pb.Write, exists bool) *pb.Write {
	w.CurrentDocument = &pb.Precondition{ConditionType: &pb.Precondition_Exists{Exists: exists}}
	return w
}

func whenUpdated(w *pb.Write, at *timestamppb.Timestamp) *pb.Write {
	w.CurrentDocument = &pb.Precondition{ConditionType: &pb.Precondition_UpdateTime{UpdateTime: at}}
	return w
}

func masked(w *pb.Write, paths ...string) *pb.Write {
	w.UpdateMask = &pb.DocumentMask{FieldPaths: paths}
	return w
}

type fieldTransform = pb.DocumentTransform_FieldTransform

func transformed(w *pb.Write, ts ...*fieldTransform) *pb.Write {
	w.UpdateTransforms = append(w.UpdateTransforms, ts...)
	return w
}

func increment(path string, by any) *fieldTransform {
	return &fieldTransform{FieldPath: path, TransformType: &pb.DocumentTransform_FieldTransform_Increment{Increment: value(by)}}
}

func maximum(path string, v any) *fieldTransform {
	return &fieldTransform{FieldPath: path, TransformType: &pb.DocumentTransform_FieldTransform_Maximum{Maximum: value(v)}}
}

func fieldsOf(pairs ...any) map[string]*pb.Value {
	m := make(map[string]*pb.Value)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = value(pairs[i+1])
	}
	return m
}

func value(v any) *pb.Value {
	switch v := v.(type) {
	case nil:
		return &pb.Value{ValueType: &pb.Value_NullValue{}}
	case bool:
		return &pb.Value{ValueType: &pb.Value_BooleanValue{BooleanValue: v}}
	case int:
		return &pb.Value{ValueType: &pb.Value_IntegerValue{IntegerValue: int64(v)}}
	case int64:
		return &pb.Value{ValueType: &pb.Value_IntegerValue{IntegerValue: v}}
	case float64:
		return &pb.Value{ValueType: &pb.Value_DoubleValue{DoubleValue: v}}
	case string:
		return &pb.Value{ValueType: &pb.Value_StringValue{StringValue: v}}
	case time.Time:
		return &pb.Value{ValueType: &pb.Value_TimestampValue{TimestampValue: timestamppb.New(v)}}
	case []any:
		a := &pb.ArrayValue{}
		for _, e := range v {
			a.Values = append(a.Values, value(e))
		}
		return &pb.Value{ValueType: &pb.Value_ArrayValue{ArrayValue: a}}
	case map[string]any:
		m := &pb.MapValue{Fields: make(map[string]*pb.Value)}
		for k, e := range v {
			m.Fields[k] = value(e)
		}
		return &pb.Value{ValueType: &pb.Value_MapValue{MapValue: m}}
	}
	panic(fmt.Sprintf("no value for %T", v))
}

func wantCode(t testing.TB, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
}

func start(t testing.TB) *emulator.Instance {
	t.Helper()
	return emulator.Start(t)
}
