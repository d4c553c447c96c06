package shards_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// wantOthers fails unless an error says that a setting is missing.
func wantOthers(t *testing.T, what string, err error, setting string) {
	t.Helper()
	var others *book.SettingError
	if !errors.Is(err, shards.ErrOthers) || !errors.As(err, &others) || others.Want != setting || !strings.Contains(err.Error(), "set "+setting) {
		t.Errorf("%s: %v; want to hear that %s is missing", what, err, setting)
	}
}

// deployment is a revision of the functions, or a command line, with settings of its own.
type deployment struct {
	counter shards.Counter
	client  *shards.Client
	rollup  *rollup.Client
}

func (w *world) deployment(t *testing.T, place shards.Place) deployment {
	t.Helper()
	place.Project = "p"
	client := w.open(t, shards.Config{Place: place, AutoCreate: !place.Hosted})
	roll, err := rollup.Open(t.Context(), rollup.Config{Place: place}, option.WithGRPCConn(w.Conn()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { roll.Close() })
	return deployment{counter: handle(t, client, "a"), client: client, rollup: roll}
}

// changes are all commands, functions and walks that change something of a counter.
var changes = map[string]func(t *testing.T, w *world, d deployment) error{
	"increment": func(t *testing.T, _ *world, d deployment) error { return d.counter.Add(t.Context(), 1) },
	"increment with a key": func(t *testing.T, _ *world, d deployment) error {
		_, err := d.counter.AddOnce(t.Context(), 1, shards.Key{Value: "k"})
		return err
	},
	"increment of several": func(t *testing.T, _ *world, d deployment) error {
		_, err := d.client.AddAll(t.Context(), []shards.Increment{{Counter: "a", By: 1}}, shards.Key{})
		return err
	},
	"join": func(t *testing.T, _ *world, d deployment) error {
		_, err := d.counter.Join(t.Context(), "total", "m")
		return err
	},
	"leave": func(t *testing.T, _ *world, d deployment) error {
		_, err := d.counter.Leave(t.Context(), "total", "m")
		return err
	},
	"hold": func(t *testing.T, _ *world, d deployment) error {
		_, _, err := d.counter.Hold(t.Context(), "total", "m", time.Minute)
		return err
	},
	"reserve": func(t *testing.T, _ *world, d deployment) error {
		_, _, err := d.counter.Reserve(t.Context(), "total", 1, time.Minute, shards.Key{Value: "h"})
		return err
	},
	"create": func(t *testing.T, _ *world, d deployment) error {
		return d.counter.Create(t.Context(), shards.CreateOptions{})
	},
	"delete": func(t *testing.T, _ *world, d deployment) error {
		return d.counter.Delete(t.Context(), shards.DeleteOptions{})
	},
	"reset": func(t *testing.T, _ *world, d deployment) error {
		return d.counter.Reset(t.Context(), shards.ResetOptions{RemoveMembers: true})
	},
	"rebase": func(t *testing.T, _ *world, d deployment) error { return d.counter.Rebase(t.Context(), 9) },
	"resize": func(t *testing.T, _ *world, d deployment) error {
		return d.counter.Resize(t.Context(), 2, shards.ResizeOptions{})
	},
	"reconcile": reconcileWith(rollup.ReconcileOptions{}),
	"dry run":   reconcileWith(rollup.ReconcileOptions{DryRun: true}),
	"walk": func(t *testing.T, _ *world, d deployment) (of error) {
		opts := rollup.ReconcileOptions{Remove: d.client.Remove, CleanupAfter: time.Nanosecond, Report: func(_ rollup.Report, err error) { of = cmp.Or(of, err) }}
		for range 2 { // of which the first notes that a document is gone
			if _, err := d.rollup.ReconcileAll(t.Context(), opts); err != nil {
				return err
			}
		}
		return of
	},
	"event": func(t *testing.T, w *world, d deployment) (err error) {
		roller := rollup.NewRoller(d.rollup, rollup.RollerOptions{Interval: time.Millisecond})
		err = roller.Add(t.Context(), rollup.Change{Counter: "a", Fields: []string{"total"}, At: time.Now().Add(-time.Second)})
		if err = errors.Join(err, roller.Close(t.Context())); err != nil {
			return err
		}
		// acknowledged, and noted
		_, err = d.rollup.Reconcile(t.Context(), "a", rollup.ReconcileOptions{})
		return err
	},
}

func reconcileWith(opts rollup.ReconcileOptions) func(*testing.T, *world, deployment) error {
	return func(t *testing.T, _ *world, d deployment) error {
		own := opts // worlds run side by side
		own.Remove, own.CleanupAfter = d.client.Remove, time.Nanosecond
		_, err := d.rollup.Reconcile(t.Context(), "a", own)
		return err
	}
}

// profile is what an app has written: with fields that have our names, too.
var profile = map[string]any{"name": "Ann", "updated_at": "yesterday", "deleting": true}

// Nothing changes or deletes what is at a path that is counted with other settings: a document of the app's
// own without HOSTED, our counter with it, and another SHARDS or COUNTERS. Whoever asks hears which setting is
// missing.
func TestNothingOfAnotherDeploymentIsChanged(t *testing.T) {
	t.Parallel()
	ours, hosted := shards.Place{}, shards.Place{Hosted: true}
	own := func(t *testing.T, w *world) { w.madeBy(t, ours) }
	posted := func(t *testing.T, w *world) {
		w.Put("counters/a", profile)
		w.madeBy(t, hosted)
	}
	noIncrements := []string{"increment", "increment with a key", "increment of several", "join", "leave", "hold", "reserve"}
	for name, s := range map[string]struct {
		made   func(t *testing.T, w *world)
		place  shards.Place
		want   string
		except []string
	}{
		"an app's, which isn't counted": {made: func(t *testing.T, w *world) { w.Put("counters/a", profile) }, want: "HOSTED=true", except: []string{"walk"}},
		"an app's, with a shard": {made: func(t *testing.T, w *world) {
			w.Put("counters/a", profile)
			w.Put("counters/a/shards/0", map[string]any{"count": 3})
		}, want: "HOSTED=true"},
		"an app's with Google's number": {made: func(t *testing.T, w *world) {
			w.Put("counters/a", map[string]any{"name": "Ann", "num_shards": 3})
		}, want: "HOSTED=true", except: []string{"walk"}},
		"an app's with our times and marks": {made: func(t *testing.T, w *world) {
			w.Put("counters/a", map[string]any{"updated_at": time.Now()})
		}, want: "HOSTED=true", except: []string{"walk"}},
		"an app's": {made: posted, want: "HOSTED=true"},
		"an app's, written anew": {made: func(t *testing.T, w *world) {
			posted(t, w)
			w.Put("counters/a", map[string]any{"total": 5})
		}, want: "HOSTED=true", except: noIncrements}, // nothing in the document says so, and shards belong to the path
		"an app's, without a base": {made: func(t *testing.T, w *world) {
			posted(t, w)
			w.Delete("counters/a/counter_rollup/base")
		}, want: "HOSTED=true"},
		"an app's that is gone": {made: func(t *testing.T, w *world) {
			posted(t, w)
			w.deleteByHand(t)
		}, want: "HOSTED=true"},
		"ours, and in its place the app's": {made: func(t *testing.T, w *world) {
			own(t, w)
			w.Put("counters/a", profile)
		}, want: "HOSTED=true"},
		"ours": {made: own, place: hosted, want: "HOSTED=false", except: []string{"create"}},
		"ours with an app's field": {made: func(t *testing.T, w *world) {
			own(t, w)
			w.Merge("counters/a", map[string]any{"name": "Ann"})
		}, place: hosted, want: "HOSTED=false", except: []string{"create"}},
		"ours that is gone":        {made: func(t *testing.T, w *world) { own(t, w); w.deleteByHand(t) }, place: hosted, want: "HOSTED=false", except: append(noIncrements, "create")},
		"of other shards":          {made: own, place: shards.Place{Shards: "parts"}, want: "SHARDS=shards", except: []string{"leave"}},
		"of another path":          {made: own, place: shards.Place{Counters: "counters/a"}, want: "COUNTERS=counters/{counter}"},
		"an app's of other shards": {made: posted, place: shards.Place{Shards: "parts", Hosted: true}, want: "SHARDS=shards", except: []string{"leave", "create"}},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			s.made(t, w)
			before := w.everything(t)
			for what, change := range changes {
				err := change(t, w, w.deployment(t, s.place))
				switch {
				case !slices.Contains(s.except, what):
					wantOthers(t, what, err, s.want)
				case slices.Contains(noIncrements, what): // which may count at the path, whoever's document it is
					before = w.everything(t)
					continue
				}
				if removed, err := w.deployment(t, s.place).client.Remove(t.Context(), "a", w.made(t)); removed {
					t.Errorf("after %s it was removed: %v", what, err)
				}
				if after := w.everything(t); fmt.Sprint(after) != fmt.Sprint(before) {
					t.Fatalf("%s: there is %v,\nwas %v", what, after, before)
				}
			}
		})
	}
}

