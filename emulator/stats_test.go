package emulator_test

import (
	"context"
	"fmt"
	"testing"

	"cloud.google.com/go/firestore"
)

// What Firestore would bill.
func TestStats(t *testing.T) {
	t.Parallel()
	in := start(t)
	c := in.Client(t, "bills")
	ctx := context.Background()
	batch := c.BulkWriter(ctx)
	for i := range 25 {
		if _, err := batch.Create(c.Doc(fmt.Sprintf("a/%d", i)), fields{"n": i}); err != nil {
			t.Fatal(err)
		}
	}
	batch.End()
	if s := in.Server.Stats(); s.Writes != 25 || s.Reads != 0 {
		t.Errorf("25 documents made: %+v", s)
	}
	bill := func(name string, reads, writes, deletes int64, f func() error) {
		t.Helper()
		in.Server.ResetStats()
		if err := f(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s := in.Server.Stats(); s.Reads != reads || s.Writes != writes || s.Deletes != deletes {
			t.Errorf("%s: %d reads, %d writes, %d deletes; want %d, %d, %d", name, s.Reads, s.Writes, s.Deletes, reads, writes, deletes)
		}
	}
	query := func(q firestore.Query) func() error {
		return func() error { _, err := q.Documents(ctx).GetAll(); return err }
	}
	bill("get", 1, 0, 0, func() error { _, err := c.Doc("a/1").Get(ctx); return err })
	bill("get of two, one missing", 2, 0, 0, func() error {
		_, err := c.GetAll(ctx, []*firestore.DocumentRef{c.Doc("a/1"), c.Doc("a/x")})
		return err
	})
	bill("query", 10, 0, 0, query(c.Collection("a").Limit(10)))
	bill("query with an offset", 10, 0, 0, query(c.Collection("a").Offset(5).Limit(5)))
	bill("query of nothing", 1, 0, 0, query(c.Collection("b").Query))
	bill("count", 1, 0, 0, func() error { _, err := c.Collection("a").NewAggregationQuery().WithCount("n").Get(ctx); return err })
	bill("no-op write", 0, 1, 0, func() error { _, err := c.Doc("a/1").Set(ctx, fields{"n": 1}); return err })
	bill("delete", 0, 0, 1, func() error { _, err := c.Doc("a/1").Delete(ctx); return err })
	bill("refused write", 0, 0, 0, func() error {
		if _, err := c.Doc("a/1").Update(ctx, []firestore.Update{{Path: "n", Value: 1}}); err == nil {
			return fmt.Errorf("it was applied")
		}
		return nil
	})
}
