//go:build all

package dev

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/testbed/chance"
	"github.com/firestore-counters/counters/shards"
)

var (
	chaosIncrements = flag.Int("chaos.increments", 3000, "increments of each chaos test")
)

// chaos is everything at once: instances that are killed, commits that fail or lose their answers,
// documents that take only so many writes, and events that come twice and in any order.
var chaos = Faults{
	Events: eventarc.Faults{Duplicate: 0.3, Reorder: 0.5},
	Commits: emulator.Faults{
		Abort: 0.1, Unavailable: 0.05, LoseAnswers: 0.05, DocWriteRate: 50, CommitLatency: 2 * time.Millisecond,
	},
	KillEvery: time.Second,
}

// With every event delivered in the end, the totals are right without a reconcile.
func TestChaos(t *testing.T) {
	t.Parallel()
	runChaos(t, chaos, oneField)
}

// Several fields of counters at a path of several collections, each exact.
func TestChaosWithFields(t *testing.T) {
	t.Parallel()
	runChaos(t, chaos, twoFields)
}

// With events lost for good, they are right after one reconcile.
func TestChaosWithLostEvents(t *testing.T) {
	t.Parallel()
	faults := chaos
	faults.Events.Drop = 0.2
	runChaos(t, faults, oneField)
}

// chaosLayout is where the counters of a chaos test are, and what is counted in them.
type chaosLayout struct {
	counters, fields string            // COUNTERS and FIELDS
	prefix, path     string            // what comes before a counter's name in its id, and in the path of its document
	names            map[string]string // :: field of a counter → of its shards
	amount           string            // that an increment of 1 adds, as JSON: 1 to the first field, 3 to the second
}

var (
	oneField  = chaosLayout{"counters/{counter}", "total=count", "", "counters/", map[string]string{"total": "count"}, `1`}
	twoFields = chaosLayout{
		"teams/{team}/posts/{post}", "likes,views=seen", "red/", "teams/red/posts/",
		map[string]string{"likes": "likes", "views": "seen"}, `{"likes": 1, "views": 3}`,
	}
)

func runChaos(t *testing.T, faults Faults, layout chaosLayout) {
	faults.Seed = chance.Seed(t)
	s := startSystem(t, Config{Faults: faults, Instances: 3, Environ: []string{"ROLLUP_INTERVAL=100ms", "LOG_LEVEL=ERROR", "COUNTERS=" + layout.counters, "FIELDS=" + layout.fields}})
	c := &chaosClients{System: s, rand: chance.Of(t), layout: layout, t: t, client: s.client(t)}
	c.makeSnippetsCounter()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var life sync.WaitGroup
	life.Go(func() { c.live(ctx) })
	var clients sync.WaitGroup
	n := *chaosIncrements / 12
	for i := range 4 {
		clients.Go(func() { c.incrementWithKeys(i, n) })
		clients.Go(func() { c.incrementWithout(n) })
		clients.Go(func() { c.incrementShards(n) })
	}
	clients.Wait()
	cancel()
	life.Wait()

	if err := s.SetFaults(Faults{}); err != nil {
		t.Fatal(err)
	}
	// A process that was killed within a transaction leaves its locks behind, which Firestore gives
	// back after a minute.
	settle(t, s)
	if faults.Events.Drop > 0 {
		c.reconcile()
	}
	for _, counter := range []string{"keyed", "plain", "snippet", "life"} {
		c.check(counter)
	}
	acked, unknown := c.acknowledged.Load(), c.unknown.Load()
	for name, shard := range layout.names {
		times := int64(1)
		if name == "views" {
			times = 3
		}
		if got := c.sumOf("keyed", shard); got != times*c.keyed.Load() {
			t.Errorf("%d increments with keys succeeded, and %d %s are counted", c.keyed.Load(), got, name)
		}
		if got := c.sumOf("plain", shard); got < times*acked || got > times*(acked+unknown) || got%times != 0 {
			t.Errorf("%d increments without keys were acknowledged, %d are unknown, and %d %s are counted", acked, unknown, got, name)
		}
	}
	t.Logf("keyed %d; acknowledged %d, unknown %d; shard writes refused %d; events %+v", c.keyed.Load(), acked, unknown, c.refused.Load(), s.Events())
}

// chaosClients are the clients of a system in chaos.
type chaosClients struct {
	*System
	layout chaosLayout
	t      *testing.T
	client *firestore.Client
	rand   *rand.Rand

	keyed, acknowledged, unknown, refused atomic.Int64
}

// incrementWithKeys increments n times, each until it succeeds.
func (c *chaosClients) incrementWithKeys(client, n int) {
	for i := range n {
		key := fmt.Sprintf("client-%d-%d", client, i)
		for {
			code, err := c.post(c.t.Context(), c.layout.prefix+"keyed", `{"by": `+c.layout.amount+`}`, key)
			if err == nil && code == http.StatusOK {
				break
			}
			if err == nil && code < 500 && code != http.StatusTooManyRequests {
				c.t.Errorf("increment with a key: %d", code)
				return
			}
			time.Sleep(chance.Below(c.rand, 20*time.Millisecond))
		}
		c.keyed.Add(1)
	}
}

// incrementWithout increments n times, once each.
func (c *chaosClients) incrementWithout(n int) {
	for range n {
		code, err := c.post(c.t.Context(), c.layout.prefix+"plain", `{"by": `+c.layout.amount+`}`, "")
		switch {
		case err == nil && code == http.StatusOK:
			c.acknowledged.Add(1)
		case err == nil && code == http.StatusServiceUnavailable: // nothing was counted
		case err != nil || code >= 500:
			c.unknown.Add(1)
		default:
			c.t.Errorf("increment: %d", code)
		}
	}
}

