package shards_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

func join(t *testing.T, c shards.Counter, member string) bool {
	t.Helper()
	counted, err := c.Join(t.Context(), "total", member)
	if err != nil {
		t.Fatal(err)
	}
	return counted
}

func leave(t *testing.T, c shards.Counter, member string) bool {
	t.Helper()
	counted, err := c.Leave(t.Context(), "total", member)
	if err != nil {
		t.Fatal(err)
	}
	return counted
}

// wantMembers fails unless those are the members of the counter, and its shards add up
// to their number.
func (w *world) wantMembers(t *testing.T, c shards.Counter, want ...string) {
	t.Helper()
	var got []string
	for m, err := range c.Members(t.Context(), "total") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Member)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("members %q, want %q", got, want)
	}
	w.wantSum(t, c.ID(), int64(len(want)))
}

func TestMembers(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
		if !join(t, c, "u") || join(t, c, "u") {
			t.Error("u is to be counted with the first join, and not with the second")
		}
		before := w.Server.Stats()
		if join(t, c, "u") {
			t.Error("u is counted again")
		}
		if after := w.Server.Stats(); after.Writes != before.Writes || after.Deletes != before.Deletes {
			t.Errorf("a join that is repeated writes %d documents and deletes %d, want none", after.Writes-before.Writes, after.Deletes-before.Deletes)
		}
		join(t, c, "v")
		w.wantMembers(t, c, "u", "v")
		doc, err := w.fs.Doc("counters/a/total_members/u").Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		counts := w.counts(t, "a")
		if shard, _ := doc.Data()["shard"].(string); counts[shard] == 0 {
			t.Errorf("u names shard %q of %v, want the one that it is counted on", shard, counts)
		}
		if doc.Data()["member"] != "u" || !doc.CreateTime.Truncate(time.Millisecond).Equal(doc.Data()["at"].(time.Time)) {
			t.Errorf("the membership is %v, made at %v", doc.Data(), doc.CreateTime)
		}
		if m, there, err := c.Joined(t.Context(), "total", "u"); err != nil || !there || !m.At.Equal(doc.CreateTime.Truncate(time.Millisecond)) {
			t.Errorf("joined: %v, %+v, %v; want since %v", there, m, err, doc.CreateTime)
		}
		if !leave(t, c, "u") || leave(t, c, "u") || leave(t, c, "w") {
			t.Error("u is to be taken off once, and w never")
		}
		if _, there, err := c.Joined(t.Context(), "total", "u"); err != nil || there {
			t.Errorf("joined after leaving: %v, %v", there, err)
		}
		w.wantMembers(t, c, "v")
	})
}

func TestMembersAreRefused(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		c := w.counter(t, client, "a", 3)
		before := w.Server.Stats().Commits
		for _, at := range []struct {
			field, member string
			want          error
		}{
			{"total", "", shards.ErrInvalidMember}, {"total", "a/b", shards.ErrInvalidMember}, {"total", "..", shards.ErrInvalidMember},
			{"total", "__x__", shards.ErrInvalidMember}, {"total", "\xff", shards.ErrInvalidMember}, {"total", strings.Repeat("x", 1501), shards.ErrInvalidMember},
			{"count", "u", shards.ErrInvalidField}, {"likes", "u", shards.ErrInvalidField}, {"", "u", shards.ErrInvalidField}, {"likes", "..", shards.ErrInvalidField},
		} {
			_, joinErr := c.Join(t.Context(), at.field, at.member)
			_, leaveErr := c.Leave(t.Context(), at.field, at.member)
			_, _, readErr := c.Joined(t.Context(), at.field, at.member)
			for _, err := range []error{joinErr, leaveErr, readErr} {
				if !errors.Is(err, at.want) {
					t.Errorf("%.20q of %q: %v, want %v", at.member, at.field, err, at.want)
				}
			}
		}
		for _, err := range c.Members(t.Context(), "likes") {
			if !errors.Is(err, shards.ErrInvalidField) || !strings.Contains(err.Error(), "total") {
				t.Errorf("members of a field that isn't counted: %v, want ErrInvalidField that names those that are", err)
			}
		}
		if !join(t, c, strings.Repeat("x", 1500)) {
			t.Error("a member of 1,500 bytes is not counted")
		}
		if n := w.Server.Stats().Commits - before; n != 1 {
			t.Errorf("%d commits, want 1", n)
		}
		unknown := handle(t, client, "unknown")
		if _, err := unknown.Join(t.Context(), "total", "u"); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("join of an unknown counter: %v, want ErrNotFound", err)
		}
		if _, there, err := unknown.Joined(t.Context(), "total", "u"); there || err != nil {
			t.Errorf("look at an unknown counter: %v, %v; want that nobody is counted", there, err)
		}
	})
}

