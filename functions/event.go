package functions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/firestore-counters/counters/rollup"
)

// maxEvent bounds an event's body. Firestore events are at most 512 KB; as JSON they may take more.
const maxEvent = 4 << 20

// eventTypes begins the types of all document events: written, created, updated and deleted, each also
// with authentication context.
const eventTypes = "google.cloud.firestore.document.v1."

// documentEvent is a document's change, as a request has it.
type documentEvent struct {
	id, subject string // for logs
	path        string // of the document, relative to the database's root, for an event without data
	contentType string
	data        []byte // empty if the document was too large for an event (firebase-functions#1370)
}

// readEvent reads a CloudEvent of a document. Its errors are [rollup.ErrPoison], and those of a body
// that did not arrive, whose event must come again. With an error it also returns what it knows of the
// event, for the log.
func readEvent(w http.ResponseWriter, r *http.Request) (documentEvent, error) {
	e := documentEvent{id: r.Header.Get("Ce-Id"), subject: r.Header.Get("Ce-Subject")}
	body, err := readBody(w, r, maxEvent)
	var large *tooLarge
	switch {
	case errors.As(err, &large):
		return e, fmt.Errorf("%w: %w", rollup.ErrPoison, err)
	case err != nil:
		return e, err // only a part arrived
	}
	header := r.Header.Clone()
	if header.Get("Ce-Type") == "" {
		if attributes, data, ok := unwrap(body); ok {
			header, body = attributes, data
		}
	}
	// In binary mode the content type is HTTP's own header. The official emulator also sends it as an
	// attribute, which the CloudEvents library refuses.
	header.Del("Ce-Datacontenttype")
	header.Del("Ce-") // the library panics on it
	ce, err := cloudevents.NewEventFromHTTPRequest(&http.Request{Method: r.Method, Header: header, Body: io.NopCloser(bytes.NewReader(body))})
	if err != nil {
		return e, fmt.Errorf("%w: not a CloudEvent: %w", rollup.ErrPoison, err)
	}
	e = documentEvent{id: ce.ID(), subject: ce.Subject(), path: pathOf(ce), contentType: ce.DataContentType(), data: ce.Data()}
	if !strings.HasPrefix(ce.Type(), eventTypes) {
		return e, fmt.Errorf("%w: its type is %q", rollup.ErrPoison, ce.Type())
	}
	return e, nil
}

// unwrap takes an event out of a Pub/Sub message. Usually Pub/Sub does that, and turns the attributes
// into headers. It doesn't if one of them can't be a header, such as the path of a document whose id
// ends in a space (firebase-functions#1922).
func unwrap(body []byte) (http.Header, []byte, bool) {
	var pushed struct {
		Message struct {
			Attributes map[string]string
			Data       []byte
		}
	}
	if json.Unmarshal(body, &pushed) != nil {
		return nil, nil, false
	}
	header := http.Header{}
	for name, value := range pushed.Message.Attributes {
		header.Set(name, value)
	}
	return header, pushed.Message.Data, header.Get("Ce-Type") != ""
}

// pathOf is the path of an event's document, by its attributes.
func pathOf(ce *cloudevents.Event) string {
	if path, ok := ce.Extensions()["document"].(string); ok && path != "" {
		return path
	}
	path, _ := strings.CutPrefix(ce.Subject(), "documents/")
	return path
}
