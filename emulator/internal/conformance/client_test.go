package conformance

import (
	"context"
	"errors"
	"sync"

	"cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var clientScenarios = []scenario{
	{"client-writes", func(s *session) {
		doc := s.client.Doc("c/d")
		note := func(label string, wr *firestore.WriteResult, err error) {
			s.note(label, wr, err)
			snap, err := doc.Get(s.ctx)
			if status.Code(err) == codes.NotFound {
				err = nil
			}
			s.note(label+", then", snap, err)
		}
		wr, err := doc.Update(s.ctx, []firestore.Update{{Path: "a", Value: 1}})
		note("update what is missing", wr, err)
		wr, err = doc.Create(s.ctx, fields{"a": 1, "m": map[string]any{"x": 1, "y": 2}})
		note("create", wr, err)
		wr, err = doc.Create(s.ctx, fields{"a": 1})
		note("create again", wr, err)
		wr, err = doc.Set(s.ctx, map[string]any{"m": map[string]any{"x": 2}, "b": 1}, firestore.MergeAll)
		note("merge all", wr, err)
		wr, err = doc.Set(s.ctx, map[string]any{"m": map[string]any{"x": 3}, "b": 9}, firestore.Merge([]string{"m", "x"}))
		note("merge one path", wr, err)
		wr, err = doc.Update(s.ctx, []firestore.Update{{Path: "m.y", Value: firestore.Delete}, {Path: "n", Value: firestore.Increment(2)}})
		note("update with a deletion and an increment", wr, err)
		wr, err = doc.Update(s.ctx, []firestore.Update{{Path: "l", Value: firestore.ArrayUnion(1, 2)}, {Path: "n", Value: firestore.FieldTransformMaximum(7)}})
		note("update with other transforms", wr, err)
		wr, err = doc.Set(s.ctx, map[string]any{})
		note("set empty", wr, err)
		wr, err = doc.Delete(s.ctx, firestore.Exists)
		note("delete", wr, err)
		wr, err = doc.Delete(s.ctx, firestore.Exists)
		note("delete again", wr, err)
		wr, err = doc.Delete(s.ctx)
		note("delete without precondition", wr, err)
	}},
	{"client-transactions", func(s *session) {
		doc := s.client.Doc("c/d")
		failure := errors.New("enough")
		err := s.client.RunTransaction(s.ctx, func(_ context.Context, tx *firestore.Transaction) error {
			s.must(tx.Set(doc, map[string]any{"n": 1}))
			return failure
		})
		s.note("a transaction that fails itself", errors.Is(err, failure), nil)
		snap, err := doc.Get(s.ctx)
		s.note("writes nothing", snap, notFound(err))
		_, err = doc.Set(s.ctx, map[string]any{"n": 0})
		s.must(err)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				err := s.client.RunTransaction(s.ctx, func(_ context.Context, tx *firestore.Transaction) error {
					snap, err := tx.Get(doc)
					if err != nil {
						return err
					}
					return tx.Update(doc, []firestore.Update{{Path: "n", Value: snap.Data()["n"].(int64) + 1}})
				})
				if err != nil {
					s.Error(err)
				}
			})
		}
		wg.Wait()
		snap, err = doc.Get(s.ctx)
		s.must(err)
		s.note("two that read and write count two", s.fieldsText(values(snap.Data())), nil)
	}},
}

// notFound is nil for a document that is missing, which the official client reports as an error.
func notFound(err error) error {
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}
