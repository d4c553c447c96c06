//go:build all

package firestore

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestRules(t *testing.T) {
	t.Parallel()
	plain, clients := read(t)
	c := client{now: time.Now()}
	cases := c.attempts()
	if len(cases) < 60 {
		t.Errorf("only %d cases", len(cases))
	}
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		p := newProject(t, "rules-plain")
		p.release(t, plain)
		w := newWorld(t, p, c)
		for _, a := range cases {
			if a.before != nil {
				a.writes = a.before // which isn't allowed either
			}
			if status, answer := w.try(a); status != wanted(a.plain) {
				t.Errorf("%s: status %d, want %d: %s", a.name, status, wanted(a.plain), answer)
			}
		}
	})
	t.Run("clients", func(t *testing.T) {
		t.Parallel()
		p := newProject(t, "rules-clients")
		p.release(t, withBlocks(clients, scratch))
		w := newWorld(t, p, c)
		before := w.uncounted()
		for _, a := range cases {
			w.begin(a)
			status, answer := w.try(a)
			if status != wanted(a.clients) {
				t.Errorf("%s: status %d, want %d: %s", a.name, status, wanted(a.clients), answer)
			}
			if a.get != "" || a.before == nil && status != http.StatusOK {
				continue // nothing has changed
			}
			if after := w.uncounted(); after != before {
				t.Errorf("%s: the shards hold %d more than members and requests", a.name, after-before)
			}
			w.restore(a)
		}
	})
}

// world is the documents of a project that cases are tried on.
type world struct {
	t *testing.T
	p project
	c client
}

// newWorld makes the documents.
func newWorld(t *testing.T, p project, c client) world {
	t.Helper()
	w := world{t, p, c}
	if status, answer := p.commit(t, owner, c.world()); status != http.StatusOK {
		t.Fatalf("can't make the documents: %s", answer)
	}
	return w
}

// restore makes the documents that a case names what they were.
func (w world) restore(a attempt) {
	w.t.Helper()
	was := map[string]write{}
	for _, made := range w.c.world() {
		was[made.path()] = made
	}
	var writes []write
	for _, write := range slices.Concat(a.before, a.writes) {
		if made, ok := was[write.path()]; ok {
			writes = append(writes, made)
		} else {
			writes = append(writes, write.removal())
		}
	}
	if status, answer := w.p.commit(w.t, owner, writes); status != http.StatusOK {
		w.t.Fatalf("%s: can't restore the documents: %s", a.name, answer)
	}
}

// begin writes what the user had written before.
func (w world) begin(a attempt) {
	w.t.Helper()
	if a.before == nil {
		return
	}
	if status, answer := w.p.commit(w.t, a.user, a.before); status != http.StatusOK {
		w.t.Errorf("%s: what comes before is refused: %s", a.name, answer)
	}
}

func (w world) try(a attempt) (status int, answer string) {
	w.t.Helper()
	if a.get != "" {
		return w.p.do(w.t, a.user, "GET", "/v1/"+w.p.root()+"/"+a.get, nil)
	}
	return w.p.commit(w.t, a.user, a.writes)
}

func wanted(allowed bool) int {
	if allowed {
		return http.StatusOK
	}
	return http.StatusForbidden
}

// uncounted is what the shards hold beyond one for each membership, and for each request of a
// client that names them. It is the same before and after whatever clients do. One shard is full,
// so it wraps.
func (w world) uncounted() (sum int64) {
	w.t.Helper()
	for _, tree := range []string{counter, post} {
		for _, shard := range w.p.documents(w.t, tree+"/shards") {
			for _, field := range []string{"count", "likes", "bookmarks", "views"} {
				text, ok := shard[field]["integerValue"].(string)
				if !ok {
					continue
				}
				n, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					w.t.Fatal(err)
				}
				sum += n
			}
		}
	}
	for _, members := range []string{counter + "/total_members", post + "/likes_members", post + "/bookmarks_members"} {
		sum -= int64(len(w.p.documents(w.t, members)))
	}
	for _, request := range w.p.documents(w.t, "counter_requests") {
		if strings.Contains(asJSON(w.t, request), "/shards/") {
			sum--
		}
	}
	return sum
}

// withBlocks adds blocks to rules.
func withBlocks(rules, blocks string) string {
	end := strings.LastIndex(rules, "  }\n}")
	return rules[:end] + blocks + rules[end:]
}
