package shards_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/shards"
)

// total is what the counter's document says.
func (w *world) total(t *testing.T, id string) int64 {
	t.Helper()
	doc, err := w.fs.Collection("counters").Doc(id).Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return doc.Data()["total"].(int64)
}

// Every command, with its commit's answer lost, refused or cut short, is applied once.
func TestCommandsUnderFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		name    string
		verdict emulator.Verdict
	}{
		{"none", emulator.Verdict{}},
		{"answer lost", emulator.Verdict{After: unavailable}},
		{"not applied", emulator.Verdict{Before: unavailable}},
		{"contention", emulator.Verdict{Before: aborted}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			once := func(f func() error) {
				t.Helper()
				var met atomic.Bool
				w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
					if met.CompareAndSwap(false, true) {
						return fault.verdict
					}
					return emulator.Verdict{}
				})
				defer w.Server.SetInterceptor(nil)
				if err := f(); err != nil {
					t.Error(err)
				}
			}
			c := handle(t, client, "a")
			once(func() error { return c.Create(t.Context(), shards.CreateOptions{Shards: 3, Total: 10}) })
			w.wantSum(t, "a", 10)
			for range 10 {
				if err := c.Add(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			}
			// Nobody rolls up here: the ledger has seen none of the ten, and they come on top.
			once(func() error { return c.Rebase(t.Context(), 100) })
			if got := w.total(t, "a"); got != 100 {
				t.Errorf("after rebase: total %d, want 100", got)
			}
			w.wantSum(t, "a", 110)
			once(func() error { return c.Resize(t.Context(), 7, shards.ResizeOptions{}) })
			w.wantSum(t, "a", 110)
			if n := len(w.counts(t, "a")); n != 7 {
				t.Errorf("after growing: %d shards, want 7", n)
			}
			once(func() error { return c.Resize(t.Context(), 2, shards.ResizeOptions{}) })
			w.wantSum(t, "a", 110)
			if n := len(w.counts(t, "a")); n != 2 {
				t.Errorf("after shrinking: %d shards, want 2", n)
			}
			once(func() error { return c.Reset(t.Context(), shards.ResetOptions{}) })
			w.wantSum(t, "a", 0)
			if got := w.total(t, "a"); got != 0 {
				t.Errorf("after reset: total %d, want what the shards had when they were last rolled up, 0", got)
			}
			page := w.fs.Collection("pages").Doc("hello")
			if _, err := page.Set(t.Context(), map[string]any{"views": 1000}); err != nil {
				t.Fatal(err)
			}
			once(func() error {
				_, err := c.ImportExtension(t.Context(), shards.ExtensionCounter{Path: "pages/hello", Field: "views"})
				return err
			})
			w.wantSum(t, "a", 1000)
			if got := w.total(t, "a"); got != 1000 {
				t.Errorf("after import: total %d, want 1000", got)
			}
			once(func() error { return c.Delete(t.Context()) })
			if doc, _ := w.fs.Collection("counters").Doc("a").Get(t.Context()); doc.Exists() || len(w.counts(t, "a")) > 0 {
				t.Errorf("after delete: %v, %v", doc.Data(), w.counts(t, "a"))
			}
			once(func() error { return c.Create(t.Context(), shards.CreateOptions{Shards: 1}) })
			w.wantSum(t, "a", 0)
		})
	}
}

