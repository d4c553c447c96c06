package dev

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
)

var heldDuration = flag.Duration("held.duration", time.Minute, "how long each part of BenchmarkHeldEvents writes")

const (
	largeCollection = 5000 // comments: counting them is 5 reads, worth its price after some 5 events, or 55 s
	smallPosts      = 200
)

// BenchmarkHeldEvents writes 20 comments a second on 200 posts with few of them, and reports how
// long it takes until the post has counted one, where events come as Pub/Sub pushes them: alone;
// beside comments on posts that have 5,000, whose events wait for up to 55 s until counting is
// worth its price; and the same where Pub/Sub gives up on those after 10 s, because nobody has set
// the subscription's acknowledgement deadline.
func BenchmarkHeldEvents(b *testing.B) {
	for _, bm := range []struct {
		large    int
		deadline time.Duration
	}{{0, 70 * time.Second}, {40, 70 * time.Second}, {40, 10 * time.Second}} {
		b.Run(fmt.Sprintf("large=%d/ack-deadline=%v", bm.large, bm.deadline), func(b *testing.B) { heldEvents(b, bm.large, bm.deadline) })
	}
}

func heldEvents(b *testing.B, large int, deadline time.Duration) {
	push := eventarc.PubSub()
	push.AckDeadline = deadline
	s := startSystem(b, Config{Push: push, Faults: Faults{Events: eventarc.Faults{Drop: 1}}, Environ: []string{
		"COUNTERS=posts/{post}", "HOSTED=true", "FIELDS=likes,comments=count(comments)", "LOG_LEVEL=ERROR",
	}})
	client := s.client(b)
	makePosts(b, client, large)
	if err := s.server.WaitForChanges(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := s.SetFaults(Faults{}); err != nil {
		b.Fatal(err)
	}
	small := watchComments(s)

	b.ResetTimer()
	var writers errgroup.Group
	add := func(kind string, post int) {
		writers.Go(func() error {
			_, err := client.Collection(fmt.Sprintf("posts/%s-%d/comments", kind, post)).NewDoc().Set(b.Context(), map[string]any{"text": "well"})
			return err
		})
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n, end := 0, time.Now().Add(*heldDuration); time.Now().Before(end); n++ {
		<-tick.C
		add("small", rand.IntN(smallPosts))
		if large > 0 && n%8 == 0 { // each once in 16 s
			add("large", n/8%large)
		}
	}
	if err := writers.Wait(); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	lags, waiting := small.sorted()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(quantile(lags, 0.5), "lag-p50-ms")
	b.ReportMetric(quantile(lags, 0.99), "lag-p99-ms")
	b.ReportMetric(float64(len(lags)), "counted")
	b.ReportMetric(float64(waiting), "uncounted-at-the-end")
	stats := s.Events()
	b.ReportMetric(float64(stats.Overdue), "overdue")
	b.ReportMetric(float64(stats.Pending), "pending")
}

// makePosts makes posts, some of them with many comments.
func makePosts(b *testing.B, client *firestore.Client, large int) {
	b.Helper()
	var docs []*firestore.DocumentRef
	for n := range smallPosts {
		docs = append(docs, client.Doc(fmt.Sprintf("posts/small-%d", n)))
	}
	for n := range large {
		post := client.Doc(fmt.Sprintf("posts/large-%d", n))
		docs = append(docs, post)
		for range largeCollection {
			docs = append(docs, post.Collection("comments").NewDoc())
		}
	}
	var making errgroup.Group
	making.SetLimit(4)
	for some := range slices.Chunk(docs, 500) {
		making.Go(func() error {
			return client.RunTransaction(b.Context(), func(_ context.Context, tx *firestore.Transaction) error {
				var errs error
				for _, doc := range some {
					errs = errors.Join(errs, tx.Set(doc, map[string]any{}))
				}
				return errs
			})
		})
	}
	if err := making.Wait(); err != nil {
		b.Fatal(err)
	}
}

// comments measures how long comments on small posts take until their posts have counted them.
type comments struct {
	mu      sync.Mutex
	written map[string][]time.Time // :: post → when its comments were made
	counted map[string]int         // :: post → how many of them it has counted
	lags    []time.Duration
}

func watchComments(s *System) *comments {
	c := &comments{written: map[string][]time.Time{}, counted: map[string]int{}}
	s.server.OnChange(func(change emulator.Change) {
		_, path, _ := strings.Cut(change.Name, "/documents/posts/")
		post, below, _ := strings.Cut(path, "/")
		if !strings.HasPrefix(post, "small-") {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case strings.HasPrefix(below, "comments/"):
			c.written[post] = append(c.written[post], change.CommitTime)
		case below == "":
			for n := int(change.New.GetFields()["comments"].GetIntegerValue()); c.counted[post] < min(n, len(c.written[post])); c.counted[post]++ {
				c.lags = append(c.lags, change.CommitTime.Sub(c.written[post][c.counted[post]]))
			}
		}
	})
	return c
}

func (c *comments) sorted() (lags []time.Duration, waiting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for post, written := range c.written {
		waiting += len(written) - c.counted[post]
	}
	return slices.Sorted(slices.Values(c.lags)), waiting
}
