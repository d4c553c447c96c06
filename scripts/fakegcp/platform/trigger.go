package main

import (
	"cmp"
	"crypto/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/firestore-counters/counters/emulator/eventarc"
)

// trigger brings the events of documents to a service.
type trigger struct {
	Service, Account, Database, Pattern string
	Retry                               bool
	AckDeadline                         int // seconds

	platform *platform
	events   *eventarc.Deliverer
	server   *http.Server
}

// watch makes a trigger, in the place of one of its id.
func (p *platform) watch(id string, t *trigger) error {
	push := eventarc.PubSub()
	push.AckDeadline = time.Duration(cmp.Or(t.AckDeadline, 10)) * time.Second
	push.Shortest, push.Longest = 200*time.Millisecond, 5*time.Second // for tests that end
	events, err := eventarc.New(eventarc.Options{Pattern: t.Pattern, Database: t.Database, Push: push, Logger: p.logger})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	secret := "/" + rand.Text() // no web page knows it
	t.events, t.server = events, &http.Server{Handler: http.StripPrefix(secret, t)}
	go func() { _ = t.server.Serve(l) }()
	if err := events.SetTargets("http://" + l.Addr().String() + secret + "/"); err != nil {
		return err
	}
	p.unwatch(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.triggers[id] = t
	return nil
}

func (p *platform) unwatch(id string) {
	p.mu.Lock()
	t := p.triggers[id]
	delete(p.triggers, id)
	p.mu.Unlock()
	if t != nil {
		t.close()
	}
}

// ServeHTTP takes a post of Pub/Sub, and brings it to the service with the trigger's account.
// Without retry its answer doesn't matter.
func (t *trigger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to := t.platform.known(t.Service)
	if to == nil {
		http.Error(w, "there is no service "+t.Service, http.StatusNotFound)
		return
	}
	if !t.Retry {
		to.internal(httptest.NewRecorder(), r, "serviceAccount:"+t.Account)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	to.internal(w, r, "serviceAccount:"+t.Account)
}

func (t *trigger) close() {
	t.events.Close()
	_ = t.server.Close()
}
