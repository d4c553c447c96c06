package emulator_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
)

// The same seed gives the same faults for the same commits.
func TestFaultsAreRepeatable(t *testing.T) {
	t.Parallel()
	faults := emulator.Faults{Abort: 0.2, Unavailable: 0.2, LoseAnswers: 0.2, Seed: 42}
	run := func(f emulator.Faults) (codesSeen string, applied int64) {
		in := emulator.StartWith(t, emulator.Options{Faults: f})
		w := newWire(t, in, "faults")
		var b strings.Builder
		for range 50 {
			_, err := w.commit(nil, transformed(masked(w.set("a/1")), increment("n", 1)))
			fmt.Fprint(&b, status.Code(err), " ")
		}
		return b.String(), w.mustGet("a/1").Fields["n"].GetIntegerValue()
	}
	one, n := run(faults)
	two, m := run(faults)
	if one != two || n != m {
		t.Errorf("twice the same seed:\n%s (%d applied)\n%s (%d applied)", one, n, two, m)
	}
	oks := int64(strings.Count(one, "OK"))
	if oks == 50 || !strings.Contains(one, "Aborted") || n <= oks || n > oks+int64(strings.Count(one, "Unavailable")) {
		t.Errorf("%d of 50 were applied, with %s", n, one)
	}
	faults.Seed = 43
	if other, _ := run(faults); other == one {
		t.Error("another seed gives the same faults")
	}
}

// The official client sends a commit again when its answer is lost, and so counts an increment
// twice. This is what the server is there to show.
func TestLostAnswerOfAnIncrement(t *testing.T) {
	t.Parallel()
	in := start(t)
	c := in.Client(t, "lost")
	ctx := context.Background()
	doc := c.Doc("a/1")
	if _, err := doc.Set(ctx, fields{"n": 0}); err != nil {
		t.Fatal(err)
	}
	lost := status.Error(codes.Unavailable, "lost")
	var commits atomic.Int32
	in.Server.SetInterceptor(func(context.Context, *pb.CommitRequest) emulator.Verdict {
		if commits.Add(1) == 1 {
			return emulator.Verdict{After: lost}
		}
		return emulator.Verdict{}
	})
	if _, err := doc.Update(ctx, []firestore.Update{{Path: "n", Value: firestore.Increment(1)}}); err != nil {
		t.Fatal(err)
	}
	snap, err := doc.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := snap.DataAt("n"); n != int64(2) {
		t.Errorf("n = %v", n)
	}
	if s := in.Server.Stats(); s.CommitRequests != 3 || s.Faults != 1 || s.LostAnswers != 1 {
		t.Errorf("stats are %+v", s)
	}
}

// A transaction whose answer is lost has ended: its commit, sent again, is refused, and not run
// again. One whose request was lost is still open.
func TestFaultsInTransactions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		verdict emulator.Verdict
		runs    int
		want    int64
		code    codes.Code
	}{
		// The client sends the commit again, and hears what production says of a transaction that
		// has ended: it was applied once, and the caller doesn't know.
		"answer lost":  {emulator.Verdict{After: status.Error(codes.Unavailable, "lost")}, 1, 1, codes.InvalidArgument},
		"request lost": {emulator.Verdict{Before: status.Error(codes.Unavailable, "lost")}, 1, 1, codes.OK},
		"aborted":      {emulator.Verdict{Before: status.Error(codes.Aborted, "contention")}, 2, 1, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := start(t)
			c := in.Client(t, "tx")
			var commits atomic.Int32
			in.Server.SetInterceptor(func(context.Context, *pb.CommitRequest) emulator.Verdict {
				if commits.Add(1) == 1 {
					return tt.verdict
				}
				return emulator.Verdict{}
			})
			runs := 0
			err := c.RunTransaction(context.Background(), func(_ context.Context, tx *firestore.Transaction) error {
				runs++
				snap, err := tx.Get(c.Doc("a/1"))
				if err != nil && status.Code(err) != codes.NotFound {
					return err
				}
				n := int64(0)
				if snap.Exists() {
					v, _ := snap.DataAt("n")
					n = v.(int64)
				}
				return tx.Set(c.Doc("a/1"), fields{"n": n + 1})
			})
			wantCode(t, err, tt.code)
			if s := in.Server.Stats(); s.LostAnswers > 0 != (name == "answer lost") {
				t.Errorf("%d answers were lost", s.LostAnswers)
			}
			snap, err := c.Doc("a/1").Get(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if n, _ := snap.DataAt("n"); n != tt.want || runs != tt.runs {
				t.Errorf("n = %v after %d runs, want %d after %d", n, runs, tt.want, tt.runs)
			}
		})
	}
}

