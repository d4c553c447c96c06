package bench

import (
	"io"
	"net/http"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// noop answers as Increment does, and does nothing.
func noop(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"counter":"hot","by":1}`+"\n")
}

// waiting answers as Increment does, after as long as a commit takes: what any function that waits
// for something costs the framework.
func waiting(w http.ResponseWriter, r *http.Request) {
	time.Sleep(cost.CommitTime)
	noop(w, r)
}

// noopEvent decodes a document event, answers as Rollup does, and does nothing.
func noopEvent(w http.ResponseWriter, r *http.Request) {
	if _, err := decodeEvent(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// decodeEvent reads a document event. The functions of the benchmark are registered as HTTP
// functions, like our own: the receiver that the framework puts in front of CloudEvent functions
// leaves requests unanswered when several are in flight (cloudevents/sdk-go#1224).
func decodeEvent(r *http.Request) (*firestoredata.DocumentEventData, error) {
	event, err := cloudevents.NewEventFromHTTPRequest(r)
	if err != nil {
		return nil, err
	}
	data := new(firestoredata.DocumentEventData)
	return data, proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(event.Data(), data)
}
