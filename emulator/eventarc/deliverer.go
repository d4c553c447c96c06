package eventarc

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Options say which changes a [Deliverer] delivers, and how.
type Options struct {
	Pattern  string   // Path pattern of the documents: counters/{counter}/shards/{shard}.
	Further  []string // Path patterns of further triggers; a document that matches several has one event all the same.
	Project  string   // Project of the documents; empty for any.
	Database string   // Database of the documents; empty for any.

	// InFlight is how many posts one target gets at a time, 1000 when 0. It is large because the roll-up keeps a
	// post waiting until the write that covers it has been committed.
	InFlight int

	// Posted is called after each post, from several goroutines, with its target and how long it took; nil for none.
	Posted func(target string, began, ended time.Time)

	Faults Faults
	Logger *slog.Logger // slog.Default() when nil.
}

// Stats are counts since the start.
type Stats struct {
	Changes      int // Changes that matched a pattern.
	Dropped      int // Events that a fault kept from being sent.
	Duplicates   int // Events that a fault added.
	Posts        int // Attempts to deliver an event.
	Retries      int // Attempts that were not acknowledged, and were or will be repeated.
	Acknowledged int // Events that were answered 2xx.
	Pending      int // Events, duplicates included, that are not acknowledged yet.
}

// A Deliverer posts the events of changes to its targets, each to one of them in turn, until it is acknowledged by a
// 2xx answer. An event that isn't is tried again after 100 ms, and then after twice as long each time up to 10 s,
// less a random part of up to half. All methods may be called at any time and from several goroutines.
type Deliverer struct {
	patterns          []Pattern
	project, database string
	inFlight          int
	posted            func(target string, began, ended time.Time)
	logger            *slog.Logger
	transport         *http.Transport
	idPrefix          string // Tells the events of this deliverer from any other's.

	ctx    context.Context // Ends with Close; posts run under it.
	cancel context.CancelFunc
	posts  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	dice    dice
	targets []*target
	next    int // Index of the target that is asked first.
	ready   fifo
	held    held
	timer   *time.Timer // Fires when the first of the held events is due.
	stats   Stats
	idle    chan struct{} // Closed when nothing is pending; nil while there is no waiter.
	warned  time.Time
}

type target struct {
	url      *url.URL
	inFlight int
}

// New returns a deliverer without targets: events wait until there is one.
func New(o Options) (*Deliverer, error) {
	var patterns []Pattern
	for _, pattern := range append([]string{o.Pattern}, o.Further...) {
		p, err := ParsePattern(pattern)
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, p)
	}
	o.InFlight = cmp.Or(o.InFlight, 1000)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	ctx, cancel := context.WithCancel(context.Background())
	d := &Deliverer{
		patterns:  patterns,
		project:   o.Project,
		database:  o.Database,
		inFlight:  o.InFlight,
		posted:    o.Posted,
		logger:    o.Logger,
		transport: newTransport(o.InFlight),
		idPrefix:  fmt.Sprintf("%016x-", rand.Uint64()),
		ctx:       ctx,
		cancel:    cancel,
		dice:      newDice(o.Faults),
	}
	d.timer = time.AfterFunc(time.Hour, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.dispatch()
	})
	return d, nil
}

