package document

import (
	"fmt"
	"testing"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/genproto/googleapis/type/latlng"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"
)

var testTime = rapid.Custom(func(t *rapid.T) *timestamppb.Timestamp {
	if rapid.Bool().Draw(t, "unset") {
		return nil
	}
	return &timestamppb.Timestamp{Seconds: rapid.Int64().Draw(t, "seconds"), Nanos: rapid.Int32().Draw(t, "nanos")}
})

// valueOf draws a value that may hold others, so deep.
func valueOf(depth int) *rapid.Generator[*pb.Value] {
	return rapid.Custom(func(t *rapid.T) *pb.Value {
		kinds := 11
		if depth > 0 {
			kinds = 15
		}
		switch rapid.IntRange(0, kinds).Draw(t, "kind") {
		case 0:
			return Null()
		case 1:
			return &pb.Value{ValueType: &pb.Value_BooleanValue{BooleanValue: rapid.Bool().Draw(t, "boolean")}}
		case 2:
			return Int(rapid.Int64().Draw(t, "integer"))
		case 3:
			return Double(rapid.Float64().Draw(t, "double"))
		case 4:
			return &pb.Value{ValueType: &pb.Value_StringValue{StringValue: rapid.String().Draw(t, "text")}}
		case 5:
			return &pb.Value{ValueType: &pb.Value_ReferenceValue{ReferenceValue: rapid.String().Draw(t, "reference")}}
		case 6:
			return &pb.Value{ValueType: &pb.Value_BytesValue{BytesValue: rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")}}
		case 7:
			return &pb.Value{ValueType: &pb.Value_TimestampValue{TimestampValue: testTime.Draw(t, "time")}}
		case 8:
			return &pb.Value{ValueType: &pb.Value_GeoPointValue{GeoPointValue: &latlng.LatLng{Latitude: 1, Longitude: 2}}}
		case 9:
			return &pb.Value{ValueType: &pb.Value_FieldReferenceValue{FieldReferenceValue: "f"}}
		case 10:
			return &pb.Value{}
		case 11:
			return &pb.Value{ValueType: &pb.Value_MapValue{}}
		case 12, 13:
			return &pb.Value{ValueType: &pb.Value_MapValue{MapValue: &pb.MapValue{Fields: fieldsOf(depth-1).Draw(t, "map")}}}
		default:
			return Array(rapid.SliceOfN(valueOf(depth-1), 0, 3).Draw(t, "array"))
		}
	})
}

func fieldsOf(depth int) *rapid.Generator[map[string]*pb.Value] {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), valueOf(depth), 0, 3)
}

var testDocument = rapid.Custom(func(t *rapid.T) *pb.Document {
	return &pb.Document{Name: rapid.String().Draw(t, "name"), Fields: fieldsOf(2).Draw(t, "fields"), CreateTime: testTime.Draw(t, "created"), UpdateTime: testTime.Draw(t, "updated")}
})

var testMessage = rapid.Custom(func(t *rapid.T) proto.Message {
	bytes := rapid.SliceOf(rapid.Byte()).Draw(t, "transaction")
	doc := testDocument.Draw(t, "document")
	at := testTime.Draw(t, "at")
	switch rapid.IntRange(0, 8).Draw(t, "message") {
	case 0:
		return &pb.BatchGetDocumentsResponse{Result: &pb.BatchGetDocumentsResponse_Found{Found: doc}, Transaction: bytes, ReadTime: at}
	case 1:
		return &pb.BatchGetDocumentsResponse{Result: &pb.BatchGetDocumentsResponse_Missing{Missing: doc.Name}, ReadTime: at}
	case 2:
		return &pb.RunQueryResponse{Document: doc, Transaction: bytes, ReadTime: at, SkippedResults: rapid.Int32().Draw(t, "skipped")}
	case 3:
		return &pb.RunQueryResponse{Document: doc, ContinuationSelector: &pb.RunQueryResponse_Done{Done: true}, ExplainMetrics: &pb.ExplainMetrics{}}
	case 4:
		return (*pb.RunQueryResponse)(nil)
	case 5, 6:
		req := &pb.BatchGetDocumentsRequest{Database: "d", Documents: rapid.SliceOf(rapid.String()).Draw(t, "documents")}
		if rapid.Bool().Draw(t, "masked") {
			req.Mask = &pb.DocumentMask{FieldPaths: rapid.SliceOf(rapid.String()).Draw(t, "mask")}
		}
		if rapid.Bool().Draw(t, "in a transaction") {
			req.ConsistencySelector = &pb.BatchGetDocumentsRequest_Transaction{Transaction: bytes}
		}
		return req
	case 7:
		return &pb.RunAggregationQueryResponse{ReadTime: at, Result: &pb.AggregationResult{AggregateFields: doc.Fields}}
	}
	req := &pb.CommitRequest{Database: "d", Transaction: bytes}
	if rapid.Bool().Draw(t, "options") {
		req.RequestOptions = &pb.RequestOptions{}
	}
	for range rapid.IntRange(0, 3).Draw(t, "writes") {
		w := &pb.Write{Operation: &pb.Write_Update{Update: testDocument.Draw(t, "written")}}
		if rapid.Bool().Draw(t, "removes") {
			w.Operation = &pb.Write_Delete{Delete: doc.Name}
		}
		if rapid.Bool().Draw(t, "masked") {
			w.UpdateMask = &pb.DocumentMask{FieldPaths: rapid.SliceOf(rapid.String()).Draw(t, "mask")}
		}
		if rapid.Bool().Draw(t, "on a condition") {
			w.CurrentDocument = &pb.Precondition{ConditionType: &pb.Precondition_UpdateTime{UpdateTime: at}}
		}
		for range rapid.IntRange(0, 2).Draw(t, "transforms") {
			f := &pb.DocumentTransform_FieldTransform{FieldPath: "a.b", TransformType: &pb.DocumentTransform_FieldTransform_Increment{Increment: Int(7)}}
			if rapid.Bool().Draw(t, "of time") {
				f.TransformType = &pb.DocumentTransform_FieldTransform_SetToServerValue{SetToServerValue: pb.DocumentTransform_FieldTransform_REQUEST_TIME}
			}
			w.UpdateTransforms = append(w.UpdateTransforms, f)
		}
		req.Writes = append(req.Writes, w)
	}
	return req
})

// A copy equals the message, and shares nothing with it that can be changed.
func TestCopy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := testMessage.Draw(t, "message")
		was := proto.Clone(m)
		c := Copy(m)
		if !proto.Equal(c, was) || c.ProtoReflect().IsValid() != was.ProtoReflect().IsValid() {
			t.Fatalf("the copy is %v,\nwant %v", c, was)
		}
		if c.ProtoReflect().IsValid() {
			change(c.ProtoReflect())
		}
		if !proto.Equal(m, was) {
			t.Fatalf("after a change of the copy there is %v,\nwant %v", m, was)
		}
	})
}

// change changes all that a message holds, where it is.
func change(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				change(v.Message())
				return true
			})
		case field.IsList():
			for i := range v.List().Len() {
				if field.Message() != nil {
					change(v.List().Get(i).Message())
				} else {
					v.List().Set(i, protoreflect.ValueOfString("changed"))
				}
			}
		case field.Message() != nil:
			change(v.Message())
		case field.Kind() == protoreflect.BytesKind:
			for i := range v.Bytes() {
				v.Bytes()[i]++
			}
		case field.Kind() == protoreflect.StringKind:
			m.Set(field, protoreflect.ValueOfString(fmt.Sprint("changed ", v)))
		default:
			m.Clear(field)
		}
		return true
	})
}
