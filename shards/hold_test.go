package shards_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// held holds a seat for ten minutes, and reports whether that was done now.
func held(t *testing.T, c shards.Counter, member string) bool {
	t.Helper()
	counted, _, err := c.Hold(t.Context(), "total", member, 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return counted
}

// brief is how long a hold lasts that is to be over soon.
const brief = 20 * time.Millisecond

// heldBriefly holds a seat, and waits until that is over.
func heldBriefly(t *testing.T, c shards.Counter, member string) {
	t.Helper()
	counted, until, err := c.HoldBriefly(t.Context(), member, brief)
	if err != nil || !counted {
		t.Fatal(counted, err)
	}
	time.Sleep(time.Until(until) + time.Millisecond)
}

// entries are the entries of holds that name a time, and how many are only in the way.
func (w *world) entries(t *testing.T) (holds []string, left int) {
	t.Helper()
	docs, err := w.fs.CollectionGroup("counter_requests").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range docs {
		_, until := doc.Data()["until"]
		_, expires := doc.Data()["expire_at"]
		switch member, is := doc.Data()["member"].(string); {
		case is && until && !expires:
			holds = append(holds, member)
		case len(doc.Data()) == 1 && expires:
			left++
		}
	}
	return holds, left
}

// wantEnded fails unless err says that the hold of a seat is over.
func wantEnded(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, shards.ErrHoldEnded) {
		t.Errorf("%v, want ErrHoldEnded", err)
	}
}

// A seat is held until a time. Then whoever finds no room gets it, and who held it hears that it is gone.
func TestHold(t *testing.T) {
	t.Parallel()
	for _, limited := range []bool{true, false} {
		virtual.Run(t, fmt.Sprint(limited), func(t *testing.T) {
			w := newWorld(t)
			c := w.counter(t, w.open(t, map[bool]shards.Config{true: withLimit}[limited]), "a", 2)
			if limited {
				limit(t, c, 2)
			}
			counted, until, err := c.Hold(t.Context(), "total", "u", time.Minute)
			if err != nil || !counted || time.Until(until) > time.Minute || time.Until(until) < 30*time.Second {
				t.Fatalf("%t, %v, %v", counted, until, err)
			}
			if again, same, err := c.Hold(t.Context(), "total", "u", time.Hour); again || !same.Equal(until) || err != nil {
				t.Errorf("held again: %t until %v, %v; want it until %v as before", again, same, err, until)
			}
			if m, there, err := c.Joined(t.Context(), "total", "u"); err != nil || !there || !m.Until.Equal(until) {
				t.Errorf("%+v, %t, %v: want it held until %v", m, there, err, until)
			}
			heldBriefly(t, c, "v")
			w.wantMembers(t, c, "u", "v")
			if limited {
				if join(t, c, "w") != true {
					t.Error("w finds no room")
				}
				_, err := c.Join(t.Context(), "total", "x")
				wantLimit(t, err, 0)
				w.wantMembers(t, c, "u", "w")
				w.shares(t, "a")
			}
			wantEnded(t, c.Confirm(t.Context(), "total", "v"))
			wantEnded(t, c.Confirm(t.Context(), "total", "nobody"))
			if limited {
				w.wantMembers(t, c, "u", "w")
			} else {
				w.wantMembers(t, c, "u")
			}
			if holds, left := w.entries(t); fmt.Sprint(holds) != "[u]" || left != 1 {
				t.Errorf("entries of %v, and %d that are left", holds, left)
			}
		})
	}
	virtual.Run(t, "lengths", func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, withLimit), "a", 2)
		for _, d := range []time.Duration{-1, 0, shards.MinHold - 1, shards.MaxHold + 1} {
			if _, _, err := c.Hold(t.Context(), "total", "u", d); !errors.Is(err, shards.ErrInvalidHold) {
				t.Errorf("%v: %v, want ErrInvalidHold", d, err)
			}
		}
	})
}

