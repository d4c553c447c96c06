package emulator_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"

	"github.com/firestore-counters/counters/emulator"
)

// Fifty transactions that read and write one field, with the client's default of five attempts: all
// succeed, none is lost.
func TestConcurrentReadModifyWrite(t *testing.T) {
	t.Parallel()
	in := start(t)
	c := in.Client(t, "rmw")
	ctx := context.Background()
	doc := c.Doc("things/one")
	if _, err := doc.Create(ctx, fields{"n": 0}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			err := c.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
				snap, err := tx.Get(doc)
				if err != nil {
					return err
				}
				n, err := snap.DataAt("n")
				if err != nil {
					return err
				}
				return tx.Update(doc, []firestore.Update{{Path: "n", Value: n.(int64) + 1}})
			})
			if err != nil {
				t.Errorf("transaction: %v", err)
			}
		})
	}
	wg.Wait()
	snap, err := doc.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := snap.DataAt("n"); n != int64(50) {
		t.Errorf("n = %v after 50 transactions", n)
	}
	if s := in.Server.Stats(); s.OpenLocks != 0 || s.LockRefused > 50 { // each is aborted once at most
		t.Errorf("%d locks are left, %d transactions were aborted", s.OpenLocks, s.LockRefused)
	}
}

// Transactions that move amounts between accounts, read in any order, meet in cycles: the sum
// stays, and all get through.
func TestCrossingTransactions(t *testing.T) {
	t.Parallel()
	in := start(t)
	w, c := newWire(t, in, "bank"), in.Client(t, "bank")
	ctx := context.Background()
	const accounts = 4
	account := func(i int) *firestore.DocumentRef { return c.Doc(fmt.Sprintf("accounts/%d", i%accounts)) }
	for i := range accounts {
		if _, err := account(i).Create(ctx, fields{"n": 100}); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			from, to := account(i), account(i+1+i/accounts%(accounts-1))
			err := c.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
				a, err := tx.Get(from) // one after the other, so that locks are taken in opposite orders
				if err != nil {
					return err
				}
				b, err := tx.Get(to)
				if err != nil {
					return err
				}
				x, _ := a.DataAt("n")
				y, _ := b.DataAt("n")
				if err := tx.Set(from, fields{"n": x.(int64) - 1}); err != nil {
					return err
				}
				return tx.Set(to, fields{"n": y.(int64) + 1})
			}, firestore.MaxAttempts(20))
			if err != nil {
				t.Errorf("transaction: %v", err)
			}
		})
	}
	// Beside them, commits without a transaction move amounts as well, and queries, locking or not,
	// see no move halfway.
	for i := range 20 {
		wg.Go(func() {
			w.mustCommit(nil, transformed(masked(w.set(account(i).Path[len(w.name("")):])), increment("n", -1)),
				transformed(masked(w.set(account(i + 1).Path[len(w.name("")):])), increment("n", 1)))
		})
		wg.Go(func() {
			var opts []firestore.TransactionOption
			if i%2 == 0 {
				opts = append(opts, firestore.ReadOnly)
			} else {
				opts = append(opts, firestore.MaxAttempts(20))
			}
			var sum int64
			err := c.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
				sum = 0
				docs, err := tx.Documents(c.Collection("accounts")).GetAll()
				for _, d := range docs {
					n, _ := d.DataAt("n")
					sum += n.(int64)
				}
				return err
			}, opts...)
			if err != nil || sum != 100*accounts {
				t.Errorf("a transaction sees %d in all accounts, %v", sum, err)
			}
		})
	}
	wg.Wait()
	r, err := c.Collection("accounts").NewAggregationQuery().WithSum("n", "sum").Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if sum := r["sum"].(*pb.Value).GetIntegerValue(); sum != 100*accounts {
		t.Errorf("the accounts hold %d together", sum)
	}
	if n := in.Server.Stats().OpenLocks; n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

// A query in a transaction keeps out documents that would match it: each of these makes a document
// whose number is how many there were, so a phantom would show as a number that comes twice.
func TestNoPhantoms(t *testing.T) {
	t.Parallel()
	c := start(t).Client(t, "phantoms")
	ctx := context.Background()
	for _, q := range map[string]func() firestore.Query{
		"collection": func() firestore.Query { return c.Collection("parents/p/kids").Query },
		"group":      func() firestore.Query { return c.CollectionGroup("kids").Query },
	} {
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				err := c.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
					docs, err := tx.Documents(q()).GetAll()
					if err != nil {
						return err
					}
					return tx.Create(c.Collection("parents/p/kids").NewDoc(), fields{"n": len(docs)})
				}, firestore.MaxAttempts(20))
				if err != nil {
					t.Errorf("transaction: %v", err)
				}
			})
		}
		wg.Wait()
	}
	docs, err := c.Collection("parents/p/kids").OrderBy("n", firestore.Asc).Documents(ctx).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range docs {
		if n, _ := d.DataAt("n"); n != int64(i) {
			t.Errorf("document %d has number %v", i, n)
		}
	}
}

