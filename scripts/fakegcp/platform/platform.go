package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/firestore-counters/counters/emulator"
)

// platform is all that runs.
type platform struct {
	ctx       context.Context
	builds    builds
	firestore string // host:port
	dir       string // logs are below it
	logger    *slog.Logger

	mu       sync.Mutex
	services map[string]*service
	triggers map[string]*trigger
}

// function is what is read of a function's resource.
type function struct {
	BuildConfig struct {
		EntryPoint string `json:"entryPoint"`
	} `json:"buildConfig"`
	ServiceConfig struct {
		Environment map[string]string `json:"environmentVariables"`
		Concurrency int               `json:"maxInstanceRequestConcurrency"`
		Instances   int               `json:"maxInstanceCount"`
		Timeout     int               `json:"timeoutSeconds"`
		Ingress     string            `json:"ingressSettings"`
	} `json:"serviceConfig"`
}

// control is what fakegcp.py calls.
func (p *platform) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /services/{name}", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Function function
			Archive  string
		}
		if !read(w, r, &body) {
			return
		}
		program, err := p.builds.program(r.Context(), body.Archive)
		if err != nil {
			http.Error(w, "Build failed: "+err.Error(), http.StatusUnprocessableEntity)
			return
		}
		s, err := p.service(r.PathValue("name"))
		if err == nil {
			err = s.deploy(p, program, body.Function)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"uri": s.uri})
	})
	mux.HandleFunc("DELETE /services/{name}", func(_ http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		s := p.services[r.PathValue("name")]
		delete(p.services, r.PathValue("name"))
		p.mu.Unlock()
		if s != nil {
			s.close()
		}
	})
	mux.HandleFunc("PUT /callers/{name}", func(w http.ResponseWriter, r *http.Request) {
		var c callers
		if !read(w, r, &c) {
			return
		}
		if s, err := p.service(r.PathValue("name")); err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.callers = c
		}
	})
	mux.HandleFunc("PUT /triggers/{id}", func(w http.ResponseWriter, r *http.Request) {
		t := &trigger{platform: p}
		if !read(w, r, t) {
			return
		}
		if err := p.watch(r.PathValue("id"), t); err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		}
	})
	mux.HandleFunc("DELETE /triggers/{id}", func(_ http.ResponseWriter, r *http.Request) { p.unwatch(r.PathValue("id")) })
	mux.HandleFunc("POST /call", p.call)
	mux.HandleFunc("GET /requests/{name}", func(w http.ResponseWriter, r *http.Request) {
		all := []entry{}
		if s := p.known(r.PathValue("name")); s != nil {
			all = s.logged()
		}
		_ = json.NewEncoder(w).Encode(all)
	})
	return mux
}

func read(w http.ResponseWriter, r *http.Request, to any) bool {
	err := json.NewDecoder(r.Body).Decode(to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

// service is the service of a name, which is there from the first question on: a function's address
// outlives its revisions.
func (p *platform) service(name string) (*service, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.services[name]; s != nil {
		return s, nil
	}
	s, err := newService(name)
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", name, err)
	}
	p.services[name] = s
	return s, nil
}

// known is the service of a name, or nil.
func (p *platform) known(name string) *service {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.services[name]
}

// change hands a change to the triggers.
func (p *platform) change(c emulator.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.triggers {
		t.events.Deliver(c)
	}
}

// call is Scheduler's: it asks a service as an account, and tells what was answered.
func (p *platform) call(w http.ResponseWriter, r *http.Request) {
	var job struct{ URI, Method, Account string }
	if !read(w, r, &job) {
		return
	}
	p.mu.Lock()
	var to *service
	for _, s := range p.services {
		if s.uri == job.URI {
			to = s
		}
	}
	p.mu.Unlock()
	if to == nil {
		http.Error(w, "nobody answers at "+job.URI, http.StatusNotFound)
		return
	}
	request, err := http.NewRequestWithContext(r.Context(), job.Method, "/", nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	to.internal(w, request, "serviceAccount:"+job.Account)
}

func (p *platform) close() {
	p.mu.Lock()
	triggers, services := p.triggers, p.services
	p.triggers, p.services = nil, nil
	p.mu.Unlock()
	for _, t := range triggers {
		t.close()
	}
	var all sync.WaitGroup
	for _, s := range services {
		all.Go(s.close)
	}
	all.Wait()
}
