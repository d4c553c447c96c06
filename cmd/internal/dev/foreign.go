package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// answers returns whether something listens at the address that FIRESTORE_EMULATOR_HOST has. Where
// nothing does, on this machine, it is most likely left over from a run that has ended: a shell
// keeps what it was told to export. Elsewhere it is an error, because whoever names another machine
// means it.
func answers(ctx context.Context, addr string) (bool, error) {
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", addr)
	if err == nil {
		return true, c.Close()
	}
	if ip, ipErr := netip.ParseAddr(hostname(addr)); ctx.Err() == nil && errors.Is(err, syscall.ECONNREFUSED) &&
		(hostname(addr) == "localhost" || ipErr == nil && ip.IsLoopback()) {
		return false, nil
	}
	return false, fmt.Errorf("no Firestore answers at FIRESTORE_EMULATOR_HOST=%s: start it, or unset the variable to use the embedded one: %w", addr, err)
}

// embeddedElsewhere is a Firestore that takes triggers, as tools register them, but posts no events: nobody waits for
// one.
const embeddedElsewhere = "FIRESTORE_EMULATOR_HOST names it: the embedded one of another counters"

// embeddedServer is what the embedded Firestore calls itself in HTTP's header Server.
const embeddedServer = "counters emulator"

// isEmbedded reports whether the Firestore at an address is that of another run of this program: a
// shell that was told to export its address has the next one use it.
func isEmbedded(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", http.NoBody)
	if err != nil {
		return false
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.Header.Get("Server") == embeddedServer
}

// startForeignEvents gets the changes of a Firestore that is not the embedded one: from its
// triggers if it has any and posts their events to us, and otherwise from a Listen.
func (s *System) startForeignEvents(ctx context.Context, l net.Listener) error {
	t := &triggers{
		emulator: s.Firestore,
		project:  s.Project,
		database: s.settings.Database,
		deliver:  s.events.Deliver,
		patience: triggerPatience,
		logger:   s.logger,
	}
	s.serve(l, behind(s.Gateway)(t))
	err := errors.New("it is the embedded one of another counters")
	if s.Kind != embeddedElsewhere {
		err = t.register(ctx, s.patterns())
	}
	if err == nil {
		if !s.Official { // and nothing else has triggers
			s.Kind = "FIRESTORE_EMULATOR_HOST names it: Google's emulator"
		}
		s.Notes = append(s.Notes, "Events come from the triggers of the Firestore at "+s.Firestore+". It posts each once; from there on they are delivered as always.")
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("register triggers with Firestore at %s: %w", s.Firestore, ctx.Err())
	}
	_, port, _ := net.SplitHostPort(s.Firestore)
	s.Notes = append(s.Notes,
		fmt.Sprintf("Events come from a Listen, because the Firestore at %s sends none (%v). Several writes to one shard may then come as one event, and writes from before now don't come at all: reconcile covers them.", s.Firestore, err),
		fmt.Sprintf("For events of its own, start the official emulator with: java -cp cloud-firestore-emulator.jar com.google.cloud.datastore.emulator.firestore.CloudFirestore --host 127.0.0.1 --port %s --functions_emulator %s (firebase-tools keeps the jar in ~/.cache/firebase/emulators, gcloud in platform/cloud-firestore-emulator).", port, l.Addr()))
	return s.startListen(ctx)
}

// startListen gets changes from a Listen on all shards, and one on each collection that is counted,
// and returns when it tells every change from then on.
func (s *System) startListen(ctx context.Context) error {
	conn, err := dialEmulator(s.Firestore)
	if err != nil {
		return fmt.Errorf("connect to Firestore at %s: %w", s.Firestore, err)
	}
	listening, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	current := make(chan struct{})
	groups := append([]string{s.settings.Shards}, s.layout().CollectionGroups()...)
	var left atomic.Int64
	left.Store(int64(len(groups)))
	for _, group := range groups {
		listener := &listener{
			client:   firestorepb.NewFirestoreClient(conn),
			database: s.databaseName(),
			group:    group,
			deliver:  s.events.Deliver,
			logger:   s.logger,
		}
		running.Go(func() {
			listener.run(listening, sync.OnceFunc(func() {
				if left.Add(-1) == 0 {
					close(current)
				}
			}))
		})
	}
	s.onClose(func() {
		cancel()
		running.Wait()
		_ = conn.Close()
	})
	select {
	case <-current:
		return nil
	case <-time.After(10 * time.Second):
		return fmt.Errorf("the Firestore at %s has neither triggers nor a Listen that answers", s.Firestore)
	case <-ctx.Done():
		return fmt.Errorf("listen to Firestore at %s: %w", s.Firestore, ctx.Err())
	}
}
