package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"cloud.google.com/go/firestore"
	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

const (
	increments = 2000
	counters   = 5
	twice      = 20  // one in so many is sent twice
	workers    = 32  // requests at a time
	crowd      = 300 // increments of a burst
	lags       = 20  // increments of which the lag is measured, one after the other
	comments   = 25
	seats      = 50
	takers     = 80

	// alone is between such increments: longer than an interval of the roll-up, so that none waits for
	// the one before.
	alone = 2 * time.Second

	// arrives is how long a total may take to become what was acknowledged: five times what the alert
	// on the lag takes.
	arrives = 150 * time.Second
)

// first counts once when nothing has run yet: Increment, Rollup and the trigger are cold.
func (t *Trial) first(ctx context.Context, r *Report) (string, error) {
	if err := t.make(ctx, "first"); err != nil {
		return "", err
	}
	seen := t.watch(ctx, "first", "total")
	defer seen.stop()
	took, _, err := t.load.add(ctx, "first", key())
	if err != nil {
		return "", err
	}
	lag, err := seen.until(ctx, 1)
	if err != nil {
		return "", err
	}
	r.measured("Increment's first answer, cold", "1.5 to 3 s", millis(took))
	r.measured("lag of the first increment, all cold", "5 s", millis(lag))
	return fmt.Sprintf("answered after %s, in the total %s later", millis(took), millis(lag)), nil
}

