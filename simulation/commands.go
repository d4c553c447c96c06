package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/shards"
)

// command runs a command of the command line, in a process of its own that may crash.
func (w *world) command(r *rand.Rand, kind Kind, id string, do func(context.Context, shards.Counter) error) {
	w.commandOf(r, Begin{Kind: kind, Counter: id}, func(ctx context.Context, i *instance, _ *End) error {
		counter, err := i.client.Counter(id)
		if err != nil {
			return err
		}
		return do(ctx, counter)
	})
}

// commandOf is command with all that is to be recorded of it. What do puts into its end counts when
// do succeeds.
func (w *world) commandOf(r *rand.Rand, begin Begin, do func(context.Context, *instance, *End) error) {
	l := w.newLink("command")
	i, err := newIncrement(w.dial, l, w.settings)
	if err != nil {
		w.rec.add(Stuck{What: err.Error()})
		return
	}
	end := End{Call: w.begin(begin), Outcome: Unknown}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	crash := w.crash(r)
	done := make(chan error, 1)
	go func() { done <- do(ctx, i, &end) }() // which draws from r, too
	select {
	case err = <-done:
		if err != nil {
			end.Detail = err.Error()
		}
		switch {
		case err == nil:
			end.Outcome = OK
		case errors.Is(err, shards.ErrUnknown):
		case errors.Is(err, shards.ErrNotFound), errors.Is(err, shards.ErrExists), errors.Is(err, shards.ErrHosted), errors.Is(err, shards.ErrHasMembers),
			errors.Is(err, shards.ErrLimit), errors.Is(err, shards.ErrInvalidLimit),
			errors.Is(err, extension.ErrInvalidSource), errors.Is(err, extension.ErrRuns), errors.Is(err, extension.ErrCounted):
			end.Outcome = Refused
		}
	case <-time.After(crash):
		w.rec.fault("crash of a command")
		l.kill()
		<-done
	}
	w.rec.add(end)
	i.end()
	w.forget(l)
}

func (w *world) remove(r *rand.Rand, id string) {
	if w.plan.Hosted {
		w.removeByHand(r, id)
		return
	}
	w.delete(r, id)
}

func (w *world) delete(r *rand.Rand, id string) {
	w.command(r, Delete, id, func(ctx context.Context, c shards.Counter) error { return c.Delete(ctx, shards.DeleteOptions{}) })
}

// create makes a counter, by the command line or as a public snippet does; sometimes two do it at a
// time.
func (w *world) create(r *rand.Rand, id string) {
	if !w.plan.Hosted && w.plan.Mix.Snippet > 0 && w.plan.Members == 0 && !w.plan.Limits && r.IntN(3) == 0 { // it would set to zero what counts members, and make shards beside those with shares
		w.createBySnippet(r, id)
		return
	}
	again := 1
	if w.plan.Mix.Rival > 0 {
		again = 2
	}
	var both sync.WaitGroup
	for range again {
		r := rand.New(rand.NewPCG(r.Uint64(), 0))
		both.Go(func() { w.makeCounter(r, id) })
	}
	both.Wait()
}

// makeCounter makes a counter as the command line does, or the app.
func (w *world) makeCounter(r *rand.Rand, id string) {
	if w.plan.Hosted {
		w.write(r, id, w.inherited(r), store.Exists(false), nil)
		return
	}
	start := w.startOf(r)
	w.commandOf(r, Begin{Kind: Create, Counter: id, Start: start}, func(ctx context.Context, i *instance, _ *End) error {
		counter, err := i.client.Counter(id)
		if err != nil {
			return err
		}
		return counter.Create(ctx, shards.CreateOptions{Shards: 1 + r.IntN(5), Total: start})
	})
}

// large is the life of a counter of so many shards that its end takes several commits, which two
// people begin, while a third makes it again. That of an app's document is ended by a reconcile.
func (w *world) large(all *sync.WaitGroup, number uint64) {
	r := dice(w.plan.Seed, "large", number)
	id := w.plan.id("named-large-" + strconv.FormatUint(number, 36))
	create := func(r *rand.Rand) {
		n := 501 + r.IntN(100)
		if w.plan.Hosted {
			w.makeCounter(r, id)
			w.command(r, Resize, id, func(ctx context.Context, c shards.Counter) error { return c.Resize(ctx, n, shards.ResizeOptions{}) })
			return
		}
		w.command(r, Create, id, func(ctx context.Context, c shards.Counter) error {
			return c.Create(ctx, shards.CreateOptions{Shards: n})
		})
	}
	create(r)
	for n := range 12 {
		w.increment(r, []Add{{Counter: id, By: 1 << n}}, w.intent(), "")
		if n != 6 {
			continue
		}
		for rival := range uint64(2) {
			all.Go(func() { w.remove(dice(w.plan.Seed, "large rival", number+rival), id) })
		}
		w.sleep(between(r, time.Millisecond, 10*time.Second))
		create(r)
	}
	w.remove(r, id)
	for range 2 {
		if w.plan.Hosted && w.sleep(w.settings.CleanupAfter+time.Minute) {
			w.reconcile([]string{id}, w.crash(r))
		}
	}
}

// shrink resizes a counter to few shards, and every event of that is lost. A reconcile comes, and increments whose
// events arrive.
func (w *world) shrink(r *rand.Rand, id string) {
	w.rec.fault("shrink without events")
	w.deafen(id, 1)
	w.command(r, Resize, id, func(ctx context.Context, c shards.Counter) error {
		return c.Resize(ctx, 1+r.IntN(2), shards.ResizeOptions{KeepShards: r.IntN(4) == 0})
	})
	w.sleep(between(r, time.Millisecond, 10*time.Second))
	w.deafen(id, -1)
	var only []string // or a walk
	if r.IntN(2) == 0 {
		only = []string{id}
	}
	w.reconcile(only, w.crash(r))
	w.command(r, Resize, id, func(ctx context.Context, c shards.Counter) error {
		return c.Resize(ctx, 3+r.IntN(6), shards.ResizeOptions{})
	})
}
