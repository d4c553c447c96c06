package dev

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// CloudRun says how instances come and go. The zero value keeps all of them running, and thinking,
// all the time.
//
// On Cloud Run an instance starts while requests wait that no instance has room for, and those wait
// until it answers. It has a processor only from its start until it answers, while it has requests,
// and from SIGTERM on: in between it is stopped here. One that has had none for a while is ended,
// with ten seconds from SIGTERM to SIGKILL. What isn't modelled: a second instance because the
// first one's processor is busy, how much of one an instance has, and the memory that it may take.
type CloudRun struct {
	Concurrency int           // Requests that an instance takes at a time, up to 1,000; 0 keeps all instances running instead.
	Idle        time.Duration // How long one without requests is kept: 15 s when 0, where Cloud Run takes up to 15 minutes.
}

const (
	defaultIdle = 15 * time.Second
	// longestWait is how long a request waits for an instance. Cloud Run answers 429 after 10 s, or
	// three and a half times as long as an instance takes to start.
	longestWait = 10 * time.Second
)

// service is a function's requests, and the instances that take them. It is an [http.RoundTripper],
// as [backends] are.
type service struct {
	concurrency int
	idle        time.Duration
	grow        func() bool       // starts one more instance, unless all are running
	shrink      func(addr string) // ends one
	transport   *http.Transport

	mu        sync.Mutex
	instances []*served
	starting  int // instances that were started and don't answer yet
	waiting   []chan *served
	closed    bool
}

// served is an instance that answers.
type served struct {
	answering
	open   int  // requests under way
	gone   bool // it gets no more of them
	unused *time.Timer
}

func newService(c CloudRun, grow func() bool, shrink func(string)) *service {
	return &service{
		concurrency: c.Concurrency, idle: cmp.Or(c.Idle, defaultIdle), grow: grow, shrink: shrink,
		transport: newBackends().transport,
	}
}

// missing is how many instances are to be started for requests that wait.
func missing(waiting, starting, concurrency int) int {
	return max(0, (waiting+concurrency-1)/concurrency-starting)
}

// RoundTrip sends a request to an instance that has room for it, once there is one. Where that one
// turns out to have ended nothing was sent, and another is asked for. It returns [errNoInstance]
// when none has had room for too long.
func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), longestWait, errNoInstance)
	defer cancel()
	for {
		i, err := s.take(ctx)
		if err != nil {
			return nil, err
		}
		attempt, to := r.WithContext(r.Context()), *r.URL
		to.Host = i.addr
		attempt.URL = &to
		if r.Body != nil {
			// The transport closes the body when it can't connect, but the next attempt has to read
			// it.
			attempt.Body = io.NopCloser(r.Body)
		}
		answer, err := s.transport.RoundTrip(attempt)
		switch {
		case err == nil:
			answer.Body = &answerBody{ReadCloser: answer.Body, done: sync.OnceFunc(func() { s.put(i) })}
			return answer, nil
		case !isDial(err) || r.Context().Err() != nil:
			s.put(i)
			return nil, err
		}
		s.drop(i)
		s.put(i)
		s.shrink(i.addr) // mostly it has ended; one that has not would stay, and nobody would use it
	}
}

// answerBody ends a request with its answer's.
type answerBody struct {
	io.ReadCloser
	done func()
}

