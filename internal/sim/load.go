package sim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/shards"
)

// load is who uses the counters, and what they know of them.
type load struct {
	mu       sync.Mutex
	subjects []*subject // in use
	made     int
	intents  int
}

// subject is a counter in use.
type subject struct {
	id   string
	bits int // that were given out
}

// inUse is how many counters are in use at a time, and mostBits how many increments name themselves by one of them: then
// it is deleted, and another one takes its place.
const (
	inUse    = 3
	mostBits = 60
)

func (l *load) some(r *rand.Rand) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for _, s := range l.subjects {
		if r.IntN(2) == 0 {
			ids = append(ids, s.id)
		}
	}
	if len(ids) == 0 && len(l.subjects) > 0 {
		ids = append(ids, l.subjects[0].id)
	}
	return ids
}

// take gives an increment of n counters out, and tells which counters are new, and which are worn out.
func (w *world) take(r *rand.Rand, n int) (adds []Add, intent int, fresh, worn []string) {
	l := &w.load
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.subjects) < inUse {
		l.made++
		s := &subject{id: "plain-" + strconv.Itoa(l.made)}
		if w.plan.Named {
			s.id = "named-" + strconv.Itoa(l.made)
		}
		l.subjects = append(l.subjects, s)
		fresh = append(fresh, s.id)
	}
	for _, at := range r.Perm(len(l.subjects))[:n] {
		s := l.subjects[at]
		by := 1 + r.Int64N(9)
		if w.plan.Named {
			by = 1 << s.bits
		}
		which := 0
		if w.plan.Likes {
			which = r.IntN(3)
		}
		if which != 1 {
			adds = append(adds, Add{Counter: s.id, By: by})
		}
		if which != 0 {
			adds = append(adds, Add{Counter: s.id, Field: "likes", By: by})
		}
		s.bits++
	}
	for at := len(l.subjects) - 1; at >= 0 && w.plan.Named; at-- {
		if s := l.subjects[at]; s.bits >= mostBits {
			worn = append(worn, s.id)
			l.subjects = append(l.subjects[:at], l.subjects[at+1:]...)
		}
	}
	l.intents++
	return adds, l.intents, fresh, worn
}

// operate begins one operation.
func (w *world) operate(all *sync.WaitGroup, number uint64) {
	r := dice(w.plan.Seed, "operation", number)
	m := w.plan.Mix
	x := r.Float64() * (m.Add + m.Key + m.Bulk + m.Snippet + m.Exact + m.Read + m.Resize + m.Reset + m.Rebase + m.Delete + m.ByHand + m.Rival + m.Large + m.Double)
	is := func(weight float64) bool { x -= weight; return x < 0 }
	n := 1
	increments := true
	var do func(adds []Add, intent int)
	switch {
	case is(m.Add):
		do = func(adds []Add, intent int) { w.increment(r, adds, intent, "") }
	case is(m.Key):
		do = func(adds []Add, intent int) { w.insist(all, r, adds, intent) }
	case is(m.Bulk):
		n = 2 + r.IntN(2)
		keyed := r.IntN(2) == 0
		do = func(adds []Add, intent int) {
			if keyed {
				w.insist(all, r, adds, intent)
			} else {
				w.increment(r, adds, intent, "")
			}
		}
	case is(m.Double) && !w.plan.Named: // a double has no more than 53 bits
		do = func(adds []Add, intent int) { w.snippet(r, adds[0], intent, store.Double(float64(adds[0].By))) }
	case is(m.Snippet):
		do = func(adds []Add, intent int) { w.snippet(r, adds[0], intent, store.Int(adds[0].By)) }
	default:
		increments = false
		id := w.any(r)
		if id == "" {
			return
		}
		switch {
		case is(m.Exact):
			all.Go(func() { w.read(r, id, ExactRead) })
		case is(m.Read):
			all.Go(func() { w.read(r, id, Read) })
		case is(m.Resize):
			all.Go(func() {
				w.command(r, Resize, id, func(ctx context.Context, c shards.Counter) error { return c.Resize(ctx, 1+r.IntN(8), nil) })
			})
		case is(m.Reset):
			all.Go(func() {
				w.command(r, Reset, id, func(ctx context.Context, c shards.Counter) error { return c.Reset(ctx, shards.ResetOptions{}) })
			})
		case is(m.Rebase):
			all.Go(func() {
				w.command(r, Rebase, id, func(ctx context.Context, c shards.Counter) error { return c.Rebase(ctx, r.Int64N(1000)) })
			})
		case is(m.Large):
			all.Go(func() { w.large(all, number) })
		case is(m.Delete):
			all.Go(func() { w.remove(r, id); w.create(r, id) })
		case is(m.ByHand):
			all.Go(func() { w.removeByHand(r, id); w.create(r, id) })
		default:
			all.Go(func() { w.create(r, id) })
			all.Go(func() { w.remove(dice(w.plan.Seed, "rival", number), id) })
			all.Go(func() { w.create(dice(w.plan.Seed, "rival", number+1), id) })
		}
	}
	if !increments {
		return
	}
	adds, intent, fresh, worn := w.take(r, n)
	all.Go(func() {
		for i, id := range fresh {
			w.create(dice(w.plan.Seed, "fresh", number+uint64(i)), id)
		}
		do(adds, intent)
	})
	for i, id := range worn {
		all.Go(func() {
			r := dice(w.plan.Seed, "worn", number+uint64(i))
			if w.sleep(between(r, time.Minute, 20*time.Minute)) {
				w.remove(r, id)
			}
		})
	}
}