// An interceptor holds one commit back while another one goes through.
func TestInterceptorInterleaves(t *testing.T) {
	t.Parallel()
	in := start(t)
	w := newWire(t, in, "interleave")
	first := w.mustCommit(nil, w.set("a/1", "n", 1))
	arrived, proceed := make(chan struct{}), make(chan struct{})
	in.Server.SetInterceptor(func(_ context.Context, req *pb.CommitRequest) emulator.Verdict {
		if req.Writes[0].CurrentDocument != nil {
			close(arrived)
			<-proceed
		}
		return emulator.Verdict{}
	})
	done := make(chan error)
	go func() {
		_, err := w.commit(nil, whenUpdated(w.set("a/1", "n", 2), first.CommitTime))
		done <- err
	}()
	<-arrived
	w.mustCommit(nil, w.set("a/1", "n", 3))
	close(proceed)
	wantCode(t, <-done, codes.FailedPrecondition)
}

// A hot document takes a burst, then makes commits wait, then refuses them; commits on other
// documents don't notice.
func TestHotDocument(t *testing.T) {
	t.Parallel()
	in := emulator.StartWith(t, emulator.Options{Faults: emulator.Faults{DocWriteRate: 4}})
	w := newWire(t, in, "hot")
	const commits = 30
	var wg sync.WaitGroup
	var ok, aborted atomic.Int64
	for range commits {
		wg.Go(func() {
			switch _, err := w.commit(nil, transformed(masked(w.set("a/hot")), increment("n", 1))); status.Code(err) {
			case codes.OK:
				ok.Add(1)
			case codes.Aborted:
				aborted.Add(1)
			default:
				t.Errorf("commit: %v", err)
			}
		})
		wg.Go(func() { w.mustCommit(nil, w.set("a/"+rnd())) })
	}
	wg.Wait()
	if n := w.mustGet("a/hot").Fields["n"].GetIntegerValue(); n != ok.Load() {
		t.Errorf("n = %d after %d commits", n, ok.Load())
	}
	s := in.Server.Stats()
	if aborted.Load() == 0 || s.HotRefused != aborted.Load() || s.HotWaits == 0 {
		t.Errorf("%d were applied, %d aborted; %+v", ok.Load(), aborted.Load(), s)
	}
	in.Server.SetFaults(emulator.Faults{})
	for range commits {
		w.mustCommit(nil, w.set("a/hot"))
	}
}

var ids64 atomic.Int64

func rnd() string { return fmt.Sprint(ids64.Add(1)) }

// Slow commits on different documents run side by side, and those on one document queue.
func TestCommitLatency(t *testing.T) {
	t.Parallel()
	const each, commits = 100 * time.Millisecond, 8
	in := emulator.StartWith(t, emulator.Options{Faults: emulator.Faults{CommitLatency: each}})
	w := newWire(t, in, "latency")
	all := func(document func(i int) string) time.Duration {
		began := time.Now()
		var wg sync.WaitGroup
		for i := range commits {
			wg.Go(func() { w.mustCommit(nil, w.set(document(i), "n", rnd())) })
		}
		wg.Wait()
		return time.Since(began)
	}
	if took := all(func(i int) string { return fmt.Sprintf("a/%d", i) }); took < each {
		t.Errorf("%d commits side by side took %v, want at least %v", commits, took, each)
	}
	if took := all(func(int) string { return "a/one" }); took < commits*each {
		t.Errorf("%d commits on one document took %v, want at least %v", commits, took, commits*each)
	}
}