func (b *answerBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// take finds an instance for a request, or waits for one.
func (s *service) take(ctx context.Context) (*served, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errNoInstance
	}
	if i := s.least(); i != nil {
		s.give(i)
		s.mu.Unlock()
		return i, nil
	}
	wait := make(chan *served, 1)
	s.waiting = append(s.waiting, wait)
	s.mu.Unlock()
	s.start()
	select {
	case i := <-wait:
		if i == nil {
			return nil, errNoInstance
		}
		return i, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	if at := slices.Index(s.waiting, wait); at >= 0 {
		s.waiting = slices.Delete(s.waiting, at, at+1)
		s.mu.Unlock()
		return nil, context.Cause(ctx)
	}
	s.mu.Unlock()
	i := <-wait // given up and served at once
	if i == nil {
		return nil, errNoInstance
	}
	return i, nil
}

// start starts instances for the requests that wait. The lock is not held: whoever starts them has
// locks of its own.
func (s *service) start() {
	s.mu.Lock()
	n := missing(len(s.waiting), s.starting, s.concurrency)
	if s.closed {
		n = 0
	}
	s.starting += n
	s.mu.Unlock()
	for range n {
		if !s.grow() {
			s.mu.Lock()
			s.starting--
			s.mu.Unlock()
		}
	}
}

// least is the instance with the most room; nil when there is none with any. The lock is held, as
// by what follows.
func (s *service) least() *served {
	var least *served
	for _, i := range s.instances {
		if i.open < s.concurrency && (least == nil || i.open < least.open) {
			least = i
		}
	}
	return least
}

// give gives an instance a request, and a processor with the first.
func (s *service) give(i *served) {
	if i.open++; i.open == 1 {
		i.unused.Stop()
		thaw(i.process)
	}
}

// freezeUnused takes an instance's processor away when it has no request, and sees to its end if that
// lasts.
func (s *service) freezeUnused(i *served) {
	if i.open > 0 || i.gone {
		return
	}
	freeze(i.process)
	i.unused.Reset(s.idle)
}

// serve gives requests that wait to whoever has room.
func (s *service) serve() {
	for len(s.waiting) > 0 {
		i := s.least()
		if i == nil {
			return
		}
		s.give(i)
		s.waiting[0] <- i
		s.waiting = s.waiting[1:]
	}
}

// put takes a request back that is over.
func (s *service) put(i *served) {
	s.mu.Lock()
	i.open--
	s.serve()
	s.freezeUnused(i)
	s.mu.Unlock()
	s.start()
}

// drop lets an instance get no more requests.
func (s *service) drop(i *served) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(i)
}

func (s *service) remove(i *served) {
	s.instances = slices.DeleteFunc(s.instances, func(other *served) bool { return other == i })
	i.gone = true
	i.unused.Stop()
	thaw(i.process) // so that it can come to its end
}

// expire ends an instance that had no request for long.
func (s *service) expire(i *served) {
	s.mu.Lock()
	if i.open > 0 || i.gone || s.closed {
		s.mu.Unlock()
		return
	}
	s.remove(i)
	s.mu.Unlock()
	s.shrink(i.addr)
}

// set gets the instances that answer now.
func (s *service) set(now []answering) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range slices.Clone(s.instances) {
		if !slices.Contains(now, i.answering) {
			s.remove(i)
		}
	}
	for _, a := range now {
		if slices.ContainsFunc(s.instances, func(i *served) bool { return i.answering == a }) {
			continue
		}
		i := &served{answering: a}
		i.unused = time.AfterFunc(time.Hour, func() { s.expire(i) })
		s.instances = append(s.instances, i)
		s.starting = max(0, s.starting-1)
		s.serve()
		s.freezeUnused(i)
	}
}

// close answers those who wait, and takes no more requests.
func (s *service) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, wait := range s.waiting {
		wait <- nil
	}
	s.waiting = nil
	for _, i := range slices.Clone(s.instances) {
		s.remove(i)
	}
	s.transport.CloseIdleConnections()
}

// answering is a process that answers.
type answering struct {
	addr    string // host:port
	process *os.Process
}

func addrsOf(now []answering) []string {
	var addrs []string
	for _, a := range now {
		addrs = append(addrs, a.addr)
	}
	return addrs
}

// front is an address of its own for a service, where events are posted to.
func front(s *service) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.URL.Scheme, out.RequestURI, out.Host = "http", "", ""
		answer, err := s.RoundTrip(out)
		switch {
		case errors.Is(err, errNoInstance):
			w.WriteHeader(http.StatusTooManyRequests)
			return
		case err != nil:
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	})
}