// One who joins or leaves, whose commits meet faults.
func TestOneMemberUnderFaults(t *testing.T) {
	t.Parallel()
	lost := emulator.Verdict{After: unavailable}
	down := emulator.Verdict{Before: unavailable}
	contended := emulator.Verdict{Before: aborted}
	for _, c := range []struct {
		name     string
		unmarked bool // EXACT_WRITES=false: a membership has its marker all the same
		faults   []emulator.Verdict
		there    bool // already
		commits  int64
	}{
		{name: "no fault", commits: 1},
		{name: "there already", there: true, commits: 1},
		{name: "answer lost", faults: []emulator.Verdict{lost}, commits: 1},
		{name: "answer lost, unmarked", unmarked: true, faults: []emulator.Verdict{lost}, commits: 1},
		{name: "not applied", faults: []emulator.Verdict{down}, commits: 2},
		{name: "not applied and there already", faults: []emulator.Verdict{down}, there: true, commits: 2},
		{name: "contention", faults: []emulator.Verdict{contended}, commits: 2},
		{name: "contention and there already", faults: []emulator.Verdict{contended}, there: true, commits: 2},
		{name: "all of it", faults: []emulator.Verdict{down, contended, down, contended, lost}, commits: 5},
	} {
		for _, joins := range []bool{true, false} {
			virtual.Run(t, fmt.Sprintf("%s, joins %v", c.name, joins), func(t *testing.T) {
				w := newWorld(t)
				counter := w.counter(t, w.open(t, shards.Config{InexactWrites: c.unmarked}), "a", 4)
				if joins == c.there {
					join(t, counter, "u")
				}
				commits := w.onAdds(c.faults...)
				do := counter.Leave
				if joins {
					do = counter.Join
				}
				if counted, err := do(t.Context(), "total", "u"); err != nil || counted == c.there {
					t.Errorf("counted %v, %v; want %v", counted, err, !c.there)
				}
				if joins {
					w.wantMembers(t, counter, "u")
				} else {
					w.wantMembers(t, counter)
				}
				if n := commits.Load(); n != c.commits {
					t.Errorf("%d commits, want %d", n, c.commits)
				}
			})
		}
	}
}

// A join is applied and its answer is lost; before it is sent again, another instance takes the
// member off. The membership says nothing of the commit then, and its marker does.
func TestJoinIsTakenBackInDoubt(t *testing.T) {
	t.Parallel()
	for _, inexact := range []bool{false, true} { // EXACT_WRITES=false is not for members
		virtual.Run(t, fmt.Sprint("inexact ", inexact), func(t *testing.T) {
			w := newWorld(t)
			client := w.open(t, shards.Config{InexactWrites: inexact})
			c := w.counter(t, client, "a", 2)
			other := handle(t, w.open(t, shards.Config{}), "a")
			w.AfterLost(func() {
				if !leave(t, other, "u") {
					t.Error("the member is not there to be taken off")
				}
			})
			if !join(t, c, "u") {
				t.Error("the join is not counted, want what it was")
			}
			w.wantMembers(t, c)
		})
	}
}

// A join is on its way, and late; another one of the same member, and one that takes it off again,
// go by. When the first one has been told that the member was there already, its commit arrives: it
// must count nothing.
func TestLateJoin(t *testing.T) {
	t.Parallel()
	for _, inexact := range []bool{false, true} { // EXACT_WRITES=false is not for members
		virtual.Run(t, fmt.Sprint("inexact ", inexact), func(t *testing.T) {
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{InexactWrites: inexact}), "a", 2)
			other := handle(t, w.open(t, shards.Config{}), "a")
			var late *firestorepb.CommitRequest
			w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
				late = req
				w.Server.SetInterceptor(nil)
				if !join(t, other, "u") {
					t.Error("the other one did not join")
				}
				return emulator.Verdict{Before: unavailable}
			})
			if join(t, c, "u") {
				t.Error("counted, want that the member was there already")
			}
			leave(t, other, "u")
			if _, err := firestorepb.NewFirestoreClient(w.Conn()).Commit(t.Context(), late); status.Code(err) != codes.AlreadyExists {
				t.Errorf("the late commit: %v, want ALREADY_EXISTS", err)
			}
			w.wantMembers(t, c)
		})
	}
}

