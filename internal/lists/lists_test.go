package lists_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/counterstest"
	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/lists"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/shards"
)

// posts are an app's documents, with the roll-up running beside.
type posts struct {
	*counterstest.Instance
	t     *testing.T
	fs    *firestore.Client
	db    *store.DB
	place shards.Place
}

var place = shards.Place{Project: "p", Counters: "posts/{post}", Fields: "likes,views", Hosted: true}

func newPosts(t *testing.T) *posts { return postsOf(t, place) }

func postsOf(t *testing.T, place shards.Place) *posts {
	t.Helper()
	i := counterstest.StartWith(t, shards.Config{Place: place, Wait: 10 * time.Minute})
	db, err := store.Open(context.Background(), place, option.WithGRPCConn(i.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &posts{i, t, i.Client(t, "p"), db, place}
}

func (p *posts) set(path string, fields map[string]any) {
	p.t.Helper()
	if _, err := p.fs.Doc(path).Set(p.t.Context(), fields, firestore.MergeAll); err != nil {
		p.t.Fatal(err)
	}
}

func (p *posts) get(path string) map[string]any {
	p.t.Helper()
	doc, err := p.fs.Doc(path).Get(p.t.Context())
	if err != nil && status.Code(err) != codes.NotFound {
		p.t.Fatal(err)
	}
	return doc.Data()
}

func (p *posts) counter(id string) shards.Counter {
	p.t.Helper()
	c, err := p.Counters.Counter(id)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// imports imports the likes of all posts as the command does, with a client of its own, and returns what became of
// each.
func (p *posts) imports(ctx context.Context, dry bool) (map[string]lists.Document, error) {
	found := map[string]lists.Document{}
	client, err := shards.Open(context.Background(), shards.Config{Place: p.place}, option.WithGRPCConn(p.Conn(p.t)))
	if err != nil {
		p.t.Fatal(err)
	}
	defer client.Close()
	return found, lists.Import(ctx, p.db, client, "likes", lists.Options{DryRun: dry, Parallel: 8, Report: func(d lists.Document) { found[d.Path] = d }})
}

// members are those of a post's likes, sorted.
func (p *posts) members(id string) []string {
	p.t.Helper()
	members := []string{}
	for m, err := range p.counter(id).Members(p.t.Context(), "likes") {
		if err != nil {
			p.t.Fatal(err)
		}
		members = append(members, m.Member)
	}
	return members
}

// wants fails unless a post's likes are these members, count each of them once, and show how many they are.
func (p *posts) wants(id string, want ...string) {
	p.t.Helper()
	slices.Sort(want)
	p.RolledUp(p.t)
	if got := p.members(id); !slices.Equal(got, want) {
		p.t.Errorf("the members of %s are %.300q, want %.300q", id, got, want)
	}
	audits, err := p.counter(id).Audit(p.t.Context())
	if err != nil || audits[0].Exact != int64(len(want)) || audits[0].Otherwise != 0 || audits[0].Total != int64(len(want)) {
		p.t.Errorf("%s: %+v, %v; want %d members, and nothing else", id, audits, err, len(want))
	}
	if list := p.get("posts/" + id + "/counter_rollup/list_likes"); list != nil {
		p.t.Errorf("%s: %v is left of the import", id, list)
	}
}

// Where a number that the extension has counted goes on, the number of members that takes a list's place isn't one.
func TestImportIsNoNumberOfTheExtension(t *testing.T) {
	t.Parallel()
	place := place
	place.Extension = true
	p := postsOf(t, place)
	p.set("posts/a", map[string]any{"likes": []any{"alice", "bob"}, "views": 7})
	p.set("posts/b", map[string]any{"likes": []any{}, "views": 7})
	if _, err := p.imports(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	p.wants("a", "alice", "bob")
	p.wants("b")
	if views := p.get("posts/a")["views"]; views != int64(7) {
		t.Errorf("%v views, want 7", views)
	}
}

// Lists of user ids become members and their number; what else there is stays as it is. A repetition changes nothing.
func TestImport(t *testing.T) {
	t.Parallel()
	p := newPosts(t)
	posts := map[string]any{
		"two": []any{"a", "b"}, "twice": []any{"a", "b", "a", "a"}, "empty": []any{}, "joined": []any{"a", "self"},
		"number": 7, "null": nil, "map": map[string]any{"a": true}, "text": "12",
		"maps": []any{"a", map[string]any{"uid": "b"}}, "ids": []any{"a", "b/c", "", int64(5), "d/e", "f/g"},
	}
	for id, value := range posts {
		p.set("posts/"+id, map[string]any{"title": id, "likes": value})
	}
	p.set("posts/missing", map[string]any{"title": "missing"})
	p.set("elsewhere/x/posts/two", map[string]any{"likes": []any{"a"}})
	if _, err := p.counter("joined").Join(t.Context(), "likes", "self"); err != nil {
		t.Fatal(err)
	}
	if err := p.counter("two").Add(t.Context(), 1); err != nil { // of its likes: an increment of no member
		t.Fatal(err)
	}
	p.RolledUp(t)
	want := map[string]lists.Document{
		"two":    {Outcome: lists.Taken, Members: 2, Joined: 2, Total: 3},
		"twice":  {Outcome: lists.Taken, Members: 2, Joined: 2, Duplicates: 2, Total: 2},
		"empty":  {Outcome: lists.Taken},
		"joined": {Outcome: lists.Taken, Members: 2, Joined: 1, Total: 2},
		"number": {Outcome: lists.Number}, "null": {Outcome: lists.Nothing}, "missing": {Outcome: lists.Nothing},
		"map": {Outcome: lists.Failed}, "text": {Outcome: lists.Failed}, "maps": {Outcome: lists.Failed}, "ids": {Outcome: lists.Failed},
	}
	check := func(found map[string]lists.Document, err error) {
		t.Helper()
		if err != nil || len(found) != len(want) {
			t.Errorf("%d documents, %v; want %d", len(found), err, len(want))
		}
		for id, d := range want {
			got := found["posts/"+id]
			if (got.Error != "") != (d.Outcome == lists.Failed) {
				t.Errorf("%s: %q", id, got.Error)
			}
			if got.Path, got.Error = "", ""; got != d {
				t.Errorf("%s: %+v, want %+v", id, got, d)
			}
		}
	}
	before := p.Server.Stats().Commits
	found, err := p.imports(t.Context(), true)
	if err != nil || found["posts/two"].Outcome != lists.Taken || found["posts/two"].Joined != 0 || p.Server.Stats().Commits != before {
		t.Errorf("a dry run: %+v, %v, %d commits", found, err, p.Server.Stats().Commits-before)
	}
	found, err = p.imports(t.Context(), false)
	check(found, err)
	for id, part := range map[string]string{"map": "something else", "maps": "entry 1: it is no text", "ids": `entry 1: "b/c" contains a slash; entry 2: it is empty; entry 3: it is no text, and 2 more`} {
		if d := found["posts/"+id]; !strings.Contains(d.Error, part) {
			t.Errorf("%s: %q, want %q", id, d.Error, part)
		}
	}
	p.wants("twice", "a", "b")
	p.wants("empty")
	p.wants("joined", "a", "self")
	again := func() {
		t.Helper()
		for _, id := range []string{"null", "map", "text", "maps", "ids"} {
			if doc := p.get("posts/" + id); !reflect.DeepEqual(doc["likes"], posts[id]) {
				t.Errorf("%s has %v, want %v", id, doc["likes"], posts[id])
			}
		}
		for id, likes := range map[string]int64{"two": 3, "twice": 2, "empty": 0, "joined": 2} {
			if doc := p.get("posts/" + id); doc["likes"] != likes || doc["title"] != id {
				t.Errorf("%s is %v, want %d likes", id, doc, likes)
			}
		}
		if doc := p.get("elsewhere/x/posts/two"); len(doc["likes"].([]any)) != 1 {
			t.Errorf("another collection's: %v", doc)
		}
	}
	again()
	for _, id := range []string{"two", "twice", "empty", "joined"} {
		want[id] = lists.Document{Outcome: lists.Number}
	}
	check(p.imports(t.Context(), false))
	p.RolledUp(t)
	again()
}

// atReplacement calls change before the commit that replaces a list arrives, once.
func (p *posts) atReplacement(change func()) {
	var done atomic.Bool
	p.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
		for _, w := range req.GetWrites() {
			if strings.HasSuffix(w.GetDelete(), "/counter_rollup/list_likes") && done.CompareAndSwap(false, true) {
				change()
			}
		}
		return v
	})
}

// A list may change until it is replaced: who is added becomes a member, and who is taken out leaves, unless they
// joined by themselves.
func TestAListThatChanges(t *testing.T) {
	t.Parallel()
	p := newPosts(t)
	p.set("posts/a", map[string]any{"likes": []any{"stays", "goes", "joins"}})
	p.atReplacement(func() {
		p.set("posts/a", map[string]any{"likes": []any{"stays", "comes"}})
		// By itself, after the import had made it a member.
		if _, err := p.counter("a").Leave(t.Context(), "likes", "joins"); err != nil {
			t.Error(err)
		}
		if _, err := p.counter("a").Join(t.Context(), "likes", "joins"); err != nil {
			t.Error(err)
		}
	})
	found, err := p.imports(t.Context(), false)
	if d := found["posts/a"]; err != nil || d.Outcome != lists.Taken || d.Joined != 4 || d.Left != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	p.wants("a", "stays", "comes", "joins")

	// An old client adds to what is a number by now: Firestore makes that a list. Nobody leaves for not being in it.
	p.set("posts/a", map[string]any{"likes": firestore.ArrayUnion("late")})
	if _, err := p.counter("a").Join(t.Context(), "likes", "new"); err != nil {
		t.Fatal(err)
	}
	p.RolledUp(t)
	if doc := p.get("posts/a"); len(doc["likes"].([]any)) != 1 {
		t.Errorf("the list of an old client is lost: %v", doc)
	}
	if _, err := p.imports(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	p.wants("a", "stays", "comes", "joins", "late", "new")
}

// Who is taken out of the list, and leaves and joins by itself just before it would leave for that, stays.
func TestWhoJoinsByItselfStays(t *testing.T) {
	t.Parallel()
	p := newPosts(t)
	p.set("posts/a", map[string]any{"likes": []any{"stays", "joins"}})
	var changed, joined atomic.Bool
	p.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
		for _, w := range req.GetWrites() {
			switch {
			case strings.HasSuffix(w.GetDelete(), "/counter_rollup/list_likes") && changed.CompareAndSwap(false, true):
				p.set("posts/a", map[string]any{"likes": []any{"stays"}})
			case strings.HasSuffix(w.GetDelete(), "/likes_members/joins") && joined.CompareAndSwap(false, true):
				for _, toggle := range []func(context.Context, string, string) (bool, error){p.counter("a").Leave, p.counter("a").Join} {
					if counted, err := toggle(t.Context(), "likes", "joins"); err != nil || !counted {
						t.Error(counted, err)
					}
				}
			}
		}
		return v
	})
	found, err := p.imports(t.Context(), false)
	if d := found["posts/a"]; err != nil || d.Outcome != lists.Taken || d.Joined != 2 || d.Left != 0 || d.Total != 2 {
		t.Errorf("%+v, %v", d, err)
	}
	p.wants("a", "stays", "joins")
}

// The app may replace the list, or delete the document, while it is taken over: that is the app's last word.
func TestAListThatGoes(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(doc *firestore.DocumentRef) error{
		"deleted": func(doc *firestore.DocumentRef) error { _, err := doc.Delete(t.Context()); return err },
		"a number": func(doc *firestore.DocumentRef) error {
			_, err := doc.Set(t.Context(), map[string]any{"likes": 2})
			return err
		},
		"a map": func(doc *firestore.DocumentRef) error {
			_, err := doc.Set(t.Context(), map[string]any{"likes": map[string]any{"a": true}})
			return err
		},
	} {
		p := newPosts(t)
		p.set("posts/a", map[string]any{"likes": []any{"a", "b"}})
		p.atReplacement(func() {
			if err := write(p.fs.Doc("posts/a")); err != nil {
				t.Error(err)
			}
		})
		found, err := p.imports(t.Context(), false)
		if d := found["posts/a"]; err != nil || d.Outcome == lists.Taken {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		p.RolledUp(t)
		if doc := p.get("posts/a"); (doc == nil) != (name == "deleted") || name == "a map" && !reflect.DeepEqual(doc["likes"], map[string]any{"a": true}) {
			t.Errorf("%s: the document is %v", name, doc)
		}
		if left := p.get("posts/a/counter_rollup/list_likes"); left != nil && name != "a map" {
			t.Errorf("%s: %v is left of the import", name, left)
		}
	}
}

// A field with a limit that has no room keeps its list. Once there is room, the import goes on.
func TestAListBeyondALimit(t *testing.T) {
	t.Parallel()
	limited := place
	limited.Fields = "likes=limit(),views"
	p := postsOf(t, limited)
	p.set("posts/a", map[string]any{"title": "Hello"})
	limit := func(n int64) {
		t.Helper()
		if err := p.counter("a").SetLimit(t.Context(), "likes", n); err != nil {
			t.Fatal(err)
		}
	}
	limit(2)
	p.set("posts/a", map[string]any{"likes": []any{"a", "b", "c"}})
	found, err := p.imports(t.Context(), false)
	if d := found["posts/a"]; err != nil || d.Outcome != lists.Failed || !strings.Contains(d.Error, "limit") {
		t.Errorf("%+v, %v", d, err)
	}
	if doc := p.get("posts/a"); len(doc["likes"].([]any)) != 3 {
		t.Errorf("the list is %v", doc)
	}
	limit(3)
	if _, err := p.imports(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	p.wants("a", "a", "b", "c")
}

// A list of 20,000 ids, which no one commit can hold.
func TestALargeList(t *testing.T) {
	t.Parallel()
	p := newPosts(t)
	var ids []string
	for n := range 20_000 {
		ids = append(ids, fmt.Sprintf("user-%022d", n))
	}
	p.set("posts/a", map[string]any{"likes": ids})
	found, err := p.imports(t.Context(), false)
	if d := found["posts/a"]; err != nil || d.Outcome != lists.Taken || d.Joined != len(ids) || d.Total != int64(len(ids)) {
		t.Errorf("%+v, %v", d, err)
	}
	p.wants("a", ids...)
}

// An import that ends anywhere, some of whose commits are applied though their answers are lost, goes on where it was,
// beside an app that changes its list at any time, and users who join by themselves.
func TestImportEndsAnywhere(t *testing.T) {
	t.Parallel()
	p := newPosts(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		id := fmt.Sprint("post-", n)
		listed, joined := map[string]bool{}, map[string]bool{}
		p.set("posts/"+id, map[string]any{"likes": []any{}})
		change := func() (is bool) { // what the app does, while there is a list
			doc, err := p.fs.Doc("posts/" + id).Get(rt.Context())
			if err != nil {
				rt.Fatal(err)
			}
			if _, is := doc.Data()["likes"].([]any); !is {
				return false
			}
			was := maps.Clone(listed)
			for range rapid.IntRange(0, 3).Draw(rt, "changes") {
				user := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(rt, "user")
				if listed[user] = !listed[user]; !listed[user] {
					delete(listed, user)
				}
			}
			likes := firestore.Update{Path: "likes", Value: append([]string{}, slices.Sorted(maps.Keys(listed))...)} // never null
			if _, err := doc.Ref.Update(rt.Context(), []firestore.Update{likes}, firestore.LastUpdateTime(doc.UpdateTime)); err != nil {
				listed = was // a commit of the run that has ended was still on its way, or the roll-up's
				return true
			}
			user := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(rt, "who joins or leaves")
			toggle := p.counter(id).Join
			if joined[user] {
				toggle = p.counter(id).Leave
			}
			if _, err := toggle(rt.Context(), "likes", user); err != nil {
				rt.Fatal(err)
			}
			if joined[user] = !joined[user]; !joined[user] {
				delete(joined, user)
			}
			return true
		}
		change()
		for range rapid.IntRange(0, 3).Draw(rt, "runs") {
			ctx, cancel := context.WithCancel(rt.Context())
			left := new(atomic.Int64)
			left.Store(int64(rapid.IntRange(0, 8).Draw(rt, "commits until it ends")))
			lost := rapid.Bool().Draw(rt, "the last answer is lost")
			p.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
				if left.Add(-1) == 0 {
					cancel()
					if err := status.Error(codes.Unavailable, "the connection was lost"); lost {
						v.After = err
					} else {
						v.Before = err
					}
				}
				return v
			})
			_, err := p.imports(ctx, false)
			p.Server.SetInterceptor(nil)
			if err != nil && ctx.Err() == nil {
				rt.Fatal(err)
			}
			cancel()
			if !change() {
				break // it was replaced: no old client writes any more
			}
		}
		if found, err := p.imports(rt.Context(), false); err != nil || found["posts/"+id].Outcome == lists.Failed {
			rt.Fatal(found, err)
		}
		p.RolledUp(t)
		maps.Copy(joined, listed)
		if want, got := slices.Sorted(maps.Keys(joined)), p.members(id); !slices.Equal(got, want) {
			rt.Fatalf("members %q, want %q", got, want)
		}
		if doc := p.get("posts/" + id); doc["likes"] != int64(len(joined)) {
			rt.Fatalf("the post shows %v, want %d", doc["likes"], len(joined))
		}
		if audits, err := p.counter(id).Audit(rt.Context()); err != nil || audits[0].Otherwise != 0 {
			rt.Fatalf("%+v, %v", audits, err)
		}
		if _, err := p.fs.Doc("posts/" + id).Delete(rt.Context()); err != nil { // which no later import looks at
			rt.Fatal(err)
		}
	})
}
