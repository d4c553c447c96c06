package rollup_test

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// holding is a counter by a client as another process has it.
func (w *world) holding(cfg shards.Config, id string) shards.Counter {
	w.t.Helper()
	cfg.Project, cfg.AutoCreate = "p", !cfg.Hosted
	client, err := shards.Open(w.ctx, cfg, option.WithGRPCConn(w.connect()))
	w.must(client, err)
	w.t.Cleanup(func() { client.Close() })
	c, err := client.Counter(id)
	w.must(c, err)
	return c
}

// entries are how many entries name a time, and how many are only in the way.
func (w *world) entries() (holds, left int) {
	w.t.Helper()
	docs, err := w.fs.CollectionGroup("counter_requests").Documents(w.ctx).GetAll()
	w.must(docs, err)
	for _, doc := range docs {
		if _, is := doc.Data()["until"]; is {
			holds++
		} else if len(doc.Data()) == 1 {
			left++
		}
	}
	return holds, left
}

// members are those of a field of a counter.
func (w *world) members(c shards.Counter, field string) (members []string) {
	w.t.Helper()
	for m, err := range c.Members(w.ctx, field) {
		w.must(m, err)
		members = append(members, m.Member)
	}
	return members
}

// Holds that are over are ended by a reconcile of all, and by an instance that has something else to do, of
// fields with a limit and without; what was confirmed stays, and what members left leaves nothing behind.
func TestHoldsEndOnTime(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(w *world){
		"a walk": func(w *world) {
			w.must(w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{}))
		},
		"an instance": func(w *world) {
			r := rollup.NewRoller(w.rollup, rollup.RollerOptions{})
			defer func() { w.must(nil, r.Close(w.ctx)) }()
			for range 2 {
				time.Sleep(2 * time.Minute)
				written, err := w.fs.Doc("counters/other/shards/0").Set(w.ctx, map[string]any{"count": 1})
				w.must(written, err)
				w.must(nil, r.Add(w.ctx, rollup.Change{Counter: "other", Fields: []string{"total"}, At: written.UpdateTime}))
				time.Sleep(time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) {
				w.must(w.fs.Doc("counters/other").Set(w.ctx, map[string]any{"num_shards": 1}))
				place := shards.Place{Project: "p", Fields: "total=count,seats=limit(10)"}
				client, err := rollup.Open(w.ctx, rollup.Config{Place: place}, option.WithGRPCConn(w.connect()))
				w.must(client, err)
				w.rollup = client
				limited, plain := w.holding(shards.Config{Place: place}, "limited"), w.holding(shards.Config{Place: place}, "plain")
				other := w.holding(shards.Config{Place: shards.Place{Fields: "chairs=limit(1)"}}, "limited")
				fields := map[shards.Counter]string{limited: "seats", plain: "total"}
				w.must(limited.Join(w.ctx, "seats", "early"))
				for _, c := range []shards.Counter{limited, plain} {
					for _, member := range []string{"over", "confirmed", "left", "joined"} {
						counted, _, err := c.Hold(w.ctx, fields[c], member, time.Minute)
						w.must(counted, err)
					}
					counted, _, err := c.Hold(w.ctx, fields[c], "long", time.Hour)
					w.must(counted, err)
					w.must(nil, c.Confirm(w.ctx, fields[c], "confirmed"))
					w.must(c.Leave(w.ctx, fields[c], "left"))
					w.must(c.Leave(w.ctx, fields[c], "joined"))
					w.must(c.Join(w.ctx, fields[c], "joined"))
				}
				_, _, err = other.Hold(w.ctx, "chairs", "unknown", time.Minute)
				w.must(nil, err)
				w.must(w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{}))
				if got := w.members(limited, "seats"); !slices.Equal(got, []string{"confirmed", "early", "joined", "long", "over"}) {
					w.t.Errorf("before the time is over: %q", got)
				}
				time.Sleep(time.Minute + time.Second)
				look(w)
				for c, want := range map[shards.Counter][]string{limited: {"confirmed", "early", "joined", "long"}, plain: {"confirmed", "joined", "long"}} {
					if got := w.members(c, fields[c]); !slices.Equal(got, want) {
						w.t.Errorf("%s has %q, want %q", c.ID(), got, want)
					}
					s, err := c.Sum(w.ctx)
					w.must(s, err)
					if s.Totals[fields[c]] != int64(len(want)) {
						w.t.Errorf("%s adds up to %d, want %d", c.ID(), s.Total, len(want))
					}
				}
				// That of a field which this revision doesn't count stays, and two that are not over.
				if holds, left := w.entries(); holds != 3 || left != 8 {
					w.t.Errorf("%d entries name a time, and %d don't; want 3 and 8", holds, left)
				}
			})
		})
	}
}