// Of many who share a commit some are there already: the others need one more read and
// one more commit.
func TestReplayedMembersShareACommit(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]struct{ replayed, others bool }{"joins": {true, true}, "leaves": {false, false}, "a leave among joins": {false, true}} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			c := w.counter(t, client, "a", 2)
			toggle := func(member string, joins bool) bool {
				if joins {
					return join(t, c, member)
				}
				return leave(t, c, member)
			}
			if fields.replayed {
				join(t, c, "replayed")
			}
			var want []string
			for i := range 20 {
				if !fields.others {
					join(t, c, fmt.Sprint(i))
				} else {
					want = append(want, fmt.Sprint(i))
				}
			}
			if fields.replayed {
				want = append(want, "replayed")
			}
			// The first commit waits until the others have queued up behind it.
			arrived, release := make(chan struct{}), make(chan struct{})
			var commits atomic.Int64
			w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
				if commits.Add(1) == 1 {
					close(arrived)
					<-release
				}
				return emulator.Verdict{}
			})
			var group sync.WaitGroup
			group.Go(func() { _ = c.Add(t.Context(), 1) })
			<-arrived
			for i := range 20 {
				group.Go(func() {
					if !toggle(fmt.Sprint(i), fields.others) {
						t.Errorf("member %d is not counted", i)
					}
				})
			}
			group.Go(func() {
				if toggle("replayed", fields.replayed) {
					t.Error("the one who was as asked is counted")
				}
			})
			for shards.Waiting(client) < 21 {
				runtime.Gosched()
			}
			reads := w.Server.Stats().Reads
			close(release)
			group.Wait()
			w.Server.SetInterceptor(nil)
			if n := commits.Load(); n != 3 {
				// that of the increment, the one that fails, the one in its place
				t.Errorf("%d commits, want 3", n)
			}
			if n := w.Server.Stats().Reads - reads; n > 22 {
				// in one request: the marker, and who shared the commit
				t.Errorf("%d documents were read, want those of one look", n)
			}
			if err := c.Add(t.Context(), -1); err != nil {
				t.Fatal(err)
			}
			w.wantMembers(t, c, want...)
		})
	}
}

// What one client is asked for the same member is done in that order, though the first
// commit is slow.
func TestOperationsOfAMemberKeepTheirOrder(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
		arrived, held := make(chan struct{}), make(chan struct{})
		var slow atomic.Bool
		w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			if slow.CompareAndSwap(false, true) {
				close(arrived)
				<-held
			}
			return emulator.Verdict{}
		})
		ctx, goAway := context.WithCancel(t.Context())
		first := make(chan error)
		go func() {
			_, err := c.Join(ctx, "total", "u")
			first <- err
		}()
		<-arrived
		goAway() // a page that was closed; its join goes on
		if err := <-first; !errors.Is(err, shards.ErrUnknown) {
			t.Fatalf("the join that was left in flight: %v, want ErrUnknown", err)
		}
		second := make(chan bool)
		go func() { second <- leave(t, c, "u") }()
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Join(impatient, "total", "u"); !errors.Is(err, shards.ErrBusy) {
			t.Errorf("one that doesn't wait for its turn: %v, want ErrBusy", err)
		}
		close(held)
		if !<-second {
			t.Error("the leave found nobody: it did not wait for the join before it")
		}
		w.wantMembers(t, c)
	})
}

