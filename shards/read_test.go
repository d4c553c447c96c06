package shards_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

func TestList(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		const many = 1003 // three pages
		bulk := w.fs.BulkWriter(t.Context())
		for i := range many {
			if _, err := bulk.Set(w.fs.Collection("counters").Doc(fmt.Sprintf("c%04d", i)), map[string]any{"num_shards": 1, "total": i}); err != nil {
				t.Fatal(err)
			}
		}
		bulk.End()
		i := 0
		for s, err := range client.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if s.Counter != fmt.Sprintf("c%04d", i) || s.Total != int64(i) {
				t.Fatalf("number %d is %+v", i, s)
			}
			i++
		}
		if i != many {
			t.Errorf("%d counters, want %d", i, many)
		}
		for range client.List(t.Context()) {
			break
		}
	})
}

func TestWatch(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		c := w.counter(t, client, "a", 1)
		ref := w.fs.Collection("counters").Doc("a")
		want := int64(0)
		for s, err := range c.Watch(t.Context()) {
			if want == 3 {
				if !errors.Is(err, shards.ErrNotFound) {
					t.Errorf("deleted: %v, want ErrNotFound", err)
				}
				break
			}
			if err != nil || s.Total != want {
				t.Fatalf("watched %+v, %v; want a total of %d", s, err, want)
			}
			if want++; want == 3 {
				err = c.Delete(t.Context(), shards.DeleteOptions{})
			} else {
				_, err = ref.Update(t.Context(), []firestore.Update{{Path: "total", Value: want}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for s, err := range c.Watch(ctx) {
			t.Errorf("after its context has ended: %+v, %v", s, err)
		}
	})
}

func TestCached(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{ReadCache: time.Hour})
		c := w.counter(t, client, "a", 1)
		set := func(total int) {
			t.Helper()
			if _, err := w.fs.Collection("counters").Doc("a").Update(t.Context(), []firestore.Update{{Path: "total", Value: total}}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(total int64) {
			t.Helper()
			if s, age, err := c.Cached(t.Context()); err != nil || s.Total != total || age < 0 || age > time.Hour {
				t.Errorf("total %+v, %v old, %v; want %d", s, age, err, total)
			}
		}
		want(0)
		set(5)
		want(0) // from memory
		if s, err := c.Get(t.Context()); err != nil || s.Total != 5 {
			t.Errorf("read %+v, %v; want 5", s, err)
		}
		want(5)
		always := w.open(t, shards.Config{ReadCache: -time.Second})
		c = handle(t, always, "a")
		want(5)
		set(7)
		want(7)
		if s, _, err := handle(t, client, "none").Cached(t.Context()); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("an unknown counter: %+v, %v, want ErrNotFound", s, err)
		}
	})
}

// Where an app or a client has written a fraction over a total, a read says its whole part and what is there. It isn't
// 0. An exact read says what the shards hold.
func TestTotalThatIsAFraction(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.open(t, shards.Config{}), w.open(t, shards.Config{Place: shards.Place{Fields: "total=count,views"}})
		w.counter(t, one, "a", 1)
		if err := handle(t, one, "a").Add(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		const none = "none"
		for _, tt := range []struct {
			value any
			total int64
			says  any // among the doubles
		}{
			{3.5, 3, 3.5}, {-3.5, -3, -3.5}, {0.5, 0, 0.5}, {1e17, 1e17, 1e17}, {1e19, 0, 1e19}, {math.Inf(1), 0, nil}, {math.NaN(), 0, nil}, {5.0, 5, none}, {6, 6, none}, {nil, 0, none},
		} {
			if _, err := w.fs.Doc("counters/a").Update(t.Context(), []firestore.Update{{Path: "total", Value: tt.value}}); err != nil {
				t.Fatal(err)
			}
			for fields, client := range map[int]*shards.Client{1: one, 2: two} {
				s, err := handle(t, client, "a").Get(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var says any = none
				if f, is := s.Doubles["total"]; is && f != nil {
					says = *f
				} else if is {
					says = nil
				}
				if s.Total != tt.total || fields == 2 && s.Totals["total"] != tt.total || says != tt.says {
					t.Errorf("%v: %+v says %v, want %d and %v", tt.value, s, says, tt.total, tt.says)
				}
				if s, err := handle(t, client, "a").Sum(t.Context()); err != nil || s.Total != 7 || len(s.Doubles) > 0 {
					t.Errorf("%v: exactly %+v, %v", tt.value, s, err)
				}
			}
		}
	})
}