// made is when the base of the counter a was last written; zero without one.
func (w *world) made(t *testing.T) (at time.Time) {
	t.Helper()
	if base, err := w.fs.Doc("counters/a/counter_rollup/base").Get(t.Context()); err == nil {
		at = base.UpdateTime
	}
	return at
}

// madeBy has a deployment count 3 in the counter a, and roll it up.
func (w *world) madeBy(t *testing.T, place shards.Place) {
	t.Helper()
	d := w.deployment(t, place)
	err := d.counter.Add(t.Context(), 3)
	if err == nil {
		_, err = d.rollup.Reconcile(t.Context(), "a", rollup.ReconcileOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A document that Google's snippets, or nobody, have put fields into is taken over by either: with HOSTED it is
// the app's from then on, and without it ours.
func TestWhatASnippetHasMadeIsEithers(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]map[string]any{
		"Google's":             {"num_shards": 2},
		"its numbers":          {"numShards": 2.0, "total": 7, "likes": 3},
		"empty":                {},
		"a trigger's":          {"total": 7},
		"ours, of no base":     {"num_shards": 2, "total": 7, "created_at": time.Now(), "updated_at": time.Now()},
		"ours, without shards": {"total": 0, "updated_at": time.Now()},
	} {
		for _, hosted := range []bool{false, true} {
			virtual.Run(t, fmt.Sprint(name, " hosted ", hosted), func(t *testing.T) {
				w := newWorld(t)
				w.Put("counters/a", document)
				w.madeBy(t, shards.Place{Hosted: hosted})
				if doc := w.Data("counters/a"); doc["total"] != int64(3) {
					t.Errorf("it shows %v", doc)
				}
				other := map[bool]string{false: "HOSTED=false", true: "HOSTED=true"}[hosted]
				wantOthers(t, "the other", w.deployment(t, shards.Place{Hosted: !hosted}).counter.Resize(t.Context(), 3, shards.ResizeOptions{}), other)
				err := w.deployment(t, shards.Place{Hosted: hosted}).counter.Delete(t.Context(), shards.DeleteOptions{})
				if hosted != errors.Is(err, shards.ErrHosted) {
					t.Errorf("delete: %v", err)
				} else if !hosted {
					w.wantNothing(t)
				}
			})
		}
	}
}

// Fields that the app has added to our document are not deleted with it: whoever deletes the counter hears of
// one. Numbers that another FIELDS has shown are ours.
func TestDeleteSparesTheAppsFields(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.madeBy(t, shards.Place{})
		w.Merge("counters/a", map[string]any{"name": "Ann", "likes": 4})
		c := w.deployment(t, shards.Place{}).counter
		before := w.everything(t)
		if err := c.Delete(t.Context(), shards.DeleteOptions{}); !errors.Is(err, shards.ErrHosted) || !strings.Contains(err.Error(), `a field "name"`) {
			t.Errorf("%v, want ErrHosted that names the field", err)
		}
		if after := w.everything(t); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("there is %v,\nwas %v", after, before)
		}
		if err := c.Add(t.Context(), 1); err != nil { // it counts on
			t.Error(err)
		}
		if _, err := w.fs.Doc("counters/a").Update(t.Context(), []firestore.Update{{Path: "name", Value: firestore.Delete}}); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		w.wantNothing(t)
	})
}