func (w *world) any(r *rand.Rand) string {
	w.load.mu.Lock()
	defer w.load.mu.Unlock()
	if len(w.load.subjects) == 0 {
		return ""
	}
	return w.load.subjects[r.IntN(len(w.load.subjects))].id
}

// begin records the begin of a call, and returns its number.
func (w *world) begin(b Begin) int {
	b.Call = int(w.calls.Add(1))
	w.rec.add(b)
	return b.Call
}

// insist sends an increment under a key, again and again until an answer says what became of it, sometimes twice at a
// time, and sometimes once more, hours later.
func (w *world) insist(all *sync.WaitGroup, r *rand.Rand, adds []Add, intent int) {
	key := "key-" + strconv.Itoa(intent)
	if r.IntN(5) == 0 {
		r := rand.New(rand.NewPCG(r.Uint64(), 0))
		all.Go(func() { w.increment(r, adds, intent, key) })
	}
	for range 8 {
		out := w.increment(r, adds, intent, key)
		if (out == OK || out == Replayed) && r.IntN(3) > 0 {
			break
		}
		if !w.sleep(between(r, time.Second, time.Minute)) {
			return
		}
	}
	if r.IntN(4) == 0 && w.sleep(between(r, time.Minute, 20*time.Hour)) {
		w.increment(r, adds, intent, key)
	}
}

// increment asks a function for an increment, once.
func (w *world) increment(r *rand.Rand, adds []Add, intent int, key string) Outcome {
	to := w.increments.pick(r)
	call := w.begin(Begin{Kind: Increment, Intent: intent, Adds: adds})
	var list []map[string]any // by counter
	for i, a := range adds {
		if i == 0 || adds[i-1].Counter != a.Counter {
			list = append(list, map[string]any{"counter": a.Counter})
		}
		one := list[len(list)-1]
		switch by, several := one["by"].(map[string]int64); {
		case !w.plan.Likes:
			one["by"] = a.By
		case several:
			by[cmp.Or(a.Field, "total")] = a.By
		default:
			one["by"] = map[string]int64{cmp.Or(a.Field, "total"): a.By}
		}
	}
	path, body := "/", any(map[string]any{"increments": list})
	if len(list) == 1 {
		path, body = "/"+adds[0].Counter, map[string]any{"by": list[0]["by"]}
	}
	patience := time.Minute
	if r.IntN(5) == 0 {
		patience = between(r, 10*time.Millisecond, time.Minute)
	}
	var answer struct {
		Replayed bool
		Detail   string
	}
	end := End{Call: call, Outcome: Unknown}
	code, err := w.request(to, http.MethodPost, path, key, body, patience, &answer)
	switch {
	case err != nil:
		end.Detail = err.Error()
	case code == http.StatusOK && answer.Replayed:
		end.Outcome = Replayed
	case code == http.StatusOK:
		end.Outcome = OK
	case code == http.StatusUnprocessableEntity:
		w.rec.add(Stuck{What: "a key was refused as another request's"})
	case code != http.StatusGatewayTimeout:
		end.Outcome, end.Detail = Refused, fmt.Sprint(code, " ", answer.Detail)
	}
	w.rec.add(end)
	return end.Outcome
}

