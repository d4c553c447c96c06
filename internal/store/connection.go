package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apiv1 "cloud.google.com/go/firestore/apiv1"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// callTimeout bounds a call whose context has no earlier deadline. Whatever is at the other
	// end, even where that is not Firestore, a caller hears of it.
	callTimeout = 30 * time.Second
	// readTimeout is how long the first attempt of a read may take, or half of the time there is.
	// The second goes over a new connection where that one got no answer.
	readTimeout = 10 * time.Second
	// silence is how long a call without an answer takes at least to make a connection a silent
	// one. A call that is given up sooner only had a caller in a hurry.
	silence = 500 * time.Millisecond
)

// connection leads to Firestore, and is replaced by a new one when a call over it gets no
// answer. Left to itself, gRPC notices after 35 s with [dialOptions], and where packets are
// still acknowledged by something in between, only by its own pings; until then each call would
// burn its deadline.
type connection struct {
	dial func() (*apiv1.Client, error)

	mu      sync.Mutex
	now     *line
	open    map[*line]bool // now, and older ones whose calls have not ended
	dialing bool
	given   bool // by the program that opened the database, and so not to be replaced
	closed  bool

	unreachable *Unreachable // of the last call; nil where that found a connection
	emulator    bool
	refused     time.Time // when the emulator was first found not to listen; zero where it does
}

// line is one connection.
type line struct {
	api   *apiv1.Client
	calls int // over it, now
}

func newConnection(emulator bool, dial func() (*apiv1.Client, error)) (*connection, error) {
	api, err := dial()
	if err != nil {
		return nil, err
	}
	first := &line{api: api}
	return &connection{dial: dial, emulator: emulator, now: first, open: map[*line]bool{first: true}}, nil
}

// limited is a context that ends in [callTimeout] where the one given has no deadline.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, callTimeout)
}

// call does something over the connection, once, bounded by ctx or else by [callTimeout]. Once that
// has ended, its error is the context's.
func (c *connection) call(ctx context.Context, do func(context.Context, *apiv1.Client) error) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	over := c.now
	over.calls++
	c.mu.Unlock()
	began := time.Now()
	err := c.explained(ctx, do(ctx, over.api))
	if IsDeadline(err) && time.Since(began) >= silence {
		c.redial(over)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	over.calls--
	if c.unreachable, _ = errors.AsType[*Unreachable](err); c.unreachable == nil && ctx.Err() == nil {
		c.refused = time.Time{}
	}
	if over != c.now && over.calls == 0 && c.open[over] {
		delete(c.open, over)
		_ = over.api.Close()
	}
	return err
}

// refuses notes that an emulator has refused a connection, and reports whether it has for long
// enough.
func (c *connection) refuses() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused.IsZero() {
		c.refused = time.Now()
	}
	return c.emulator && time.Since(c.refused) >= starting
}

// twice is call for what is harmless to do twice: an attempt that is without an answer after a
// while is given up, and another one made, which goes over another connection.
func (c *connection) twice(ctx context.Context, do func(context.Context, *apiv1.Client) error) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	end, _ := ctx.Deadline()
	first, cancel := context.WithTimeout(ctx, min(readTimeout, time.Until(end)/2))
	defer cancel()
	err := c.call(first, do)
	if IsDeadline(err) && ctx.Err() == nil {
		err = c.call(ctx, do)
	}
	return err
}

// read is twice, again and again until there is an answer, or an error that no repetition helps.
func (c *connection) read(ctx context.Context, do func(context.Context, *apiv1.Client) error) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	var last error // what came of the last attempt that came to something
	for pause := Pauses(); ; {
		err := c.twice(ctx, do)
		if code := status.Code(err); err == nil || Refused(err) || !IsDeadline(err) && code != codes.Unavailable && code != codes.Internal {
			return err
		}
		if !IsDeadline(err) {
			last = err
		}
		if ctx.Err() == nil && gax.Sleep(ctx, pause.Pause()) == nil {
			continue
		}
		ended := ctx.Err()
		if last == nil || !errors.Is(ended, context.DeadlineExceeded) {
			return ended
		}
		if u, ok := errors.AsType[*Unreachable](last); ok {
			return &Unreachable{u.cause, ended, false}
		}
		return fmt.Errorf("%w: %v", ended, last) // not one of Firestore's: the time is over
	}
}

// redial replaces a connection that is silent, unless another call has done so. Calls over the old
// one go on, and it is closed when the last of them has ended.
func (c *connection) redial(silent *line) {
	c.mu.Lock()
	if silent != c.now || c.given || c.dialing || !c.open[silent] {
		c.mu.Unlock()
		return
	}
	c.dialing = true
	c.mu.Unlock()
	api, err := c.dial() // it may look for credentials
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialing = false
	switch {
	case err != nil: // the old one has to do
	//lint:ignore SA1019 there is no other way to see that the connection was given, and that a new client has the same
	case api.Connection() == silent.api.Connection():
		c.given = true
	case !c.open[silent]: // closed meanwhile
		_ = api.Close()
	default:
		c.now = &line{api: api}
		c.open[c.now] = true
	}
}

// close closes the connection. Calls under way fail, and later ones with [ErrClosed].
func (c *connection) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var errs []error
	for line := range c.open {
		errs = append(errs, line.api.Close())
	}
	clear(c.open)
	return errors.Join(errs...)
}

// IsDeadline reports whether there was no answer in time.
func IsDeadline(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}