// An app that makes its own document where there was ours, and sets HOSTED, has its counts in it.
func TestTheAppsDocumentTakesThePlaceOfOurs(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.madeBy(t, shards.Place{})
		w.Put("counters/a", profile)
		w.madeBy(t, shards.Place{Hosted: true})
		doc := w.Data("counters/a")
		if doc["total"] != int64(6) || doc["updated_at"] != "yesterday" || doc["deleting"] != true || doc["name"] != "Ann" {
			t.Errorf("it is %v", doc)
		}
		wantOthers(t, "delete", w.deployment(t, shards.Place{}).counter.Delete(t.Context(), shards.DeleteOptions{}), "HOSTED=true")
	})
}

// A walk passes over documents of the app's own beside counters, in which nothing is counted.
func TestAWalkPassesOverTheAppsDocuments(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Put("counters/config", map[string]any{"theme": "dark"})
		w.madeBy(t, shards.Place{})
		d := w.deployment(t, shards.Place{})
		for _, dry := range []bool{true, false} {
			got, err := d.rollup.ReconcileAll(t.Context(), rollup.ReconcileOptions{DryRun: dry, Remove: d.client.Remove})
			if err != nil || got.Seen != 1 || got.Failed != 0 {
				t.Errorf("dry %v: %+v, %v; want the counter alone, and no failure", dry, got, err)
			}
		}
		if doc := w.Data("counters/config"); fmt.Sprint(doc) != "map[theme:dark]" {
			t.Errorf("it is %v", doc)
		}
	})
}
