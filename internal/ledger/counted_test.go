package ledger

import (
	"maps"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/store"
)

func TestRecount(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		known map[string]Counted
		value Counted
		newer bool
		early bool
	}{
		{"unknown", nil, Counted{5, at(101)}, true, false},
		{"unknown, as old as the ledger", nil, Counted{5, at(100)}, true, false},
		{"unknown, from before the ledger", nil, Counted{5, at(99)}, false, true},
		{"newer", map[string]Counted{"k": {5, at(200)}}, Counted{7, at(201)}, true, false},
		{"newer, and less", map[string]Counted{"k": {5, at(200)}}, Counted{4, at(201)}, true, false},
		{"newer, and the same", map[string]Counted{"k": {5, at(200)}}, Counted{5, at(201)}, true, false},
		{"of the same time", map[string]Counted{"k": {5, at(200)}}, Counted{7, at(200)}, false, false},
		{"older", map[string]Counted{"k": {5, at(200)}}, Counted{7, at(199)}, false, false},
		{"older than the ledger, which has a newer one", map[string]Counted{"k": {5, at(200)}}, Counted{7, at(50)}, false, false},
		{"of another definition", map[string]Counted{"other": {5, at(300)}}, Counted{7, at(200)}, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := &Ledger{Created: at(100), Counted: maps.Clone(tt.known)}
			newer, early := l.Recount(map[string]Counted{"k": tt.value})
			if _, ok := newer["k"]; ok != tt.newer || early != tt.early {
				t.Errorf("newer = %v, early = %v, want %v, %v", newer, early, tt.newer, tt.early)
			}
			if diff := cmp.Diff(tt.known, l.Counted); diff != "" {
				t.Errorf("the ledger was written to (-want +got)\n%s", diff)
			}
		})
	}
}

// In whatever order and however often values come, the ledger holds the one with the newest read time.
func TestRecountInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &Ledger{Created: at(0)}
		newest := map[string]Counted{}
		for range rapid.IntRange(1, 20).Draw(t, "values") {
			key, n := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), rapid.IntRange(1, 20).Draw(t, "at")
			value := Counted{Value: int64(n * n % 7), AsOf: at(n)} // one value per time, as of a database
			if value.AsOf.After(newest[key].AsOf) {
				newest[key] = value
			}
			newer, early := l.Recount(map[string]Counted{key: value})
			if early {
				t.Fatalf("%v is early", value)
			}
			l.Enter(newer)
		}
		if diff := cmp.Diff(newest, l.Counted); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

func TestForget(t *testing.T) {
	t.Parallel()
	l := &Ledger{Counted: map[string]Counted{"past": {1, at(5)}, "now": {2, at(6)}, "future": {3, at(7)}}}
	if !l.Forget(at(6)) || l.Forget(at(6)) || len(l.Counted) != 2 || l.Counted["future"] != (Counted{}) {
		t.Errorf("the ledger holds %v", l.Counted)
	}
}

// What is entered is read again, beside all else that the ledger holds, and a value of another type is damage.
func TestCountedRoundTrip(t *testing.T) {
	t.Parallel()
	l := &Ledger{ID: "id", Sums: map[string]*Sum{"total": {}}, Ops: []string{"op"}}
	fields, want := l.Fields(), map[string]Counted{"0a": {5, at(7)}, "1b": {-3, at(8)}}
	values, mask := CountedFields(want)
	fields[FieldCounted] = values[FieldCounted]
	if len(mask) != 2 || !(mask[0] == "counted.`0a`" || mask[1] == "counted.`0a`") {
		t.Errorf("mask = %q", mask)
	}
	doc := &firestorepb.Document{Fields: fields, CreateTime: timestamppb.New(at(1))}
	got, err := Decode(doc)
	if err != nil || !got.Created.Equal(at(1)) {
		t.Fatalf("decoded %+v, %v", got, err)
	}
	if diff := cmp.Diff(want, got.Counted); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for name, value := range map[string]*firestorepb.Value{
		"text": store.String("x"), "of text": store.Map(map[string]*firestorepb.Value{"0a": store.String("x")}),
		"without a time": store.Map(map[string]*firestorepb.Value{"0a": store.Map(map[string]*firestorepb.Value{"value": store.Int(1)})}),
		"a double":       store.Map(map[string]*firestorepb.Value{"0a": store.Map(map[string]*firestorepb.Value{"value": store.Double(1), "as_of": store.Time(at(1))})}),
	} {
		fields[FieldCounted] = value
		if _, err := Decode(doc); err == nil {
			t.Errorf("%s was decoded", name)
		}
	}
}
