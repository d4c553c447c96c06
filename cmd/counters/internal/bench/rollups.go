package bench

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/store"
)

// rollups is events a second that a trigger takes, of one counter.
func (s *session) rollups(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("one counter, %d shards, ROLLUP_INTERVAL=50ms (a held event is a held connection: with the default of 1s, 1,000 connections carry 1,000 events a second), commits take %v (a document takes one at a time), one instance; closed loop", hotShards, commitLatency)}
	s.step("start")
	all, err := open(ctx, []contestant{ours(), blind(), nothing()}, func(contestant) setup {
		return setup{faults: commits(), shards: hotShards, only: "trigger", environ: []string{"ROLLUP_INTERVAL=50ms"}}
	})
	if err != nil {
		return r, err
	}
	defer all.close()
	if err := all.create(ctx, "hot"); err != nil {
		return r, err
	}
	window, rounds := pick(s, 300*time.Millisecond, 3*time.Second), pick(s, 3, 5)
	sources := make([]eventSource, len(all))
	best, expected := make([]int, len(all)), make([]float64, len(all))
	for i, st := range all {
		sources[i] = eventSource{counter: "hot", shards: hotShards, base: time.Now().Add(time.Hour)}
		for _, n := range pick(s, []int{1000}, []int{100, 1000, 2000}) {
			s.step(fmt.Sprintf("%s, %d in flight", st.name, n))
			clients, err := st.connections(ctx, n, st.triggers)
			if err != nil {
				return r, err
			}
			requests := sources[i].next(pick(s, 4000, 20000))
			if rate := closedLoop(ctx, clients, window, upTo(requests)).rate(); rate > expected[i] {
				expected[i], best[i] = rate, n
			}
		}
	}
	of := make([]turns, len(all))
	for round := range rounds {
		for i, st := range all {
			s.step(fmt.Sprintf("round %d of %d, %s", round+1, rounds, st.name))
			// Half as many again as were taken while ramping up: the window ends first.
			requests := sources[i].next(int(1.5 * expected[i] * window.Seconds()))
			if err = st.turn(ctx, &of[i], 0, func() *load {
				return closedLoop(ctx, st.clients[:best[i]], window, upTo(requests))
			}); err != nil {
				break
			}
		}
	}
	for i, st := range all {
		r.Rows = append(r.Rows, row(st.name, fmt.Sprintf("%d in flight", best[i]), &of[i],
			metric("events/s", "/s", of[i].rates), metric("commits/s", "/s", of[i].commits), metric("p50", "ms", of[i].quantiles(0.5))))
	}
	mine := find(all, of, "ours").rates
	r.Ratios = append(r.Ratios,
		ratio("events:ours/no-op", "events/s, ours ÷ no-op", mine, find(all, of, "no-op").rates),
		ratio("events:ours/blind", "events/s, ours ÷ blind", mine, find(all, of, "blind").rates))
	return r, err
}

func upTo(requests [][]byte) func(int) []byte {
	return func(n int) []byte {
		if n >= len(requests) {
			return nil
		}
		return requests[n]
	}
}

// eventSource makes the events of a counter whose shards are incremented in turn. They tell of writes that nobody has
// made: only the trigger is measured.
type eventSource struct {
	counter string
	shards  int
	base    time.Time // of the first event's commit, later than the counter's own
	made    int
}

// next are the requests that deliver the next n events.
func (e *eventSource) next(n int) [][]byte {
	requests := make([][]byte, 0, n)
	for range n {
		requests = append(requests, e.one())
	}
	return requests
}

func (e *eventSource) one() []byte {
	shard, count := strconv.Itoa(e.made%e.shards), int64(e.made/e.shards+1)
	at := e.base.Add(time.Duration(e.made) * time.Microsecond)
	name := "projects/" + project + "/databases/(default)/documents/counters/" + e.counter + "/shards/" + shard
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
		panic(err) // only for a name that is none
	}
	return postWith(header, body)
}

// postWith is a POST request to / with a header and a body.
func postWith(header http.Header, body []byte) []byte {
	request := []byte("POST / HTTP/1.1\r\nHost: bench\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n")
	for name, values := range header {
		request = append(request, name+": "+values[0]+"\r\n"...)
	}
	return append(append(request, "\r\n"...), body...)
}
