package simulation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/store"
)

// commit sends a commit as another program does, once.
func (w *world) commit(l *link, writes ...*firestorepb.Write) error {
	conn, err := l.connect(w.dial)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = firestorepb.NewFirestoreClient(conn).Commit(ctx, &firestorepb.CommitRequest{Database: database, Writes: writes})
	return err
}

// database is what names of documents begin with, and below is the public layout, as other clients
// have it in their code.
const database = "projects/" + project + "/databases/(default)"

func counterName(id string) string { return database + "/documents/" + counterPath(id) }

func shardName(id string, n int) string { return counterName(id) + "/shards/" + strconv.Itoa(n) }

// notesOf is how names of the notes begin of counters at a path, below the database. The names of its wildcards don't
// count.
func notesOf(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = "{}"
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "/") + "/shards"))
	return "counter_rollup/" + hex.EncodeToString(sum[:]) + "/counter_notes/"
}

// damage has something else write in a base that it is of a format that nobody reads, and sets that
// right later: until then none of its counter's events can be counted.
func (w *world) damage(ctx context.Context, r *rand.Rand) {
	id := w.any(r)
	if id == "" {
		return
	}
	l := newLink(w.plan.Seed, "damage")
	format := func(n int64) error {
		return w.commit(l, store.Update(counterName(id)+"/counter_rollup/base", store.Exists(true), map[string]*firestorepb.Value{"format": store.Int(n)}, nil))
	}
	if format(99) != nil {
		return // it has none
	}
	w.rec.fault("damaged base")
	sleep(ctx, between(r, time.Minute, 20*time.Minute))
	for err := format(2); err != nil && status.Code(err) != codes.NotFound; err = format(2) {
		time.Sleep(time.Second)
	}
}

// snippet increments a shard as Google's snippets do: the first that comes to mind.
func (w *world) snippet(r *rand.Rand, add Add, intent int, by *firestorepb.Value) {
	if w.plan.Limits && add.Field == "likes" { // whose shards nobody else writes
		w.increment(r, []Add{add}, intent, "")
		return
	}
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

// Odd is something else than the system writing what is no integer to a shard.
type Odd struct{ Counter, Field string }

// whole reports whether a field holds an integer, be it as a double.
func whole(v *firestorepb.Value) bool {
	switch n := v.GetValueType().(type) {
	case *firestorepb.Value_IntegerValue:
		return true
	case *firestorepb.Value_DoubleValue:
		return n.DoubleValue == math.Trunc(n.DoubleValue) && math.Abs(n.DoubleValue) < 1<<53
	}
	return false
}

func isDouble(v *firestorepb.Value) bool {
	_, is := v.GetValueType().(*firestorepb.Value_DoubleValue)
	return is
}

var null = &firestorepb.Value{ValueType: &firestorepb.Value_NullValue{}}

// oddWrite has a client write to a shard what is no integer: a text, null, or a fraction, which may
// be an increment. Later increments by others make a text an integer again, and a fraction never.
func (w *world) oddWrite(r *rand.Rand, id string) {
	fields := w.plan.Fields()
	field := fields[r.IntN(len(fields))]
	w.rec.add(Odd{Counter: id, Field: field})
	w.rec.fault("no integer")
	field = cmp.Or(field, "count")
	name := shardName(id, r.IntN(3))
	value := []*firestorepb.Value{
		store.String("many"), null, store.Double(float64(r.IntN(9)) + 0.5), nil,
		store.Int(0),                                          // as one is told to mend it
		store.Double(float64(1<<53 - r.IntN(3))),              // from 2⁵³ on it may stand for another
		store.Double(float64(r.IntN(9) << w.plan.firstBit())), // whole
		store.Double(math.NaN()), store.Double(math.Inf(1)),
		store.Int(math.MaxInt64 - int64(r.IntN(9))), store.Int(math.MinInt64 + int64(r.IntN(9))),
	}[r.IntN(11)]
	write := store.Update(name, store.Exists(true), map[string]*firestorepb.Value{field: value}, nil)
	if value == nil {
		write = store.Update(name, store.Exists(true), nil, nil, &firestorepb.DocumentTransform_FieldTransform{
			FieldPath:     field,
			TransformType: &firestorepb.DocumentTransform_FieldTransform_Increment{Increment: store.Double(1.0 / 1024)}, // so that no few of them are an integer again
		})
	}
	_ = w.commit(newLink(w.plan.Seed, "odd"), write)
}

// oddShard has a client make a shard of a counter that is there, such as one that a resize has removed,
// with what is no integer.
func (w *world) oddShard(r *rand.Rand, id string, n int) {
	fields := w.plan.Fields()
	odd := fields[r.IntN(len(fields))]
	w.rec.add(Odd{Counter: id, Field: odd})
	w.rec.fault("no integer in a shard made again")
	values := map[string]*firestorepb.Value{}
	for _, field := range fields {
		values[cmp.Or(field, "count")] = store.Int(0)
	}
	values[cmp.Or(odd, "count")] = []*firestorepb.Value{store.String("many"), null, store.Double(0.5)}[r.IntN(3)]
	_ = w.commit(newLink(w.plan.Seed, "odd"), store.Update(counterName(id), store.Exists(true), nil, nil), store.Create(shardName(id, n), values))
}

// createBySnippet makes a counter as Google's Web and Node.js snippets do, whether there was one or
// not.
func (w *world) createBySnippet(r *rand.Rand, id string) {
	l := w.newLink("snippet")
	defer w.forget(l)
	call := w.begin(Begin{Kind: Snippet, Counter: id})
	defer func() {
		w.sleep(longestLate + time.Minute) // until what is late has come
		w.rec.add(End{Call: call, Outcome: Unknown})
	}()
	n := 3 + r.IntN(3)
	if r.IntN(3) == 0 { // as the Python, Go, C# and Ruby snippets do: shards one by one, and no counter
		for i := range n {
			_ = w.commit(l, &firestorepb.Write{Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{
				Name: shardName(id, i), Fields: map[string]*firestorepb.Value{"count": store.Int(0)},
			}}})
		}
		return
	}
	writes := []*firestorepb.Write{store.Create(counterName(id), map[string]*firestorepb.Value{"num_shards": store.Int(int64(n))})}
	for i := range n {
		writes = append(writes, &firestorepb.Write{Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{
			Name: shardName(id, i), Fields: map[string]*firestorepb.Value{"count": store.Int(0)},
		}}})
	}
	_ = w.commit(l, writes...)
}

