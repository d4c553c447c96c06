package eventarc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
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
	Further  []string // Path patterns of further triggers; a document that matches several has one event.
	Project  string   // Project of the documents; empty for any.
	Database string   // Database of the documents; empty for any.

	// InFlight is how many posts one target gets at a time, 1000 when 0. It is large because a
	// function may keep a post waiting until a write that many share has been committed.
	InFlight int

	Push Push // At once unless it says otherwise.

	// Posted is called after each post, from several goroutines, with its target and how long it
	// took; nil for none.
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
	Overdue      int // Posts, among the retries, that were not answered by the acknowledgement deadline.
	Expired      int // Events that were dropped unacknowledged, because their time was over.
	Acknowledged int // Events that were answered 2xx.
	Pending      int // Events, duplicates included, that are not acknowledged yet.
}

// A Deliverer posts the events of changes to its targets, to one after the other, until a 2xx answer
// acknowledges them. If an event isn't acknowledged, it is posted again after a pause, and the pause
// doubles each time, less a random part of up to half: see [Push]. All methods may be called at any
// time and from several goroutines.
type Deliverer struct {
	project, database string
	inFlight          int
	push              Push
	posted            func(target string, began, ended time.Time)
	logger            *slog.Logger
	transport         *http.Transport
	idPrefix          string // Tells the events of this deliverer from any other's.

	ctx    context.Context // Ends with Close; posts run under it.
	cancel context.CancelFunc
	posts  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	dice     dice
	targets  []*target
	next     int             // Index of the target that is asked first.
	triggers []*subscription // One per pattern.
	held     held
	timer    *time.Timer // Fires when the first of the held events is due, or a pause is over.
	stats    Stats
	idle     chan struct{} // Closed when nothing is pending; nil while there is no waiter.
	warned   time.Time
}

type target struct {
	url      *url.URL
	inFlight int
}