// Amounts whose time is over come back, once, by one look at all of them: of fields with a limit and without, also
// where their field is called otherwise by now. What is settled or given back is in nobody's way, and its record says
// until when it stays.
func TestAmountsEndOnTime(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.must(w.fs.Doc("counters/other").Set(w.ctx, map[string]any{"num_shards": 1}))
		place := shards.Place{Project: "p", Fields: "total=count,used=limit(400)"}
		c := w.holding(shards.Config{Place: place, NumShards: 2, KeyTTL: time.Hour, Timeout: time.Minute}, "a")
		unknown := w.holding(shards.Config{Place: shards.Place{Fields: "chairs=limit(1)"}}, "a")
		for _, field := range []string{"total", "used"} {
			for n := range 120 {
				_, _, err := c.Reserve(w.ctx, field, 3, time.Minute, shards.Key{Value: strconv.Itoa(n)})
				w.must(nil, err)
			}
			_, _, err := c.Reserve(w.ctx, field, 5, time.Hour, shards.Key{Value: "long"})
			w.must(nil, err)
			w.must(c.Settle(w.ctx, field, 2, shards.Key{Value: "0"}))
			w.must(c.GiveBack(w.ctx, field, shards.Key{Value: "1"}))
		}
		_, _, err := unknown.Reserve(w.ctx, "chairs", 1, time.Minute, shards.Key{Value: "x"})
		w.must(nil, err)
		renamed := shards.Place{Project: "p", Fields: "likes=count,used=limit(400)"}
		w.rollup, err = rollup.Open(w.ctx, rollup.Config{Place: renamed}, option.WithGRPCConn(w.connect()))
		w.must(nil, err)
		sums := func(want int64) {
			w.t.Helper()
			s, err := c.Sum(w.ctx)
			w.must(s, err)
			if s.Totals["total"] != want || s.Totals["used"] != want {
				w.t.Errorf("%v, want %d each", s.Totals, want)
			}
		}
		w.must(w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{}))
		sums(2 + 118*3 + 5)
		time.Sleep(time.Minute + time.Second)
		w.must(w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{DryRun: true}))
		sums(2 + 118*3 + 5)
		for range 2 {
			w.must(w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{}))
			sums(2 + 5)
		}
		if holds, _ := w.entries(); holds != 3 { // one of a field that this revision doesn't count
			w.t.Errorf("%d entries name a time, want 3", holds)
		}
		h, err := c.Held(w.ctx, "used", shards.Key{Value: "2"})
		w.must(h, err)
		if h.State != "ended" || h.Returned() != 3 {
			w.t.Errorf("%+v", h)
		}
		docs, err := w.fs.CollectionGroup("counter_requests").Where("state", "in", []string{"settled", "ended"}).Documents(w.ctx).GetAll()
		w.must(docs, err)
		for _, doc := range docs {
			if left := doc.Data()["expire_at"].(time.Time).Sub(doc.UpdateTime); left < 2*time.Hour || left > 2*time.Hour+2*time.Minute {
				w.t.Errorf("%v expires after %v", doc.Data(), left)
			}
		}
		if len(docs) != 240 {
			w.t.Errorf("%d records of holds that are over, want 240", len(docs))
		}
	})
}

