package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// rates are how often a second one document is written, for as long as Hot each.
var rates = []int{1, 2, 5, 10}

const (
	parts    = 100    // documents that are summed up
	rewrites = 30_000 // of them in all, where Hot is a minute
	asks     = 5      // questions of a kind, of which the middle one counts
)

// steps of the rewrites behind which is asked, in parts of all.
var behind = []float64{0, 1. / 6, 1. / 2, 1}

// hot writes one document ever faster, each write when its time has come, whatever the ones before do: what a counter
// without shards would do. It says how many are taken a second, how long they take, and how many are ABORTED.
func (t *Trial) hot(ctx context.Context, r *Report) (string, error) {
	doc := t.doc("hot").Collection("parts").Doc("hot") // which is no counter, and no shard: nothing is told of it
	if _, err := doc.Set(ctx, map[string]any{"n": 0}); err != nil {
		return "", fmt.Errorf("make the hot document: %w", err)
	}
	var all []string
	for _, rate := range rates {
		n := max(1, int(t.Hot.Seconds()*float64(rate)))
		if err := t.meter.allow(cost.Usage{Writes: float64(n)}); err != nil {
			return "", err
		}
		t.meter.add(cost.Usage{Writes: float64(n)})
		took := make([]time.Duration, n)
		errs := make([]error, n)
		var running sync.WaitGroup
		began := time.Now()
		for i := range n {
			if err := sleep(ctx, time.Until(began.Add(time.Duration(i)*time.Second/time.Duration(rate)))); err != nil {
				return "", err
			}
			running.Go(func() {
				sent := time.Now()
				_, errs[i] = doc.Update(ctx, []firestore.Update{{Path: "n", Value: firestore.Increment(1)}})
				took[i] = time.Since(sent)
			})
		}
		running.Wait()
		elapsed := max(time.Since(began), time.Duration(n)*time.Second/time.Duration(rate)) // the last one's turn, too
		aborted, taken := 0, took[:0]
		for i, err := range errs {
			switch {
			case err == nil:
				taken = append(taken, took[i])
			case status.Code(err) == codes.Aborted:
				aborted++
			default:
				return "", fmt.Errorf("write one document %d times a second: %w", rate, err)
			}
		}
		if len(taken) == 0 {
			taken = []time.Duration{0}
		}
		slices.Sort(taken)
		said := fmt.Sprintf("%.1f a second, p50 %s, p99 %s, %d of %d ABORTED", float64(n-aborted)/elapsed.Seconds(),
			millis(taken[len(taken)/2]), millis(taken[len(taken)*99/100]), aborted, n)
		r.measured(fmt.Sprintf("one document, %d writes a second for %s", rate, t.Hot), "1 a second, sustained", said)
		all = append(all, fmt.Sprintf("%d: %s", rate, said))
	}
	return strings.Join(all, "; "), nil
}

// sums asks what a hundred documents hold in all, after they were rewritten more and more often: each leaves an index
// entry behind, which a sum() reads over. It asks for all, for those of the least number on, and for the documents
// themselves.
func (t *Trial) sums(ctx context.Context, r *Report) (string, error) {
	below := t.doc("sum").Collection("parts")
	docs := make([]*firestore.DocumentRef, parts)
	for i := range docs {
		docs[i] = below.Doc(fmt.Sprint(i))
	}
	n := 0 // of each
	rewrite := func(until int) error {
		for ; n < until; n++ {
			if err := t.Firestore.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error { // all at once
				for _, doc := range docs {
					if err := tx.Set(doc, map[string]any{"n": n}); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				return fmt.Errorf("rewrite %d documents: %w", parts, err)
			}
		}
		return nil
	}
	all := max(1, int(rewrites/parts*t.Hot.Minutes()))
	u := cost.Usage{Writes: float64(parts * (all + 1)), Reads: float64(len(behind) * asks * (parts + 3))}
	if err := t.meter.allow(u); err != nil {
		return "", err
	}
	t.meter.add(u)
	var said []string
	for _, part := range behind {
		after := int(part * float64(all))
		if err := rewrite(after + 1); err != nil { // the first makes them
			return "", err
		}
		total := int64(parts * (n - 1))
		sum := func(q firestore.Query) func() error {
			return func() error {
				answer, err := q.NewAggregationQuery().WithSum("n", "sum").WithCount("count").Get(ctx)
				if err != nil {
					return fmt.Errorf("sum up %d documents: %w", parts, err)
				}
				if got := answer["sum"].(*firestorepb.Value).GetIntegerValue(); got != total {
					return fmt.Errorf("the sum is %d, and %d documents of %d are %d", got, parts, n-1, total)
				}
				return nil
			}
		}
		var times []string
		for _, way := range []struct {
			name string
			ask  func() error
		}{
			{"sum()", sum(below.Query)}, {"bounded", sum(below.Where("n", ">=", n-1))},
			{"list", func() error { _, err := below.Documents(ctx).GetAll(); return err }},
		} {
			took := make([]time.Duration, asks)
			for i := range took {
				began := time.Now()
				if err := way.ask(); err != nil {
					return "", err
				}
				took[i] = time.Since(began)
			}
			slices.Sort(took)
			times = append(times, way.name+" "+millis(took[asks/2]))
		}
		r.measured(fmt.Sprintf("sum of %d documents after %d rewrites", parts, parts*after), "40 ms each", strings.Join(times, ", "))
		said = append(said, fmt.Sprintf("after %d: %s", parts*after, strings.Join(times, ", ")))
	}
	return strings.Join(said, "; "), nil
}