// New returns a deliverer without targets: events wait until there is one.
func New(o Options) (*Deliverer, error) {
	if err := o.Push.Check(); err != nil {
		return nil, fmt.Errorf("push of events: %w", err)
	}
	var triggers []*subscription
	for _, pattern := range append([]string{o.Pattern}, o.Further...) {
		p, err := ParsePattern(pattern)
		if err != nil {
			return nil, err
		}
		s := &subscription{pattern: p}
		if o.Push.Window > 0 {
			s.window = NewWindow(o.Push.Window)
		}
		triggers = append(triggers, s)
	}
	o.Push.Shortest = cmp.Or(o.Push.Shortest, 100*time.Millisecond)
	o.Push.Longest = max(o.Push.Shortest, cmp.Or(o.Push.Longest, 10*time.Second))
	o.InFlight = cmp.Or(o.InFlight, 1000)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	ctx, cancel := context.WithCancel(context.Background())
	d := &Deliverer{
		triggers:  triggers,
		push:      o.Push,
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

// Deliver takes a change, and queues its event when the change matches. It never waits for a
// delivery.
func (d *Deliverer) Deliver(c Change) {
	name, err := parseName(c.Name)
	if err != nil {
		d.logger.Error("a change has no event", "error", err)
		return
	}
	trigger := slices.IndexFunc(d.triggers, func(s *subscription) bool { return s.pattern.Match(name.path) })
	if d.project != "" && d.project != name.project || d.database != "" && d.database != name.database || trigger < 0 {
		return
	}
	data, err := encodeData(c)
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
	e := event{trigger: d.triggers[trigger], seq: uint64(d.stats.Changes), name: c.Name, data: data, at: c.CommitTime, published: time.Now()}
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
	if hold += d.push.transit(); hold == 0 {
		e.trigger.ready.push(&e)
	} else {
		d.held.hold(&e, time.Now().Add(hold))
	}
}

// SetTargets replaces the URLs that events are posted to. Posts that are under way to a former target go on.
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

// Close stops all deliveries and returns once none is left. Events that were not acknowledged are
// lost. It may be called twice.
func (d *Deliverer) Close() {
	d.mu.Lock()
	d.closed = true
	d.timer.Stop()
	d.mu.Unlock()
	d.cancel()
	d.posts.Wait()
	d.transport.CloseIdleConnections()
}

// dispatch starts as many posts as there are events, and room for them. d.mu is held.
func (d *Deliverer) dispatch() {
	if d.closed {
		return
	}
	now := time.Now()
	for e := d.held.due(now); e != nil; e = d.held.due(now) {
		e.trigger.ready.push(e)
	}
	d.start(now)
	wake := time.Duration(math.MaxInt64)
	if len(d.held) > 0 {
		wake = d.held[0].until.Sub(now)
	}
	for _, s := range d.triggers {
		if w := s.waits(now); w > 0 {
			wake = min(wake, w)
		}
	}
	if wake < math.MaxInt64 {
		d.timer.Reset(wake)
	}
}

// start starts posts, of one trigger after the other, so that none waits for all of another's. d.mu
// is held.
func (d *Deliverer) start(now time.Time) {
	for started := true; started; {
		started = false
		for _, s := range d.triggers {
			if !s.open(now) {
				continue
			}
			t := d.freeTarget()
			if t == nil {
				return
			}
			t.inFlight++
			s.posted(now)
			d.stats.Posts++
			e := s.ready.pop()
			d.posts.Go(func() { d.deliver(t, e) })
			started = true
		}
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

// deliver posts an event once, and sees to what follows from the answer, or from its absence.
func (d *Deliverer) deliver(t *target, e *event) {
	began := time.Now()
	var overdue *time.Timer
	if d.push.AckDeadline > 0 {
		overdue = time.AfterFunc(d.push.AckDeadline, func() { d.settle(e, d.push.AckDeadline, errOverdue) })
	}
	err := d.post(t.url, e)
	ended := time.Now()
	if d.posted != nil {
		d.posted(t.url.Host, began, ended)
	}
	d.mu.Lock()
	t.inFlight--
	d.mu.Unlock()
	if overdue == nil || overdue.Stop() {
		d.settle(e, ended.Sub(began), err)
	} else { // the event has been put back already, and only the target has room again
		d.mu.Lock()
		d.dispatch()
		d.mu.Unlock()
	}
}

var errOverdue = errors.New("not answered by the acknowledgement deadline")

// settle notes what became of a post: the event is done, to be sent again, or too old for that.
func (d *Deliverer) settle(e *event, took time.Duration, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.trigger.settled(err == nil, took)
	e.attempts++
	wait := d.push.backoff(e.attempts)
	switch {
	case err == nil:
		d.stats.Acknowledged++
		d.done()
	case d.closed:
		return
	case d.push.Retention > 0 && time.Since(e.published)+wait > d.push.Retention:
		d.stats.Expired++
		d.done()
	default:
		d.stats.Retries++
		if errors.Is(err, errOverdue) {
			d.stats.Overdue++
		}
		d.held.hold(e, time.Now().Add(wait))
		d.warn(e, wait, err)
	}
	d.dispatch()
}

// done notes that an event is gone, and tells those who wait for the last. d.mu is held.
func (d *Deliverer) done() {
	if d.stats.Pending--; d.stats.Pending == 0 && d.idle != nil {
		close(d.idle)
		d.idle = nil
	}
}

// warn logs that an event was not acknowledged, at most every five seconds: a function that is down
// would otherwise fill the log. d.mu is held.
func (d *Deliverer) warn(e *event, wait time.Duration, err error) {
	if time.Since(d.warned) < 5*time.Second {
		return
	}
	d.warned = time.Now()
	d.logger.Warn("an event was not acknowledged and will be sent again",
		"id", d.id(e), "document", e.name, "attempt", e.attempts, "wait", wait.Round(time.Millisecond).String(), "pending", d.stats.Pending, "error", err)
}

func (d *Deliverer) id(e *event) string { return d.idPrefix + strconv.FormatUint(e.seq, 10) }