// The only seat is held, and that is over. Somebody ends the hold after another has seen that there is no room, and
// before that one looks for holds that are over: nobody is refused for it, whether by sums or by all shards.
func TestAHoldIsEndedBeforeARefusal(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]map[string]int64{"by sums": {"total": 1}, "by all shards": {"total": 1, "likes": -1}} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			cfg := shards.Config{Place: shards.Place{Fields: "total=limit(),likes=limit()"}}
			other := w.counter(t, w.open(t, cfg), "a", 1)
			limit(t, other, 1)
			if err := other.SetLimit(t.Context(), "likes", 1); err != nil {
				t.Fatal(err)
			}
			if _, err := other.AddFields(t.Context(), map[string]int64{"likes": 1}, shards.Key{}); err != nil {
				t.Fatal(err)
			}
			heldBriefly(t, other, "u")
			time.Sleep(10 * time.Millisecond)
			var looks atomic.Int64 // two at once
			taker := w.asking(t, cfg, "RunQuery", func() {
				if looks.Add(1) == map[string]int64{"by sums": 2, "by all shards": 4}[name] {
					wantEnded(t, other.Confirm(t.Context(), "total", "u"))
				}
			})
			if _, err := handle(t, taker, "a").AddFields(t.Context(), take, shards.Key{}); err != nil || looks.Load() < 2 {
				t.Errorf("%v after %d looks: the hold was over all the time", err, looks.Load())
			}
			w.wantSum(t, "a", 1)
		})
	}
}

// The only seat is held, and that is over. Somebody deletes the counter, shards first, while another ends the hold:
// nobody is refused for want of room.
func TestADeletionBesideTheEndOfAHold(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := shards.Config{Place: shards.Place{Fields: "total=limit()"}}
		other := w.counter(t, w.open(t, cfg), "a", 1)
		limit(t, other, 1)
		heldBriefly(t, other, "u")
		time.Sleep(10 * time.Millisecond)
		var looks atomic.Int64 // two for holds that are over, and two to end them
		taker := w.asking(t, cfg, "RunQuery", func() {
			if looks.Add(1) == 3 {
				doc := w.fs.Doc("counters/a")
				for _, ref := range []*firestore.DocumentRef{doc.Collection("shards").Doc("total~0"), doc} {
					_, err := ref.Delete(t.Context())
					must(t, err)
				}
			}
		})
		if err := handle(t, taker, "a").Add(t.Context(), 1); !errors.Is(err, shards.ErrNotFound) || looks.Load() < 4 {
			t.Errorf("%v after %d looks, want ErrNotFound", err, looks.Load())
		}
	})
}

// Who confirms stays, whatever the time; so does who joins.
func TestConfirm(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, withLimit), "a", 2)
		limit(t, c, 2)
		confirm := func(member string) error { return c.Confirm(t.Context(), "total", member) }
		held(t, c, "u")
		held(t, c, "v")
		for range 2 {
			if err := confirm("u"); err != nil {
				t.Fatal(err)
			}
		}
		if join(t, c, "v") {
			t.Error("v is counted twice")
		}
		for _, member := range []string{"u", "v"} {
			if m, there, err := c.Joined(t.Context(), "total", member); err != nil || !there || !m.Until.IsZero() {
				t.Errorf("%+v, %t, %v: want it there for good", m, there, err)
			}
		}
		if holds, left := w.entries(t); len(holds) > 0 || left != 2 {
			t.Errorf("entries of %v, and %d that are left", holds, left)
		}
		if again, until, err := c.Hold(t.Context(), "total", "u", time.Minute); again || !until.IsZero() || err != nil {
			t.Errorf("who is there for good is held: %t until %v, %v", again, until, err)
		}
		leave(t, c, "u")
		wantEnded(t, confirm("u"))
		if !held(t, c, "u") { // its entry was left
			t.Error("u is not held again")
		}
		leave(t, c, "u") // its entry names a time
		if !held(t, c, "u") {
			t.Error("u is not held again")
		}
		leave(t, c, "u")
		heldBriefly(t, c, "u")
		if !held(t, c, "u") { // in place of its own
			t.Error("u is not held again")
		}
		leave(t, c, "u")
		heldBriefly(t, c, "u")
		if !join(t, c, "u") {
			t.Error("u doesn't join in place of its hold")
		}
		w.wantMembers(t, c, "u", "v")
		w.shares(t, "a")
	})
}

// isHold, isConfirmation and isEnd tell commits by their writes.
func isHold(req *firestorepb.CommitRequest) bool {
	for _, w := range req.GetWrites() {
		if strings.Contains(w.GetUpdate().GetName(), "_members/") && w.GetUpdate().GetFields()["until"] != nil {
			return true
		}
	}
	return false
}

