package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
)

// Names of the functions, as functions/ registers them.
const (
	incrementFunction = "Increment"
	rollupFunction    = "Rollup"
	reconcileFunction = "Reconcile"
)

// System is the whole system, running.
type System struct {
	Firestore string   // host:port of Firestore, for FIRESTORE_EMULATOR_HOST.
	Embedded  bool     // Whether that is the embedded one.
	Official  bool     // Whether it is Google's emulator, started for [Config].Rules.
	Kind      string   // What it is, in words.
	Gateway   string   // URL of the gateway, without a slash at its end.
	Elsewhere []string // Its URLs for other machines, where [Config].Host lets them in.
	Project   string   // Project of the counters.
	Notes     []string // What is not as in production, a sentence or two each.

	settings settings.Settings
	logger   *slog.Logger
	failed   chan error

	server     *emulator.Server // nil unless embedded.
	events     *eventarc.Deliverer
	supervisor *supervisor
	increment  *backends
	reconcile  *backends
	firestore  *backends
	services   map[string]*service // :: function; nil unless instances come and go

	blind *blind // nil unless embedded
	push  eventarc.Push

	faultsMu sync.Mutex // held while they are replaced, so that all parts have the same
	faults   Faults

	noticed sync.Map // :: project or database → true

	close   sync.Once
	closers []func() // In the order in which things were started.
}

// Start starts the system and returns when everything answers. The context bounds the start alone.
// An error is a [*PortError], or says what is wrong with the configuration or the environment, or
// what didn't start; everything that was started before it is stopped again.
func Start(ctx context.Context, c Config) (_ *System, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	output := newOutput(c.Output, c.Instances)
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewJSONHandler(output.lines("dev"), nil))
	}
	set, err := settings.Parse(c.Environ)
	if err != nil {
		return nil, err
	}
	s := &System{
		Firestore: strings.TrimPrefix(lookup(c.Environ, "FIRESTORE_EMULATOR_HOST"), "http://"),
		Project:   cmp.Or(set.Project, layout.DefaultProject),
		settings:  set,
		logger:    c.Logger,
		failed:    make(chan error, 1),
		increment: newBackends(),
		reconcile: newBackends(),
		firestore: newBackends(),
	}
	if set.Auth == "firebase" && set.AuthEmulator != "" {
		s.Notes = append(s.Notes, fmt.Sprintf("Callers are users of Firebase's Auth emulator at %s: firebase emulators:start --only auth --project %s", set.AuthEmulator, s.Project))
	}
	silent := "" // where a Firestore was named, and none answers
	if stale := s.Firestore; stale != "" {
		there, err := answers(ctx, stale)
		if err != nil {
			return nil, err
		}
		if !there {
			s.Firestore, silent = "", stale
			s.Notes = append(s.Notes, "Nothing answers at FIRESTORE_EMULATOR_HOST="+stale+", so this is the embedded Firestore.")
		}
	}
	started := s.Firestore == "" // by us
	s.Embedded, s.Official = started && c.Rules == "", started && c.Rules != ""
	if err := canEvaluate(c.Rules, s.Official); err != nil {
		return nil, err
	}
	if err := c.refuseIgnored(s, silent); err != nil {
		return nil, err
	}
	switch {
	case !c.Faults.ofCommits() || s.Embedded:
	case started:
		return nil, errors.New("faults of commits need the embedded Firestore, which evaluates no rules: leave out --rules, or the faults")
	default:
		return nil, errors.New("faults of commits need the embedded Firestore: unset FIRESTORE_EMULATOR_HOST, or leave out the faults")
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()

	// All ports first: whoever meets one in use hears of it at once.
	ports, err := listen(c, started, !s.Embedded)
	if err != nil {
		return nil, err
	}
	s.onClose(ports.close)
	urls := ports.urls()
	s.Gateway, s.Elsewhere = urls[0], urls[1:]

	s.push = c.Push
	if err := s.startEvents(c.Push, c.Faults.seeded().Events); err != nil {
		return nil, err
	}
	switch {
	case s.Embedded:
		s.startFirestore(ports.firestore, c.Faults.seeded().Commits, c.AllowOrigins)
	case s.Official:
		if err := s.startOfficial(ctx, c.FirestorePort != 0, ports.firestore, ports.functions.Addr().String()); err != nil {
			return nil, err
		}
	}
	if c.Rules != "" {
		if err := s.startRules(ctx, c.Rules); err != nil {
			return nil, err
		}
	}
	s.Kind = s.kind(ctx)
	s.firestore.set([]string{s.Firestore})
	if err := s.startFunctions(ctx, c, output); err != nil {
		return nil, err
	}
	if !s.Embedded {
		if err := s.startForeignEvents(ctx, ports.functions); err != nil {
			return nil, err
		}
	}
	var increment, reconcile http.RoundTripper = s.increment, s.reconcile
	if s.services != nil {
		increment, reconcile = s.services[incrementFunction], s.services[reconcileFunction]
	}
	closing, closeStreams := context.WithCancel(context.Background())
	s.onClose(closeStreams) // In case that it never serves.
	s.serve(ports.gateway, newGateway(gatewayConfig{
		access:    access{hosts: append([]string{c.Host}, c.AllowHosts...), origins: set.AllowedOrigins},
		increment: increment, reconcile: reconcile, firestore: s.firestore,
		page: c.Page, ready: s.supervisor.ready, origin: s.Gateway, logger: c.Logger, closing: closing,
	}), closeStreams)
	s.supervisor.setKill(c.Faults.KillEvery, c.Faults.Seed)
	s.faults = c.Faults
	return s, nil
}

