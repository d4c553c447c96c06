// Package virtual runs tests over an embedded Firestore in virtual time: in a bubble of testing/synctest, over
// connections that have no network. Only what waits takes time, and none that passes outside: a slow machine changes no
// deadline.
package virtual

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
)

// Test runs a test in a bubble, beside other tests.
func Test(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// Run runs a part of a test in a bubble of its own, beside the other parts.
func Run(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { Test(t, test) })
}

// Firestore is an embedded Firestore without a network, for one test. It can also be used outside of a bubble.
type Firestore struct {
	*emulator.Server
	t      testing.TB
	client func() *firestore.Client // its own: see [Firestore.Put]
}

// Start starts an empty Firestore, which is closed when the test has ended.
func Start(t testing.TB) *Firestore {
	return StartWith(t, emulator.Options{})
}

// StartWith is Start with options.
func StartWith(t testing.TB, opts emulator.Options) *Firestore {
	f := &Firestore{Server: emulator.New(opts), t: t}
	f.client = sync.OnceValue(f.Client)
	t.Cleanup(f.Close)
	return f
}

// Conn is a connection of its own, which is closed when the test has ended.
func (f *Firestore) Conn(opts ...grpc.DialOption) *grpc.ClientConn {
	f.t.Helper()
	conn, err := f.Connect(opts...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	return conn
}

// Client is the official client of the project p, on a connection of its own.
func (f *Firestore) Client() *firestore.Client {
	f.t.Helper()
	client, err := firestore.NewClient(context.Background(), "p", option.WithGRPCConn(f.Conn()))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { client.Close() })
	return client
}

// Put makes a document, or overwrites it.
func (f *Firestore) Put(path string, fields map[string]any) {
	f.t.Helper()
	if _, err := f.client().Doc(path).Set(f.t.Context(), fields); err != nil {
		f.t.Fatal(err)
	}
}

// Merge sets these fields of a document alone.
func (f *Firestore) Merge(path string, fields map[string]any) {
	f.t.Helper()
	if _, err := f.client().Doc(path).Set(f.t.Context(), fields, firestore.MergeAll); err != nil {
		f.t.Fatal(err)
	}
}

// Delete deletes a document.
func (f *Firestore) Delete(path string) {
	f.t.Helper()
	if _, err := f.client().Doc(path).Delete(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// Data are the fields of a document; nil where there is none.
func (f *Firestore) Data(path string) map[string]any {
	f.t.Helper()
	doc, err := f.client().Doc(path).Get(f.t.Context())
	if err != nil && status.Code(err) != codes.NotFound {
		f.t.Fatal(err)
	}
	return doc.Data()
}
