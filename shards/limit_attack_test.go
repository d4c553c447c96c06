package shards_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// put writes fields of a document, as something else would.
func (w *world) put(t *testing.T, path string, data map[string]any) {
	t.Helper()
	if _, err := w.fs.Doc(path).Set(t.Context(), data); err != nil {
		t.Fatal(err)
	}
}

// What a process knows of a field without a limit, in a counter of which another has one, is old once that
// field gets a limit too: then it isn't exceeded, by an increment that is on its way neither.
func TestLimitOfASecondField(t *testing.T) {
	t.Parallel()
	const fields = "total=count,likes"
	for name, meets := range map[string]func(w *world, t *testing.T, set func()){
		"before": func(_ *world, _ *testing.T, set func()) { set() },
		"on its way": func(w *world, _ *testing.T, set func()) {
			var once sync.Once
			w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
				if addsToShard(req) {
					once.Do(set)
				}
				return emulator.Verdict{}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			stale := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: fields}}), "a", 2)
			setter := handle(t, w.open(t, shards.Config{Place: shards.Place{Fields: fields}}), "a")
			limit(t, setter, 10)
			add := func() error {
				_, err := stale.AddFields(t.Context(), map[string]int64{"likes": 1}, shards.Key{})
				return err
			}
			for range 3 { // it knows both shards
				if err := add(); err != nil {
					t.Fatal(err)
				}
			}
			meets(w, t, func() {
				if err := setter.SetLimit(t.Context(), "likes", 3); err != nil {
					t.Error(err)
				}
			})
			for range 2 {
				wantLimit(t, add(), 0)
			}
			if s, err := setter.Sum(t.Context()); err != nil || s.Totals["likes"] != 3 {
				t.Errorf("%+v, %v: want 3 likes", s, err)
			}
		})
	}
}

// An increment of a field without a limit, whose process has died, arrives when the field has one.
func TestALateIncrementBesideALimit(t *testing.T) {
	t.Parallel()
	const fields = "total=count,likes"
	w := newWorld(t)
	dead := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: fields}, InexactWrites: true}), "a", 1)
	limit(t, dead, 10)
	release := w.hold(t, addsToShard)
	if _, err := dead.AddFields(t.Context(), map[string]int64{"likes": 1}, shards.Key{}); !errors.Is(err, shards.ErrUnknown) {
		t.Fatal(err)
	}
	if err := dead.SetLimit(t.Context(), "likes", 0); err != nil {
		t.Fatal(err)
	}
	if release() == nil {
		t.Error("it counts beyond the limit")
	}
	if s, err := dead.Sum(t.Context()); err != nil || s.Totals["likes"] != 0 {
		t.Errorf("%+v, %v: want no likes", s, err)
	}
}

// A field that is a fraction keeps its shard's last count. It can't when the shard is made anew.
func TestLimitBesideAFraction(t *testing.T) {
	t.Parallel()
	const fields = "total=count,likes"
	for name, odd := range map[string]any{"a fraction": 0.5, "a text": "oops"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: fields}}), "a", 1)
			if _, err := c.AddFields(t.Context(), map[string]int64{"likes": 7, "total": 1}, shards.Key{}); err != nil {
				t.Fatal(err)
			}
			reconcile := func() int64 {
				return w.reconcile(t, rollup.Config{Place: rollup.Place{Fields: fields}}, "a", rollup.ReconcileOptions{}).Fields["likes"].After
			}
			reconcile()
			w.put(t, "counters/a/shards/0", map[string]any{"count": 1, "likes": odd})
			if err := c.SetLimit(t.Context(), "total", 5); !errors.Is(err, shards.ErrNotInteger) {
				t.Errorf("limit: %v, want ErrNotInteger", err)
			}
			if got := reconcile(); got != 7 {
				t.Errorf("%d likes, want 7", got)
			}
			w.put(t, "counters/a/shards/0", map[string]any{"count": 1, "likes": 0})
			limit(t, c, 5)
			reconcile()
			if _, err := c.AddFields(t.Context(), map[string]int64{"likes": 3}, shards.Key{}); err != nil {
				t.Fatal(err)
			}
			before := reconcile()
			w.put(t, "counters/a/shards/limited-0", map[string]any{"count": 1, "members(count)": 0, "share(count)": 5, "likes": odd})
			if err := c.RemoveLimit(t.Context(), "total"); !errors.Is(err, shards.ErrNotInteger) {
				t.Errorf("no limit: %v, want ErrNotInteger", err)
			}
			if got := reconcile(); got != before {
				t.Errorf("%d likes, want %d", got, before)
			}
		})
	}
}

