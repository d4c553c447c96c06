package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// errPayload is Firestore's own word for a body that isn't the request, and why.
func errPayload(err error) error {
	return status.Errorf(codes.InvalidArgument, "Payload isn't valid for request. (%v)", err)
}

// decode reads a request. A field that it doesn't know is an error, but for one: a write of the
// form {"verify": name}, which web clients' transactions send for documents that they have only
// read, and which the published protos lack. It is put where a gRPC client's ends up, too: among
// the write's unknown fields.
func decode(data []byte, into proto.Message) error {
	data, verifies, err := cutVerifies(data, into)
	if err != nil {
		return errPayload(err)
	}
	if err := protojson.Unmarshal(data, into); err != nil {
		return errPayload(err)
	}
	if len(verifies) == 0 {
		return nil
	}
	for i, w := range into.(writing).GetWrites() {
		if name, ok := verifies[i]; ok {
			field := protowire.AppendTag(nil, verifyField, protowire.BytesType)
			w.ProtoReflect().SetUnknown(protowire.AppendString(field, name))
		}
	}
	return nil
}

// writing is a request that has writes.
type writing interface{ GetWrites() []*pb.Write }

// cutVerifies takes the names that a request's writes verify out of its JSON.
func cutVerifies(data []byte, into proto.Message) (rest []byte, verifies map[int]string, err error) {
	if _, ok := into.(writing); !ok || !bytes.Contains(data, []byte(`"verify"`)) {
		return data, nil, nil
	}
	var request map[string]json.RawMessage
	if err := json.Unmarshal(data, &request); err != nil {
		return nil, nil, err
	}
	var writes []map[string]json.RawMessage
	if err := json.Unmarshal(request["writes"], &writes); err != nil {
		return data, nil, nil //nolint:nilerr // what it says is found by whoever reads the rest
	}
	verifies = make(map[int]string)
	for i, w := range writes {
		if name, ok := w["verify"]; ok {
			var s string
			if err := json.Unmarshal(name, &s); err != nil {
				return nil, nil, err
			}
			verifies[i] = s
			delete(w, "verify")
		}
	}
	if request["writes"], err = json.Marshal(writes); err != nil {
		return nil, nil, err
	}
	rest, err = json.Marshal(request)
	return rest, verifies, err
}

// verifyField is the number of the field verify, a document's name, in the message Write.
const verifyField = 5

// encode writes a response. Messages of this API have no value that JSON can't hold.
func encode(m proto.Message) ([]byte, error) {
	data, err := protojson.Marshal(m)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "The response can't be written as JSON: %v.", err)
	}
	return data, nil
}

// apiError is how Google's APIs write an error.
type apiError struct {
	Error struct {
		Code    int    `json:"code"` // of HTTP
		Message string `json:"message"`
		Status  string `json:"status"`
	} `json:"error"`
}

func newError(err error) apiError {
	s := status.Convert(err)
	var e apiError
	e.Error.Code = httpCode(err, s.Code())
	e.Error.Message = s.Message()
	e.Error.Status = code.Code(s.Code()).String()
	return e
}

func (e apiError) encode() []byte {
	data, _ := json.Marshal(e) // of two strings and a number
	return data
}

func httpCode(err error, c codes.Code) int {
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge
	}
	switch c {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.AlreadyExists, codes.Aborted:
		return http.StatusConflict
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Canceled:
		return 499
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

func notCovered(r *http.Request) error {
	return status.Errorf(codes.Unimplemented, "%s %s isn't covered.", r.Method, r.URL.Path)
}

func writeError(w http.ResponseWriter, err error) {
	e := newError(err)
	writeJSON(w, e.Error.Code, e.encode())
}

func writeJSON(w http.ResponseWriter, httpStatus int, data []byte) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(httpStatus)
	w.Write(append(data, '\n'))
}