func isConfirmation(req *firestorepb.CommitRequest) bool {
	for _, w := range req.GetWrites() {
		if strings.Contains(w.GetUpdate().GetName(), "_members/") && w.GetUpdateMask() != nil {
			return true
		}
	}
	return false
}

func isEnd(req *firestorepb.CommitRequest) bool {
	for _, w := range req.GetWrites() {
		if strings.Contains(w.GetDelete(), "_members/") && w.GetCurrentDocument().GetUpdateTime() != nil {
			return true
		}
	}
	return false
}

// Commits that hold, confirm and end, whose answers are lost, which fail, or which meet others, do it once.
func TestHoldsUnderFaults(t *testing.T) {
	t.Parallel()
	lost, down, contended := emulator.Verdict{After: unavailable}, emulator.Verdict{Before: unavailable}, emulator.Verdict{Before: aborted}
	for name, faults := range map[string][]emulator.Verdict{
		"lost": {lost}, "down": {down}, "contended": {contended}, "all": {down, contended, down, lost},
	} {
		for what, is := range map[string]func(*firestorepb.CommitRequest) bool{"hold": isHold, "confirm": isConfirmation, "end": isEnd} {
			virtual.Run(t, what+" "+name, func(t *testing.T) {
				w := newWorld(t)
				c := w.counter(t, w.open(t, withLimit), "a", 2)
				limit(t, c, 2)
				var seen atomic.Int64
				w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
					if is(req) {
						if n := int(seen.Add(1)); n <= len(faults) {
							return faults[n-1]
						}
					}
					return emulator.Verdict{}
				})
				if !held(t, c, "u") {
					t.Error("u is not held by this call")
				}
				if err := c.Confirm(t.Context(), "total", "u"); err != nil {
					t.Fatal(err)
				}
				heldBriefly(t, c, "v")
				if !join(t, c, "w") {
					t.Error("w finds no seat")
				}
				if seen.Load() < int64(len(faults)) {
					t.Errorf("%d of such commits", seen.Load())
				}
				w.wantMembers(t, c, "u", "w")
				if sum, _ := w.shares(t, "a"); sum != 2 {
					t.Errorf("shares of %d", sum)
				}
			})
		}
	}
}

// late has the first commit of a kind be lost, and returns whether there was one, and what sends it again. Then it must
// not be applied.
func (w *world) late(t *testing.T, is, lost func(*firestorepb.CommitRequest) bool) (sent func() bool, arrives func()) {
	t.Helper()
	sent, late := w.Delay(is, lost)
	return sent, func() {
		t.Helper()
		if late() == nil {
			t.Error("a late commit is applied")
		}
	}
}