// A write from outside waits for the transaction that has listed what it writes, as it does for one that has read or
// queried it (lock-of-… in internal/conformance).
func TestWritesWaitForLists(t *testing.T) {
	t.Parallel()
	in := start(t)
	w := newWire(t, in, "waits")
	w.mustCommit(nil, w.set("a/1", "n", 1))
	tx := w.begin()
	if _, err := w.ListDocuments(t.Context(), &pb.ListDocumentsRequest{Parent: w.db + "/documents", CollectionId: "a",
		ConsistencySelector: &pb.ListDocumentsRequest_Transaction{Transaction: tx}}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := w.commit(nil, w.set("a/1", "n", 2))
		done <- err
	}()
	for in.Server.Stats().LockWaits == 0 {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-done:
		t.Errorf("the write did not wait (%v)", err)
	default:
	}
	w.mustCommit(tx, w.set("b/1", "n", 1))
	if err := <-done; err != nil {
		t.Errorf("the write that waited failed: %v", err)
	}
}

func TestLockTimeout(t *testing.T) {
	t.Parallel()
	opts := emulator.Options{}
	opts.LockWait = 20 * time.Millisecond
	in := emulator.StartWith(t, opts)
	w := newWire(t, in, "timeout")
	holder := w.begin()
	if _, err := w.getIn(holder, "a/1"); err != nil {
		t.Fatal(err)
	}
	_, err := w.commit(nil, w.set("a/1", "n", 1))
	wantCode(t, err, codes.Aborted)
	waiter := w.begin()
	if _, err = w.getIn(waiter, "a/1"); err != nil { // readers share
		t.Fatal(err)
	}
	_, err = w.commit(waiter, w.set("a/1", "n", 1))
	wantCode(t, err, codes.Aborted)
	_, err = w.commit(waiter, w.set("a/2", "n", 1)) // it has ended
	wantCode(t, err, codes.Aborted)
	w.mustCommit(holder, w.set("a/1", "n", 2))
	if s := in.Server.Stats(); s.OpenLocks != 0 || s.LockRefused != 2 {
		t.Errorf("%d locks are left, %d requests were refused", s.OpenLocks, s.LockRefused)
	}
}

// Two transactions that have read each other's next document: the younger is aborted at once,
// without waiting for any timeout, and what repeats it is as old as it was.
func TestDeadlockAbortsTheYounger(t *testing.T) {
	t.Parallel()
	opts := emulator.Options{}
	opts.LockWait = time.Hour
	in := emulator.StartWith(t, opts)
	w := newWire(t, in, "deadlock")
	older, younger := w.begin(), w.begin()
	if _, err := w.getIn(older, "a/1"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.getIn(younger, "a/2"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	later := func(tx []byte, path string) { // a commit that has to wait
		waits := in.Stats().LockWaits
		go func() {
			_, err := w.commit(tx, w.set(path, "n", 1))
			done <- err
		}()
		for in.Stats().LockWaits == waits {
			time.Sleep(time.Millisecond)
		}
	}
	later(older, "a/2")
	_, err := w.commit(younger, w.set("a/1", "n", 1))
	wantCode(t, err, codes.Aborted)
	if err := <-done; err != nil {
		t.Errorf("the older one failed: %v", err)
	}
	// The younger runs again, and a newcomer gets into a cycle with it.
	resp, err := w.BeginTransaction(context.Background(), &pb.BeginTransactionRequest{Database: w.db, Options: &pb.TransactionOptions{
		Mode: &pb.TransactionOptions_ReadWrite_{ReadWrite: &pb.TransactionOptions_ReadWrite{RetryTransaction: younger}}}})
	if err != nil {
		t.Fatal(err)
	}
	again, newcomer := resp.Transaction, w.begin()
	if _, err := w.getIn(newcomer, "a/3"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.getIn(again, "a/4"); err != nil {
		t.Fatal(err)
	}
	later(newcomer, "a/4")
	if _, err := w.commit(again, w.set("a/3", "n", 1)); err != nil {
		t.Errorf("the repeated one failed: %v", err)
	}
	wantCode(t, <-done, codes.Aborted)
}

// A transaction that nobody ends gives its locks back by itself.
func TestIdleTransactionExpires(t *testing.T) {
	t.Parallel()
	opts := emulator.Options{}
	opts.TransactionIdle = 2 * time.Second // a busy machine may take long between two requests
	in := emulator.StartWith(t, opts)
	w := newWire(t, in, "idle")
	tx := w.begin()
	if _, err := w.getIn(tx, "a/1"); err != nil {
		t.Fatal(err)
	}
	w.mustCommit(nil, w.set("a/1", "n", 1)) // waits until the transaction has expired
	_, err := w.commit(tx, w.set("a/1", "n", 2))
	wantCode(t, err, codes.InvalidArgument)
}

// Nobody waits for a transaction that only reads.
func TestReadOnlyTransaction(t *testing.T) {
	t.Parallel()
	in := start(t)
	w, c := newWire(t, in, "ro"), in.Client(t, "ro")
	ctx := context.Background()
	w.mustCommit(nil, w.set("a/1", "n", 1))
	err := c.RunTransaction(ctx, func(ctx context.Context, tx *firestore.Transaction) error {
		for range 2 {
			snap, err := tx.Get(c.Doc("a/1"))
			if err != nil {
				return err
			}
			if n, _ := snap.DataAt("n"); n != int64(1) {
				t.Errorf("n = %v in a read-only transaction", n)
			}
			w.mustCommit(nil, w.set("a/1", "n", 2)) // does not wait
		}
		return nil
	}, firestore.ReadOnly)
	if err != nil {
		t.Error(err)
	}
}