// kind says what the Firestore is.
func (s *System) kind(ctx context.Context) string {
	switch {
	case s.Embedded:
		return "embedded, in memory"
	case s.Official:
		return "Google's emulator, started here"
	case isEmbedded(ctx, s.Firestore):
		return embeddedElsewhere
	}
	return "FIRESTORE_EMULATOR_HOST names it"
}

// Wait returns nil when the context ends, or an error as soon as a part of the system has failed
// for good.
func (s *System) Wait(ctx context.Context) error {
	select {
	case err := <-s.failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Close stops everything, in the reverse order of its start: requests in flight are answered,
// functions get ten seconds to finish what they have begun. It returns when no process is left.
func (s *System) Close() {
	s.close.Do(func() {
		for _, f := range slices.Backward(s.closers) {
			f()
		}
	})
}

// Logger is what the system logs to.
func (s *System) Logger() *slog.Logger { return s.logger }

// SetFaults replaces all faults, from now on.
func (s *System) SetFaults(f Faults) error {
	return s.ChangeFaults(func(faults *Faults) { *faults = f })
}

// ChangeFaults changes some of the faults, from now on.
func (s *System) ChangeFaults(change func(*Faults)) error {
	s.faultsMu.Lock()
	defer s.faultsMu.Unlock()
	f := s.faults
	change(&f)
	if err := f.Check(); err != nil {
		return err
	}
	f = f.seeded()
	if s.server != nil {
		s.server.SetFaults(f.Commits)
	} else if f.ofCommits() {
		return errors.New("faults of commits need the embedded Firestore")
	}
	s.events.SetFaults(f.Events)
	if s.blind != nil {
		s.blind.setFaults(f.Events)
	}
	s.supervisor.setKill(f.KillEvery, f.Seed)
	s.faults = f
	return nil
}

// Faults are those that there are now.
func (s *System) Faults() Faults {
	s.faultsMu.Lock()
	defer s.faultsMu.Unlock()
	return s.faults
}

// Befallen is what faults have done since the start.
type Befallen struct {
	Duplicates  int `json:"duplicates"`   // events that were delivered twice
	Kills       int `json:"kills"`        // processes that were killed
	LostAnswers int `json:"lost_answers"` // commits that were applied and answered UNAVAILABLE
}

// Befallen returns what faults have done so far.
func (s *System) Befallen() Befallen {
	b := Befallen{Duplicates: s.events.Stats().Duplicates, Kills: int(s.supervisor.kills.Load())}
	if s.server != nil {
		b.LostAnswers = int(s.server.Stats().LostAnswers)
	}
	return b
}

// WaitForEvents returns when every event so far has been acknowledged by the roll-up, or with an
// error when the context ends before. Of the official emulator's, an event that has yet to come
// isn't waited for.
func (s *System) WaitForEvents(ctx context.Context) error {
	if s.server != nil {
		if err := s.server.WaitForChanges(ctx); err != nil {
			return err
		}
	}
	return s.events.Wait(ctx)
}

// Events returns how many events there were, and what became of them.
func (s *System) Events() eventarc.Stats { return s.events.Stats() }

func (s *System) onClose(f func()) { s.closers = append(s.closers, f) }

func (s *System) fail(err error) {
	select {
	case s.failed <- err:
	default: // The first failure is the one that is reported.
	}
}

// startEvents starts the delivery of events to Rollup, for whoever sees changes.
func (s *System) startEvents(p eventarc.Push, f eventarc.Faults) error {
	var err error
	s.events, err = eventarc.New(eventarc.Options{
		Pattern:  s.patterns()[0],
		Further:  s.patterns()[1:],
		Project:  s.Project,
		Database: s.settings.Database,
		Push:     p,
		Faults:   f,
		Logger:   s.logger,
	})
	if err != nil {
		return fmt.Errorf("COUNTERS=%s: %w", s.settings.Counters, err)
	}
	s.onClose(s.events.Close)
	return nil
}

// patterns are those of the triggers that Rollup has.
func (s *System) patterns() []string { return s.layout().Patterns() }

func (s *System) layout() layout.Layout {
	names := layout.Layout{Path: s.settings.Counters, Shards: s.settings.Shards, Hosted: s.settings.Hosted, Extension: s.settings.Extension}
	names.Sharded, names.Counted = s.settings.Fields.Split()
	return names
}

// startFirestore starts the embedded Firestore, whose changes become events.
func (s *System) startFirestore(l net.Listener, f emulator.Faults, pages []string) {
	s.Firestore = l.Addr().String()
	s.server = emulator.New(emulator.Options{
		Faults: f, Logger: s.logger, Origins: pages,
		TTL:        map[string]string{layout.Requests: layout.ExpireAt}, // the policy that a deployment has
		OnDatabase: s.notice,
	})
	s.server.OnChange(s.events.Deliver)
	s.blind = newBlind(s)
	s.server.OnChange(s.blind.see)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.server.Serve(l); err != nil {
			s.fail(fmt.Errorf("serve Firestore: %w", err))
		}
	})
	s.onClose(func() {
		s.server.Close()
		serving.Wait()
	})
	s.onClose(func() { _ = s.SetByHand(false) })
	s.Notes = append(s.Notes, "Security rules are not evaluated by this Firestore; --rules FILE starts Google's emulator, which does that.")
}