// A process dies with the commit of a hold on its way, and the member holds the seat by another process.
// However that ends, the first commit doesn't hold it again.
func TestALateHold(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, c shards.Counter, until time.Time){
		"left": func(t *testing.T, c shards.Counter, _ time.Time) { leave(t, c, "u") },
		"over": func(t *testing.T, c shards.Counter, until time.Time) {
			time.Sleep(time.Until(until) + time.Millisecond)
			wantEnded(t, c.Confirm(t.Context(), "total", "u"))
		},
		"confirmed, and left": func(t *testing.T, c shards.Counter, _ time.Time) {
			if err := c.Confirm(t.Context(), "total", "u"); err != nil {
				t.Fatal(err)
			}
			leave(t, c, "u")
		},
	} {
		for _, limited := range []bool{true, false} { // without a limit the entry alone is in its way
			virtual.Run(t, fmt.Sprintf("%s, limited %t", name, limited), func(t *testing.T) {
				w := newWorld(t)
				cfg := map[bool]shards.Config{true: withLimit}[limited]
				c := w.counter(t, w.open(t, cfg), "a", 1)
				cfg.Timeout = 400 * time.Millisecond
				dying := handle(t, w.open(t, cfg), "a")
				if limited {
					limit(t, c, 2)
				}
				sent, arrives := w.late(t, isHold, func(*firestorepb.CommitRequest) bool { return true })
				for !sent() { // on a busy machine there may be no time for it
					if _, _, err := dying.Hold(t.Context(), "total", "u", time.Minute); !errors.Is(err, shards.ErrUnknown) && !errors.Is(err, shards.ErrBusy) {
						t.Fatalf("%v, want ErrUnknown", err)
					}
				}
				w.Server.SetInterceptor(nil)
				counted, until, err := c.HoldBriefly(t.Context(), "u", time.Second)
				if err != nil || !counted {
					t.Fatal(counted, err)
				}
				end(t, c, until)
				for range 2 { // the shard is as it was then, or isn't
					arrives()
					w.wantMembers(t, c)
					if err := c.Add(t.Context(), 1); err != nil {
						t.Fatal(err)
					}
					if err := c.Add(t.Context(), -1); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// A confirmation whose answer is lost arrives late: after the member was told that the seat is gone, it
// doesn't keep it, nor a later hold of the same member.
func TestALateConfirmation(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, withLimit), "a", 1)
		limit(t, c, 1)
		_, until, err := c.HoldBriefly(t.Context(), "u", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_, arrives := w.late(t, isConfirmation, func(req *firestorepb.CommitRequest) bool { return isConfirmation(req) })
		for again := true; again; again = errors.Is(err, shards.ErrUnknown) {
			err = c.Confirm(t.Context(), "total", "u")
		}
		if wantEnded(t, err); time.Now().Before(until) {
			t.Error("that was before the time was over")
		}
		arrives()
		w.wantMembers(t, c)
		if !held(t, c, "u") {
			t.Error("u is not held again")
		}
		arrives()
		if m, there, err := c.Joined(t.Context(), "total", "u"); err != nil || !there || m.Until.IsZero() {
			t.Errorf("%+v, %t, %v: want it held", m, there, err)
		}
	})
}

// A confirmation is on its way when the time is over, and nobody can end the hold: whether it keeps the seat is unknown.
func TestALateConfirmationOfAHoldThatNobodyEnds(t *testing.T) {
	t.Parallel()
	for name, confirm := range map[string]func(ctx context.Context, c shards.Counter) error{
		"confirm": func(ctx context.Context, c shards.Counter) error { return c.Confirm(ctx, "total", "u") },
		"join":    func(ctx context.Context, c shards.Counter) error { _, err := c.Join(ctx, "total", "u"); return err },
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			c := w.counter(t, w.open(t, withLimit), "a", 1)
			limit(t, c, 1)
			_, until, err := c.HoldBriefly(t.Context(), "u", time.Second)
			if err != nil {
				t.Fatal(err)
			}
			var late *firestorepb.CommitRequest
			w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
				switch {
				case isConfirmation(req) && late == nil:
					late = req
					time.Sleep(time.Until(until) + time.Millisecond)
					return emulator.Verdict{Before: virtual.ErrLost}
				case isEnd(req):
					return emulator.Verdict{Before: aborted}
				}
				return emulator.Verdict{}
			})
			err = confirm(t.Context(), c)
			w.Server.SetInterceptor(nil)
			if _, late := firestorepb.NewFirestoreClient(w.Conn()).Commit(t.Context(), late); late != nil {
				t.Fatal(late)
			}
			m, there, joined := c.Joined(t.Context(), "total", "u")
			if joined != nil || !there || !m.Until.IsZero() {
				t.Fatal(m, there, joined)
			}
			if !errors.Is(err, shards.ErrUnknown) {
				t.Errorf("%v, and the seat is kept", err)
			}
		})
	}
}

// A hold lasts as long as was asked on a machine whose clock is slow, also in its first call.
func TestAHoldOfASlowMachine(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		const off = 10 * time.Minute
		w := newWorldWith(t, emulator.Options{Now: func() time.Time { return time.Now().Add(off) }})
		c := w.counter(t, w.open(t, withLimit), "a", 1)
		limit(t, c, 2)
		first := func() shards.Counter { return handle(t, w.open(t, withLimit), "a") }
		if _, until, err := first().Hold(t.Context(), "total", "u", time.Minute); err != nil || until.Before(time.Now().Add(off).Add(59*time.Second)) {
			t.Errorf("a seat until %v, %v; it is %v", until, err, time.Now().Add(off))
		}
		if h, _, err := first().Reserve(t.Context(), "total", 1, time.Minute, shards.Key{}); err != nil || h.Until.Before(time.Now().Add(off).Add(59*time.Second)) {
			t.Errorf("an amount until %v, %v; it is %v", h.Until, err, time.Now().Add(off))
		}
		wantLimit(t, c.Add(t.Context(), 1), 0)
	})
}

