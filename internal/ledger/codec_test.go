package ledger

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/store"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"
)

// What a ledger writes it reads again, whatever ids its shards have, and no id becomes a field name that Firestore
// refuses.
func TestLedgerRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.OneOf(rapid.StringN(1, 20, -1), rapid.StringMatching(`(__|\\|)[a-z0-9_\\]{1,6}(__)?`)).
			Filter(func(id string) bool { return !strings.Contains(id, "/") })
		times := rapid.Custom(func(t *rapid.T) time.Time {
			return time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "µs")).UTC()
		})
		entries := rapid.Custom(func(t *rapid.T) Entry {
			return Entry{Count: rapid.Int64().Draw(t, "count"), AsOf: times.Draw(t, "as of")}
		})
		want := &Ledger{
			Sums:    map[string]*Sum{},
			Ops:     rapid.SliceOfN(rapid.String(), 1, 5).Draw(t, "ops"),
			Flushes: rapid.Int64().Draw(t, "flushes"),
			Updated: times.Draw(t, "updated"),
		}
		created := times.Draw(t, "created")
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"total", "likes", "views"}), rapid.ID).Draw(t, "fields") {
			sum := &Sum{Shards: map[string]Entry{}, Base: rapid.Int64().Draw(t, "base"), Floor: created}
			for id, e := range rapid.MapOf(ids, entries).Draw(t, "shards") {
				sum.Shards[Key(id)] = e
			}
			want.Sums[name] = sum
		}
		want.Created = created
		fields := want.Fields()
		for name := range want.Sums {
			for key := range Get(fields, name, FieldShards).GetMapValue().GetFields() {
				if strings.HasPrefix(key, "__") && strings.HasSuffix(key, "__") {
					t.Fatalf("%q is a field name of Firestore's own", key)
				}
			}
		}
		got, err := Decode(&firestorepb.Document{Fields: fields, CreateTime: timestamppb.New(created), UpdateTime: timestamppb.New(want.Updated)})
		if err != nil {
			t.Fatal(err)
		}
		got.Imported, want.Imported = nil, nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

// A field of another type than ours is damage, whichever it is: what was guessed made wrong totals.
func TestDecodeDamagedLedger(t *testing.T) {
	t.Parallel()
	fields := func() map[string]*firestorepb.Value {
		sum := &Sum{Shards: map[string]Entry{"0": {Count: 5, AsOf: at(1)}}, Base: 3, Replaced: new(int64)}
		l := &Ledger{ID: "id", Sums: map[string]*Sum{"total": sum, "likes": sum}, Ops: []string{"op"}, Flushes: 2}
		fields := l.Fields()
		fields[FieldGone] = store.Time(at(5))
		fields[FieldImported] = store.Map(map[string]*firestorepb.Value{"source": store.Int(1)})
		fields[FieldFloor] = store.Time(at(9))
		return fields
	}
	l, err := Decode(&firestorepb.Document{Fields: fields()})
	if err != nil || l.Imported["source"] != 1 || !l.Sums["total"].Floor.Equal(at(9)) {
		t.Fatalf("decoded %+v, %v", l, err)
	}
	likes := l.Sums["likes"]
	if likes == nil || likes.Base != 3 || likes.Shards["0"].Count != 5 {
		t.Fatalf("decoded likes as %+v", likes)
	}
	null := &firestorepb.Value{ValueType: &firestorepb.Value_NullValue{}}
	for field := range fields() {
		for name, value := range map[string]*firestorepb.Value{
			"null": null, "bool": store.Bool(true), "double": store.Double(1), "of strings": store.Map(map[string]*firestorepb.Value{"0": store.String("x")}),
			"array of integers": store.Array(store.Int(1)), "without time": store.Map(map[string]*firestorepb.Value{"0": store.Map(map[string]*firestorepb.Value{"count": store.Int(1)})}),
		} {
			damaged := fields()
			damaged[field] = value
			if l, err := Decode(&firestorepb.Document{Fields: damaged}); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s is %s: decoded %+v, %v", field, name, l, err)
			}
		}
	}
}

// Whatever a ledger's document holds, it is damaged or a ledger that goes on: with states merged and shards read, it is written as
// it is.
func FuzzDecode(f *testing.F) {
	sum := &Sum{Shards: map[string]Entry{"0": {Count: 5, AsOf: at(1)}, Key(strings.Repeat("x", 200)): {Count: -1, AsOf: at(2)}}, Base: 3, Replaced: new(int64), Field: "likes"}
	fields := (&Ledger{ID: "id", Sums: map[string]*Sum{"total": sum, "likes": sum}, Ops: []string{"op"}, Flushes: 2}).Fields()
	counted, _ := CountedFields(map[string]Counted{"key": {Value: 3, AsOf: at(4)}})
	fields[FieldCounted] = counted[FieldCounted]
	fields[FieldGone] = store.Time(at(5))
	fields[FieldImported] = store.Map(map[string]*firestorepb.Value{"source": store.Int(1)})
	fields[FieldFloor] = store.Time(at(9))
	for _, fields := range []map[string]*firestorepb.Value{nil, fields, {FieldFields: store.Map(map[string]*firestorepb.Value{"likes": store.Map(nil)})}} {
		doc, err := proto.Marshal(&firestorepb.Document{Fields: fields, CreateTime: timestamppb.New(at(1)), UpdateTime: timestamppb.New(at(9))})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var doc firestorepb.Document
		if proto.Unmarshal(data, &doc) != nil {
			return
		}
		l, err := Decode(&doc)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("%v is not ErrDamaged", err)
			}
			return
		}
		s := State{Shard: "1", Counts: Counts{"total": 7, "likes": 1}, AsOf: at(20)}
		l.Apply(l.Merge([]State{s}))
		l.Apply(l.Correct(at(30), Snapshot{At: at(30), States: []State{s}}, "total", "likes"))
		if l.Gone = (time.Time{}); l.Behind(at(30), "total", "likes") || l.Sums["total"].Shards["1"].Count != 7 {
			t.Errorf("%+v, after a correction", l)
		}
		again, err := Decode(&firestorepb.Document{Fields: l.Fields(), CreateTime: doc.GetCreateTime(), UpdateTime: doc.GetUpdateTime()})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l.Totals(), again.Totals()); diff != "" {
			t.Errorf("(-before +after)\n%s", diff)
		}
	})
}

func TestOpsAreBounded(t *testing.T) {
	t.Parallel()
	l := &Ledger{}
	for range 2 * maxOps {
		l.Ops = append(l.Ops, "old")
	}
	ops := l.OpsWith("new").GetArrayValue().GetValues()
	if len(ops) != maxOps || ops[maxOps-1].GetStringValue() != "new" {
		t.Errorf("%d ops, the last %v", len(ops), ops[len(ops)-1])
	}
}
