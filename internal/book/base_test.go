package book

import (
	"errors"
	"maps"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// values are the fields of a document.
type values = map[string]*firestorepb.Value

// at is a time in a test: n microseconds after some moment.
func at(n int) time.Time { return time.UnixMicro(1_800_000_000_000_000 + int64(n)).UTC() }

// booksOf are books of a database that nobody asks.
func booksOf(t interface{ Fatal(...any) }, place layout.Place) Books {
	names, err := place.Layout()
	if err != nil {
		t.Fatal(err)
	}
	names.Database = "projects/p/databases/(default)"
	return In(&store.DB{Layout: names})
}

// What is written of a base is read again, whatever its entries are called.
func TestBaseRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.OneOf(rapid.SampledFrom([]string{"likes", "views"}), rapid.StringMatching("[^\x00]{1,20}"))
		entries := rapid.MapOf(names, rapid.Int64())
		want := Base{}
		b := booksOf(t, layout.Place{}).open("a", nil, nil, at(0))
		for field, into := range map[string]*map[string]int64{
			BaseCounts: &want.Counts, BaseReplaced: &want.Replaced, BaseSources: &want.Sources,
		} {
			for name, n := range entries.Draw(t, field) {
				put(into, name, n)
			}
		}
		b.Base = want
		w := b.writeBase(nil)
		if w.GetCurrentDocument().GetExists() || w.GetUpdateMask() != nil {
			t.Fatalf("a base is made by %v", w)
		}
		got, err := decodeBase("shards", w.GetUpdate())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%v (-want +got)\n%s", err, diff)
		}
	})
}

// A field of another type than ours is damage. A base says of what format it is, and of whose shards.
func TestDecodeBase(t *testing.T) {
	t.Parallel()
	whole := func() values {
		return values{
			baseFormat: store.Int(formatNow), baseShards: store.String("shards"), baseGone: store.Time(at(5)), baseEnding: store.Time(at(6)),
			BaseCounts: store.Map(values{"count": store.Int(3)}), BaseReplaced: store.Map(values{"total": store.Int(9)}),
			BaseSources: store.Map(values{"source": store.Int(1)}),
		}
	}
	with := func(name string, value *firestorepb.Value) values {
		fields := whole()
		if fields[name] = value; value == nil {
			delete(fields, name)
		}
		return fields
	}
	type counts = map[string]int64
	want := Base{Counts: counts{"count": 3}, Replaced: counts{"total": 9}, Sources: counts{"source": 1}, Gone: at(5), Ending: at(6)}
	for name, tt := range map[string]struct {
		fields values
		want   error
	}{
		"ours":                             {whole(), nil},
		"a field of a later revision's":    {with("more", store.Int(1)), nil},
		"nothing in it":                    {values{}, ErrFormat},
		"no format":                        {with(baseFormat, nil), ErrFormat},
		"an earlier format":                {with(baseFormat, store.Int(1)), ErrFormat},
		"a later format":                   {with(baseFormat, store.Int(3)), ErrFormat},
		"a format that is no number":       {with(baseFormat, store.String("2")), ErrFormat},
		"other shards":                     {with(baseShards, store.String("_counter_shards_")), ErrOthers},
		"shards that are no collection":    {with(baseShards, store.Int(1)), ErrOthers},
		"counts that are no map":           {with(BaseCounts, store.Double(0.5)), ErrDamaged},
		"a count that is a text":           {with(BaseCounts, store.Map(values{"count": store.String("7")})), ErrDamaged},
		"a count that is a double":         {with(BaseCounts, store.Map(values{"count": store.Double(7)})), ErrDamaged},
		"a count that is null":             {with(BaseCounts, store.Map(values{"count": null})), ErrDamaged},
		"a replaced number that is a text": {with(BaseReplaced, store.Map(values{"total": store.String("7")})), ErrDamaged},
		"imports that are null":            {with(BaseSources, null), ErrDamaged},
		"a time that is a number":          {with(baseGone, store.Int(1)), ErrDamaged},
	} {
		got, err := decodeBase("shards", &firestorepb.Document{Name: "base", Fields: tt.fields})
		if !errors.Is(err, tt.want) || err != nil && !errors.Is(err, ErrDamaged) || errors.Is(err, ErrFormat) && errors.Is(err, ErrOthers) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if diff := cmp.Diff(want, got); (err == nil) != (diff == "") || err != nil && !cmp.Equal(got, Base{}) {
			t.Errorf("%s: %v, decoded %+v", name, err, got)
		}
	}
	// An entry that changes is set by itself, and what is removed goes.
	b := booksOf(t, layout.Place{}).open("a", nil, &firestorepb.Document{Fields: whole(), UpdateTime: store.Time(at(9)).GetTimestampValue()}, at(9))
	after := b.copy()
	after.Base.Counts["a.b"], after.Base.Gone = 1, time.Time{}
	w := after.writeBase(nil)
	mask := map[string]bool{}
	for _, path := range w.GetUpdateMask().GetFieldPaths() {
		mask[path] = true
	}
	if !maps.Equal(mask, map[string]bool{"base.`a.b`": true, "gone_at": true}) || !w.GetCurrentDocument().GetUpdateTime().AsTime().Equal(at(9)) {
		t.Errorf("an update is %v", w)
	}
}

func FuzzDecodeBase(f *testing.F) {
	seed, err := proto.Marshal(&firestorepb.Document{Fields: values{
		baseFormat: store.Int(formatNow), baseShards: store.String("shards"), BaseCounts: store.Map(values{"count": store.Int(3)}),
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var doc firestorepb.Document
		if proto.Unmarshal(data, &doc) != nil {
			t.Skip()
		}
		if _, err := decodeBase("shards", &doc); err != nil && !errors.Is(err, ErrDamaged) {
			t.Error(err)
		}
	})
}
