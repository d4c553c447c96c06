package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// service is a service of Cloud Run: an address, who may call it, and the revision that answers.
type service struct {
	name, uri string
	server    *http.Server

	mu        sync.Mutex
	callers   callers
	revision  *revision
	deployed  int // revisions so far
	log       []entry
	retirings sync.WaitGroup
}

// callers are who may call a service: members such as allUsers, or anybody where nobody is checked.
type callers struct {
	Members   []string
	Unchecked bool
}

func newService(name string) (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &service{name: name, uri: "http://" + l.Addr().String()}
	s.server = &http.Server{Handler: http.HandlerFunc(s.fromOutside)}
	go func() { _ = s.server.Serve(l) }()
	return s, nil
}

// fromOutside is a request from the internet. A caller's token is its name as a member of policies.
func (s *service) fromOutside(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	hidden := s.revision != nil && s.revision.ingress != "ALLOW_ALL"
	s.mu.Unlock()
	if hidden {
		http.Error(w, "Page not found", http.StatusNotFound) // as Cloud Run answers what its ingress keeps out
		return
	}
	s.serve(w, r)
}

// internal is a request from within the project, of an account. It is logged.
func (s *service) internal(w http.ResponseWriter, r *http.Request, member string) {
	r.Header.Set("Authorization", "Bearer "+member)
	began, answer := time.Now(), &answer{ResponseWriter: w, status: http.StatusOK}
	s.serve(answer, r)
	e := entry{Timestamp: began.UTC().Format(nanoseconds)}
	e.HTTPRequest.Latency, e.HTTPRequest.Status = fmt.Sprintf("%.9fs", time.Since(began).Seconds()), answer.status
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, e)
}

// entry is what Cloud Run logs of a request.
type entry struct {
	Timestamp   string `json:"timestamp"`
	HTTPRequest struct {
		Latency string `json:"latency"`
		Status  int    `json:"status"`
	} `json:"httpRequest"`
}

// nanoseconds is RFC 3339 with all of its digits, which sorts by time.
const nanoseconds = "2006-01-02T15:04:05.000000000Z"

func (s *service) logged() []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// answer remembers the status of an answer.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (s *service) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	c, revision := s.callers, s.revision
	if revision != nil {
		revision.requests.Add(1)
		defer revision.requests.Done()
	}
	s.mu.Unlock()
	switch member, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); {
	case !c.Unchecked && !slices.Contains(c.Members, "allUsers") && !slices.Contains(c.Members, member):
		http.Error(w, "The request was not authorized to invoke this service.", http.StatusForbidden)
	case revision == nil:
		http.Error(w, "no revision is ready", http.StatusServiceUnavailable)
	default:
		revision.serve(w, r)
	}
}

// deploy starts a revision, and once it answers has it take the place of the one before.
func (s *service) deploy(p *platform, program string, f function) error {
	s.mu.Lock()
	s.deployed++
	name := fmt.Sprintf("%s-%05d", s.name, s.deployed)
	s.mu.Unlock()
	next, err := startRevision(p, name, program, f)
	if err != nil {
		return err
	}
	s.mu.Lock()
	before := s.revision
	s.revision = next
	s.mu.Unlock()
	if before != nil {
		s.retirings.Go(before.retire)
	}
	return nil
}

func (s *service) close() {
	_ = s.server.Close()
	s.mu.Lock()
	last := s.revision
	s.revision = nil
	s.mu.Unlock()
	if last != nil {
		last.retire()
	}
	s.retirings.Wait()
}

// errNotStarted is what Cloud Run says of a container that doesn't come to answer.
var errNotStarted = errors.New("the user-provided container failed to start and listen on the port defined by the PORT=8080 environment variable")

const (
	startTimeout = time.Minute
	// grace is between SIGTERM and SIGKILL, as on Cloud Run.
	grace = 10 * time.Second
)