func (w *world) read(r *rand.Rand, id string, kind Kind) {
	to := w.increments.pick(r)
	call := w.begin(Begin{Kind: kind, Counter: id})
	path := "/" + id
	if kind == ExactRead {
		path += "?exact=true"
	}
	var answer struct {
		Total  int64
		Totals map[string]int64
	}
	code, err := w.request(to, http.MethodGet, path, "", nil, time.Minute, &answer)
	end := End{Call: call, Outcome: Unknown}
	switch {
	case err != nil:
	case code == http.StatusOK:
		if w.plan.Likes && answer.Totals == nil { // of the older revision
			w.rec.add(end)
			return
		}
		end.Outcome, end.Total, end.Totals = OK, answer.Total, answer.Totals
	case code == http.StatusNotFound:
		end.Outcome, end.Missing = OK, true
	}
	w.rec.add(end)
}

// command runs a command of the command line, in a process of its own that may crash.
func (w *world) command(r *rand.Rand, kind Kind, id string, do func(context.Context, shards.Counter) error) {
	l := w.newLink("command")
	i, err := newIncrement(w.server, l, w.settings)
	if err != nil {
		w.rec.add(Stuck{What: err.Error()})
		return
	}
	call := w.begin(Begin{Kind: kind, Counter: id})
	counter, err := i.client.Counter(id)
	if err != nil {
		w.rec.add(Stuck{What: err.Error()})
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	crash := time.Duration(1<<62 - 1)
	if w.plan.Crashes > 0 && r.IntN(5) == 0 {
		crash = between(r, time.Millisecond, time.Second)
	}
	done := make(chan error, 1)
	go func() { done <- do(ctx, counter) }() // which draws from r, too
	end := End{Call: call, Outcome: Unknown}
	select {
	case err = <-done:
		switch {
		case err == nil:
			end.Outcome = OK
		case errors.Is(err, shards.ErrNotFound), errors.Is(err, shards.ErrExists), errors.Is(err, shards.ErrNoLedger):
			end.Outcome = Refused
		}
	case <-time.After(crash):
		l.kill()
		<-done
	}
	w.rec.add(end)
	i.end()
	w.forget(l)
}

func (w *world) remove(r *rand.Rand, id string) {
	if w.plan.Hosted {
		w.removeByHand(r, id)
		return
	}
	w.command(r, Delete, id, func(ctx context.Context, c shards.Counter) error { return c.Delete(ctx) })
}

// create makes a counter, by the command line or as a public snippet does; sometimes two do it at a time.
func (w *world) create(r *rand.Rand, id string) {
	if w.plan.Hosted {
		w.write(r, id, nil, store.Exists(false), nil)
		return
	}
	if w.plan.Mix.Snippet > 0 && r.IntN(3) == 0 {
		w.createBySnippet(r, id)
		return
	}
	again := 1
	if w.plan.Mix.Rival > 0 {
		again = 2
	}
	var both sync.WaitGroup
	for range again {
		r := rand.New(rand.NewPCG(r.Uint64(), 0))
		both.Go(func() {
			w.command(r, Create, id, func(ctx context.Context, c shards.Counter) error {
				return c.Create(ctx, shards.CreateOptions{Shards: 1 + r.IntN(5)})
			})
		})
	}
	both.Wait()
}

// large is the life of a counter of so many shards that its deletion takes several commits, which two people begin, while
// a third makes it again.
func (w *world) large(all *sync.WaitGroup, number uint64) {
	r := dice(w.plan.Seed, "large", number)
	id := "named-large-" + strconv.FormatUint(number, 36)
	create := func(r *rand.Rand) {
		w.command(r, Create, id, func(ctx context.Context, c shards.Counter) error {
			return c.Create(ctx, shards.CreateOptions{Shards: 501 + r.IntN(100)})
		})
	}
	create(r)
	for n := range 12 {
		w.load.mu.Lock()
		w.load.intents++
		intent := w.load.intents
		w.load.mu.Unlock()
		w.increment(r, []Add{{Counter: id, By: 1 << n}}, intent, "")
		if n != 6 {
			continue
		}
		for rival := range uint64(2) {
			all.Go(func() { w.remove(dice(w.plan.Seed, "large rival", number+rival), id) })
		}
		w.sleep(between(r, time.Millisecond, 10*time.Second))
		create(r)
	}
	w.remove(r, id)
}

// commit sends a commit as another program does, once.
func (w *world) commit(l *link, writes ...*firestorepb.Write) error {
	conn, err := l.connect(w.server)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = firestorepb.NewFirestoreClient(conn).Commit(ctx, &firestorepb.CommitRequest{Database: database, Writes: writes})
	return err
}

// database is what names of documents begin with, and below is the public layout, as other clients have it in their code.
const database = "projects/" + project + "/databases/(default)"

func counterName(id string) string { return database + "/documents/counters/" + id }

func shardName(id string, n int) string { return counterName(id) + "/shards/" + strconv.Itoa(n) }

// snippet increments a shard as Google's snippets do: the first that comes to mind.
func (w *world) snippet(r *rand.Rand, add Add, intent int, by *firestorepb.Value) {
	l := w.newLink("snippet")
	defer w.forget(l)
	call := w.begin(Begin{Kind: Increment, Intent: intent, Adds: []Add{add}})
	err := w.commit(l, store.Update(shardName(add.Counter, r.IntN(3)), store.Exists(true), nil, nil,
		&firestorepb.DocumentTransform_FieldTransform{
			FieldPath:     cmp.Or(add.Field, "count"),
			TransformType: &firestorepb.DocumentTransform_FieldTransform_Increment{Increment: by},
		}))
	end := End{Call: call, Outcome: Unknown}
	switch status.Code(err) {
	case codes.OK:
		end.Outcome = OK
	case codes.NotFound, codes.Aborted:
		end.Outcome, end.Detail = Refused, err.Error()
	}
	w.rec.add(end)
}

// createBySnippet makes a counter as Google's Web and Node.js snippets do, whether there was one or not.
func (w *world) createBySnippet(r *rand.Rand, id string) {
	l := w.newLink("snippet")
	defer w.forget(l)
	call := w.begin(Begin{Kind: Reset, Counter: id}) // it sets to zero what is there
	n := 3 + r.IntN(3)
	if r.IntN(3) == 0 { // as the Python, Go, C# and Ruby snippets do: shards one by one, and no counter
		made := w.begin(Begin{Kind: MakeShards, Counter: id})
		for i := range n {
			_ = w.commit(l, &firestorepb.Write{Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{
				Name: shardName(id, i), Fields: map[string]*firestorepb.Value{"count": store.Int(0)},
			}}})
		}
		w.sleep(longestLate + time.Minute) // until what is late has come
		w.rec.add(End{Call: made, Outcome: OK})
		w.rec.add(End{Call: call, Outcome: Unknown})
		return
	}
	writes := []*firestorepb.Write{store.Create(counterName(id), map[string]*firestorepb.Value{"num_shards": store.Int(int64(n))})}
	for i := range n {
		writes = append(writes, &firestorepb.Write{Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{
			Name: shardName(id, i), Fields: map[string]*firestorepb.Value{"count": store.Int(0)},
		}}})
	}
	_ = w.commit(l, writes...)
	w.rec.add(End{Call: call, Outcome: Unknown})
}

