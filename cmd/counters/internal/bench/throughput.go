package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/firestore-counters/counters/emulator"
)

// hot is increments a second on one counter.
func (s *session) hot(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("one counter, %d shards, commits take %v (a document takes one at a time), one instance; closed loop, up to 1,000 clients; the best of the ramp, then rounds. Events left: what the trigger has not taken after a pause that is longer than the turn (ours may hold events for a second)", hotShards, commitLatency)}
	request := post("/hot")
	contestants := pick(s, []contestant{ours(), blind(), nothing()}, []contestant{ours(), thrifty(), blind(), nothing(), sumOnRead()})
	err := s.throughput(ctx, &r, "hot", contestants, hotShards, []string{"hot"}, func(int) []byte { return request })
	if err == nil && !s.quick { // it takes a while until the bursts that documents take are used up
		err = s.hotDocuments(ctx, &r)
	}
	return r, err
}

// hotDocuments is the same where a document takes one write a second, sustained.
func (s *session) hotDocuments(ctx context.Context, r *Result) error {
	s.step("documents of one write a second")
	all, err := open(ctx, []contestant{ours(), blind()}, func(contestant) setup { return setup{faults: commits(), shards: hotShards} })
	if err != nil {
		return err
	}
	defer all.close()
	if err := all.create(ctx, "hot"); err != nil {
		return err
	}
	const n, rounds = 1000, 2
	request := post("/hot")
	of := make([]turns, len(all))
	for i, st := range all {
		st.server.SetFaults(emulator.Faults{CommitLatency: commitLatency, DocWriteRate: 1})
		clients, err := st.connections(ctx, n, st.https)
		if err != nil {
			return err
		}
		closedLoop(ctx, clients, 6*time.Second, func(int) []byte { return request })
		for range rounds {
			if err := st.turn(ctx, &of[i], time.Second, func() *load {
				return closedLoop(ctx, clients, 4*time.Second, func(int) []byte { return request })
			}); err != nil {
				return err
			}
		}
		r.Rows = append(r.Rows, row(st.name, fmt.Sprintf("%d clients, --doc-write-rate 1", n), &of[i],
			metric("increments/s", "/s", of[i].rates), metric("commits/s", "/s", of[i].commits), metric("p50", "ms", of[i].quantiles(0.5))))
	}
	r.Ratios = append(r.Ratios, ratio("hot:ours/blind, hot documents", "increments/s where a document takes one write a second, ours ÷ blind", of[0].rates, of[1].rates))
	return nil
}

// zipf is the same over many counters, some of which are much more popular than others.
func (s *session) zipf(ctx context.Context) (Result, error) {
	const counters, shards, exponent = 1000, 10, 1.1
	r := Result{Settings: fmt.Sprintf("%d counters, chosen by Zipf's law with exponent %v, %d shards each, commits take %v (a document takes one at a time), one instance; closed loop, up to 1,000 clients", counters, exponent, shards, commitLatency)}
	ids, requests := make([]string, counters), make([][]byte, counters)
	for i := range ids {
		ids[i] = fmt.Sprintf("zipf-%d", i)
		requests[i] = post("/" + ids[i])
	}
	// The same choices for all contestants, made beforehand.
	dice := rand.NewZipf(rand.New(rand.NewPCG(1, 0)), exponent, 1, counters-1)
	choices := make([]uint16, 1<<16)
	for i := range choices {
		choices[i] = uint16(dice.Uint64())
	}
	err := s.throughput(ctx, &r, "zipf", []contestant{ours(), blind(), nothing()}, shards, ids, func(n int) []byte { return requests[choices[n%len(choices)]] })
	return r, err
}

func (s *session) throughput(ctx context.Context, r *Result, id string, contestants []contestant, shards int, ids []string, next func(int) []byte) error {
	s.step("start")
	all, err := open(ctx, contestants, func(contestant) setup { return setup{faults: commits(), shards: shards} })
	if err != nil {
		return err
	}
	defer all.close()
	if err := all.create(ctx, ids...); err != nil {
		return err
	}
	steps := pick(s, []int{250, 1000}, []int{64, 250, 1000})
	best := make([]int, len(all))
	for i, st := range all {
		var highest float64
		for _, n := range steps {
			s.step(fmt.Sprintf("%s, %d clients", st.name, n))
			clients, err := st.connections(ctx, n, st.https)
			if err != nil {
				return err
			}
			if err := st.resume(); err != nil {
				return err
			}
			window := pick(s, 150*time.Millisecond, time.Second)
			closedLoop(ctx, clients, window, next) // warms up
			if rate := closedLoop(ctx, clients, window, next).rate(); rate > highest {
				highest, best[i] = rate, n
			}
			st.pause()
		}
	}
	of := make([]turns, len(all))
	rounds := pick(s, 3, 5)
	if s.quick && len(ids) > 1 {
		rounds = 1
	}
	err = s.rounds(ctx, all, of, rounds, pick(s, 250*time.Millisecond, 2500*time.Millisecond), best, next)
	for i, st := range all {
		t := &of[i]
		row := row(st.name, fmt.Sprintf("%d clients", best[i]), t,
			metric("increments/s", "/s", t.rates), metric("commits/s", "/s", t.commits), metric("p50", "ms", t.quantiles(0.5)),
			metric("events left", "", t.left))
		row.PerMillion = bills(t.usage, t.answered)
		r.Rows = append(r.Rows, row)
	}
	mine := find(all, of, "ours").rates
	r.Ratios = append(r.Ratios,
		ratio(id+":ours/blind", "increments/s, ours ÷ blind", mine, find(all, of, "blind").rates),
		ratio(id+":ours/no-op", "increments/s, ours ÷ no-op", mine, find(all, of, "no-op").rates))
	return err
}

func (s *session) rounds(ctx context.Context, all stages, of []turns, rounds int, window time.Duration, best []int, next func(int) []byte) error {
	for round := range rounds {
		for i, st := range all {
			s.step(fmt.Sprintf("round %d of %d, %s", round+1, rounds, st.name))
			clients, err := st.connections(ctx, best[i], st.https)
			if err != nil {
				return err
			}
			if err := st.turn(ctx, &of[i], pick(s, 500*time.Millisecond, 3*time.Second), func() *load { return closedLoop(ctx, clients, window, next) }); err != nil {
				return err
			}
		}
	}
	return nil
}