// notice says once that a client uses another project or database than the counters', where its counters stay as they
// are.
func (s *System) notice(used string) {
	own := s.databaseName()
	if _, again := s.noticed.LoadOrStore(used, true); again || used == own {
		return
	}
	s.logger.Warn("a client uses another project or database, where nothing is rolled up", "used", used, "want", own)
}

// databaseName is the resource name of the counters' database.
func (s *System) databaseName() string {
	return "projects/" + s.Project + "/databases/" + s.settings.Database
}

// NamesMembers reports whether whoever calls Increment may name members to be counted: here MEMBERS
// is any, unless it or AUTH is set.
func (s *System) NamesMembers() bool { return s.settings.Members == "any" }

// startFunctions starts the function processes and waits until all of them answer.
func (s *System) startFunctions(ctx context.Context, c Config, out *output) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to run functions with: %w", err)
	}
	environ := append([]string{}, c.Environ...)
	if lookup(environ, "AUTO_CREATE") == "" && !s.settings.Hosted {
		environ = append(environ, "AUTO_CREATE=true")
	}
	if lookup(environ, "MEMBERS") == "" && s.settings.Auth == "none" {
		s.settings.Members = "any"
		environ = append(environ, "MEMBERS=any")
	}
	// The gateway lets every page of this machine call, and has them all come from one origin.
	origins := s.settings.AllowedOrigins
	if !slices.Contains(origins, "*") {
		origins = append(slices.Clone(origins), s.Gateway)
	}
	environ = append(environ, "ALLOWED_ORIGINS="+strings.Join(origins, ","), "FIRESTORE_EMULATOR_HOST="+s.Firestore, "GOOGLE_CLOUD_PROJECT="+s.Project)
	s.supervisor = &supervisor{
		program:   program,
		functions: []string{incrementFunction, rollupFunction, reconcileFunction},
		instances: c.Instances,
		gateway:   s.Gateway,
		scaled:    c.CloudRun.Concurrency > 0,
		environ:   environ,
		output:    out,
		logger:    c.Logger,
		changed:   s.route,
	}
	if s.supervisor.scaled {
		if err := s.startServices(c.CloudRun); err != nil {
			return err
		}
	}
	if err := s.supervisor.start(ctx); err != nil {
		return err
	}
	s.onClose(s.supervisor.stop)
	s.onClose(func() { // before: no instance may be stopped on its way to its end
		for _, service := range s.services {
			service.close()
		}
	})
	return nil
}

// startServices puts a service in front of each function's instances, and one address in front of
// Rollup's, for events.
func (s *System) startServices(c CloudRun) error {
	s.services = make(map[string]*service)
	for _, function := range s.supervisor.functions {
		s.services[function] = newService(c, func() bool { return s.supervisor.grow(function) }, s.supervisor.shrink)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return fmt.Errorf("listen for events: %w", err)
	}
	s.serve(l, behind(s.Gateway)(front(s.services[rollupFunction])))
	return s.events.SetTargets("http://" + l.Addr().String() + "/")
}

// route gets the instances of a function that answer.
func (s *System) route(function string, now []answering) {
	addrs := addrsOf(now)
	switch {
	case s.services != nil:
		s.services[function].set(now)
	case function == incrementFunction:
		s.increment.set(addrs)
	case function == reconcileFunction:
		s.reconcile.set(addrs)
	case function == rollupFunction:
		urls := make([]string, len(addrs))
		for i, addr := range addrs {
			urls[i] = "http://" + addr + "/"
		}
		if err := s.events.SetTargets(urls...); err != nil {
			s.fail(err) // Not possible: the addresses are ours.
		}
	}
}

// serve serves HTTP until the system is closed, which calls onClose first.
func (s *System) serve(l net.Listener, h http.Handler, onClose ...func()) {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn),
	}
	for _, f := range onClose {
		server.RegisterOnShutdown(f)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.fail(fmt.Errorf("serve %s: %w", l.Addr(), err))
		}
	})
	s.onClose(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // Clients that wait for longer are cut off.
		}
		serving.Wait()
		s.increment.transport.CloseIdleConnections()
		s.reconcile.transport.CloseIdleConnections()
		s.firestore.transport.CloseIdleConnections()
	})
}