// A limit that was set under another name of its field is removed under the one that it has now.
func TestLimitOfARenamedField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.counter(t, w.open(t, shards.Config{}), "a", 2)
	limit(t, before, 3)
	c := handle(t, w.open(t, shards.Config{Place: shards.Place{Fields: "seats=count"}}), "a")
	wantLimit(t, c.Add(t.Context(), 4), 3)
	if err := c.SetLimit(t.Context(), "seats", 4); err != nil {
		t.Fatal(err)
	}
	if s, _ := c.Get(t.Context()); len(s.Limits) != 1 || s.Limits["seats"] != 4 {
		t.Errorf("%+v: want a limit of seats alone", s)
	}
	if err := c.RemoveLimit(t.Context(), "seats"); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(t.Context(), 100); err != nil {
		t.Error(err)
	}
	if s, _ := c.Get(t.Context()); s.Limits != nil {
		t.Errorf("%+v: want no limit", s)
	}
	w.wantSum(t, "a", 100)
}

// A document that says that there is a limit, and there is none: somebody has copied it, or written an
// older version of it back.
func TestALimitThatIsNone(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct{ ledger bool }{"with a ledger": {true}, "without": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			c := handle(t, client, "a")
			if is.ledger {
				w.counter(t, client, "a", 2)
			}
			w.put(t, "counters/a", map[string]any{"num_shards": 2, "limits": map[string]any{"total": 3}})
			if err := c.Add(t.Context(), 4); err != nil {
				t.Error(err)
			}
			if err := c.RemoveLimit(t.Context(), "total"); err != nil {
				t.Error(err)
			}
			if s, err := c.Get(t.Context()); err != nil || s.Limits != nil {
				t.Errorf("%+v, %v: want no limit", s, err)
			}
			if err := c.Add(t.Context(), 4); err != nil {
				t.Error(err)
			}
		})
	}
}

// A ledger that is deleted by hand takes no limit along: no shard is made that nothing limits.
func TestLimitWithoutALedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 2)
	join(t, c, "alice")
	limit(t, c, 3)
	ctx := t.Context()
	if _, err := w.fs.Doc("counters/a/counter_rollup/ledger").Delete(ctx); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"grow":  func() error { return c.Resize(ctx, 4, shards.ResizeOptions{}) },
		"reset": func() error { return c.Reset(ctx, shards.ResetOptions{RemoveMembers: true}) },
	} {
		if err := do(); !errors.Is(err, shards.ErrLimited) {
			t.Errorf("%s: %v, want ErrLimited", name, err)
		}
	}
	if _, err := w.fs.Doc("counters/a/counter_rollup/ledger").Delete(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := w.fs.Doc("counters/a").Delete(ctx); err != nil {
		t.Fatal(err)
	}
	if err := handle(t, w.open(t, shards.Config{}), "a").Create(ctx, shards.CreateOptions{}); !errors.Is(err, shards.ErrLimited) {
		t.Errorf("create: %v, want ErrLimited", err)
	}
	if err := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a").Add(ctx, 5); !errors.Is(err, shards.ErrLimited) {
		t.Errorf("an increment that would make it: %v, want ErrLimited", err)
	}
	if sum, ids := w.shares(t, "a"); sum != 3 || len(ids) != 2 {
		t.Errorf("shares of %d in %v", sum, ids)
	}
}