func TestCommandsOnMissingCounters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	if _, err := w.fs.Collection("counters").Doc("unadopted").Set(t.Context(), map[string]any{"num_shards": 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.fs.Collection("pages").Doc("hello").Set(t.Context(), map[string]any{"views": 1}); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(shards.Counter) error{
		"reset":  func(c shards.Counter) error { return c.Reset(t.Context(), shards.ResetOptions{}) },
		"rebase": func(c shards.Counter) error { return c.Rebase(t.Context(), 1) },
		"import": func(c shards.Counter) error {
			_, err := c.ImportExtension(t.Context(), shards.ExtensionCounter{Path: "pages/hello", Field: "views"})
			return err
		},
	} {
		if err := do(handle(t, client, "unknown")); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("%s of an unknown counter: %v, want ErrNotFound", name, err)
		}
		if err := do(handle(t, client, "unadopted")); !errors.Is(err, shards.ErrNoLedger) {
			t.Errorf("%s of a counter without a ledger: %v, want ErrNoLedger", name, err)
		}
	}
	unknown := handle(t, client, "unknown")
	if err := unknown.Delete(t.Context()); !errors.Is(err, shards.ErrNotFound) {
		t.Errorf("delete: %v, want ErrNotFound", err)
	}
	if err := unknown.Resize(t.Context(), 3, shards.ResizeOptions{}); !errors.Is(err, shards.ErrNotFound) {
		t.Errorf("resize: %v, want ErrNotFound", err)
	}
	for _, n := range []int{0, -1, shards.MaxShards + 1} {
		if err := unknown.Resize(t.Context(), n, shards.ResizeOptions{}); !errors.Is(err, shards.ErrInvalidShards) {
			t.Errorf("resize to %d: %v, want ErrInvalidShards", n, err)
		}
	}
	if err := unknown.Create(t.Context(), shards.CreateOptions{Shards: -1}); !errors.Is(err, shards.ErrInvalidShards) {
		t.Errorf("create with -1 shards: %v, want ErrInvalidShards", err)
	}
	for watched, err := range unknown.Watch(t.Context()) {
		if !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("watch: %v, %v, want ErrNotFound", watched, err)
		}
	}
}

// A counter that is deleted before its creator has an answer, and is made again by the next try, is another one: a command that
// is late knows the first by its id.
func TestCreateAgainIsAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := handle(t, w.open(t, shards.Config{}), "a")
	id := func() string {
		doc, err := w.fs.Doc("counters/a").Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return doc.Data()["ledger_id"].(string)
	}
	var first string
	conn, err := w.Server.Connect(grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if first == "" && err == nil && strings.HasSuffix(method, "/Commit") {
			first = id()
			if err := other.Delete(t.Context()); err != nil {
				t.Error(err)
			}
			return status.Error(codes.Unavailable, "the answer is lost")
		}
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	client, err := shards.Open(t.Context(), shards.Config{Project: "p"}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if err := handle(t, client, "a").Create(t.Context(), shards.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if second := id(); first == "" || second == first {
		t.Errorf("both counters have the id %q", first)
	}
}

// A counter that was deleted in a console leaves its shards and its ledger behind.
func TestCreateOverLeftovers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 5)
	for range 20 {
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.fs.Collection("counters").Doc("a").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), shards.CreateOptions{Shards: 2, Total: 3}); err != nil {
		t.Fatal(err)
	}
	w.wantSum(t, "a", 3)
	if n := len(w.counts(t, "a")); n != 2 {
		t.Errorf("%d shards, want 2", n)
	}
}

// More shards than one commit deletes: the counter is marked, and goes last.
func TestDeleteLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 1000)
	var commits atomic.Int64
	w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		if commits.Add(1) > 2 { // the mark, and the first part
			return emulator.Verdict{Before: status.Error(codes.PermissionDenied, "cut short")}
		}
		return emulator.Verdict{}
	})
	if err := c.Delete(t.Context()); status.Code(err) != codes.PermissionDenied {
		t.Fatalf("cut short: %v", err)
	}
	w.Server.SetInterceptor(nil)
	if err := c.Add(t.Context(), 1); !errors.Is(err, shards.ErrNotFound) {
		t.Errorf("add while it is being deleted: %v, want ErrNotFound", err)
	}
	if err := c.Create(t.Context(), shards.CreateOptions{}); !errors.Is(err, shards.ErrExists) {
		t.Errorf("create while it is being deleted: %v, want ErrExists", err)
	}
	if err := c.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(w.counts(t, "a")); n > 0 {
		t.Errorf("%d shards are left", n)
	}
	if err := c.Create(t.Context(), shards.CreateOptions{}); err != nil {
		t.Error(err)
	}
}
