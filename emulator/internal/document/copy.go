package document

import (
	"bytes"
	"slices"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Copy copies a message as [proto.Clone] does, which takes several times as long where there are
// documents in it. What is not of the API as this version of it has it is left out of documents.
func Copy(m proto.Message) proto.Message {
	switch m := m.(type) {
	case *pb.BatchGetDocumentsResponse:
		if found, ok := m.GetResult().(*pb.BatchGetDocumentsResponse_Found); ok {
			return &pb.BatchGetDocumentsResponse{
				Result:      &pb.BatchGetDocumentsResponse_Found{Found: copyDocument(found.Found)},
				Transaction: bytes.Clone(m.Transaction), ReadTime: copyTime(m.ReadTime),
			}
		}
	case *pb.RunQueryResponse:
		if m.GetDocument() != nil && m.ContinuationSelector == nil && m.ExplainMetrics == nil {
			return &pb.RunQueryResponse{
				Document: copyDocument(m.Document), Transaction: bytes.Clone(m.Transaction), ReadTime: copyTime(m.ReadTime), SkippedResults: m.SkippedResults,
			}
		}
	case *pb.RunAggregationQueryResponse:
		if m.GetResult() != nil && m.ExplainMetrics == nil {
			return &pb.RunAggregationQueryResponse{
				Result:      &pb.AggregationResult{AggregateFields: copyFields(m.Result.AggregateFields)},
				Transaction: bytes.Clone(m.Transaction), ReadTime: copyTime(m.ReadTime),
			}
		}
	case *pb.BatchGetDocumentsRequest:
		if m.GetDocuments() != nil && m.ConsistencySelector == nil && m.RequestOptions == nil {
			return &pb.BatchGetDocumentsRequest{Database: m.Database, Documents: slices.Clone(m.Documents), Mask: copyMask(m.Mask)}
		}
	case *pb.CommitRequest:
		if m.GetWrites() != nil && m.RequestOptions == nil {
			writes := make([]*pb.Write, len(m.Writes))
			for i, w := range m.Writes {
				writes[i] = copyWrite(w)
			}
			return &pb.CommitRequest{Database: m.Database, Writes: writes, Transaction: bytes.Clone(m.Transaction)}
		}
	}
	return proto.Clone(m)
}

func copyWrite(w *pb.Write) *pb.Write {
	update, ok := w.GetOperation().(*pb.Write_Update)
	if !ok {
		return proto.CloneOf(w)
	}
	out := &pb.Write{
		Operation:  &pb.Write_Update{Update: copyDocument(update.Update)},
		UpdateMask: copyMask(w.UpdateMask), CurrentDocument: proto.CloneOf(w.CurrentDocument),
	}
	for _, t := range w.UpdateTransforms {
		if by, ok := t.GetTransformType().(*pb.DocumentTransform_FieldTransform_Increment); ok {
			t = &pb.DocumentTransform_FieldTransform{FieldPath: t.FieldPath,
				TransformType: &pb.DocumentTransform_FieldTransform_Increment{Increment: copyValue(by.Increment)}}
		} else {
			t = proto.CloneOf(t)
		}
		out.UpdateTransforms = append(out.UpdateTransforms, t)
	}
	return out
}

func copyMask(mask *pb.DocumentMask) *pb.DocumentMask {
	if mask == nil {
		return nil
	}
	return &pb.DocumentMask{FieldPaths: slices.Clone(mask.FieldPaths)}
}

func copyDocument(doc *pb.Document) *pb.Document {
	if doc == nil {
		return nil
	}
	return &pb.Document{Name: doc.Name, Fields: copyFields(doc.Fields), CreateTime: copyTime(doc.CreateTime), UpdateTime: copyTime(doc.UpdateTime)}
}

func copyFields(fields map[string]*pb.Value) map[string]*pb.Value {
	if len(fields) == 0 {
		return nil
	}
	out := map[string]*pb.Value{}
	for name, v := range fields {
		out[name] = copyValue(v)
	}
	return out
}

func copyTime(t *timestamppb.Timestamp) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return &timestamppb.Timestamp{Seconds: t.Seconds, Nanos: t.Nanos}
}

func copyValue(v *pb.Value) *pb.Value {
	switch t := v.GetValueType().(type) {
	case *pb.Value_NullValue:
		return &pb.Value{ValueType: &pb.Value_NullValue{NullValue: t.NullValue}}
	case *pb.Value_BooleanValue:
		return &pb.Value{ValueType: &pb.Value_BooleanValue{BooleanValue: t.BooleanValue}}
	case *pb.Value_IntegerValue:
		return &pb.Value{ValueType: &pb.Value_IntegerValue{IntegerValue: t.IntegerValue}}
	case *pb.Value_DoubleValue:
		return &pb.Value{ValueType: &pb.Value_DoubleValue{DoubleValue: t.DoubleValue}}
	case *pb.Value_StringValue:
		return &pb.Value{ValueType: &pb.Value_StringValue{StringValue: t.StringValue}}
	case *pb.Value_ReferenceValue:
		return &pb.Value{ValueType: &pb.Value_ReferenceValue{ReferenceValue: t.ReferenceValue}}
	case *pb.Value_BytesValue:
		return &pb.Value{ValueType: &pb.Value_BytesValue{BytesValue: append([]byte{}, t.BytesValue...)}}
	case *pb.Value_TimestampValue:
		return &pb.Value{ValueType: &pb.Value_TimestampValue{TimestampValue: copyTime(t.TimestampValue)}}
	case *pb.Value_MapValue:
		if t.MapValue != nil {
			return &pb.Value{ValueType: &pb.Value_MapValue{MapValue: &pb.MapValue{Fields: copyFields(t.MapValue.Fields)}}}
		}
	case *pb.Value_ArrayValue:
		if t.ArrayValue != nil {
			values := &pb.ArrayValue{}
			for _, e := range t.ArrayValue.Values {
				values.Values = append(values.Values, copyValue(e))
			}
			return &pb.Value{ValueType: &pb.Value_ArrayValue{ArrayValue: values}}
		}
	}
	return proto.CloneOf(v)
}