// makeSnippetsCounter makes a counter as Google's snippets do.
func (c *chaosClients) makeSnippetsCounter() {
	c.t.Helper()
	counter := c.client.Doc(c.layout.path + "snippet")
	c.insist(func(ctx context.Context) error {
		_, err := counter.Set(ctx, map[string]any{"num_shards": 10})
		return err
	})
	zeros := map[string]any{}
	for _, shard := range c.layout.names {
		zeros[shard] = 0
	}
	for n := range 10 {
		c.insist(func(ctx context.Context) error {
			_, err := counter.Collection("shards").Doc(fmt.Sprint(n)).Set(ctx, zeros)
			return err
		})
	}
}

// insist does something that may be done twice until it succeeds.
func (c *chaosClients) insist(do func(context.Context) error) {
	c.t.Helper()
	eventually(c.t, "a write succeeds", func() bool { return do(c.t.Context()) == nil })
}

// incrementShards increments shards as Google's snippets do. The plain client may count one twice,
// or not at all; the total has to follow the shards in any case.
func (c *chaosClients) incrementShards(n int) {
	for range n {
		shard := c.client.Doc(fmt.Sprintf("%ssnippet/shards/%d", c.layout.path, c.rand.IntN(10)))
		var updates []firestore.Update
		for _, field := range c.layout.names {
			updates = append(updates, firestore.Update{Path: field, Value: firestore.Increment(1)})
		}
		if _, err := shard.Update(c.t.Context(), updates); err != nil {
			c.refused.Add(1)
		}
	}
}

// reconcile walks over all counters, as Cloud Scheduler has it done.
func (c *chaosClients) reconcile() {
	c.t.Helper()
	resp, err := http.Post(c.Gateway+"/reconcile", "application/json", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	var got map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || resp.StatusCode != http.StatusOK || got["done"] != true {
		c.t.Fatalf("reconcile: %d, %v, %v", resp.StatusCode, got, err)
	}
	c.t.Logf("reconcile: %v", got)
}

// sumOf adds up a field of a counter's shards.
func (c *chaosClients) sumOf(counter, field string) (sum int64) {
	c.t.Helper()
	docs, err := c.client.Collection(c.layout.path + counter + "/shards").Documents(c.t.Context()).GetAll()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, s := range docs {
		n, _ := s.Data()[field].(int64)
		sum += n
	}
	return sum
}

// check holds a counter's totals against its bases and its shards.
func (c *chaosClients) check(counter string) {
	c.t.Helper()
	doc, err := c.client.Doc(c.layout.path + counter).Get(c.t.Context())
	if !doc.Exists() {
		if counter == "life" { // deleted when everything ended
			return
		}
		c.t.Errorf("%s: %v", counter, err)
		return
	}
	base, err := c.client.Doc(c.layout.path + counter + "/counter_rollup/base").Get(c.t.Context())
	if err != nil {
		c.t.Errorf("%s: %v", counter, err)
		return
	}
	bases, _ := base.Data()["base"].(map[string]any)
	for name, shard := range c.layout.names {
		base, _ := bases[shard].(int64)
		if total, want := doc.Data()[name], base+c.sumOf(counter, shard); total != want {
			c.t.Errorf("%s of %s: %v, want %d (base %d)", name, counter, total, want, base)
		}
	}
}

// live creates, increments, resizes, resets, rebases and deletes a counter, over and over. What
// becomes of each call is not known under these faults; the counter has to add up whatever did.
func (c *chaosClients) live(ctx context.Context) {
	conn, err := dialEmulator(c.Firestore)
	if err != nil {
		c.t.Error(err)
		return
	}
	client, err := shards.Open(ctx, shards.Config{Place: shards.Place{Project: c.Project, Counters: c.layout.counters, Fields: c.layout.fields}, Timeout: 2 * time.Second}, option.WithGRPCConn(conn))
	if err != nil {
		c.t.Error(err)
		return
	}
	defer client.Close()
	counter, err := client.Counter(c.layout.prefix + "life")
	if err != nil {
		c.t.Error(err)
		return
	}
	done := map[string]int{}
	for ctx.Err() == nil {
		var what string
		var err error
		// Half of the time it is increments: what else is done has to be done beside them.
		switch c.rand.IntN(12) {
		case 0:
			what, err = "create", counter.Create(ctx, shards.CreateOptions{Shards: 1 + c.rand.IntN(8), Total: c.rand.Int64N(3) * 100})
		case 1:
			what, err = "delete", counter.Delete(ctx, shards.DeleteOptions{})
		case 2:
			what, err = "reset", counter.Reset(ctx, shards.ResetOptions{})
		case 3:
			what, err = "rebase", counter.Rebase(ctx, c.rand.Int64N(1000))
		case 4, 5:
			what, err = "resize", counter.Resize(ctx, 1+c.rand.IntN(12), shards.ResizeOptions{})
		default:
			what = "increment"
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					by := map[string]int64{}
					for name := range c.layout.names {
						by[name] = 1 + c.rand.Int64N(20)
					}
					_, _ = counter.AddFields(ctx, by, shards.Key{})
					_ = counter.Add(ctx, -1-c.rand.Int64N(5))
				})
			}
			all.Wait()
		}
		switch {
		case err == nil:
			done[what]++
		case ctx.Err() == nil && !errors.Is(err, shards.ErrNotFound) && !errors.Is(err, shards.ErrExists) &&
			!errors.Is(err, shards.ErrBusy) && !errors.Is(err, shards.ErrUnknown):
			c.t.Logf("%s: %v", what, err) // the plain client's own retries let some faults through
		}
	}
	c.t.Logf("life: %v", done)
}
