//go:build all

package firestore

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What the cases don't think of: batches that are put together at random, most of them from one
// that is allowed. Whatever passes leaves sums, memberships and requests in agreement, and what is
// others' as it was.
func TestNoBatchMiscounts(t *testing.T) {
	t.Parallel()
	_, clients := read(t)
	p := newProject(t, "rules-random")
	p.release(t, withBlocks(clients, scratch))
	c := client{now: time.Now()}
	w := newWorld(t, p, c)
	before := w.books()
	passed := 0
	rapid.Check(t, func(r *rapid.T) {
		for range 8 {
			user := rapid.SampledFrom([]string{alice, bob, carol, dave}).Draw(r, "user")
			a := attempt{name: "random", user: user, writes: c.batch(r, user)}
			status, answer := w.try(a)
			switch status {
			case http.StatusOK:
				passed++
				after := w.books()
				w.restore(a)
				if !maps.Equal(after.sums, before.sums) {
					r.Fatalf("the shards hold more or less than members and requests: %v, before %v", after.sums, before.sums)
				}
				for path, document := range before.documents {
					if after.documents[path] != document && !strings.HasSuffix(path, "_members/"+user) && !(path == post && after.documents[path] == "") {
						r.Fatalf("%s was %s and is %q", path, document, after.documents[path])
					}
				}
			case http.StatusForbidden, http.StatusBadRequest, http.StatusNotFound, http.StatusConflict:
			default:
				r.Fatalf("status %d: %s", status, answer)
			}
		}
	})
	if passed < 20 {
		t.Errorf("only %d batches passed, which shows little", passed)
	}
	t.Logf("%d batches passed", passed)
}

// batch puts a batch together: one that counts, with some more writes, less one of them, or twice
// the same.
func (c client) batch(r *rapid.T, user string) []write {
	shard := rapid.SampledFrom([]string{"0", "0", "1"})
	by := rapid.SampledFrom([]any{1, 1, -1, -1, 2, -2, 0, 1.0})
	field := rapid.SampledFrom([][3]string{{counter, "total", "count"}, {post, "likes", "likes"}, {post, "bookmarks", "bookmarks"}, {post, "likes", "bookmarks"}})
	id := rapid.Custom(func(r *rapid.T) string {
		id := rapid.SampledFrom([]string{fresh, fresh, other, spent, views}).Draw(r, "one of alice's")
		if rapid.IntRange(0, 4).Draw(r, "hers") > 0 {
			id = id[:len(uuid)] + ":" + user
		}
		return id
	})
	asking := func() []write {
		where := rapid.SampledFrom([][2]string{{counter, "count"}, {post, "views"}, {post, "likes"}}).Draw(r, "asked")
		return c.asking(id.Draw(r, "id"), where[0], shard.Draw(r, "shard"), where[1], rapid.SampledFrom([]any{1, 1, 1, 2, -1}).Draw(r, "by"))
	}
	single := func() write {
		f := field.Draw(r, "field")
		someone := rapid.SampledFrom([]string{user, user, alice, bob}).Draw(r, "someone")
		switch rapid.IntRange(0, 9).Draw(r, "kind") {
		case 0:
			return membership(f[0], f[1], someone, shard.Draw(r, "shard"))
		case 1:
			return remove(f[0] + "/" + f[1] + "_members/" + someone)
		case 2:
			return update(f[0]+"/"+f[1]+"_members/"+someone, fields{"shard": shard.Draw(r, "shard")})
		case 3, 4, 5:
			return add(f[0]+"/shards/"+shard.Draw(r, "shard"), f[2], by.Draw(r, "by"))
		case 6:
			return update(f[0]+"/shards/"+shard.Draw(r, "shard"), fields{f[2]: rapid.IntRange(2, 8).Draw(r, "value")})
		case 7:
			return asking()[rapid.IntRange(0, 1).Draw(r, "half")]
		case 8:
			return remove("counter_requests/" + id.Draw(r, "id"))
		default:
			return rapid.SampledFrom([]write{
				update(post, fields{"title": "b"}), update(post, fields{"likes": 9}), set(post, fields{"title": "b"}), remove(post),
				update(mine, fields{"request": fresh}), remove(counter + "/shards/0"), set(counter+"/shards/1", fields{"count": 8}),
			}).Draw(r, "document")
		}
	}
	var writes []write
	for range rapid.IntRange(0, 2).Draw(r, "parts") {
		f := field.Draw(r, "field")
		switch rapid.IntRange(0, 2).Draw(r, "part") {
		case 0:
			writes = append(writes, joining(f[0], f[1], f[2], user, shard.Draw(r, "shard"), 1)...)
		case 1:
			writes = append(writes, leaving(f[0], f[1], f[2], user, shard.Draw(r, "shard"), -1)...)
		case 2:
			writes = append(writes, asking()...)
		}
	}
	for range rapid.IntRange(0, 2).Draw(r, "more") {
		writes = slices.Insert(writes, rapid.IntRange(0, len(writes)).Draw(r, "at"), single())
	}
	if len(writes) > 2 && rapid.IntRange(0, 3).Draw(r, "less") == 0 {
		i := rapid.IntRange(0, len(writes)-1).Draw(r, "which")
		writes = slices.Delete(writes, i, i+1)
	}
	if len(writes) == 0 {
		writes = append(writes, single())
	}
	return writes
}

// books are what must not change, whatever passes: what the shards hold of each field beyond
// memberships and requests, and documents that are somebody else's.
type books struct {
	sums      map[string]int64
	documents map[string]string // by path, as JSON; without an update time
}

func (w world) books() books {
	w.t.Helper()
	b := books{map[string]int64{}, map[string]string{}}
	for _, tree := range []string{counter, post} {
		for _, shard := range w.p.documents(w.t, tree+"/shards") {
			for field, value := range shard {
				if text, ok := value["integerValue"].(string); ok {
					n, err := strconv.ParseInt(text, 10, 64)
					if err != nil {
						w.t.Fatal(err)
					}
					b.sums[tree+" "+field] += n // which wraps: one shard is full
				}
			}
		}
	}
	for members, field := range map[string]string{counter + "/total_members": counter + " count", post + "/likes_members": post + " likes", post + "/bookmarks_members": post + " bookmarks"} {
		for _, m := range w.p.documents(w.t, members) {
			b.sums[field]--
			b.documents[members+"/"+m["member"]["stringValue"].(string)] = asJSON(w.t, m)
		}
	}
	for _, request := range w.p.documents(w.t, "counter_requests") {
		for tree, field := range map[string]string{counter: "count", post: "views"} {
			if strings.Contains(asJSON(w.t, request), "/documents/"+tree+"/shards/") {
				b.sums[tree+" "+field]--
			}
		}
	}
	status, answer := w.p.do(w.t, owner, "GET", "/v1/"+w.p.root()+"/"+post, nil)
	if status == http.StatusOK {
		var document struct{ Fields map[string]map[string]any }
		if err := json.Unmarshal([]byte(answer), &document); err != nil {
			w.t.Fatal(err)
		}
		counted := map[string]map[string]any{}
		for _, field := range []string{"likes", "bookmarks", "views", "counter_rollup"} {
			counted[field] = document.Fields[field]
		}
		b.documents[post] = asJSON(w.t, counted)
	}
	return b
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
