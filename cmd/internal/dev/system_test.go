package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/testbed/chance"
)

// startSystem starts the whole system on free ports.
func startSystem(t testing.TB, c Config) *System {
	t.Helper()
	c.Output, c.Logger, c.Instances = t.Output(), testLogger(t), max(c.Instances, 1)
	c.Environ = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LOG_LEVEL=WARN"}, c.Environ...)
	s, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// client is a plain Firestore client, as a user's program has it.
func (s *System) client(t testing.TB) *firestore.Client {
	t.Helper()
	conn, err := dialEmulator(s.Firestore)
	if err != nil {
		t.Fatal(err)
	}
	client, err := firestore.NewClient(t.Context(), s.Project, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// rollup is the URL of an instance of Rollup, once there is one.
func (s *System) rollup(t testing.TB) (url string) {
	t.Helper()
	eventually(t, "an instance of Rollup answers", func() bool {
		s.supervisor.mu.Lock()
		defer s.supervisor.mu.Unlock()
		for _, i := range s.supervisor.all {
			if i.function == rollupFunction && i.addr != "" {
				url = "http://" + i.addr + "/"
			}
		}
		return url != ""
	})
	return url
}

// post sends an increment through the gateway and returns the answer's status.
func (s *System) post(ctx context.Context, counter, body, key string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Gateway+"/increment/"+counter, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// waitForTotal waits until a counter's total is what its shards add up to and what is wanted.
func waitForTotal(t testing.TB, client *firestore.Client, counter string, want int64) {
	t.Helper()
	var total any
	defer func() {
		if total != want {
			t.Logf("the total of %s is %v", counter, total)
		}
	}()
	eventually(t, fmt.Sprintf("the total of %s is %d", counter, want), func() bool {
		snap, err := client.Doc("counters/" + counter).Get(t.Context())
		if err != nil && status.Code(err) != codes.NotFound {
			t.Fatal(err)
		}
		total = snap.Data()["total"] // nil as long as there is no counter
		return total == want
	})
	if sum := sumOfShards(t, client, counter); sum != want {
		t.Errorf("the shards of %s add up to %d, want %d", counter, sum, want)
	}
}

func sumOfShards(t testing.TB, client *firestore.Client, counter string) int64 {
	t.Helper()
	shards, err := client.Collection("counters/" + counter + "/shards").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, s := range shards {
		n, _ := s.Data()["count"].(int64)
		sum += n
	}
	return sum
}

// The main job: 1,000 increments over HTTP, 50 at a time, and 500 from a plain Firestore client
// that follows the public snippets, with every event delivered once, and with every event delivered
// twice and half of them out of order.
func TestTotalIsExact(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string]Faults{
		"once":                    {},
		"twice, and out of order": {Events: eventarc.Faults{Duplicate: 1, Reorder: 0.5}, Seed: 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSystem(t, Config{Faults: faults, Instances: 2})
			client := s.client(t)
			counter := client.Doc("counters/c")
			if _, err := counter.Set(t.Context(), map[string]any{"num_shards": 10}); err != nil {
				t.Fatal(err)
			}
			for n := range 10 {
				if _, err := counter.Collection("shards").Doc(fmt.Sprint(n)).Set(t.Context(), map[string]any{"count": 0}); err != nil {
					t.Fatal(err)
				}
			}
			dice := chance.Of(t)
			var all errgroup.Group
			for range 50 {
				all.Go(func() error {
					for range 20 {
						if code, err := s.post(t.Context(), "c", "", ""); err != nil || code != http.StatusOK {
							return fmt.Errorf("increment: %d, %w", code, err)
						}
					}
					return nil
				})
			}
			for range 10 {
				all.Go(func() error {
					for range 50 {
						shard := counter.Collection("shards").Doc(fmt.Sprint(dice.IntN(10)))
						if _, err := shard.Update(t.Context(), []firestore.Update{{Path: "count", Value: firestore.Increment(1)}}); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := all.Wait(); err != nil {
				t.Fatal(err)
			}
			waitForTotal(t, client, "c", 1500)
			if err := s.WaitForEvents(t.Context()); err != nil {
				t.Fatal(err)
			}
			waitForTotal(t, client, "c", 1500) // and stays so when the last of them has come twice
		})
	}
}

// The receiver that the framework puts before CloudEvent functions leaves requests unanswered for
// good when more than one is in flight. Ours answers them all. It does so at the default interval
// of a second, in which 200 senders would get no more than 200 events answered, were an event not
// acknowledged once a newer one of its shard is held.
func TestRollupAnswersEveryEvent(t *testing.T) {
	t.Parallel()
	s := startSystem(t, Config{})
	client := s.client(t)
	started := s.adopted(t)
	url := s.rollup(t)
	const events, inFlight, shards = 10_000, 200, 20
	// Rollup asks what the shards hold: so they hold what the last events say.
	var want int64
	for n := events - shards; n < events; n++ {
		want += int64(n)
		if _, err := client.Doc(fmt.Sprintf("counters/c/shards/%d", n%shards)).Set(t.Context(), map[string]any{"count": n}); err != nil {
			t.Fatal(err)
		}
	}
	next := make(chan int)
	var all sync.WaitGroup
	answered := make([]int, 600)
	var mu sync.Mutex
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: inFlight}}
	defer web.CloseIdleConnections()
	for range inFlight {
		all.Go(func() {
			for n := range next {
				code, err := postEvent(t.Context(), web, url, s.Project, n, shards, started)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				answered[code]++
				mu.Unlock()
			}
		})
	}
	for n := range events {
		next <- n
	}
	close(next)
	all.Wait()
	if answered[http.StatusNoContent] != events {
		t.Errorf("answered 204 to %d of %d events", answered[http.StatusNoContent], events)
	}
	waitForTotal(t, client, "c", want) // by the events of the shards' own writes, which are later than all of these
}

// adopted makes the counter c, which has a base and no shards yet, and returns a time that is
// later than both, and some 10,000 microseconds ago: events of later times than Firestore's own are
// not taken.
func (s *System) adopted(t *testing.T) time.Time {
	t.Helper()
	counter := s.client(t).Doc("counters/c")
	if _, err := counter.Set(t.Context(), map[string]any{"num_shards": 1}); err != nil {
		t.Fatal(err)
	}
	if code, err := postReconcile(s, "c"); err != nil || code != http.StatusOK {
		t.Fatalf("reconcile: %d, %v", code, err)
	}
	written, err := counter.Update(t.Context(), []firestore.Update{{Path: "num_shards", Value: 2}})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	return written.UpdateTime
}

func postReconcile(s *System, counter string) (int, error) {
	resp, err := http.Post(s.Gateway+"/reconcile", "application/json", strings.NewReader(fmt.Sprintf(`{"counters": [%q]}`, counter)))
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// postEvent posts the nth event of a counter's shards, each of which holds n then, and was changed
// n microseconds after started.
func postEvent(ctx context.Context, web *http.Client, url, project string, n, shards int, started time.Time) (int, error) {
	name := fmt.Sprintf("projects/%s/databases/(default)/documents/counters/c/shards/%d", project, n%shards)
	updated := timestamppb.New(started.Add(time.Duration(n) * time.Microsecond))
	data, err := proto.Marshal(&firestoredata.DocumentEventData{Value: &firestoredata.Document{Name: name, UpdateTime: updated,
		Fields: map[string]*firestoredata.Value{"count": {ValueType: &firestoredata.Value_IntegerValue{IntegerValue: int64(n)}}}}})
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		return 0, err
	}
	req.Header = http.Header{
		"Ce-Specversion": {"1.0"}, "Ce-Id": {fmt.Sprint(n)}, "Ce-Type": {"google.cloud.firestore.document.v1.written"},
		"Ce-Source": {"//firestore.googleapis.com/projects/" + project + "/databases/(default)"}, "Content-Type": {"application/protobuf"},
	}
	resp, err := web.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// Reconcile, called as Cloud Scheduler calls it, makes up for events that never came.
func TestReconcileMakesUpForLostEvents(t *testing.T) {
	t.Parallel()
	s := startSystem(t, Config{Faults: Faults{Events: eventarc.Faults{Drop: 1}}})
	client := s.client(t)
	for i := range 20 {
		if code, err := s.post(t.Context(), fmt.Sprintf("c%d", i%4), "", ""); err != nil || code != http.StatusOK {
			t.Fatalf("increment: %d, %v", code, err)
		}
	}
	resp, err := http.Post(s.Gateway+"/reconcile", "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct {
		Seen, Repaired, Failed int
		Done                   bool
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || got.Seen != 4 || got.Repaired != 4 || got.Failed != 0 || !got.Done {
		t.Errorf("reconcile answered %d, %+v", resp.StatusCode, got)
	}
	for i := range 4 {
		waitForTotal(t, client, fmt.Sprintf("c%d", i), 5)
	}
}
