package eventarc

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/emulator"
)

// Type is the type of every event: a document was created, updated or deleted.
const Type = "google.cloud.firestore.document.v1.written"

const (
	dataSchema = "https://github.com/googleapis/google-cloudevents/blob/main/proto/google/events/cloud/firestore/v1/data.proto"
	location   = "us-central1" // What the official emulator says, too.
	namespace  = "(default)"   // Firestore in Native mode has no other.
)

// Field numbers of google.events.cloud.firestore.v1.DocumentEventData.
const (
	valueField      protowire.Number = 1
	oldValueField   protowire.Number = 2
	updateMaskField protowire.Number = 3
)

// Change is one committed change of one document, such as the embedded Firestore tells of. Its UpdateMask is read of an
// update only.
type Change = emulator.Change

// Encode returns the event of a change in the binary mode of CloudEvents over HTTP: the attributes as headers, and
// a DocumentEventData message as the body. The id tells events apart; all deliveries of one event carry the same.
//
// An error means that the change's name or one of its documents isn't valid, so that no server could have sent it.
func Encode(id string, c Change) (http.Header, []byte, error) {
	name, err := parseName(c.Name)
	if err != nil {
		return nil, nil, err
	}
	body, err := encodeData(c)
	if err != nil {
		return nil, nil, err
	}
	return attributes(id, name, c.CommitTime), body, nil
}

// encodeData returns the wire form of DocumentEventData. Firestore's Document and the event's have the same fields
// under the same numbers, so the former's bytes are the latter's, and nothing has to be copied field by field.
func encodeData(c Change) ([]byte, error) {
	var body []byte
	field := func(number protowire.Number, m proto.Message) error {
		b, err := proto.Marshal(m)
		if err != nil {
			return fmt.Errorf("encode the event of %s: %w", c.Name, err)
		}
		body = protowire.AppendTag(body, number, protowire.BytesType)
		body = protowire.AppendBytes(body, b)
		return nil
	}
	if c.New != nil {
		if err := field(valueField, c.New); err != nil {
			return nil, err
		}
	}
	if c.Old != nil {
		if err := field(oldValueField, c.Old); err != nil {
			return nil, err
		}
	}
	if c.Old != nil && c.New != nil {
		if err := field(updateMaskField, &firestoredata.DocumentMask{FieldPaths: c.UpdateMask}); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// attributes returns the headers of an event. The keys are in canonical form, as [http.Header] wants them.
func attributes(id string, n docName, at time.Time) http.Header {
	path := escape(n.path)
	return http.Header{
		"Content-Type":   {"application/protobuf"},
		"Ce-Specversion": {"1.0"},
		"Ce-Id":          {escape(id)},
		"Ce-Type":        {Type},
		"Ce-Source":      {"//firestore.googleapis.com/projects/" + escape(n.project) + "/databases/" + escape(n.database)},
		"Ce-Subject":     {"documents/" + path},
		"Ce-Time":        {at.UTC().Format(time.RFC3339Nano)},
		"Ce-Dataschema":  {dataSchema},
		"Ce-Location":    {location},
		"Ce-Project":     {escape(n.project)},
		"Ce-Database":    {escape(n.database)},
		"Ce-Namespace":   {namespace},
		"Ce-Document":    {path},
	}
}

// escape percent-encodes what an attribute's value must not have in a header: spaces, double quotes, percent signs
// and whatever is not printable ASCII (CloudEvents' HTTP binding, 3.1.3.2). Document ids may have all of them.
func escape(s string) string {
	plain := func(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }
	escaped := 0
	for i := range len(s) {
		if !plain(s[i]) {
			escaped++
		}
	}
	if escaped == 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 2*escaped)
	for i := range len(s) {
		if plain(s[i]) {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}

// Decode returns the change that an event's body tells of, the reverse of [Encode]. The time of its commit is that of
// the new document; a deletion's has to be taken from elsewhere.
func Decode(body []byte) (Change, error) {
	var data firestoredata.DocumentEventData
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, &data); err != nil {
		return Change{}, fmt.Errorf("decode an event: %w", err)
	}
	c := Change{UpdateMask: data.GetUpdateMask().GetFieldPaths()}
	for _, d := range []struct {
		from *firestoredata.Document
		to   **firestorepb.Document
	}{{data.OldValue, &c.Old}, {data.Value, &c.New}} {
		if d.from == nil {
			continue
		}
		b, err := proto.Marshal(d.from)
		if err != nil {
			return Change{}, fmt.Errorf("decode an event: %w", err)
		}
		*d.to = new(firestorepb.Document)
		if err := proto.Unmarshal(b, *d.to); err != nil {
			return Change{}, fmt.Errorf("decode an event: %w", err)
		}
		c.Name = d.from.GetName()
	}
	if c.Name == "" {
		return Change{}, errors.New("decode an event: it names no document")
	}
	if c.New != nil {
		c.CommitTime = c.New.GetUpdateTime().AsTime()
	}
	return c, nil
}