// However many holds of however many counters are over, one look ends them, and a dry run none.
func TestManyHoldsEnd(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		const counters, members = 12, 120
		var all []shards.Counter
		for n := range counters {
			c := w.holding(shards.Config{NumShards: 1}, "c"+string(rune('a'+n)))
			all = append(all, c)
			for m := range members {
				_, _, err := c.Hold(w.ctx, "total", string(rune('a'+m%26))+string(rune('a'+m/26)), time.Minute)
				w.must(nil, err)
			}
		}
		time.Sleep(time.Minute + time.Second) // each commit is a microsecond later than the one before
		w.must(w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{DryRun: true}))
		if holds, _ := w.entries(); holds != counters*members {
			w.t.Errorf("a dry run leaves %d holds", holds)
		}
		w.must(w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{}))
		if holds, left := w.entries(); holds != 0 || left != counters*members {
			w.t.Errorf("%d entries name a time, and %d don't", holds, left)
		}
		for _, c := range all {
			if s, err := c.Sum(w.ctx); err != nil || s.Total != 0 {
				w.t.Errorf("%s adds up to %d, %v", c.ID(), s.Total, err)
			}
		}
	})
}

// Holds that nothing here can end, of a field that another revision counts, are in nobody's way.
func TestHoldsThatNothingEnds(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		other, c := w.holding(shards.Config{Place: shards.Place{Fields: "seats"}}, "other"), w.holding(shards.Config{}, "plain")
		for n := range 500 {
			_, _, err := other.Hold(w.ctx, "seats", strconv.Itoa(n), time.Minute)
			w.must(nil, err)
		}
		// Something else wrote one of a seat that there can't be.
		entries, err := w.fs.CollectionGroup("counter_requests").OrderBy("until", firestore.Asc).Limit(1).Documents(w.ctx).GetAll()
		w.must(entries, err)
		w.must(entries[0].Ref.Parent.Doc("odd").Set(w.ctx, map[string]any{"until": time.Now(), "counter": "nowhere", "field": "total", "member": "a/b"}))
		time.Sleep(time.Second) // it is the last one
		_, _, err = c.Hold(w.ctx, "total", "u", time.Minute)
		w.must(nil, err)
		time.Sleep(time.Minute + time.Second)
		w.must(w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{}))
		if got := w.members(c, "total"); len(got) > 0 {
			w.t.Errorf("%q, want none", got)
		}
		if holds, left := w.entries(); holds != 501 || left != 1 {
			w.t.Errorf("%d entries name a time, and %d don't; want 501 and 1", holds, left)
		}
	})
}

// A hold that couldn't be ended since others were writing the same shards ends with a later look, and not ten minutes
// late.
func TestAHoldOfABusyCounterEndsSoon(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		c := w.holding(shards.Config{}, "plain")
		_, _, err := c.Hold(w.ctx, "total", "u", time.Minute)
		w.must(nil, err)
		var busy atomic.Bool
		conn := w.server.Conn(grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if commit, is := req.(*firestorepb.CommitRequest); is && busy.Load() && len(commit.GetWrites()) > 1 {
				return status.Error(codes.Aborted, "too much contention on these documents")
			}
			return invoke(ctx, method, req, reply, conn, opts...)
		}))
		client, err := rollup.Open(w.ctx, rollup.Config{Place: rollup.Place{Project: "p"}}, option.WithGRPCConn(conn))
		w.must(client, err)
		client.Looks(false)
		time.Sleep(time.Minute + time.Second)
		busy.Store(true)
		w.must(client.ReconcileAll(w.ctx, rollup.ReconcileOptions{}))
		if got := w.members(c, "total"); len(got) != 1 {
			w.t.Fatalf("%q: it was not busy", got)
		}
		busy.Store(false)
		time.Sleep(time.Minute)
		w.must(client.ReconcileAll(w.ctx, rollup.ReconcileOptions{}))
		if got := w.members(c, "total"); len(got) > 0 {
			w.t.Errorf("%q, want none", got)
		}
	})
}