// A join makes a counter where that is on, and a leave doesn't. A shard that is missing
// is made for both.
func TestMembersMakeWhatIsMissing(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{AutoCreate: true, NumShards: 1})
		c := handle(t, client, "a")
		if leave(t, c, "u") {
			t.Error("a leave of a counter that isn't there is counted")
		}
		if _, there, err := c.Joined(t.Context(), "total", "u"); there || err != nil {
			t.Errorf("joined where no counter is: %v, %v", there, err)
		}
		left := w.fs.Doc("counters/a/total_members/left") // below a document that is gone, and may come back
		if _, err := left.Create(t.Context(), map[string]any{"member": "left"}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Leave(t.Context(), "total", "left"); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("leave of a member below a document that is gone: %v, want ErrNotFound", err)
		}
		if _, _, err := c.Joined(t.Context(), "total", "left"); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("a look at a member below a document that is gone: %v, want ErrNotFound", err)
		}
		if _, err := left.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !join(t, c, "u") {
			t.Error("the first join is not counted")
		}
		w.Delete("counters/a/shards/0")
		if !leave(t, c, "u") {
			t.Error("a leave that meets a missing shard is not counted")
		}
		if got := w.sum(t, "a"); got != -1 { // what the shard held is gone
			t.Errorf("sum %d, want -1", got)
		}
	})
}

func TestMembersOfAnAppsDocument(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Counters: "posts/{post}", Fields: "likes,bookmarks", Hosted: true}, NumShards: 2})
		post := handle(t, client, "p")
		if _, err := post.Join(t.Context(), "likes", "u"); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("join of a post that isn't there: %v, want ErrNotFound", err)
		}
		w.Put("posts/p", map[string]any{"title": "t"})
		for _, field := range []string{"likes", "bookmarks", "likes"} {
			if _, err := post.Join(t.Context(), field, "u"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := post.Join(t.Context(), "bookmarks", "v"); err != nil {
			t.Fatal(err)
		}
		if err := post.Add(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		audits, err := post.Audit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []shards.Audit{
			{Field: "likes", Shards: 6, Members: 1, Otherwise: 5, Exact: 6},
			{Field: "bookmarks", Shards: 2, Members: 2, Exact: 2},
		} {
			if audits[i] != want {
				t.Errorf("audit %+v, want %+v", audits[i], want)
			}
		}
	})
}

// A counter is made and joined between the look for it and the one for its member: neither who looks nor
// who leaves is told that there is no counter, in which the member would be for good.
func TestAMemberOfACounterThatIsMadeMeanwhile(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"look", "leave"} {
		virtual.Run(t, what, func(t *testing.T) {
			w := newWorld(t)
			maker := w.open(t, shards.Config{AutoCreate: true})
			made, err := maker.Counter("a")
			if err != nil {
				t.Fatal(err)
			}
			var reads atomic.Int64
			client := w.asking(t, shards.Config{}, "BatchGetDocuments", func() {
				if reads.Add(1) == 2 {
					if _, err := made.Join(t.Context(), "total", "u"); err != nil {
						t.Error(err)
					}
				}
			})
			c, err := client.Counter("a")
			if err != nil {
				t.Fatal(err)
			}
			if what == "look" {
				if _, there, err := c.Joined(t.Context(), "total", "u"); !there || err != nil {
					t.Errorf("%v, %v", there, err)
				}
				return
			}
			if _, err := c.Leave(t.Context(), "total", "u"); !errors.Is(err, shards.ErrBusy) {
				t.Errorf("%v, want that it is asked again", err)
			}
			if counted, err := c.Leave(t.Context(), "total", "u"); !counted || err != nil {
				t.Errorf("again: %v, %v", counted, err)
			}
		})
	}
}

// Calls of one member wait for each other. So few of them do: whoever has a page join and leave again and again would
// otherwise fill an instance with calls that wait.
func TestFewCallsOfAMemberWait(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		c := w.counter(t, client, "a", 2)
		w.Server.SetFaults(emulator.Faults{CommitLatency: 100 * time.Millisecond, QueryLatency: 100 * time.Millisecond})
		began := time.Now()
		var all sync.WaitGroup
		var counted, refused atomic.Int64
		for n := range 300 {
			all.Go(func() {
				toggle := c.Join
				if n%2 == 1 {
					toggle = c.Leave
				}
				switch done, err := toggle(t.Context(), "total", "mallory"); {
				case errors.Is(err, shards.ErrBusy):
					refused.Add(1)
				case err != nil:
					t.Error(err)
				case done:
					counted.Add(1)
				}
			})
			all.Go(func() {
				if n < 30 { // others don't wait for these
					if _, err := c.Join(t.Context(), "total", fmt.Sprint("m", n)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 10*time.Second || refused.Load() == 0 || counted.Load() == 0 {
			t.Errorf("after %v %d were counted, and %d refused", took, counted.Load(), refused.Load())
		}
	})
}