// A ledger is lost by hand, or what it says of limits, and the document is made again: the shards alone say that there
// is a limit. No shard is made beside them.
func TestLimitThatShardsAloneKnow(t *testing.T) {
	t.Parallel()
	ledger := "counters/a/counter_rollup/ledger"
	for lost, lose := range map[string]func(t *testing.T, w *world){
		"a ledger": func(t *testing.T, w *world) {
			if _, err := w.fs.Doc(ledger).Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"its limits": func(t *testing.T, w *world) {
			if _, err := w.fs.Doc(ledger).Update(t.Context(), []firestore.Update{{Path: "limits", Value: "none"}}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for name, do := range map[string]func(t *testing.T, c shards.Counter){
			"take":   func(t *testing.T, c shards.Counter) { wantLimit(t, c.Add(t.Context(), 3), 2) },
			"resize": func(t *testing.T, c shards.Counter) { wantLimited(t, c.Resize(t.Context(), 9, shards.ResizeOptions{})) },
			"reset": func(t *testing.T, c shards.Counter) {
				wantLimited(t, c.Reset(t.Context(), shards.ResetOptions{RemoveMembers: true}))
			},
		} {
			for _, cfg := range []shards.Config{{}, ours} {
				t.Run(fmt.Sprint(lost, " ", name, " ", cfg.Hosted), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					if cfg.Hosted {
						w.put(t, "counters/a", map[string]any{"title": "x"})
					}
					c := handle(t, w.open(t, cfg), "a")
					if !cfg.Hosted {
						c = w.counter(t, w.open(t, cfg), "a", 3)
					}
					limit(t, c, 2)
					_, before := w.shares(t, "a")
					lose(t, w)
					w.put(t, "counters/a", map[string]any{"num_shards": 3})
					do(t, handle(t, w.open(t, cfg), "a"))
					if sum, ids := w.shares(t, "a"); sum != 2 || !slices.Equal(ids, before) {
						t.Errorf("shares of %d in %v, want 2 in %v", sum, ids, before)
					}
				})
			}
		}
	}
}

// A process that knows many shards, all of which have changed since, isn't refused.
func TestAllKnownSharesAreOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	stale := w.counter(t, client, "a", shards.MaxLimitedShards)
	setter := handle(t, w.open(t, shards.Config{}), "a")
	limit(t, setter, shards.MaxLimitedShards)
	if _, err := client.AddAll(t.Context(), []shards.Increment{{Counter: "a", By: 1}, {Counter: "a", By: -1}}, shards.Key{}); err != nil { // knows all
		t.Fatal(err)
	}
	limit(t, setter, 2*shards.MaxLimitedShards) // changes each shard
	var commits atomic.Int64
	w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		commits.Add(1)
		return emulator.Verdict{}
	})
	err := stale.Add(t.Context(), 1)
	if n := commits.Load(); err != nil || n > 8 {
		t.Errorf("%v after %d commits", err, n)
	}
}

// A shard beside those with a limit that holds a fraction of another field keeps what was counted of it before,
// and stays where it is.
func TestSharesBesideAFraction(t *testing.T) {
	t.Parallel()
	cfg := rollup.Config{Place: rollup.Place{Fields: "total=count,likes"}}
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: cfg.Fields}}), "a", 1)
	limit(t, c, 5)
	w.put(t, "counters/a/shards/1", map[string]any{"likes": 7})
	client, err := rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: "p", Fields: cfg.Fields}}, option.WithGRPCConn(w.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	doc, err := w.fs.Doc("counters/a/shards/1").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := rollup.NewRoller(client, rollup.RollerOptions{})
	told := rollup.Change{Counter: "a", Shard: "1", AsOf: doc.UpdateTime, Counts: map[string]int64{"likes": 7}}
	if err := errors.Join(r.Add(t.Context(), told), r.Close(context.Background())); err != nil {
		t.Fatal(err)
	}
	w.put(t, "counters/a/shards/1", map[string]any{"likes": 0.5})
	for range 2 {
		if r := w.reconcile(t, cfg, "a", rollup.ReconcileOptions{}); r.Fields["likes"].After != 7 || !strings.Contains(r.Problem, `"1"`) {
			t.Errorf("%+v, want 7 likes and a problem with shard 1", r)
		}
	}
	limited := map[string]any{"count": 0, "members(count)": 0, "share(count)": 5, "likes": 0.5}
	w.put(t, "counters/a/shards/limited-0", limited) // nor does it get what another holds
	w.put(t, "counters/a/shards/1", map[string]any{"likes": 8})
	for range 2 {
		if r := w.reconcile(t, cfg, "a", rollup.ReconcileOptions{}); r.Fields["likes"].After != 8 || !strings.Contains(r.Problem, `"limited-0"`) {
			t.Errorf("%+v, want 8 likes and a problem with shard limited-0", r)
		}
	}
	limited["likes"] = 0
	w.put(t, "counters/a/shards/limited-0", limited)
	if r := w.reconcile(t, cfg, "a", rollup.ReconcileOptions{}); r.Fields["likes"].After != 8 || !r.Limits || r.Problem != "" {
		t.Errorf("%+v, want 8 likes in the shards with a limit", r)
	}
	if _, ids := w.shares(t, "a"); len(ids) != 1 {
		t.Errorf("shards %v, want one", ids)
	}
}