// removeByHand deletes a counter's document in the console, and leaves everything below it; or all of it one by one, the
// document first, as Google's tools do.
func (w *world) removeByHand(r *rand.Rand, id string) {
	l := newLink(w.plan.Seed, "hand")
	call := w.begin(Begin{Kind: DeleteByHand, Counter: id})
	_ = w.commit(l, store.Delete(counterName(id)))
	if w.plan.Hosted { // and most often comes back before what is below it is removed
		w.rec.add(End{Call: call, Outcome: OK})
		w.sleep(between(r, time.Millisecond, 6*time.Hour))
		return
	}
	if r.IntN(2) == 0 {
		for n := range 8 {
			w.sleep(between(r, time.Millisecond, time.Second))
			_ = w.commit(l, store.Delete(shardName(id, n)))
		}
		_ = w.commit(l, store.Delete(counterName(id)+"/counter_rollup/ledger"))
	}
	w.rec.add(End{Call: call, Outcome: OK})
	w.sleep(between(r, time.Millisecond, time.Minute))
}

// writeTotal writes some total, as a blind trigger would that runs beside.
func (w *world) writeTotal(r *rand.Rand) {
	id := w.any(r)
	if id == "" {
		return
	}
	field := w.plan.Fields()[r.IntN(len(w.plan.Fields()))]
	w.rec.add(Foreign{Counter: id, Field: field})
	field = cmp.Or(field, "total")
	_ = w.commit(newLink(w.plan.Seed, "foreign"),
		store.Update(counterName(id), store.Exists(true), map[string]*firestorepb.Value{field: store.Int(r.Int64N(100))}, []string{field}))
}

