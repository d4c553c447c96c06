//go:build all

package dev

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/testbed/chance"
	"github.com/firestore-counters/counters/shards"
)

var recordedDuration = flag.Duration("recorded.duration", 20*time.Second, "how long TestRecordedHistory asks")

// What clients of the real processes are answered, beside kills, lost answers and doubled events,
// is right by all three verdicts: keys, members, seats and exact reads.
func TestRecordedHistory(t *testing.T) {
	t.Parallel()
	faults := chaos
	faults.Commits.CommitLatency = 20 * time.Millisecond // so that more kills hit requests under way, whose outcome is unknown
	r := record(t, faults, *recordedDuration)
	shown := r.end()
	for verdict, err := range r.verdicts(shown) {
		if err != nil {
			t.Errorf("%s: %v", verdict, err)
		}
	}
	c := &chaosClients{System: r.System, rand: r.rand, layout: oneField, t: t, client: r.client}
	for _, counter := range []string{allKeys, plain, liked} {
		c.check(counter)
	}
	count := map[string]int{}
	for _, o := range r.history {
		count[fmt.Sprint(o.do, " ", o.outcome)]++
	}
	t.Logf("%d operations: %v; events %+v", len(r.history), count, r.Events())
	for _, want := range []string{"add done", "sum done", "join done", "leave done", "joined done", "take done", "take full", "give done", "give full", "seated done"} {
		if count[want] == 0 {
			t.Errorf("there was no %s", want)
		}
	}
}

// A shard that holds one more than was counted, or one less, is seen by each verdict.
func TestRecordedFaults(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]int{"counted twice": 1, "lost": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := record(t, Faults{}, time.Second)
			for _, counter := range []string{allKeys, "key-0-0"} {
				if _, err := r.client.Doc("counters/"+counter+"/shards/0").Update(t.Context(), []firestore.Update{{Path: "count", Value: firestore.Increment(by)}}); err != nil {
					t.Fatal(err)
				}
			}
			for verdict, err := range r.verdicts(r.end()) {
				if err == nil {
					t.Errorf("%s sees nothing", verdict)
				} else {
					t.Logf("%s: %v", verdict, err)
				}
			}
		})
	}
}

// Counters of a recorded history. A key counts in one of its own, too, by the same request.
const allKeys, plain, liked = "keys", "plain", "liked"

// recorder asks a system, and writes down what it was asked and what it answered.
type recorder struct {
	*System
	t      *testing.T
	client *firestore.Client
	rand   *rand.Rand
	clock  atomic.Int64

	mu      sync.Mutex
	history history
}

// record has clients ask a new system for so long, and stops all faults.
func record(t *testing.T, faults Faults, d time.Duration) *recorder {
	t.Helper()
	faults.Seed = chance.Seed(t)
	s := startSystem(t, Config{Faults: faults, Instances: 3, Environ: []string{"ROLLUP_INTERVAL=100ms", "LOG_LEVEL=ERROR", "NUM_SHARDS=3", "MEMBERS=any", fmt.Sprintf("FIELDS=total=count,seats=limit(%d)", seats)}})
	r := &recorder{System: s, rand: chance.Of(t), t: t, client: s.client(t)}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var clients sync.WaitGroup
	for i := range 3 {
		clients.Go(func() { r.keys(ctx, i) })
		clients.Go(func() { r.members(ctx, i) })
		clients.Go(func() { r.seats(ctx, i) })
		clients.Go(func() {
			for ctx.Err() == nil {
				r.add("", plain)
				r.pause()
			}
		})
	}
	clients.Go(func() {
		for ctx.Err() == nil {
			r.sum("", allKeys)
			r.sum("", plain)
			r.pause()
		}
	})
	clients.Wait()
	if err := s.SetFaults(Faults{}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *recorder) pause() { time.Sleep(chance.Below(r.rand, 100*time.Millisecond)) }

// keys sends one key after the other, each several times, some of them at once, and looks at its
// counter meanwhile and afterwards.
func (r *recorder) keys(ctx context.Context, client int) {
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprintf("key-%d-%d", client, n)
		var all sync.WaitGroup
		for range 1 + r.rand.IntN(3) {
			all.Go(func() { r.add(key, allKeys, key) })
		}
		all.Go(func() { r.sum(key, key) })
		all.Wait()
		r.sum(key, key)
		for range 100 { // until it is certain
			if r.add(key, allKeys, key) == done {
				break
			}
			r.pause()
		}
		r.sum(key, key)
		r.pause()
	}
}

// members has a few members join and leave, and looks at them, two at a time. Each is left alone
// after some 40 requests: the more of its answers are unknown, the more orders there are to try.
func (r *recorder) members(ctx context.Context, client int) {
	for n := 0; ctx.Err() == nil; n++ {
		member := fmt.Sprintf("member-%d-%d", client, n)
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				for i := 0; i < 20 && ctx.Err() == nil; i++ {
					r.member([]verb{join, leave, joined}[r.rand.IntN(3)], member)
					r.pause()
				}
			})
		}
		both.Wait()
	}
}