// The entries of holds are lost, as where documents were restored without them, or nobody looks at them any more, since
// a wildcard of COUNTERS has got another name: a reconcile ends the holds that are over all the same. Where no field
// has a limit, it is one that looks at each shard.
func TestHoldsWithoutEntriesEnd(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		place   shards.Place
		renamed string
		limit   bool
	}{
		"a document of ours":      {place: shards.Place{Project: "p", Fields: "total=limit(3)"}, limit: true},
		"a document of the app's": {place: shards.Place{Project: "p", Counters: "posts/{post}", Fields: "total=limit(3)", Hosted: true}, limit: true},
		"without a limit":         {place: shards.Place{Project: "p"}},
		"a wildcard's other name": {place: shards.Place{Project: "p", Counters: "counters/{counter}"}, renamed: "counters/{id}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) {
				w.must(w.fs.Doc("posts/c").Set(w.ctx, map[string]any{"title": "x"}))
				c := w.holding(shards.Config{Place: tt.place, AutoCreate: !tt.place.Hosted}, "c")
				w.must(c.Join(w.ctx, "total", "joined"))
				_, _, err := c.Hold(w.ctx, "total", "held", time.Minute)
				w.must(nil, err)
				place := tt.place
				place.Counters = cmp.Or(tt.renamed, place.Counters)
				client, err := rollup.Open(w.ctx, rollup.Config{Place: place}, option.WithGRPCConn(w.connect()))
				w.must(client, err)
				client.Looks(false)
				// so that the walk after it finds the counter right, and only glances at it
				w.must(client.Reconcile(w.ctx, "c", rollup.ReconcileOptions{}))
				if tt.renamed == "" {
					entries, err := w.fs.CollectionGroup("counter_requests").OrderBy("until", firestore.Asc).Documents(w.ctx).GetAll()
					w.must(entries, err)
					for _, entry := range entries {
						w.must(entry.Ref.Delete(w.ctx))
					}
				}
				time.Sleep(time.Minute + time.Second)
				client.Looks(!tt.limit)
				w.must(client.ReconcileAll(w.ctx, rollup.ReconcileOptions{}))
				if got := w.members(c, "total"); !slices.Equal(got, []string{"joined"}) {
					w.t.Errorf("%q, want that the hold is over", got)
				}
			})
		})
	}
}

// A limit of an app's document whose events never come: the walk finds the counter, and shows it.
func TestAWalkShowsALimitOfTheAppsDocument(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		place := shards.Place{Project: "p", Counters: "posts/{post}", Fields: "seats=limit(3)", Hosted: true}
		post := w.fs.Doc("posts/c")
		w.must(post.Set(w.ctx, map[string]any{"title": "x", "seats": 276}))
		w.must(nil, w.holding(shards.Config{Place: place}, "c").SetLimit(w.ctx, "seats", 2))
		client, err := rollup.Open(w.ctx, rollup.Config{Place: place}, option.WithGRPCConn(w.connect()))
		w.must(client, err)
		w.must(client.ReconcileAll(w.ctx, rollup.ReconcileOptions{}))
		snap, err := post.Get(w.ctx)
		w.must(snap, err)
		if seats := snap.Data()["seats"]; seats != int64(0) {
			w.t.Errorf("the post shows %v seats, want 0 taken", seats)
		}
	})
}

// A walk that finds a reason to look at each shard ends holds whose entries are lost, of fields without a limit, too.
func TestAWalkThatLooksAtEachShardEndsHolds(t *testing.T) {
	t.Parallel()
	for name, reason := range map[string]func(w *world){
		"a fraction": func(w *world) { w.must(w.shard(1).Set(w.ctx, map[string]any{"count": 0.5})) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) {
				c := w.holding(shards.Config{NumShards: 1}, "c")
				w.must(c.Join(w.ctx, "total", "joined"))
				_, _, err := c.Hold(w.ctx, "total", "held", time.Minute)
				w.must(nil, err)
				client, err := rollup.Open(w.ctx, rollup.Config{Place: rollup.Place{Project: "p"}}, option.WithGRPCConn(w.connect()))
				w.must(client, err)
				client.Looks(false)
				w.must(client.Reconcile(w.ctx, "c", rollup.ReconcileOptions{}))
				entries, err := w.fs.CollectionGroup("counter_requests").OrderBy("until", firestore.Asc).Documents(w.ctx).GetAll()
				w.must(entries, err)
				for _, entry := range entries {
					w.must(entry.Ref.Delete(w.ctx))
				}
				time.Sleep(time.Minute + time.Second)
				reason(w)
				w.must(client.ReconcileAll(w.ctx, rollup.ReconcileOptions{}))
				if got := w.members(c, "total"); !slices.Equal(got, []string{"joined"}) {
					w.t.Errorf("%q, want that the hold is over", got)
				}
			})
		})
	}
}