// removeByHand deletes a counter's document in the console, and leaves everything below it; or,
// where nobody is a member, all of it one by one, the document first, as Google's tools do.
// Sometimes somebody ends its life then.
func (w *world) removeByHand(r *rand.Rand, id string) {
	l := newLink(w.plan.Seed, "hand")
	kind := DeleteDocument
	if !w.plan.Hosted && w.plan.Members == 0 && r.IntN(2) == 0 {
		kind = DeleteByHand
	}
	call := w.begin(Begin{Kind: kind, Counter: id})
	_ = w.commit(l, store.Delete(counterName(id)))
	if kind == DeleteByHand {
		for n := range 8 {
			w.sleep(between(r, time.Millisecond, time.Second))
			_ = w.commit(l, store.Delete(shardName(id, n)))
			if w.plan.Limits {
				_ = w.commit(l, store.Delete(counterName(id)+"/shards/likes~"+strconv.Itoa(n)), store.Delete(counterName(id)+"/shards/likes~"+strconv.Itoa(n+8)))
			}
		}
		_ = w.commit(l, store.Delete(counterName(id)+"/counter_rollup/base"))
	}
	w.rec.add(End{Call: call, Outcome: OK})
	longest := time.Minute
	if w.plan.Hosted { // and most often comes back before what is below it is removed
		longest = 6 * time.Hour
	}
	ends := r.IntN(4) == 0
	if w.sleep(between(r, time.Millisecond, longest)); ends {
		w.delete(r, id)
	}
}

// writeTotal writes some total, as a blind trigger would that runs beside.
func (w *world) writeTotal(r *rand.Rand) {
	id := w.any(r)
	if id == "" {
		return
	}
	fields := w.plan.Fields()
	for _, f := range w.plan.Counted {
		fields = append(fields, f.Name)
	}
	field := fields[r.IntN(len(fields))]
	w.rec.add(Foreign{Counter: id, Field: field})
	field = cmp.Or(field, "total")
	_ = w.commit(newLink(w.plan.Seed, "foreign"),
		store.Update(counterName(id), store.Exists(true), map[string]*firestorepb.Value{field: store.Int(r.Int64N(100))}, nil))
}