// Deliver takes a change, and queues its event when the change matches. It never waits for a delivery.
func (d *Deliverer) Deliver(c Change) {
	name, err := parseName(c.Name)
	if err != nil {
		d.logger.Error("a change has no event", "error", err)
		return
	}
	if d.project != "" && d.project != name.project || d.database != "" && d.database != name.database || !slices.ContainsFunc(d.patterns, func(p Pattern) bool { return p.Match(name.path) }) {
		return
	}
	body, err := encodeData(c)
	if err != nil {
		d.logger.Error("a change has no event", "error", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.stats.Changes++
	e := event{seq: uint64(d.stats.Changes), name: c.Name, body: body, at: c.CommitTime}
	fate := d.dice.roll()
	if fate.drop {
		d.stats.Dropped++
		return
	}
	d.enqueue(e, fate.hold)
	if fate.duplicate {
		d.stats.Duplicates++
		d.enqueue(e, fate.holdCopy)
	}
	d.dispatch()
}

func (d *Deliverer) enqueue(e event, hold time.Duration) {
	d.stats.Pending++
	if hold == 0 {
		d.ready.push(&e)
	} else {
		d.held.hold(&e, time.Now().Add(hold))
	}
}

// SetTargets replaces the URLs that events are posted to. Posts on their way to one that is no longer among them
// end by themselves.
func (d *Deliverer) SetTargets(urls ...string) error {
	targets := make([]*target, len(urls))
	for i, s := range urls {
		u, err := url.Parse(s)
		if err != nil {
			return fmt.Errorf("target of events: %w", err)
		}
		targets[i] = &target{url: u}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, t := range targets {
		for _, known := range d.targets {
			if *known.url == *t.url {
				targets[i] = known // Its posts in flight still count.
			}
		}
	}
	d.targets = targets
	d.dispatch()
	return nil
}

// SetFaults replaces the faults. Events that are already queued keep the fate that they have.
func (d *Deliverer) SetFaults(f Faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dice = newDice(f)
}

// Stats returns the counts so far.
func (d *Deliverer) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// Wait returns when every event has been acknowledged, or with the context's error.
func (d *Deliverer) Wait(ctx context.Context) error {
	d.mu.Lock()
	if d.stats.Pending == 0 {
		d.mu.Unlock()
		return nil
	}
	if d.idle == nil {
		d.idle = make(chan struct{})
	}
	idle := d.idle
	d.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait until all events are delivered, with %d to go: %w", d.Stats().Pending, ctx.Err())
	}
}

// Close stops all deliveries and returns once none is left. Events that were not acknowledged are lost. It may be
// called twice.
func (d *Deliverer) Close() {
	d.mu.Lock()
	d.closed = true
	d.timer.Stop()
	d.mu.Unlock()
	d.cancel()
	d.posts.Wait()
	d.transport.CloseIdleConnections()
}

// dispatch starts as many posts as there are events and free targets for. d.mu is held.
func (d *Deliverer) dispatch() {
	if d.closed {
		return
	}
	now := time.Now()
	for e := d.held.due(now); e != nil; e = d.held.due(now) {
		d.ready.push(e)
	}
	if len(d.held) > 0 {
		d.timer.Reset(d.held[0].until.Sub(now))
	}
	for d.ready.len() > 0 {
		t := d.freeTarget()
		if t == nil {
			return
		}
		t.inFlight++
		d.stats.Posts++
		e := d.ready.pop()
		d.posts.Go(func() { d.deliver(t, e) })
	}
}

// freeTarget returns the next target that may get another post, or nil. d.mu is held.
func (d *Deliverer) freeTarget() *target {
	for range d.targets {
		d.next = (d.next + 1) % len(d.targets)
		if t := d.targets[d.next]; t.inFlight < d.inFlight {
			return t
		}
	}
	return nil
}

// deliver posts an event once, and sees to what follows from the answer.
func (d *Deliverer) deliver(t *target, e *event) {
	began := time.Now()
	err := d.post(t.url, e)
	if d.posted != nil {
		d.posted(t.url.Host, began, time.Now())
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	t.inFlight--
	switch {
	case err == nil:
		d.stats.Acknowledged++
		d.stats.Pending--
		if d.stats.Pending == 0 && d.idle != nil {
			close(d.idle)
			d.idle = nil
		}
	case !d.closed:
		d.stats.Retries++
		e.attempts++
		wait := backoff(e.attempts)
		d.held.hold(e, time.Now().Add(wait))
		d.warn(e, wait, err)
	}
	d.dispatch()
}

// warn logs that an event was not acknowledged, at most every five seconds: a function that is down would otherwise
// fill the log. d.mu is held.
func (d *Deliverer) warn(e *event, wait time.Duration, err error) {
	if time.Since(d.warned) < 5*time.Second {
		return
	}
	d.warned = time.Now()
	d.logger.Warn("an event was not acknowledged and will be sent again",
		"id", d.id(e), "document", e.name, "attempt", e.attempts, "wait", wait.Round(time.Millisecond).String(), "pending", d.stats.Pending, "error", err)
}

func (d *Deliverer) id(e *event) string { return d.idPrefix + strconv.FormatUint(e.seq, 10) }

const (
	shortestBackoff = 100 * time.Millisecond
	longestBackoff  = 10 * time.Second
)

// backoff returns how long to wait after the nth attempt. An event knows no more of its attempts than their number, and is
// never sent again at once, as it might be after a pause of gax.Backoff.
func backoff(attempts int) time.Duration {
	longest := longestBackoff
	if attempts < 8 { // 2^7 × 100 ms is beyond the longest.
		longest = min(longest, shortestBackoff<<(attempts-1))
	}
	return longest/2 + rand.N(longest/2)
}