// What ends a hold arrives late, and doesn't end a later one.
func TestALateEnd(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, withLimit), "a", 1)
		limit(t, c, 1)
		heldBriefly(t, c, "u")
		_, arrives := w.late(t, isEnd, func(*firestorepb.CommitRequest) bool { return false })
		wantEnded(t, c.Confirm(t.Context(), "total", "u"))
		arrives()
		if !held(t, c, "u") {
			t.Error("u is not held again")
		}
		arrives()
		w.wantMembers(t, c, "u")
	})
}

// A crowd of several processes holds, confirms, leaves and joins, some holds are over at once, answers get
// lost, and commits arrive late. No shard ever counts more than its share, the counter holds its members
// alone, who is told that the seat is its own keeps it, and who is refused had no room.
func TestHoldsOfACrowd(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		maker := w.counter(t, w.open(t, withLimit), "a", 3)
		limit(t, maker, 8)
		w.Server.OnCommit(func(changes []emulator.Change) {
			for _, c := range changes {
				fields := c.New.GetFields()
				if share, limited := fields["share(total)"]; strings.Contains(c.Name, "/shards/") && limited {
					count, members := fields["total"].GetIntegerValue(), fields["members(total)"].GetIntegerValue()
					if count > share.GetIntegerValue() || members < 0 || members != count {
						t.Errorf("%s holds %v", c.Name, fields)
					}
				}
			}
		})
		late := w.failCommits(12, 40*time.Millisecond, true, nil)
		var mu sync.Mutex
		keeps := map[string]bool{} // :: member → whether it was told last that the seat is its own
		var refused, ended, confirmed atomic.Int64
		var group sync.WaitGroup
		for process := range 3 {
			c := handle(t, w.open(t, withLimit), "a")
			for caller := range 5 {
				group.Go(func() {
					member := fmt.Sprintf("member-%d-%d", process, caller)
					for range 8 {
						d := brief
						if w.rand.IntN(2) == 0 {
							d = time.Minute
						}
						known := false
						for !known {
							var err error
							switch w.rand.IntN(6) {
							case 0, 1:
								_, _, err = c.HoldBriefly(t.Context(), member, d)
							case 2, 3:
								if err = c.Confirm(t.Context(), "total", member); err == nil {
									confirmed.Add(1)
									mu.Lock()
									keeps[member] = true
									mu.Unlock()
								}
							case 4:
								if _, err = c.Join(t.Context(), "total", member); err == nil {
									mu.Lock()
									keeps[member] = true
									mu.Unlock()
								}
							default:
								mu.Lock()
								delete(keeps, member) // also where the answer is lost
								mu.Unlock()
								for again := true; again; again = err != nil {
									_, err = c.Leave(t.Context(), "total", member)
								}
							}
							switch {
							case errors.Is(err, shards.ErrLimit):
								refused.Add(1)
							case errors.Is(err, shards.ErrHoldEnded):
								ended.Add(1)
								mu.Lock()
								if keeps[member] {
									t.Errorf("%s was told that its seat is its own, and then that it is gone", member)
								}
								mu.Unlock()
							case err != nil && !errors.Is(err, shards.ErrBusy) && !errors.Is(err, shards.ErrUnknown):
								t.Error(err)
							}
							known = err == nil || !errors.Is(err, shards.ErrUnknown)
						}
					}
				})
			}
		}
		group.Wait()
		late.Wait()
		w.Server.SetInterceptor(nil)
		time.Sleep(brief)
		w.rollUpLimit(t, "a") // ends what is over
		var members int64
		for m, err := range maker.Members(t.Context(), "total") {
			if err != nil {
				t.Fatal(err)
			}
			if members++; m.Until.IsZero() != keeps[m.Member] && m.Until.IsZero() {
				t.Logf("%s is there, and its process wasn't told", m.Member)
			}
			if !m.Until.IsZero() && time.Now().After(m.Until.Add(time.Second)) {
				t.Errorf("%s is held until %v", m.Member, m.Until)
			}
			delete(keeps, m.Member)
		}
		for member := range keeps {
			t.Errorf("%s was told that its seat is its own, and has none", member)
		}
		w.wantSum(t, "a", members)
		t.Logf("%d confirmed, %d refused, %d ended, %d are there", confirmed.Load(), refused.Load(), ended.Load(), members)
	})
}