// app does what an app does with its document: it edits it, sets it whole without what we keep in it, or writes back all that
// it has read before, stale totals and our map included.
func (w *world) app(r *rand.Rand) {
	id := w.any(r)
	if id == "" {
		return
	}
	switch r.IntN(4) {
	case 0:
		w.write(r, id, nil, store.Exists(true), nil)
	case 1:
		conn, err := newLink(w.plan.Seed, "app").connect(w.server)
		if err != nil {
			return
		}
		doc, err := firestorepb.NewFirestoreClient(conn).GetDocument(w.ctx, &firestorepb.GetDocumentRequest{Name: counterName(id)})
		conn.Close()
		if err != nil {
			return
		}
		w.sleep(between(r, time.Millisecond, time.Minute))
		w.write(r, id, doc.GetFields(), store.Exists(true), nil)
	default:
		w.write(r, id, nil, store.Exists(true), []string{"title"})
	}
}

// write is the app's own write: of the whole document, or of the fields in mask.
func (w *world) write(r *rand.Rand, id string, fields map[string]*firestorepb.Value, condition *firestorepb.Precondition, mask []string) {
	title := r.Int64()
	w.rec.add(AppWrites{Counter: id, Title: title})
	if mask == nil {
		for _, field := range w.plan.Fields() {
			w.rec.add(Foreign{Counter: id, Field: field})
		}
	}
	fields = maps.Clone(fields)
	if fields == nil {
		fields = map[string]*firestorepb.Value{}
	}
	fields["title"] = store.Int(title)
	write := store.Update(counterName(id), condition, fields, mask)
	if mask == nil {
		write.UpdateMask = nil // all of it
	}
	_ = w.commit(newLink(w.plan.Seed, "app"), write)
}

func newRequest(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var reader io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(b)
	}
	return http.NewRequestWithContext(ctx, method, "http://simulated"+path, reader)
}