// exact counts with keys, some of them twice, and compares the totals with what was acknowledged.
func (t *Trial) exact(ctx context.Context, r *Report) (string, error) {
	ids := make([]string, counters)
	for i := range ids {
		ids[i] = fmt.Sprintf("exact-%d", i)
		if err := t.make(ctx, ids[i]); err != nil {
			return "", err
		}
	}
	took := make([]time.Duration, increments)
	again, replays := 0, make([]bool, increments)
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range increments {
		if i%twice == 0 {
			again++
		}
		group.Go(func() (err error) {
			id, k := ids[i%counters], key()
			if took[i], _, err = t.load.add(gctx, id, k); err == nil && i%twice == 0 {
				_, replays[i], err = t.load.add(gctx, id, k)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	for i, replayed := range replays {
		if i%twice == 0 && !replayed {
			return "", fmt.Errorf("of %d increments that were sent twice, one was not answered as a replay", again)
		}
	}
	for _, id := range ids {
		seen := t.watch(ctx, id, "total")
		_, err := seen.until(ctx, increments/counters)
		seen.stop()
		if err != nil {
			return "", err
		}
	}
	r.measured(fmt.Sprintf("an increment, p50 of %d, %d at a time", increments, workers), "-", millis(quantile(took, 0.5)))
	r.measured("the same, p99", "-", millis(quantile(took, 0.99)))
	return fmt.Sprintf("each total is %d, what was acknowledged; %d replays counted nothing", increments/counters, again), nil
}

// lag counts one at a time, and measures how long after its answer the total shows each.
func (t *Trial) lag(ctx context.Context, r *Report) (string, error) {
	if err := t.make(ctx, "lag"); err != nil {
		return "", err
	}
	seen := t.watch(ctx, "lag", "total")
	defer seen.stop()
	var answers, refusals, all []time.Duration
	for i := range lags {
		took, _, err := t.load.add(ctx, "lag", key())
		if err != nil {
			return "", err
		}
		refused, err := t.load.refuse(ctx)
		if err != nil {
			return "", err
		}
		refusals = append(refusals, refused)
		lag, err := seen.until(ctx, int64(i+1))
		if err != nil {
			return "", err
		}
		answers, all = append(answers, took), append(all, lag)
		if err := sleep(ctx, alone); err != nil {
			return "", err
		}
	}
	// Of what an increment takes, all but the commit is in a request that is refused at once.
	commit := max(quantile(answers, 0.5)-quantile(refusals, 0.5), 0)
	r.Figures.Commit = commit.Seconds()
	r.Figures.Delivery = max(quantile(all, 0.5)-commit, 0).Seconds()
	r.measured("an increment alone, p50", "-", millis(quantile(answers, 0.5)))
	r.measured("a request that is refused at once, p50: the way there", "-", millis(quantile(refusals, 0.5)))
	r.measured("the difference: a commit", "10 ms", millis(commit))
	r.measured("lag of a lone increment, warm, p50", "0.05 s", millis(quantile(all, 0.5)))
	r.measured("the same, p99", "0.08 s", millis(quantile(all, 0.99)))
	return fmt.Sprintf("p50 %s, p99 %s", millis(quantile(all, 0.5)), millis(quantile(all, 0.99))), nil
}

// burst has a crowd come to a quiet counter: how fast the total grows is how fast Pub/Sub's push
// window opens.
func (t *Trial) burst(ctx context.Context, r *Report) (string, error) {
	if err := t.make(ctx, "crowd"); err != nil {
		return "", err
	}
	seen := t.watch(ctx, "crowd", "total")
	defer seen.stop()
	began := time.Now()
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for range crowd {
		group.Go(func() error {
			_, _, err := t.load.add(gctx, "crowd", key())
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	answered := time.Since(began)
	if _, err := seen.until(ctx, crowd); err != nil {
		return "", err
	}
	for _, share := range []float64{0.5, 0.99} {
		at, ok := seen.reached(int64(share * crowd))
		if !ok {
			continue
		}
		assumed := "-"
		if share == 0.99 {
			assumed = "3.1 s with one instance"
		}
		r.measured(fmt.Sprintf("crowd of %d: %.0f %% are in the total after", crowd, share*100), assumed, millis(at.Sub(began)))
	}
	all, _ := seen.reached(crowd)
	switch w, err := t.opened(ctx, began.Add(-time.Second)); {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil: // as where logs may not be read
		r.measured("posts to Rollup before the first is answered", "5", "not known: "+err.Error())
	case w.posts == 0:
		r.measured("posts to Rollup before the first is answered", "5", "not known: no request is in the log")
	default:
		r.Figures.Window = w.first
		r.measured("posts to Rollup before the first is answered: Pub/Sub's window", "5", fmt.Sprint(w.first))
		r.measured("posts at a time, by Cloud Run's log of requests", "one more with each answer", w.String())
	}
	return fmt.Sprintf("answered within %s, all in the total after %s", millis(answered), millis(all.Sub(began))), nil
}

// limited has a crowd take more seats than there are: each is given once, and no request is refused while there
// is one.
func (t *Trial) limited(ctx context.Context, _ *Report) (string, error) {
	if err := t.make(ctx, "seats"); err != nil {
		return "", err
	}
	if err := t.load.limit(ctx, "seats", seats); err != nil {
		return "", err
	}
	var taken, refused atomic.Int64
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for range takers {
		group.Go(func() error {
			_, _, err := t.load.post(gctx, "seats", key(), `{"by": {"seats": 1}}`)
			switch {
			case err == nil:
				taken.Add(1)
			case errors.Is(err, errSoldOut):
				refused.Add(1)
				err = nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	if taken.Load() != seats || refused.Load() != takers-seats {
		return "", fmt.Errorf("of %d seats %d are taken, and %d requests of %d were refused", seats, taken.Load(), refused.Load(), takers)
	}
	seen := t.watch(ctx, "seats", "seats")
	defer seen.stop()
	if _, err := seen.until(ctx, seats); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d are taken, %d requests were refused", seats, takers-seats), nil
}

// counted makes documents below a counter, deletes one, and wants their number. There are never more of them
// at a time than in the end: a total that says so is wrong.
func (t *Trial) counted(ctx context.Context, _ *Report) (string, error) {
	if err := t.make(ctx, "commented"); err != nil {
		return "", err
	}
	below := t.doc("commented").Collection("comments")
	for i := range comments {
		if _, err := below.Doc(fmt.Sprint(i)).Set(ctx, map[string]any{"n": i}); err != nil {
			return "", fmt.Errorf("make a comment: %w", err)
		}
		if i != comments/2 {
			continue
		}
		if _, err := below.Doc("0").Delete(ctx); err != nil {
			return "", fmt.Errorf("delete a comment: %w", err)
		}
	}
	u := cost.Usage{Reads: comments, Writes: 3 * comments, Deletes: comments, Rollup: cost.Function{Requests: comments + 1, Busy: comments * 0.1}}
	t.meter.add(u)
	seen := t.watch(ctx, "commented", "comments")
	defer seen.stop()
	if _, err := seen.until(ctx, comments-1); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d are counted", comments-1), nil
}

// doubtful are paths that Cloud Run may not hand on. Google says that it keeps some that end with z, and not which: a
// user's id may end so.
var doubtful = []string{"healthz", "eventlog", "jazz", "first/total/liz"}

// paths asks for counters and a member of these paths. The function answers each with a problem, as there is no such
// counter, and members are off.
func (t *Trial) paths(ctx context.Context, r *Report) (string, error) {
	var kept []string
	for _, path := range doubtful {
		t.meter.add(cost.Usage{Reads: 1, Increment: cost.Function{Requests: 1, Busy: 0.1}})
		_, text, err := t.load.send(ctx, http.MethodGet, path, "", "")
		if err != nil {
			return "", err
		}
		var problem struct{ Title string }
		if json.Unmarshal(text, &problem) != nil || problem.Title == "" {
			kept = append(kept, "/"+path)
		}
	}
	said := cmp.Or(strings.Join(kept, ", "), "none")
	r.measured("of /"+strings.Join(doubtful, ", /")+" Cloud Run keeps", "/healthz, /eventlog", said)
	return "it keeps " + said, nil
}

// watcher hears what a field of a document shows.
type watcher struct {
	field string
	shown chan shown
	stop  context.CancelFunc
	heard []shown
	err   error // set before shown is closed
}

type shown struct {
	value int64
	at    time.Time
}

// watch listens to a counter, as a page does.
func (t *Trial) watch(ctx context.Context, id, field string) *watcher {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{field: field, shown: make(chan shown, 1024), stop: cancel}
	it := t.doc(id).Snapshots(ctx)
	go func() {
		defer close(w.shown)
		defer it.Stop()
		for {
			doc, err := it.Next()
			if err != nil {
				w.err = fmt.Errorf("listen to %s: %w", id, err)
				return
			}
			t.meter.add(cost.Usage{Reads: 1})
			select {
			case w.shown <- shown{number(doc, field), time.Now()}:
			case <-ctx.Done():
				w.err = ctx.Err()
				return
			}
		}
	}()
	return w
}

func number(doc *firestore.DocumentSnapshot, field string) int64 {
	if !doc.Exists() {
		return 0
	}
	n, _ := doc.Data()[field].(int64)
	return n
}

// until waits until the field shows a number, and returns how long that took from now: 0 where it
// showed it already. More than that number is an error: something counted twice.
func (w *watcher) until(ctx context.Context, want int64) (time.Duration, error) {
	began := time.Now()
	late := time.NewTimer(arrives)
	defer late.Stop()
	for {
		if n := len(w.heard); n > 0 {
			switch last := w.heard[n-1]; {
			case last.value == want:
				return max(last.at.Sub(began), 0), nil
			case last.value > want:
				return 0, fmt.Errorf("%s shows %d, and %d were acknowledged", w.field, last.value, want)
			}
		}
		select {
		case s, ok := <-w.shown:
			if !ok {
				return 0, errors.Join(w.err, ctx.Err())
			}
			w.heard = append(w.heard, s)
		case <-late.C:
			last := int64(0)
			if n := len(w.heard); n > 0 {
				last = w.heard[n-1].value
			}
			return 0, fmt.Errorf("%s shows %d after %s, and %d were acknowledged", w.field, last, arrives, want)
		}
	}
}

// reached is when the field first showed at least so much.
func (w *watcher) reached(least int64) (time.Time, bool) {
	i := slices.IndexFunc(w.heard, func(s shown) bool { return s.value >= least })
	if i < 0 {
		return time.Time{}, false
	}
	return w.heard[i].at, true
}

// quantile is the smallest of the durations that a share of them doesn't exceed.
func quantile(of []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

func millis(d time.Duration) string { return d.Round(time.Millisecond).String() }