// A hold that is over while those that were over before are ended: the next look ends it.
func TestAHoldIsOverWhileOthersEnd(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, withLimit), "a", 1)
		limit(t, c, 2)
		heldBriefly(t, c, "u")
		_, until, err := c.HoldBriefly(t.Context(), "v", 1500*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		seen := false
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			if isEnd(req) && !seen {
				seen = true
				time.Sleep(time.Until(until) + 50*time.Millisecond)
			}
			return emulator.Verdict{}
		})
		client, err := rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: "p", Fields: "total=limit()"}}, option.WithGRPCConn(w.Conn()))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		for range 2 {
			if _, err := client.ReconcileAll(t.Context(), rollup.ReconcileOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if !seen {
			t.Fatal("nothing was ended")
		}
		w.wantMembers(t, c)
	})
}

// What was restored without its entries is found by its memberships.
func TestHoldsWithoutEntries(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, withLimit), "a", 2)
		limit(t, c, 2)
		heldBriefly(t, c, "u")
		held(t, c, "v")
		docs, err := w.fs.CollectionGroup("counter_requests").Documents(t.Context()).GetAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			if _, err := doc.Ref.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.rollUpLimit(t, "a")
		w.wantMembers(t, c, "v")
		if err := c.Confirm(t.Context(), "total", "v"); err != nil {
			t.Fatal(err)
		}
		w.wantMembers(t, c, "v")
	})
}

// Something else has taken off the shards what a member holds: its hold stays, and refuses nobody else with
// an error.
func TestHoldsOfShardsThatSomethingElseWrote(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, withLimit), "a", 1)
		limit(t, c, 1)
		heldBriefly(t, c, "u")
		if _, err := w.fs.Doc("counters/a/shards/total~0").Update(t.Context(), []firestore.Update{{FieldPath: firestore.FieldPath{"members(total)"}, Value: 0}}); err != nil {
			t.Fatal(err)
		}
		_, err := c.Join(t.Context(), "total", "v")
		wantLimit(t, err, 0)
		w.wantMembers(t, c, "u")
	})
}

// A seat comes off a shard that is there, if a resize has removed the one that counts it, or its membership names none.
func TestAHoldEndsWithoutItsShard(t *testing.T) {
	lose := map[string]func(t *testing.T, w *world, c shards.Counter) error{
		"resized": func(t *testing.T, _ *world, c shards.Counter) error {
			return c.Resize(t.Context(), 1, shards.ResizeOptions{})
		},
		"unnamed": func(t *testing.T, w *world, _ shards.Counter) error {
			_, err := w.fs.Doc("counters/a/total_members/u").Update(t.Context(), []firestore.Update{{Path: "shard", Value: "of no one/"}})
			return err
		},
	}
	for name, lose := range lose {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{}), "a", 100)
			heldBriefly(t, c, "u")
			if err := lose(t, w, c); err != nil {
				t.Fatal(err)
			}
			wantEnded(t, c.Confirm(t.Context(), "total", "u"))
			w.wantMembers(t, c)
		})
	}
}

// Whoever ends a hold whose time is over ends that one: if the member has left meanwhile, and holds the seat again, it
// stays.
func TestAnEndSparesALaterHold(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
		other := handle(t, w.open(t, shards.Config{}), "a")
		_, over, err := c.HoldBriefly(t.Context(), "alice", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(over) + time.Millisecond)
		var until time.Time
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
			ends := func(write *firestorepb.Write) bool {
				return strings.HasSuffix(write.GetDelete(), "/total_members/alice")
			}
			if until.IsZero() && slices.ContainsFunc(req.GetWrites(), ends) {
				w.Server.SetInterceptor(nil)
				if left, err := other.Leave(t.Context(), "total", "alice"); err != nil || !left {
					t.Error(left, err)
				}
				if _, until, err = other.Hold(t.Context(), "total", "alice", time.Minute); err != nil {
					t.Error(err)
				}
			}
			return v
		})
		counted, got, err := c.Hold(t.Context(), "total", "alice", 2*time.Minute)
		if err != nil || counted || until.IsZero() || !got.Equal(until) {
			t.Errorf("%t, until %v, %v; want the hold until %v", counted, got, err, until)
		}
		w.wantSum(t, "a", 1)
	})
}
