package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/firestore-counters/counters/internal/testbed/freeport"
)

// revision is one deployment of a service: instances that serve requests in turn.
type revision struct {
	ingress   string
	timeout   time.Duration
	instances []*instance
	next      atomic.Uint64
	requests  sync.WaitGroup
}

// instance is a process that serves a function, to so many requests at a time.
type instance struct {
	cmd   *exec.Cmd
	proxy *httputil.ReverseProxy
	slots chan struct{}
	ended chan struct{}
}

// most is how many instances a revision has, where its deployment allows them: enough to meet each
// other.
const most = 2

func startRevision(p *platform, name, program string, f function) (*revision, error) {
	config := f.ServiceConfig
	r := &revision{ingress: config.Ingress, timeout: time.Duration(config.Timeout) * time.Second}
	for i := range min(max(config.Instances, 1), most) {
		instance, err := startInstance(p, fmt.Sprintf("%s-%d", name, i), name, program, f)
		if err != nil {
			r.retire()
			return nil, err
		}
		r.instances = append(r.instances, instance)
	}
	return r, nil
}

// startInstance starts a process and waits until it listens. Its environment is what the deployment
// says, what Cloud Run adds, and the one thing that production hasn't: where Firestore is.
func startInstance(p *platform, name, revision, program string, f function) (*instance, error) {
	port, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(p.dir, "logs"), 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(p.dir, "logs", name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	i := &instance{cmd: exec.CommandContext(p.ctx, program), slots: make(chan struct{}, max(f.ServiceConfig.Concurrency, 1)), ended: make(chan struct{})}
	i.cmd.Cancel = func() error { return i.cmd.Process.Signal(syscall.SIGTERM) }
	i.cmd.WaitDelay = grace
	i.cmd.Stdout, i.cmd.Stderr = log, log
	i.cmd.Env = []string{
		"PORT=" + port, "FUNCTION_TARGET=" + f.BuildConfig.EntryPoint, "K_REVISION=" + revision, "FIRESTORE_EMULATOR_HOST=" + p.firestore,
	}
	for _, key := range slices.Sorted(maps.Keys(f.ServiceConfig.Environment)) {
		i.cmd.Env = append(i.cmd.Env, key+"="+f.ServiceConfig.Environment[key])
	}
	if err := i.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = i.cmd.Wait()
		close(i.ended)
	}()
	i.proxy = httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:" + port})
	i.proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 1000}
	i.proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second); err == nil {
			_ = conn.Close()
			return i, nil
		}
		select {
		case <-i.ended:
			said, _ := os.ReadFile(log.Name())
			return nil, fmt.Errorf("%w: %s", errNotStarted, strings.TrimSpace(string(said)))
		default:
		}
		if time.Now().After(deadline) {
			i.end()
			return nil, errNotStarted
		}
	}
}

// serve has the next instance answer, for as long as a request may take.
func (r *revision) serve(w http.ResponseWriter, request *http.Request) {
	ctx, cancel := context.WithTimeout(request.Context(), r.timeout)
	defer cancel()
	i := r.instances[r.next.Add(1)%uint64(len(r.instances))]
	select {
	case i.slots <- struct{}{}:
		defer func() { <-i.slots }()
	case <-ctx.Done():
		http.Error(w, "no available instance", http.StatusTooManyRequests)
		return
	}
	i.proxy.ServeHTTP(w, request.WithContext(ctx))
}

// retire ends the instances. No request comes in any more, and those that are under way have the
// time that is between SIGTERM and SIGKILL: Cloud Run is kinder, and waits for them first.
func (r *revision) retire() {
	var all sync.WaitGroup
	for _, i := range r.instances {
		all.Go(i.end)
	}
	all.Wait()
	r.requests.Wait()
}

func (i *instance) end() {
	_ = i.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-i.ended:
	case <-time.After(grace):
		_ = i.cmd.Process.Kill()
		<-i.ended
	}
}
