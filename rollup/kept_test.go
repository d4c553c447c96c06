package rollup_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
)

// notNumbers is what an app may keep in a field that FIELDS shows.
var notNumbers = map[string]any{
	"a list":       []any{"uid-1", "uid-2"},
	"an empty one": []any{},
	"a map":        map[string]any{"uid-1": true},
	"a text":       "1024",
	"a truth":      true,
	"a time":       time.Unix(1_700_000_000, 0).UTC(),
	"bytes":        []byte("x"),
}

// likes is what the app's document has in that field.
func (w *world) likes() any {
	w.t.Helper()
	snap, err := w.counter().Get(w.ctx)
	w.must(nil, err)
	return snap.Data()["likes"]
}

// keeps fails unless the app's document still has what it put there.
func (w *world) keeps(value any) {
	w.t.Helper()
	if got := w.likes(); !reflect.DeepEqual(got, value) {
		w.t.Errorf("likes = %v, want %v, which is the app's", got, value)
	}
}

// Nothing but a number is ever overwritten in a counter's document, whoever writes it and when: it stays, is named, and
// counts on in the shards. Other fields go on. Once it is gone, the total is there.
func TestOnlyNumbersAreReplaced(t *testing.T) {
	t.Parallel()
	set := func(value any) func(*world) {
		return func(w *world) { w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "likes", Value: value}})) }
	}
	ways := map[string]func(w *world, put func(*world)){
		"the first event": func(w *world, put func(*world)) {
			put(w)
			w.like(0, 1, 1)
			w.apply(w.arrived()...)
		},
		"the first reconcile": func(w *world, put func(*world)) {
			put(w)
			w.like(0, 1, 1)
			w.arrived()
			w.reconcile()
		},
		"an event of an instance that knows the document": func(w *world, put func(*world)) {
			w.like(1, 0, 0)
			w.apply(w.arrived()...)
			put(w)
			w.like(0, 1, 1)
			w.apply(w.arrived()...)
		},
		"while a flush is on its way": func(w *world, put func(*world)) {
			w.like(1, 0, 0)
			w.apply(w.arrived()...)
			w.like(0, 1, 1)
			w.before(func() { put(w) })
			w.apply(w.arrived()...)
		},
		"while a reconcile is on its way": func(w *world, put func(*world)) {
			w.like(1, 0, 0)
			w.apply(w.arrived()...)
			w.like(0, 1, 1)
			w.arrived()
			w.before(func() { put(w) })
			w.reconcile()
		},
		"a field that is new in FIELDS": func(w *world, put func(*world)) {
			cfg := likesAndViews
			cfg.Fields = "views"
			w.rollup = w.openWith(cfg)
			w.like(0, 1, 1)
			w.apply(w.arrived()...)
			put(w)
			w.hosted()
			w.reconcile()
		},
	}
	for name, value := range notNumbers {
		for how, way := range ways {
			for _, hosted := range []bool{true, false} {
				virtual.Run(t, fmt.Sprintf("%s, %s, hosted %v", name, how, hosted), func(t *testing.T) {
					w := newWorld(t).hosted()
					own := map[string]any{"title": "Hello"}
					if !hosted {
						own = map[string]any{"num_shards": 2}
						w.rollup = w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "likes,views"}})
					}
					w.post(own)
					way(w, set(value))
					w.keeps(value)
					w.field("views", int64(1))
					for range 2 {
						w.like(0, 1, 1)
						w.apply(w.arrived()...)
						w.keeps(value)
						w.field("views", w.views())
						r := w.reconcile()
						if !strings.Contains(r.Problem, `"likes" is `) || r.Repaired() {
							t.Errorf("reconcile = %+v, want the field named, and nothing done", r)
						}
						w.keeps(value)
					}
					set([]any{nil, firestore.Delete, 1, 0.5}[len(how)%4])(w)
					w.like(0, 1, 1)
					w.apply(w.arrived()...)
					w.field("likes", int64(4))
					w.field("views", int64(4))
					if r := w.reconcile(); !r.Right() {
						t.Errorf("reconcile = %+v, want nothing to do", r)
					}
				})
			}
		}
	}
}

// What keeps a field from being shown is looked up, not remembered: somebody else may have set it right, and an event
// of that field alone would be acknowledged and never counted.
func TestAFieldThatMayBeShownByNow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		breaks, mends func(w *world)
	}{
		{"the app's list is gone", func(w *world) {
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "likes", Value: []any{"uid-1"}}}))
		}, func(w *world) {
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "likes", Value: firestore.Delete}}))
		}},
		{"a command has set the total", func(w *world) {
			w.must(w.base().Update(w.ctx, []firestore.Update{{Path: "base.likes", Value: int64(math.MaxInt64)}}))
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "title", Value: "Hello"}})) // as a command does
		}, func(w *world) {
			w.must(w.base().Update(w.ctx, []firestore.Update{{Path: "base.likes", Value: 0}}))
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "title", Value: "Hello again"}}))
		}},
	} {
		virtual.Run(t, test.name, func(t *testing.T) {
			w := newWorld(t).hosted()
			w.post(map[string]any{"title": "Hi"})
			w.like(0, 1, 1)
			w.apply(w.arrived()...)
			test.breaks(w)
			w.like(0, 1, 1)
			w.apply(w.arrived()...)
			w.field("views", int64(2))
			test.mends(w)
			w.like(0, 1, 0)
			w.apply(w.arrived()...)
			w.field("likes", int64(3))
		})
	}
}

// views is what the shards hold of that field.
func (w *world) views() (sum int64) {
	w.t.Helper()
	docs, err := w.counter().Collection("shards").Documents(w.ctx).GetAll()
	w.must(nil, err)
	for _, doc := range docs {
		n, _ := doc.Data()["views"].(int64)
		sum += n
	}
	return sum
}

// The log names such a field, with what helps, and not with each flush.
func TestTheLogNamesWhatNoTotalReplaces(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log bytes.Buffer
		cfg := likesAndViews
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w.rollup = w.openWith(cfg)
		w.post(map[string]any{"likes": []any{"uid-1"}})
		for range 5 {
			w.like(0, 1, 1)
			w.apply(w.arrived()...)
		}
		w.keeps([]any{"uid-1"})
		if n := strings.Count(log.String(), "counters import members"); n != 1 {
			t.Errorf("named %d times, want once:\n%s", n, &log)
		}
		if strings.Contains(log.String(), "drift") {
			t.Errorf("nothing has drifted:\n%s", &log)
		}
	})
}
