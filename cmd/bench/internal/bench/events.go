package bench

import (
	"net/http"
	"strconv"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/valyala/fasthttp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/store"
)

// eventSource makes the events of a counter whose shards are incremented in turn. They tell of
// writes that were never made: only the trigger is measured.
type eventSource struct {
	counter string
	shards  int
	base    time.Time // of the first event's commit, later than the counter's own
	made    int
}

func newEventSource(counter string, shards int) eventSource {
	return eventSource{counter: counter, shards: shards, base: time.Now()}
}

// event is the request that delivers an event.
type event struct {
	header http.Header
	body   []byte
}

// next are the requests that deliver the next n events. They are made now, so that it doesn't count
// as load.
func (e *eventSource) next(n int) requests {
	all := make([]event, n)
	for i := range all {
		all[i] = e.one()
	}
	return func(i int, r *fasthttp.Request) bool {
		if i >= n {
			return false
		}
		call(fasthttp.MethodPost, []string{"/"})(0, r)
		for name, values := range all[i].header {
			r.Header.Set(name, values[0])
		}
		r.SetBodyRaw(all[i].body)
		return true
	}
}

func (e *eventSource) one() event {
	shard, count := strconv.Itoa(e.made%e.shards), int64(e.made/e.shards+1)
	at := e.base.Add(time.Duration(e.made) * time.Microsecond)
	name := resourceName(e.counter) + "/shards/" + shard
	document := func(count int64, updated time.Time) *firestorepb.Document {
		return &firestorepb.Document{Name: name, Fields: map[string]*firestorepb.Value{"count": store.Int(count)},
			CreateTime: timestamppb.New(e.base.Add(-time.Minute)), UpdateTime: timestamppb.New(updated)}
	}
	e.made++
	header, body, err := eventarc.Encode("bench-"+strconv.Itoa(e.made), eventarc.Change{
		Name: name, UpdateMask: []string{"count"}, CommitTime: at,
		Old: document(count-1, at.Add(-time.Duration(e.shards)*time.Microsecond)), New: document(count, at),
	})
	if err != nil {
		panic(err) // only for an invalid name
	}
	return event{header, body}
}

// resourceName is a counter's.
func resourceName(counter string) string {
	return "projects/" + project + "/databases/(default)/documents/counters/" + counter
}
