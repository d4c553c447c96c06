package eventarc

import (
	"encoding/json"
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

// Change is one committed change of one document, such as the embedded Firestore reports. UpdateMask is read only
// if it is an update.
type Change = emulator.Change

// largestData is the size from which on an event's data is left out: what the event then says is in
// its attributes.
const largestData = 512 << 10

// Encode returns the event of a change in the binary mode of CloudEvents over HTTP: the attributes
// as headers, and a DocumentEventData message as the body. The id tells events apart; all
// deliveries of one event carry the same.
//
// There are two exceptions, as in production. If the data would be larger than 512 KiB, the event has none, and an
// empty body. If no header can have one of the attributes, such as the path of a document whose id ends in a
// space, the body is a Pub/Sub message as JSON, with attributes and data (firebase-functions#1922).
//
// An error means that the change's name or one of its documents isn't valid, so that no server
// could have sent it.
func Encode(id string, c Change) (http.Header, []byte, error) {
	name, err := parseName(c.Name)
	if err != nil {
		return nil, nil, err
	}
	data, err := encodeData(c)
	if err != nil {
		return nil, nil, err
	}
	return encode(id, name, c.CommitTime, data)
}

// encode returns the event of a document with its data.
func encode(id string, name docName, at time.Time, data []byte) (http.Header, []byte, error) {
	header := attributes(id, name, at)
	for _, values := range header {
		if !fitsHeader(values[0]) {
			return wrap(id, name, at, header, data)
		}
	}
	return header, data, nil
}

// fitsHeader reports whether a value arrives in a header as it is (RFC 9110, 5.5).
func fitsHeader(v string) bool {
	control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	return v == strings.Trim(v, " \t") && !strings.ContainsFunc(v, control)
}

// message is what Pub/Sub pushes where it doesn't unwrap it.
type message struct {
	Message struct {
		Attributes  map[string]string `json:"attributes"`
		Data        []byte            `json:"data"`
		MessageID   string            `json:"messageId"`
		PublishTime time.Time         `json:"publishTime"`
	} `json:"message"`
	Subscription string `json:"subscription"`
}

func wrap(id string, name docName, at time.Time, header http.Header, data []byte) (http.Header, []byte, error) {
	var m message
	m.Message.Attributes = make(map[string]string, len(header))
	for key, values := range header {
		m.Message.Attributes[strings.ToLower(key)] = values[0]
	}
	m.Message.Data, m.Message.MessageID, m.Message.PublishTime = data, id, at.UTC()
	m.Subscription = "projects/" + name.project + "/subscriptions/eventarc-" + location
	body, err := json.Marshal(m)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the event of %s: %w", name.path, err)
	}
	return http.Header{"Content-Type": {"application/json"}}, body, nil
}

// encodeData returns the wire form of DocumentEventData. Firestore's Document and the event's have
// the same fields under the same numbers, so the former's bytes are the latter's, and nothing has
// to be copied field by field. It returns nothing where that is too large.
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
	if len(body) > largestData {
		return nil, nil
	}
	return body, nil
}

// attributes returns the headers of an event. The keys are in canonical form, as [http.Header]
// wants them. Values are as they are, in UTF-8: production escapes nothing
// (functions-framework-nodejs#780), whatever CloudEvents' HTTP binding says.
func attributes(id string, n docName, at time.Time) http.Header {
	return http.Header{
		"Content-Type":   {"application/protobuf"},
		"Ce-Specversion": {"1.0"},
		"Ce-Id":          {id},
		"Ce-Type":        {Type},
		"Ce-Source":      {"//firestore.googleapis.com/projects/" + n.project + "/databases/" + n.database},
		"Ce-Subject":     {"documents/" + n.path},
		"Ce-Time":        {at.UTC().Format(time.RFC3339Nano)},
		"Ce-Dataschema":  {dataSchema},
		"Ce-Location":    {location},
		"Ce-Project":     {n.project},
		"Ce-Database":    {n.database},
		"Ce-Namespace":   {namespace},
		"Ce-Document":    {n.path},
	}
}

// Decode is the reverse of [Encode]: it returns the change that an event's body describes. Its commit time is the
// new document's; the body of a deletion has none.
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
