package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/googleapis/gax-go/v2"
	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// unread are those of the counters that the client hasn't read within Config.CacheTTL, each once.
func (c *Client) unread(counters []string) (unread []string) {
	for _, id := range counters {
		if _, known := c.counters.within(c.cfg.CacheTTL, id); !known {
			unread = append(unread, id)
		}
	}
	slices.Sort(unread)
	return slices.Compact(unread)
}

// resolve looks up counters that the client doesn't know, and returns those that don't exist, or are being deleted.
// While the budget has no reads for it, or many others are looked up, what is known is trusted for longer than
// Config.CacheTTL. Others wait for their look then, or without reads the error is an [ErrBusy]: a [ceiling.ShortError].
func (c *Client) resolve(ctx context.Context, counters ...string) (missing []string, err error) {
	unknown, ended := c.unread(counters), c.waitTimer.forCall(ctx)
	never := slices.DeleteFunc(slices.Clone(unknown), c.counters.Contains)
	someKnown := len(never) < len(unknown)
	there, err := c.lookups.wait(ctx, ended, unknown, someKnown)
	if _, short := errors.AsType[*ceiling.ShortError](err); someKnown && (short || errors.Is(err, errManyLookedUp)) {
		unknown = never
		there, err = c.lookups.wait(ctx, ended, unknown, false)
	}
	if err != nil {
		return nil, err
	}
	for _, id := range unknown {
		if !there[id] {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

// lookUpPages is how many pages of counters share a look, which takes some 300 ms then.
const lookUpPages = 10

// lookUpPage is how many documents a look reads at a time. The app's own may have a megabyte each.
func (c *Client) lookUpPage() int {
	if c.db.Layout.Hosted {
		return 20
	}
	return 500
}

// lookUpCounters tells which counters are there. Several calls share it, so that no caller's context ends it.
func (c *Client) lookUpCounters(counters []string) (there map[string]bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()
	there = make(map[string]bool, len(counters))
	for page := range slices.Chunk(counters, c.lookUpPage()) {
		snapshots, err := c.read(ctx, page...)
		pauses := store.Pauses() // reads repeat what fails, but not this: a quota may have room again
		for try := 1; status.Code(err) == codes.ResourceExhausted && try < maxFailures && gax.Sleep(ctx, pauses.Pause()) == nil; try++ {
			snapshots, err = c.read(ctx, page...)
		}
		if err != nil {
			return nil, err
		}
		for i, s := range snapshots {
			there[page[i]] = s != nil
		}
	}
	return there, nil
}

// read reads counters' documents, and remembers them; nil is one that doesn't exist, or is being
// deleted.
func (c *Client) read(ctx context.Context, counters ...string) ([]*Snapshot, error) {
	names := make([]string, len(counters))
	for i, id := range counters {
		names[i] = c.db.Layout.Counter(id)
	}
	began := time.Now()
	docs, _, err := c.db.Get(ctx, names...)
	if err != nil {
		return nil, err
	}
	others, err := c.books.CheckOurs(ctx, counters, docs)
	if err != nil {
		return nil, err
	}
	snapshots := make([]*Snapshot, len(counters))
	for i, doc := range docs {
		s, err := c.snapshotOf(counters[i], doc)
		if err != nil {
			c.counters.Remove(counters[i])
			continue
		}
		s.others = others[i]
		c.counters.put(s, began)
		snapshots[i] = &s
	}
	return snapshots, nil
}

// checkOurs is an [ErrOthers] if one of the counters is counted with other settings, as far as is known.
func (c *Client) checkOurs(counters []string) error {
	for _, id := range counters {
		if known, ok := c.counters.Peek(id); ok && known.others != nil {
			return known.others
		}
	}
	return nil
}

// readExisting reads the book of a counter whose document must be there, and other documents, all as of one
// time.
func (c Counter) readExisting(ctx context.Context, from book.Reader, others ...string) (snapshot Snapshot, b *book.Book, docs book.Shards, err error) {
	books, docs, err := c.client.books.Get(ctx, from, []string{c.id}, others...)
	if err != nil {
		return snapshot, nil, nil, err
	}
	if err = books[0].CheckOurs(); err == nil && books[0].Deleting() {
		err = ErrNotFound
	}
	if err == nil {
		snapshot, err = c.client.snapshotOf(c.id, books[0].Doc)
	}
	return snapshot, books[0], docs, err
}

func (c Counter) shardName(id string) string { return c.client.db.Layout.Shard(c.id, id) }

// shards reads the counter's shards as they were at a time; the zero time is now.
func (c Counter) shards(ctx context.Context, at time.Time) (book.Shards, error) {
	return c.client.books.Shards(ctx, c.client.db, c.id, at)
}

// fieldsWithMembers are fields that may have members: those shown, and, because another revision may show others, those
// in the base and the shards. Memberships that stayed would keep the next life's members from joining.
func (c Counter) fieldsWithMembers(shards book.Shards, b *book.Book) layout.Fields {
	shardFields := maps.Clone(b.Base.Counts)
	if shardFields == nil {
		shardFields = map[string]int64{}
	}
	for _, shard := range shards {
		for name, value := range shard.GetFields() {
			if _, ok := store.Integer(value); ok && layout.MayCount(name) {
				shardFields[name] = 0
			}
		}
	}
	fields := c.client.db.Layout.Sharded.Named()
	for _, name := range slices.Sorted(maps.Keys(shardFields)) {
		if layout.MayCount(name) && !slices.ContainsFunc(fields, func(f layout.Field) bool { return f.Name == name }) {
			fields = append(fields, layout.Field{Name: name, Shard: name})
		}
	}
	return fields
}

// markersThere reads, at one time, the requests' markers and memberships, and other markers, and then the entries of
// holds that have no membership. It returns those that exist, by the names that [request.writtenOnce] gives them. It
// takes from promised what it reads, so that others don't see it spent twice meanwhile.
func (c *Client) markersThere(ctx context.Context, promised *ceiling.Amounts, requests []*request, others ...string) (map[string]marker, error) {
	found := map[string]marker{}
	read := func(ids []string, n int) error {
		paid := min(float64(n), promised[ceiling.Reads])
		promised[ceiling.Reads] -= paid
		names := make([]string, len(ids))
		for i, id := range ids {
			names[i] = markerName(c.db.Layout, id)
		}
		docs, at, err := c.db.Promised(paid).Get(ctx, names...)
		for i, doc := range docs {
			if doc != nil {
				found[ids[i]] = decodeMarker(doc, at)
			}
		}
		return err
	}
	ids := others
	for _, r := range requests {
		if once := r.writtenOnce(); len(once) > 0 {
			ids = append(ids, once[0])
		}
	}
	if err := read(ids, len(ids)-len(others)); err != nil {
		return nil, err
	}
	var entries []string
	for _, r := range requests {
		if once := r.writtenOnce(); len(once) > 1 {
			if _, there := found[once[0]]; !there {
				entries = append(entries, once[1])
			}
		}
	}
	return found, read(entries, len(entries))
}

// cachedCounters is how many counters a client remembers. One takes about 200 bytes.
const cachedCounters = 10_000

// cache is what a client remembers of counters that it has read lately.
type cache struct{ *lru.Cache[string, cached] }

// cached is a counter's document as it was read last.
type cached struct {
	Snapshot
	// When the read began: it may lack what was written since.
	read time.Time
}

func newCache() cache { return cache{newLRU[string, cached](cachedCounters)} }

// put remembers a counter whose read began then, unless a later read is known. If two calls come at once, the older
// read may stay. That does no harm: it expires sooner.
func (c cache) put(snapshot Snapshot, began time.Time) {
	if known, ok := c.Peek(snapshot.Counter); !ok || !began.Before(known.read) {
		c.Add(snapshot.Counter, cached{Snapshot: snapshot, read: began})
	}
}

// within is a counter that was read within ttl.
func (c cache) within(ttl time.Duration, counter string) (known cached, ok bool) {
	known, ok = c.Get(counter)
	return known, ok && time.Since(known.read) <= ttl
}

// errManyLookedUp says that the next look is for as many counters as it may be for: no caller waits for a later one for
// what is known.
var errManyLookedUp = errors.New("many other counters are looked up")

// readsAtOnce is how many reads of unknown counters are under way at once.
const readsAtOnce = 4

// lookups find out which counters exist, many in one read. A call that comes after a read has begun waits for the next
// read, because somebody may have made the counter meanwhile. The first of those that wait for a counter is promised
// what the read takes of the budget.
type lookups struct {
	read   func(counters []string) (there map[string]bool, err error)
	budget *ceiling.Budget
	most   int // counters in one read, but for those of a single call: others wait for all of them

	mu      sync.Mutex
	waiting []*lookup // have not begun, in their order: there is a second one where the first has no room
	reading int
}

// lookup is a read of some counters.
type lookup struct {
	done     chan struct{}   // closed once the rest is known
	there    map[string]bool // :: counter → whether it is there
	promised ceiling.Amounts // until it has been read
	err      error
}

// wait waits until it is known which of the counters are there, or until ctx ends or ended is closed. With soon it
// returns errManyLookedUp instead of waiting for a later read than the next one. Other errors: a [ceiling.ShortError],
// and those of a read.
func (l *lookups) wait(ctx context.Context, ended <-chan struct{}, counters []string, soon bool) (there map[string]bool, err error) {
	if err := ctx.Err(); err != nil || len(counters) == 0 {
		return nil, err
	}
	next, err := l.join(ctx, counters, soon)
	if err != nil {
		return nil, err
	}
	select {
	case <-next.done:
		return next.there, next.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-ended:
		return nil, context.DeadlineExceeded
	}
}

// join has the first read that has room look up counters, or with soon the next one.
func (l *lookups) join(ctx context.Context, counters []string, soon bool) (*lookup, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, others := 0, 0
	for ; at < len(l.waiting); at++ {
		var fits bool
		if others, fits = l.waiting[at].others(counters, l.most); fits {
			break
		}
		if soon {
			return nil, errManyLookedUp
		}
	}
	next := &lookup{done: make(chan struct{}), there: map[string]bool{}}
	if at < len(l.waiting) {
		next = l.waiting[at]
	} else {
		others = len(counters)
	}
	reads := ceiling.Amounts{ceiling.Reads: float64(book.Reads * others)}
	if wait := l.budget.PromiseOrOwe(ctx, reads, ceiling.Amounts{ceiling.Reads: book.Reads}); wait > 0 { // of one counter
		return nil, fmt.Errorf("%w: %w", ErrBusy, &ceiling.ShortError{Wait: wait, For: "counters that were not used lately"})
	}
	next.promised = next.promised.Plus(reads)
	for _, id := range counters {
		next.there[id] = false
	}
	if at == len(l.waiting) {
		l.waiting = append(l.waiting, next)
	}
	if l.reading < readsAtOnce {
		l.reading++
		go l.run()
	}
	return next, nil
}

// others is how many of the counters the read isn't to look up yet, and whether it has room for them.
func (l *lookup) others(counters []string, most int) (n int, fit bool) {
	for _, id := range counters {
		if _, joined := l.there[id]; !joined {
			if n++; len(l.there)+n > most {
				return n, false
			}
		}
	}
	return n, true
}

// run reads as long as there is something to read.
func (l *lookups) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) > 0 {
		begun := l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		l.mu.Unlock()
		begun.there, begun.err = l.read(slices.Collect(maps.Keys(begun.there)))
		l.budget.Release(begun.promised)
		close(begun.done)
		l.mu.Lock()
	}
	l.reading--
}