// What a commit has changed is seen a little later; who waits for it sees it.
func TestWaitForChanges(t *testing.T) {
	t.Parallel()
	in := start(t)
	w := newWire(t, in, "waiting")
	if err := in.WaitForChanges(t.Context()); err != nil {
		t.Errorf("of nothing: %v", err)
	}
	proceed := make(chan struct{})
	seen := 0
	in.OnChange(func(emulator.Change) {
		<-proceed
		seen++
	})
	const commits = 10
	for range commits {
		w.mustCommit(nil, transformed(masked(w.set("a/1")), increment("n", 1)))
	}
	given, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := in.WaitForChanges(given); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("while a function is busy: %v", err)
	}
	close(proceed)
	if err := in.WaitForChanges(t.Context()); err != nil || seen != commits {
		t.Errorf("%d of %d commits were seen, %v", seen, commits, err)
	}
}

// Changes arrive once each, in the order of commits, across all writers; after cancel none does.
func TestOnChange(t *testing.T) {
	t.Parallel()
	in := start(t)
	w := newWire(t, in, "changes")
	const writers, each = 8, 50
	var last time.Time
	var n atomic.Int64
	all := make(chan struct{})
	cancel := in.Server.OnChange(func(c emulator.Change) {
		if c.CommitTime.Before(last) || !c.CommitTime.Equal(c.New.UpdateTime.AsTime()) {
			t.Errorf("a change of %v comes after one of %v", c.CommitTime, last)
		}
		last = c.CommitTime
		if n.Add(1) == writers*each {
			close(all)
		}
	})
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				w.mustCommit(nil, transformed(masked(w.set("a/1")), increment("n", 1)))
			}
		})
	}
	wg.Wait()
	<-all
	cancel()
	w.mustCommit(nil, w.set("a/1", "n", 0))
	in.Server.Close()
	if got := n.Load(); got != writers*each {
		t.Errorf("%d changes", got)
	}
}

// Close ends whoever listens or waits.
func TestClose(t *testing.T) {
	t.Parallel()
	in := start(t)
	w := newWire(t, in, "close")
	s := newStream(t, w)
	s.add(s.documents(2, nil, "a/1"))
	s.until("NO_CHANGE")
	tx := w.begin()
	if _, err := w.getIn(tx, "a/1"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := w.commit(nil, w.set("a/1"))
		done <- err
	}()
	for in.Server.Stats().LockWaits == 0 {
		time.Sleep(time.Millisecond)
	}
	in.Server.Close()
	wantCode(t, <-done, codes.Unavailable)
	if _, err := s.Recv(); err == nil {
		t.Error("the listener goes on")
	}
	in.Server.Close() // again does no harm
}

// Only administrators may do what needs no security rules in production.
func TestAdministrators(t *testing.T) {
	t.Parallel()
	in := start(t)
	w := newWire(t, in, "admin")
	w.FirestoreClient = pb.NewFirestoreClient(in.AnonymousConn(t))
	_, err := w.ListCollectionIds(context.Background(), &pb.ListCollectionIdsRequest{Parent: w.db + "/documents"})
	wantCode(t, err, codes.PermissionDenied)
	w.mustCommit(nil, w.set("a/1"))
}

func TestLargeRequests(t *testing.T) {
	t.Parallel()
	w := newWire(t, start(t), "large")
	var writes []*pb.Write
	for i := range 11 {
		writes = append(writes, w.set(fmt.Sprintf("a/%d", i), "text", strings.Repeat("x", 1_000_000)))
	}
	_, err := w.commit(nil, writes...)
	wantCode(t, err, codes.InvalidArgument)
	w.mustCommit(nil, writes[:10]...)
}
