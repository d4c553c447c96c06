package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/store"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"
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
			Shards:  rapid.MapOf(ids, entries).Draw(t, "shards"),
			Base:    rapid.Int64().Draw(t, "base"),
			Ops:     rapid.SliceOfN(rapid.String(), 1, 5).Draw(t, "ops"),
			Flushes: rapid.Int64().Draw(t, "flushes"),
			Created: times.Draw(t, "created"), Updated: times.Draw(t, "updated"),
		}
		fields := want.Fields()
		for key := range fields[FieldShards].GetMapValue().GetFields() {
			if strings.HasPrefix(key, "__") && strings.HasSuffix(key, "__") {
				t.Fatalf("%q is a field name of Firestore's own", key)
			}
		}
		got, err := Decode(&firestorepb.Document{Fields: fields, CreateTime: timestamppb.New(want.Created), UpdateTime: timestamppb.New(want.Updated)})
		if err != nil {
			t.Fatal(err)
		}
		got.Imported, want.Imported = nil, nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

func TestDecodeLedgerOfSomebodyElse(t *testing.T) {
	t.Parallel()
	_, err := Decode(&firestorepb.Document{Name: "l", Fields: map[string]*firestorepb.Value{
		FieldShards: store.Map(map[string]*firestorepb.Value{"0": store.Int(5)}),
	}})
	if err == nil {
		t.Error("an entry that is no entry was taken")
	}
}

func TestOpsAreBounded(t *testing.T) {
	t.Parallel()
	l := &Ledger{}
	for range 2 * MaxOps {
		l.Ops = append(l.Ops, "old")
	}
	ops := l.OpsWith("new").GetArrayValue().GetValues()
	if len(ops) != MaxOps || ops[MaxOps-1].GetStringValue() != "new" {
		t.Errorf("%d ops, the last %v", len(ops), ops[len(ops)-1])
	}
}
