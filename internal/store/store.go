// Package store is the only way to Firestore: it reads and writes documents. Package book knows what
// is in ledgers and counters' documents.
//
// A commit is sent exactly once. The official client resends commits on UNAVAILABLE and
// RESOURCE_EXHAUSTED, and an increment that is sent again counts twice. So this package hands out no
// client: [DB.Commit] and [DB.Transact] use the generated client (firestore/apiv1) with its retries
// switched off, and the caller decides by [KindOf] what a failure means. Reads are idempotent, and
// this package repeats them.
//
// Documents are protocol buffers, named by their whole resource names, which [Layout] makes.
//
// The files in the order in which they are read; each uses what is declared below it:
//
//	cursor.go       where a walk over all counters has stopped
//	note.go         counters that must be reconciled
//	transaction.go  transactions
//	condition.go    the one loop of commits on a condition
//	commit.go       a commit, which is sent once
//	aggregation.go  sums and counts
//	counted.go      what of documents is counted
//	read.go         documents, queries, listeners
//	store.go        the database
//	connection.go   the connection, and calls that are made again
//	value.go        values, writes and conditions
//	clock.go        Firestore's time, as far as it is known
//	kind.go         what an error says of a commit
//	cause.go        why there was no connection
package store

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	apiv1 "cloud.google.com/go/firestore/apiv1"
	"google.golang.org/api/option"
	"google.golang.org/grpc/metadata"

	"github.com/firestore-counters/counters/internal/layout"
)

// DB is the database that holds a deployment's counters. It is safe for concurrent use.
type DB struct {
	Layout layout.Layout // names its documents
	reader

	api   *connection
	clock clock

	newWatcher func() (*firestore.Client, error)
	mu         sync.Mutex
	// only for [DB.Watch], because its listeners reconnect by themselves; nil until it is needed
	watcher *firestore.Client
	closed  bool
}

// reader reads, within a transaction if it has one.
type reader struct {
	db          *DB
	transaction []byte
}

// Open connects to a database, with the official client's options. If FIRESTORE_EMULATOR_HOST is set,
// everything goes there, unless opts have a connection of their own. Open sends nothing yet.
func Open(ctx context.Context, place layout.Place, opts ...option.ClientOption) (*DB, error) {
	names, err := place.Layout()
	if err != nil {
		return nil, err
	}
	emulator := os.Getenv("FIRESTORE_EMULATOR_HOST")
	db := &DB{Layout: names}
	db.reader.db = db
	project, database := cmp.Or(place.Project, os.Getenv("GOOGLE_CLOUD_PROJECT")), cmp.Or(place.Database, firestore.DefaultDatabaseID)
	if project == "" && emulator != "" {
		project = layout.DefaultProject // otherwise the library takes one of its own
	}
	db.newWatcher = func() (*firestore.Client, error) {
		options, err := clientOptions(emulator, opts)
		if err != nil {
			return nil, err
		}
		return firestore.NewClientWithDatabase(context.WithoutCancel(ctx), cmp.Or(project, firestore.DetectProjectID), database, options...)
	}
	if project == "" {
		watcher, err := db.watching()
		if err != nil {
			return nil, fmt.Errorf("open Firestore: %w", err)
		}
		// The only public way to the project that was found.
		project = strings.Split(watcher.Doc("a/b").Path, "/")[1]
	}
	db.Layout.Database = "projects/" + project + "/databases/" + database
	db.api, err = newConnection(emulator != "", func() (*apiv1.Client, error) {
		options, err := clientOptions(emulator, opts)
		if err != nil {
			return nil, err
		}
		api, err := apiv1.NewClient(context.WithoutCancel(ctx), options...)
		if err == nil {
			*api.CallOptions = apiv1.CallOptions{} // otherwise it sends again what fails
		}
		return api, err
	})
	if err != nil {
		return nil, fmt.Errorf("open Firestore: %w", err)
	}
	return db, nil
}

// watching is the high-level client. It has its own connections, so it is made only when it is
// needed.
func (db *DB) watching() (*firestore.Client, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil, ErrClosed
	}
	if db.watcher != nil {
		return db.watcher, nil
	}
	var err error
	db.watcher, err = db.newWatcher()
	return db.watcher, err
}

// Close closes the connections. Later calls return [ErrClosed].
func (db *DB) Close() error {
	err := db.api.close()
	db.mu.Lock()
	defer db.mu.Unlock()
	db.closed = true
	if db.watcher != nil {
		// If both clients share a given connection, the second close finds it closed already.
		_ = db.watcher.Close()
	}
	return err
}

// Project is the id of the database's project.
func (db *DB) Project() string { return strings.Split(db.Layout.Database, "/")[1] }

func (db *DB) outgoing(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "google-cloud-resource-prefix", db.Layout.Database)
}

// Now is a lower bound of Firestore's clock, by its answers to reads and commits. Before the first
// answer, it is this machine's time.
func (db *DB) Now() time.Time { return cmp.Or(db.clock.now(), time.Now()) }

// Later is the later of two clocks: Firestore's, because this machine's may be slow, and this machine's,
// because of one that was suspended what is known of Firestore's is as old as its last answer.
func (db *DB) Later() time.Time {
	return slices.MaxFunc([]time.Time{db.Now(), time.Now()}, time.Time.Compare)
}

// Passed reports whether Firestore's clock is certainly at t or later.
func (db *DB) Passed(t time.Time) bool {
	now := db.clock.now()
	return !now.IsZero() && !t.After(now)
}

// Unreachable is why the last call found no connection; nil where it found one.
func (db *DB) Unreachable() *Unreachable { return db.api.unreached() }
