package web

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// setParams puts a URL's parameters into the message that they are fields of:
// mask.fieldPaths=a&mask.fieldPaths=b. Parameters that the message has no field for are of the
// transport (key, $alt, prettyPrint), or of no use here.
func setParams(m proto.Message, query url.Values) error {
	for key, values := range query {
		if err := setParam(m.ProtoReflect(), key, values); err != nil {
			return err
		}
	}
	return nil
}

func setParam(m protoreflect.Message, key string, values []string) error {
	first, rest, nested := strings.Cut(key, ".")
	field := m.Descriptor().Fields().ByJSONName(first)
	if field == nil {
		field = m.Descriptor().Fields().ByTextName(first)
	}
	if field == nil {
		return nil
	}
	if nested {
		if field.Message() == nil || field.IsList() || field.IsMap() {
			return nil
		}
		return setParam(m.Mutable(field).Message(), rest, values)
	}
	if field.IsList() {
		list := m.Mutable(field).List()
		for _, text := range values {
			v, err := parseParam(field, key, text)
			if err != nil {
				return err
			}
			list.Append(v)
		}
		return nil
	}
	v, err := parseParam(field, key, values[len(values)-1])
	if err != nil {
		return err
	}
	m.Set(field, v)
	return nil
}

// parseParam reads a value of one of the types that parameters of this API have.
func parseParam(field protoreflect.FieldDescriptor, key, text string) (protoreflect.Value, error) {
	var v protoreflect.Value
	var err error
	switch field.Kind() {
	case protoreflect.StringKind:
		if !utf8.ValidString(text) {
			return v, status.Errorf(codes.InvalidArgument, "The parameter %s is not valid UTF-8: %q.", key, text)
		}
		v = protoreflect.ValueOfString(text)
	case protoreflect.BoolKind:
		var b bool
		b, err = strconv.ParseBool(text)
		v = protoreflect.ValueOfBool(b)
	case protoreflect.Int32Kind:
		var n int64
		n, err = strconv.ParseInt(text, 10, 32)
		v = protoreflect.ValueOfInt32(int32(n))
	case protoreflect.BytesKind:
		var b []byte
		b, err = parseBase64(text)
		v = protoreflect.ValueOfBytes(b)
	case protoreflect.MessageKind:
		if field.Message().FullName() != "google.protobuf.Timestamp" {
			return v, status.Errorf(codes.InvalidArgument, "The parameter %s is not a field of its own.", key)
		}
		var t time.Time
		t, err = time.Parse(time.RFC3339Nano, text)
		v = protoreflect.ValueOfMessage(timestamppb.New(t).ProtoReflect())
	default:
		return v, status.Errorf(codes.InvalidArgument, "The parameter %s can't be given here.", key)
	}
	if err != nil {
		return v, status.Errorf(codes.InvalidArgument, "The parameter %s has the bad value %q.", key, text)
	}
	return v, nil
}

// parseBase64 reads either alphabet, with or without padding, as JSON's mapping of bytes allows.
func parseBase64(text string) ([]byte, error) {
	text = strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(text, "="))
	return base64.RawURLEncoding.DecodeString(text)
}