// checkTwoLimits checks after each commit that counter a has shards with limits, or others, and none of both; that no
// shard counts more of count and likes than its share, or less than its members, and that it says whether it has room;
// and that what members took is as many as there are. It counts the commits.
func (w *world) checkTwoLimits(t *testing.T) (checked *atomic.Int64) {
	checked = new(atomic.Int64)
	now := map[string]map[string]*firestorepb.Value{} // :: shard or membership → its fields
	w.Server.OnCommit(func(changes []emulator.Change) {
		for _, c := range changes {
			_, name, below := strings.Cut(c.Name, "/counters/a/")
			switch {
			case !below || strings.HasPrefix(name, "counter_rollup/"):
			case c.New == nil:
				delete(now, name)
			default:
				now[name] = c.New.GetFields()
			}
		}
		checked.Add(1)
		var plain, limited int
		for field, members := range map[string]string{"count": "total_members/", "likes": "likes_members/"} {
			joined, has, there := int64(0), false, int64(0)
			for name, values := range now {
				if strings.HasPrefix(name, members) {
					there++
				}
				id, shard := strings.CutPrefix(name, "shards/")
				if !shard {
					continue
				}
				if strings.HasPrefix(id, "limited-") {
					limited++
				} else {
					plain++
				}
				share, is := values["share("+field+")"]
				if has = has || is; !is {
					continue
				}
				of, count := values["members("+field+")"].GetIntegerValue(), values[field].GetIntegerValue()
				joined += of
				if of < 0 || count < of || count > share.GetIntegerValue() || values["room("+field+")"].GetBooleanValue() != (count < share.GetIntegerValue()) {
					t.Errorf("%s holds %v", name, values)
				}
			}
			if has && joined != there {
				t.Errorf("%d took %s as members, and there are %d", joined, field, there)
			}
		}
		if plain > 0 && limited > 0 {
			t.Errorf("%d shards have limits, and %d others don't", limited/2, plain/2)
		}
	})
	return checked
}

// Two fields get limits, other ones and none while many processes count in both, and members join and
// leave, with faults. After each commit a counter has shards with limits, or others, and none of both; no
// shard counts more than its share; and what members took is as many as there are.
func TestLimitsOfTwoFieldsChaos(t *testing.T) {
	t.Parallel()
	const fields = "total=count,likes"
	w := newWorld(t)
	setter := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: fields}}), "a", 3)
	limit(t, setter, 10)

	checked := w.checkTwoLimits(t)
	w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		switch rand.IntN(20) {
		case 0:
			return emulator.Verdict{Before: unavailable}
		case 1:
			return emulator.Verdict{After: unavailable}
		case 2:
			return emulator.Verdict{Before: aborted}
		}
		return emulator.Verdict{}
	})

	var group sync.WaitGroup
	var counted [2]atomic.Int64
	bad := func(err error) bool {
		return err != nil && !errors.Is(err, shards.ErrLimit) && !errors.Is(err, shards.ErrBusy)
	}
	names := []string{"total", "likes"}
	for process := range 3 {
		c := handle(t, w.open(t, shards.Config{Place: shards.Place{Fields: fields}}), "a")
		for caller := range 6 {
			group.Go(func() {
				for range 10 {
					by, field := int64(1+rand.IntN(3)), rand.IntN(2)
					var err error
					switch rand.IntN(5) {
					case 0:
						_, err = c.Join(t.Context(), names[field], fmt.Sprint(process, caller))
					case 1:
						_, err = c.Leave(t.Context(), names[field], fmt.Sprint(process, caller))
					case 2:
						if _, err = c.AddFields(t.Context(), map[string]int64{"total": by, "likes": -by}, shards.Key{}); err == nil {
							counted[0].Add(by)
							counted[1].Add(-by)
						}
					default:
						if rand.IntN(3) == 0 {
							by = -by
						}
						if _, err = c.AddFields(t.Context(), map[string]int64{names[field]: by}, shards.Key{}); err == nil {
							counted[field].Add(by)
						}
					}
					if bad(err) {
						t.Error(err)
					}
				}
			})
		}
	}
	group.Go(func() {
		for range 20 {
			var err error
			if field := names[rand.IntN(2)]; rand.IntN(3) == 0 {
				err = setter.RemoveLimit(t.Context(), field)
			} else {
				err = setter.SetLimit(t.Context(), field, 5+rand.Int64N(20))
			}
			if bad(err) && !errors.Is(err, shards.ErrInvalidLimit) { // less than the members
				t.Error(err)
			}
			time.Sleep(3 * time.Millisecond)
		}
	})
	roller, err := rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: "p", Fields: fields}}, option.WithGRPCConn(w.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer roller.Close()
	group.Go(func() {
		for range 15 { // and finds nothing wrong with any share
			r, err := roller.Reconcile(t.Context(), "a", rollup.ReconcileOptions{})
			if err != nil && !errors.Is(err, rollup.ErrContention) || r.Limits || r.Problem != "" {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
	group.Wait()
	w.Server.SetInterceptor(nil)
	for i, name := range names {
		audits, err := setter.Audit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if audits[i].Otherwise != counted[i].Load() {
			t.Errorf("%s: %+v, want %d beside the members", name, audits[i], counted[i].Load())
		}
	}
	if err := w.Server.WaitForChanges(t.Context()); err != nil { // each is checked before the test ends
		t.Error(err)
	}
	t.Logf("%d commits", checked.Load())
}