// seats has a few people take the seats of one counter after the other, and give them back. Each counter is left
// alone after some 30 requests, as members are.
func (r *recorder) seats(ctx context.Context, client int) {
	conn, err := dialEmulator(r.Firestore)
	if err != nil {
		r.t.Error(err)
		return
	}
	maker, err := shards.Open(ctx, shards.Config{Place: shards.Place{Project: r.Project, Fields: "total=count,seats=limit()"}}, option.WithGRPCConn(conn))
	if err != nil {
		r.t.Error(err)
		return
	}
	defer maker.Close()
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("seats-%d-%d", client, n)
		c, err := maker.Counter(name)
		if err != nil {
			r.t.Error(err)
			return
		}
		making := func() error {
			if err := c.Create(ctx, shards.CreateOptions{Shards: 2}); err != nil && !errors.Is(err, shards.ErrExists) {
				return err
			}
			return c.SetLimit(ctx, "seats", seats)
		}
		for err = making(); err != nil && ctx.Err() == nil; err = making() {
			r.pause()
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for i := 0; i < 10 && ctx.Err() == nil; i++ {
					r.seat([]verb{take, take, take, give, give, seated}[r.rand.IntN(6)], name)
					r.pause()
				}
			})
		}
		all.Wait()
	}
}

func (r *recorder) seat(do verb, counter string) outcome {
	method, path, body := http.MethodPost, counter, map[verb]string{take: `{"by": {"seats": 1}}`, give: `{"by": {"seats": -1}}`}[do]
	if do == seated {
		method, path = http.MethodGet, counter+"?exact=true"
	}
	return r.ask(operation{do: do, register: counter}, method, path, body)
}

func (r *recorder) add(key string, counters ...string) outcome {
	var each []string
	for _, c := range counters {
		each = append(each, fmt.Sprintf(`{"counter": %q}`, c))
	}
	return r.ask(operation{do: add, register: key, counters: counters}, http.MethodPost, "", `{"increments": [`+strings.Join(each, ", ")+`]}`)
}

func (r *recorder) sum(key, counter string) outcome {
	return r.ask(operation{do: sum, register: key, counters: []string{counter}}, http.MethodGet, counter+"?exact=true", "")
}

func (r *recorder) member(do verb, member string) outcome {
	method := map[verb]string{join: http.MethodPut, leave: http.MethodDelete, joined: http.MethodGet}[do]
	return r.ask(operation{do: do, register: member}, method, liked+"/total/"+member, "")
}

// ask sends a request, and adds what comes of it to the history.
func (r *recorder) ask(o operation, method, path, body string) outcome {
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.Gateway+"/increment/"+path, strings.NewReader(body))
	if err != nil {
		r.t.Error(err)
		return refused
	}
	if o.do == add && o.register != "" {
		req.Header.Set("Idempotency-Key", o.register)
		req.GetBody = nil // or net/http would send it again by itself, and the history have one request where there were two
	}
	o.call = r.clock.Add(1)
	o.answer, o.outcome = r.send(req)
	o.answered = r.clock.Add(1)
	if (o.do == sum || o.do == joined || o.do == seated) && o.outcome != done {
		return o.outcome // a look that saw nothing says nothing
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, o)
	return o.outcome
}

// send returns what a request was answered. Nobody knows what becomes of one without an answer, and
// of 502 and 504; nothing is counted with any other error.
func (r *recorder) send(req *http.Request) (answer int64, what outcome) {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, unknown
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, unknown
	}
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
	case code == http.StatusNotFound && (req.Method == http.MethodGet || req.Method == http.MethodDelete):
		return 0, done // nothing has made the counter yet, and so nothing is in it
	case code == http.StatusConflict && strings.Contains(string(body), `"limit-reached"`):
		return 0, full
	case code == http.StatusBadGateway || code == http.StatusGatewayTimeout:
		return 0, unknown
	case code == http.StatusServiceUnavailable || code == http.StatusInternalServerError:
		return 0, refused
	default:
		r.t.Errorf("%s %s: %d %s", req.Method, req.URL, resp.StatusCode, body)
		return 0, refused
	}
	var got struct {
		Total                     int64
		Totals                    map[string]int64
		Replayed, Counted, Joined bool
	}
	if err := json.Unmarshal(body, &got); err != nil {
		r.t.Errorf("%s %s: %v in %s", req.Method, req.URL, err, body)
	}
	if got.Replayed || got.Counted || got.Joined {
		return 1, done
	}
	return got.Total + got.Totals["seats"], done // of which a counter here has one
}

// end looks at everything once more, now that all is quiet, and returns what the counters'
// documents show when all events have been rolled up.
func (r *recorder) end() map[string]int64 {
	r.t.Helper()
	// Locks of a process that was killed within a transaction are given back after a minute.
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer cancel()
	looks := map[string]func() outcome{
		allKeys: func() outcome { return r.sum("", allKeys) },
		plain:   func() outcome { return r.sum("", plain) },
	} // of liked no sum: Jepsen's rule is for what only grows
	for _, o := range slices.Clone(r.history) {
		switch o.do {
		case add:
			if o.register != "" {
				looks[o.register] = func() outcome { return r.sum(o.register, o.register) }
			}
		case join, leave:
			looks[o.register] = func() outcome { return r.member(joined, o.register) }
		case take, give:
			looks[o.register] = func() outcome { return r.seat(seated, o.register) }
		}
	}
	for name, look := range looks {
		eventually(r.t, name+" is read", func() bool { return look() == done })
	}
	settle(r.t, r.System)
	docs, err := r.client.Collection("counters").Documents(ctx).GetAll()
	if err != nil {
		r.t.Fatal(err)
	}
	shown := map[string]int64{}
	for _, doc := range docs {
		total, _ := doc.Data()["total"].(int64)
		taken, _ := doc.Data()["seats"].(int64)
		shown[doc.Ref.ID] = total + taken
	}
	return shown
}

func (r *recorder) verdicts(shown map[string]int64) map[string]error {
	return map[string]error{
		"Porcupine":     linearizable(r.history),
		"Jepsen's rule": withinBounds(r.history),
		"our own":       rightAtEnd(r.history, shown, liked),
	}
}