// Many who ask at the same time are answered with a few reads, and whoever goes away takes none of
// the others along.
func TestOneReadForAllWhoAsk(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.counter(t, w.open(t, shards.Config{}), "a", 1)
		w.Server.ResetStats()
		const asked = 1000
		c := handle(t, w.open(t, shards.Config{ReadCache: time.Minute}), "a")
		var group sync.WaitGroup
		for i := range asked {
			group.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%2 == 0 {
					cancel()
				}
				if _, _, err := c.Cached(ctx); err != nil && (i%2 == 1 || !errors.Is(err, context.Canceled)) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if reads := w.Server.Stats().Reads; reads > 2 {
			// between the end of one and the next look at the memory there may be another
			t.Errorf("%d reads for %d who asked, want 1", reads, asked)
		}
	})
}

// A read whose answer is slow is not what a call gets that comes long after it began, and is not
// taken for fresh: neither a total nor that there is no counter.
func TestCachedIsNoOlderThanItsAge(t *testing.T) {
	t.Parallel()
	for _, made := range []bool{true, false} { // before the first one asks
		virtual.Run(t, fmt.Sprint(made), func(t *testing.T) {
			w := newWorld(t)
			if made {
				w.counter(t, w.open(t, shards.Config{}), "a", 1)
			}
			read, answer := make(chan struct{}), make(chan struct{})
			var once sync.Once
			conn := w.Conn(grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				stream, err := streamer(ctx, desc, cc, method, opts...)
				slow := &slowStream{ClientStream: stream}
				once.Do(func() { slow.read, slow.answer = read, answer })
				return slow, err
			}))
			const kept = 20 * time.Millisecond
			client, err := shards.Open(t.Context(), shards.Config{Place: shards.Place{Project: "p"}, ReadCache: kept}, option.WithGRPCConn(conn))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { client.Close() })
			c := handle(t, client, "a")
			ask := func() <-chan string {
				got := make(chan string, 1)
				go func() {
					s, _, err := c.Cached(t.Context())
					got <- fmt.Sprint(s.Total, ", not found: ", errors.Is(err, shards.ErrNotFound))
				}()
				return got
			}
			first := ask()
			<-read
			if _, err := w.fs.Collection("counters").Doc("a").Set(t.Context(), map[string]any{"total": 5}, firestore.MergeAll); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * kept)
			second := ask()
			time.Sleep(kept) // for it to join the first's read
			close(answer)
			was, is := <-first, <-second
			if want := fmt.Sprint("0, not found: ", !made); was != want || is != "5, not found: false" {
				t.Errorf("the first reads %s and the second %s; want %s, which it was when it asked, and 5", was, is, want)
			}
		})
	}
}

// slowStream holds its first answer back: it says on read that it is there, and waits for answer.
type slowStream struct {
	grpc.ClientStream
	read, answer chan struct{}
}

func (s *slowStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if s.read != nil {
		close(s.read)
		<-s.answer
		s.read = nil
	}
	return err
}

// Counters at a path of several wildcards are made, added to, read and listed by ids
// of several parts.
func TestNestedPath(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Counters: "teams/{team}/posts/{post}", Shards: "parts"}, AutoCreate: true, NumShards: 2})
		var want []string
		for _, team := range []string{"blue", "red"} {
			for n := range 300 { // two pages
				want = append(want, fmt.Sprintf("%s/post-%03d", team, n))
			}
		}
		var group errgroup.Group
		group.SetLimit(50)
		for _, id := range want {
			counter, err := client.Counter(id)
			if err != nil {
				t.Fatal(err)
			}
			group.Go(func() error { return counter.Add(t.Context(), 3) })
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for s, err := range client.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, s.Counter)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d counters are listed, want %d", len(got), len(want))
		}
		counter, _ := client.Counter("red/post-007")
		if s, err := counter.Sum(t.Context()); err != nil || s.Total != 3 {
			t.Errorf("Sum = %+v, %v", s, err)
		}
		parts, err := w.fs.Collection("teams").Doc("red").Collection("posts").Doc("post-007").Collection("parts").Documents(t.Context()).GetAll()
		if err != nil || len(parts) != 2 {
			t.Errorf("%d shards, %v, want 2", len(parts), err)
		}
		for _, id := range []string{"red", "red/post/1", "red/", "/post-1", "red/.."} {
			if _, err := client.Counter(id); !errors.Is(err, shards.ErrInvalidID) {
				t.Errorf("Counter(%q): %v, want ErrInvalidID", id, err)
			}
		}
	})
}
