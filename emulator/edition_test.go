package emulator_test

import (
	"context"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
)

// In Enterprise edition a transaction locks nothing that it reads: others write meanwhile, its commit is ABORTED, and
// it is run again. In Standard edition that write would wait for the transaction, which waits for it here.
func TestEnterpriseTransactionsAreOptimistic(t *testing.T) {
	t.Parallel()
	server := emulator.StartWith(t, emulator.Options{Enterprise: true})
	client := server.Client(t, "p")
	doc, all := client.Doc("c/a"), client.Collection("c")
	if _, err := doc.Set(t.Context(), map[string]any{"n": 1}); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(*firestore.Transaction) error{
		"a document":           func(tx *firestore.Transaction) error { _, err := tx.Get(doc); return err },
		"a document not there": func(tx *firestore.Transaction) error { _, err := tx.Get(all.Doc("b")); _ = err; return nil },
		"a query": func(tx *firestore.Transaction) error {
			_, err := tx.Documents(all.Where("n", ">", 0)).GetAll()
			return err
		},
		"a group": func(tx *firestore.Transaction) error {
			_, err := tx.Documents(client.CollectionGroup("c").Where("n", ">", 0)).GetAll()
			return err
		},
		"nothing of it": func(tx *firestore.Transaction) error { _, err := tx.Get(client.Doc("others/a")); _ = err; return nil },
	} {
		runs := 0
		err := client.RunTransaction(t.Context(), func(ctx context.Context, tx *firestore.Transaction) error {
			runs++
			if err := read(tx); err != nil {
				return err
			}
			if runs == 1 {
				if _, err := doc.Set(ctx, map[string]any{"n": firestore.Increment(1)}, firestore.MergeAll); err != nil {
					return err
				}
				if _, err := all.Doc("b").Set(ctx, map[string]any{"n": firestore.Increment(1)}, firestore.MergeAll); err != nil {
					return err
				}
			}
			return tx.Set(client.Doc("others/b"), map[string]any{"by": name})
		})
		want := 2
		if name == "nothing of it" {
			want = 1
		}
		if err != nil || runs != want {
			t.Errorf("%s: it was run %d times, want %d: %v", name, runs, want, err)
		}
	}
}

// A sum of nothing is null there, each sum is of the documents that have its field, and a unit is a KiB that is
// written, or four that are read or scanned.
func TestEnterpriseSumsAndUnits(t *testing.T) {
	t.Parallel()
	for _, enterprise := range []bool{false, true} {
		server := emulator.StartWith(t, emulator.Options{Enterprise: enterprise})
		client := server.Client(t, "p")
		all := client.Collection("c")
		for id, fields := range map[string]map[string]any{"a": {"x": 1, "text": strings.Repeat("-", 2500)}, "b": {"y": 2, "text": strings.Repeat("-", 5000)}} {
			if _, err := all.Doc(id).Set(t.Context(), fields); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := all.NewAggregationQuery().WithSum("x", "x").WithSum("y", "y").WithSum("z", "z").WithCount("n").Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		number := func(name string) any {
			v := answer[name].(*firestorepb.Value)
			if _, null := v.GetValueType().(*firestorepb.Value_NullValue); null {
				return nil
			}
			return v.GetIntegerValue()
		}
		want := map[string]any{"x": int64(0), "y": int64(0), "z": int64(0), "n": int64(0)}
		if enterprise {
			want = map[string]any{"x": int64(1), "y": int64(2), "z": nil, "n": int64(2)}
		}
		for name, want := range want {
			if got := number(name); got != want {
				t.Errorf("enterprise %v: %s is %v, want %v", enterprise, name, got, want)
			}
		}
		if _, err := all.Doc("b").Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		// 3 and 5 KiB are written; 7.5 KiB are scanned, and 5 KiB read
		if s := server.Stats(); s.WriteUnits != 8 || s.ReadUnits != 2+2 {
			t.Errorf("enterprise %v: %d units are written, and %d read", enterprise, s.WriteUnits, s.ReadUnits)
		}
	}
}
