package book

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// at is a time in a test: n microseconds after some moment.
func at(n int) time.Time { return time.UnixMicro(1_800_000_000_000_000 + int64(n)).UTC() }

// What is written of a ledger is read again, whatever ids its shards have, whole or as a diff, and
// no id becomes a field name that Firestore refuses.
func TestLedgerRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.OneOf(rapid.StringN(1, 20, -1), rapid.StringMatching(`(__|\\|)[a-z0-9_\\]{1,6}(__)?`)).
			Filter(func(id string) bool { return !strings.Contains(id, "/") })
		times := rapid.Custom(func(t *rapid.T) time.Time { return time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "µs")).UTC() })
		counts := rapid.MapOf(rapid.SampledFrom([]string{"count", "likes", "views"}), rapid.Int64())
		answers := rapid.Custom(func(t *rapid.T) ledger.Answer {
			a := ledger.Answer{ReadTime: times.Draw(t, "read"), Odd: rapid.Bool().Draw(t, "odd")}
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				a.Value = rapid.Int64().Draw(t, "value")
			case 1:
				a.Value = rapid.Float64().Draw(t, "double")
			case 2:
				a.Value = ledger.None{}
			}
			return a
		})
		created := times.Draw(t, "created")
		want := &ledger.Ledger{
			States: map[string]ledger.Entry{}, Answers: rapid.MapOf(rapid.StringMatching(`[0-9a-f]{16}`), answers).Draw(t, "answers"),
			Base: counts.Draw(t, "base"), Replaced: counts.Draw(t, "replaced"), Flushes: rapid.Int64().Draw(t, "flushes"),
			Ops: map[string]time.Time{}, Imported: map[string]int64{}, Limits: counts.Draw(t, "limits"), Floor: created, Created: created, Updated: times.Draw(t, "updated"),
		}
		for id := range rapid.MapOf(ids, rapid.Bool()).Draw(t, "shards") {
			want.States[ledger.Key(id)] = ledger.Entry{AsOf: times.Draw(t, "as of"), Counts: counts.Draw(t, "counts")}
		}
		want.Sums = counts.Draw(t, "sums")
		fields := encode(want)
		setIntegers(fields, LedgerSums, want.Sums)
		age := rapid.SampledFrom([]time.Duration{0, restoredAfter, restoredAfter + time.Microsecond}).Draw(t, "made before")
		fields[LedgerMade], want.Restored = store.Time(created.Add(-age)), age > restoredAfter
		sign(fields, "shards") // as whoever writes that one does
		for key := range fields[LedgerStates].GetMapValue().GetFields() {
			if strings.HasPrefix(key, "__") && strings.HasSuffix(key, "__") {
				t.Fatalf("%q is a field name of Firestore's own", key)
			}
		}
		diff, removed := encodeDiff(ledger.Diff{States: want.States, Answers: want.Answers})
		if mask := store.Update("l", nil, diff, removed).GetUpdateMask().GetFieldPaths(); len(mask) != len(want.States)+len(want.Answers) {
			t.Fatalf("the mask is %q", mask)
		}
		maps.Copy(fields, diff)
		got, err := Decode("shards", &firestorepb.Document{Fields: fields, CreateTime: timestamppb.New(created), UpdateTime: timestamppb.New(want.Updated)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

// A field of another type than ours is damage, whichever it is: what was guessed made wrong totals.
func TestDecodeDamagedLedger(t *testing.T) {
	t.Parallel()
	fields := func() map[string]*firestorepb.Value {
		l := ledger.New([]ledger.State{{Shard: "0", Counts: ledger.Counts{"count": 5}, AsOf: at(1)}})
		l.Base["count"], l.Replaced = 3, map[string]int64{"total": 9}
		fields := encode(l)
		diff, _ := encodeDiff(ledger.Diff{Answers: map[string]ledger.Answer{"comments": {ReadTime: at(2), Value: int64(4)}}, Floor: at(9)})
		maps.Copy(fields, diff)
		fields[LedgerGone] = store.Time(at(5))
		fields[LedgerImported] = integers(map[string]int64{"source": 1})
		fields[LedgerOps] = store.Map(map[string]*firestorepb.Value{"id": store.Time(at(4))})
		return fields
	}
	l, err := Decode("shards", &firestorepb.Document{Fields: fields()})
	if err != nil || l.Imported["source"] != 1 || !l.Floor.Equal(at(9)) || !l.Ops["id"].Equal(at(4)) {
		t.Fatalf("decoded %+v, %v", l, err)
	}
	for name := range fields() {
		damaged := fields()
		damaged[name] = store.Double(0.5)
		if _, err := Decode("shards", &firestorepb.Document{Fields: damaged}); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, path := range [][]string{
		{LedgerStates, "0"}, {LedgerStates, "0", "as_of"}, {LedgerStates, "0", "counts"}, {LedgerStates, "0", "counts", "count"},
		{LedgerAnswers, "comments", "value"}, {LedgerAnswers, "comments", "read_time"}, {LedgerBase, "count"}, {LedgerOps, "id"}, {LedgerImported, "source"},
	} {
		damaged := fields()
		in := damaged
		for _, name := range path[:len(path)-1] {
			in = in[name].GetMapValue().GetFields()
		}
		in[path[len(path)-1]] = store.String("7")
		if _, err := Decode("shards", &firestorepb.Document{Fields: damaged}); !errors.Is(err, ErrDamaged) {
			t.Errorf("%v: %v", path, err)
		}
	}
	for _, path := range [][]string{{LedgerStates, "0", "as_of"}, {LedgerAnswers, "comments", "read_time"}} {
		damaged := fields()
		delete(damaged[path[0]].GetMapValue().GetFields()[path[1]].GetMapValue().GetFields(), path[2])
		if _, err := Decode("shards", &firestorepb.Document{Fields: damaged}); !errors.Is(err, ErrDamaged) {
			t.Errorf("without %v: %v", path, err)
		}
	}
}

// A ledger says of what format it is, and of whose shards. One of 4de5ded says neither, and is read;
// of what is older, the fields have other names, and it is refused.
func TestDecodeLedgerOfAnother(t *testing.T) {
	t.Parallel()
	written := func(shards string) map[string]*firestorepb.Value {
		fields := encode(ledger.New([]ledger.State{{Shard: "0", Counts: ledger.Counts{"count": 5}, AsOf: at(1)}}))
		sign(fields, shards)
		return fields
	}
	with := func(fields map[string]*firestorepb.Value, name string, value *firestorepb.Value) map[string]*firestorepb.Value {
		if fields[name] = value; value == nil {
			delete(fields, name)
		}
		return fields
	}
	unversioned := with(with(written("shards"), LedgerFormat, nil), LedgerShards, nil)
	for name, c := range map[string]struct {
		fields map[string]*firestorepb.Value
		want   error
	}{
		"ours":                                {written("shards"), nil},
		"of 4de5ded":                          {unversioned, nil},
		"of 4de5ded, with less in its shards": {with(maps.Clone(unversioned), LedgerUneven, store.Time(at(1))), nil},
		"nothing in it":                       {nil, nil},
		"a field of a later revision's":       {with(written("shards"), "more", store.Int(1)), nil},
		"of before 745b404":                   {map[string]*firestorepb.Value{"shards": store.Map(map[string]*firestorepb.Value{"0": store.Map(map[string]*firestorepb.Value{"count": store.Int(5), "as_of": store.Time(at(1))})}), "base": store.Int(1), "flushes": store.Int(3)}, ErrFormat},
		"of before, with fields":              {map[string]*firestorepb.Value{"fields": store.Map(nil), "flushes": store.Int(3)}, ErrFormat},
		"of a later format":                   {with(written("shards"), LedgerFormat, store.Int(2)), ErrFormat},
		"of a format that is no number":       {with(written("shards"), LedgerFormat, store.String("1")), ErrFormat},
		"of other shards":                     {written("_counter_shards_"), ErrOthers},
		"of shards that are no collection":    {with(written("shards"), LedgerShards, store.Int(1)), ErrOthers},
	} {
		_, err := Decode("shards", &firestorepb.Document{Fields: c.fields})
		if c.want == nil && err != nil || c.want != nil && (!errors.Is(err, c.want) || !errors.Is(err, ErrDamaged)) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func FuzzDecodeLedger(f *testing.F) {
	seed, err := proto.Marshal(&firestorepb.Document{Fields: encode(ledger.New([]ledger.State{{Shard: "0", Counts: ledger.Counts{"count": 5}, AsOf: at(1)}}))})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var doc firestorepb.Document
		if proto.Unmarshal(data, &doc) != nil {
			t.Skip()
		}
		l, err := Decode("shards", &doc)
		if err == nil {
			l.Totals(layout.Field{Name: "total", Shard: "count"}) // whatever it holds
		}
	})
}

// However long the ids of its shards and the names of their fields are, a full ledger stays below a
// document's megabyte, with as many commands in doubt as there may be.
func TestAFullLedgerFits(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{ledger.MaxNumbers, ledger.MaxNumbers / 5} {
		l := &ledger.Ledger{States: map[string]ledger.Entry{}}
		for i := range shards {
			counts := ledger.Counts{}
			for f := range ledger.MaxNumbers / shards {
				counts[fmt.Sprintf("%0*d", 64, f)] = math.MaxInt64
			}
			l.States[fmt.Sprintf("%0*d", 100, i)] = ledger.Entry{AsOf: at(i), Counts: counts}
		}
		fields, ops := encode(l), map[string]*firestorepb.Value{}
		for range ledger.MaxOps {
			ops[rand.Text()] = store.Time(at(0))
		}
		fields[LedgerOps] = store.Map(ops)
		size := sizeOf(&firestorepb.Document{Fields: fields})
		t.Logf("a ledger of %d shards takes %d bytes", shards, size)
		if size > 1<<20-16<<10 { // which are left for its name, and what it has of a few fields
			t.Error("that is too much")
		}
	}
}

// sizeOf is the size of a document as Firestore reckons it, but for its name: a field's name takes
// its bytes and one more, a number or a time eight.
func sizeOf(doc *firestorepb.Document) int {
	var of func(fields map[string]*firestorepb.Value) int
	of = func(fields map[string]*firestorepb.Value) (n int) {
		for name, v := range fields {
			n += len(name) + 1
			if m := v.GetMapValue(); m != nil {
				n += of(m.GetFields())
			} else {
				n += 8
			}
		}
		return n
	}
	return 32 + of(doc.GetFields())
}

// A shard's document counts with every integer field that it has.
func TestShardState(t *testing.T) {
	t.Parallel()
	s := ShardState(&firestorepb.Document{
		Name: "projects/p/databases/(default)/documents/counters/a/shards/7", CreateTime: timestamppb.New(at(1)), UpdateTime: timestamppb.New(at(3)),
		Fields: map[string]*firestorepb.Value{"likes": store.Int(3), "views": store.Double(2), "zero": store.Int(0), "half": store.Double(0.5), "request": store.String("x")},
	})
	want := ledger.State{Shard: "7", AsOf: at(3), Made: at(1), Counts: ledger.Counts{"likes": 3, "views": 2}, Odd: []string{"half"}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
