package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"
)

// Transactions that read documents and collections in any order, and commits without a transaction
// beside them, all come to an end though no wait ever times out: every cycle is found, nobody is
// forgotten in a queue. Commits without a transaction hold nothing while they wait, and are never
// aborted. All increments are counted.
func TestEverybodyGetsThrough(t *testing.T) {
	t.Parallel()
	e := New(Options{LockWait: time.Hour})
	defer e.Close()
	ctx := context.Background()
	const workers, each, documents = 12, 60, 5
	name := func(r *rand.Rand) string { return fmt.Sprintf("%s/a/%d", testRoot, r.IntN(documents)) }
	transaction := func(r *rand.Rand, retry []byte) ([]byte, error) {
		b, err := e.Begin(&pb.BeginTransactionRequest{Database: testDatabase, Options: &pb.TransactionOptions{
			Mode: &pb.TransactionOptions_ReadWrite_{ReadWrite: &pb.TransactionOptions_ReadWrite{RetryTransaction: retry}}}})
		if err != nil {
			return nil, err
		}
		tx := b.Transaction
		for range 1 + r.IntN(3) {
			if r.IntN(6) == 0 {
				err = e.RunQuery(ctx, &pb.RunQueryRequest{Parent: testRoot,
					ConsistencySelector: &pb.RunQueryRequest_Transaction{Transaction: tx},
					QueryType: &pb.RunQueryRequest_StructuredQuery{StructuredQuery: &pb.StructuredQuery{
						From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: "a", AllDescendants: r.IntN(2) == 0}}}}},
					func(*pb.RunQueryResponse) error { return nil })
			} else {
				err = e.BatchGet(ctx, &pb.BatchGetDocumentsRequest{Database: testDatabase, Documents: []string{name(r)},
					ConsistencySelector: &pb.BatchGetDocumentsRequest_Transaction{Transaction: tx}},
					func(*pb.BatchGetDocumentsResponse) error { return nil })
			}
			if err != nil {
				return tx, err
			}
		}
		_, err = e.Commit(ctx, &pb.CommitRequest{Database: testDatabase, Transaction: tx,
			Writes: []*pb.Write{incrementWrite(name(r), "n", 1), incrementWrite(name(r), "n", 1)}})
		return tx, err
	}
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for range each {
				if r.IntN(2) == 0 {
					_, err := e.Commit(ctx, &pb.CommitRequest{Database: testDatabase,
						Writes: []*pb.Write{incrementWrite(name(r), "n", 1), incrementWrite(name(r), "n", 1)}})
					if err != nil {
						t.Errorf("commit: %v", err)
					}
					continue
				}
				var tx []byte
				err := status.Error(codes.Aborted, "")
				for status.Code(err) == codes.Aborted {
					tx, err = transaction(r, tx)
				}
				if err != nil {
					t.Errorf("transaction: %v", err)
				}
			}
		})
	}
	wg.Wait()
	db, err := e.database(testDatabase)
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, n := range db.Nodes {
		sum += n.Current().Fields["n"].GetIntegerValue()
	}
	if sum != 2*workers*each {
		t.Errorf("%d increments are counted of %d", sum, 2*workers*each)
	}
	if db.locks.Len() != 0 || len(db.transactions.open) != 0 {
		t.Errorf("%d locks and %d transactions are left", db.locks.Len(), len(db.transactions.open))
	}
}

// queued is the scene of a few owners that come for locks one after the other.
type queued struct {
	t  *testing.T
	e  *Engine
	db *database
}

func newQueued(t *testing.T) queued {
	e := New(Options{LockWait: time.Hour})
	t.Cleanup(e.Close)
	db, err := e.database(testDatabase)
	if err != nil {
		t.Fatal(err)
	}
	return queued{t, e, db}
}

func (q queued) begin() []byte {
	q.t.Helper()
	r, err := q.e.Begin(&pb.BeginTransactionRequest{Database: testDatabase})
	if err != nil {
		q.t.Fatal(err)
	}
	return r.Transaction
}

// again begins a transaction that repeats one which was aborted: it locks what it reads for update.
func (q queued) again() []byte {
	q.t.Helper()
	r, err := q.e.Begin(&pb.BeginTransactionRequest{Database: testDatabase, Options: &pb.TransactionOptions{
		Mode: &pb.TransactionOptions_ReadWrite_{ReadWrite: &pb.TransactionOptions_ReadWrite{RetryTransaction: q.begin()}}}})
	if err != nil {
		q.t.Fatal(err)
	}
	return r.Transaction
}

func (q queued) read(tx []byte, id string) error {
	return q.e.BatchGet(context.Background(), &pb.BatchGetDocumentsRequest{Database: testDatabase, Documents: []string{testRoot + "/" + id},
		ConsistencySelector: &pb.BatchGetDocumentsRequest_Transaction{Transaction: tx}},
		func(*pb.BatchGetDocumentsResponse) error { return nil })
}

func (q queued) write(ctx context.Context, tx []byte, ids ...string) error {
	req := &pb.CommitRequest{Database: testDatabase, Transaction: tx}
	for _, id := range ids {
		req.Writes = append(req.Writes, incrementWrite(testRoot+"/"+id, "n", 1))
	}
	_, err := q.e.Commit(ctx, req)
	return err
}

// later starts something that has to wait for locks, and returns once it does.
func (q queued) later(f func() error) <-chan error {
	before := q.e.Stats().LockWaits
	done := make(chan error, 1)
	go func() { done <- f() }()
	for q.e.Stats().LockWaits == before {
		time.Sleep(100 * time.Microsecond)
	}
	return done
}

// A transaction that holds what a commit waits for gets past that commit in the queue for another
// document, rather than that either is aborted.
func TestTransactionGetsPastWhoWaitsForIt(t *testing.T) {
	t.Parallel()
	q := newQueued(t)
	ctx := context.Background()
	tx := q.begin()
	if err := q.read(tx, "a/1"); err != nil {
		t.Fatal(err)
	}
	commit := q.later(func() error { return q.write(ctx, nil, "a/1", "a/2") })
	if err := q.read(tx, "a/2"); err != nil { // nobody holds it, but the commit came first
		t.Errorf("the transaction: %v", err)
	}
	if err := q.write(ctx, tx, "a/2"); err != nil {
		t.Errorf("the transaction's commit: %v", err)
	}
	if err := <-commit; err != nil {
		t.Errorf("the commit: %v", err)
	}
}

// The same, where another transaction holds the second document: the first waits for that one,
// ahead of the commit.
func TestTransactionWaitsAheadOfWhoWaitsForIt(t *testing.T) {
	t.Parallel()
	q := newQueued(t)
	ctx := context.Background()
	one, other := q.again(), q.again()
	if err := q.read(one, "a/1"); err != nil {
		t.Fatal(err)
	}
	if err := q.read(other, "a/2"); err != nil {
		t.Fatal(err)
	}
	commit := q.later(func() error { return q.write(ctx, nil, "a/1", "a/2") })
	read := q.later(func() error { return q.read(one, "a/2") })
	if err := q.write(ctx, other, "a/2"); err != nil {
		t.Errorf("the other's commit: %v", err)
	}
	if err := <-read; err != nil {
		t.Errorf("the read: %v", err)
	}
	if err := q.write(ctx, one, "a/2"); err != nil {
		t.Errorf("the first's commit: %v", err)
	}
	if err := <-commit; err != nil {
		t.Errorf("the commit: %v", err)
	}
}

// Who leaves a queue lets those behind it go on.
func TestLeavingTheQueue(t *testing.T) {
	t.Parallel()
	q := newQueued(t)
	tx := q.begin()
	if err := q.read(tx, "a/1"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	first := q.later(func() error { return q.write(ctx, nil, "a/1", "a/2") })
	second := q.later(func() error { return q.write(context.Background(), nil, "a/2") }) // waits for the first only
	cancel()
	if err := <-first; status.Code(err) != codes.Canceled {
		t.Errorf("the first: %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the second: %v", err)
	}
	if err := q.e.Rollback(&pb.RollbackRequest{Database: testDatabase, Transaction: tx}); err != nil {
		t.Fatal(err)
	}
	if n := q.e.Stats().OpenLocks; n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

// Locks and history leave nothing behind: after any interleaving of transactions and commits that
// all end, no lock is held and no transaction open.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := New(Options{HistoryVersions: 5})
		defer e.Close()
		var open [][]byte
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // nothing here may wait: what would, fails at once
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := testNames.Draw(t, "name")
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				r, err := e.Begin(&pb.BeginTransactionRequest{Database: testDatabase})
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, r.Transaction)
			case 1, 2:
				if len(open) == 0 {
					continue
				}
				tx := rapid.SampledFrom(open).Draw(t, "tx")
				err := e.BatchGet(ctx, &pb.BatchGetDocumentsRequest{Database: testDatabase, Documents: []string{name},
					ConsistencySelector: &pb.BatchGetDocumentsRequest_Transaction{Transaction: tx}},
					func(*pb.BatchGetDocumentsResponse) error { return nil })
				wantOneOf(t, err, codes.OK, codes.Canceled, codes.Aborted)
			case 3:
				_, err := e.Commit(ctx, &pb.CommitRequest{Database: testDatabase, Writes: []*pb.Write{incrementWrite(name, "x", 1)}})
				wantOneOf(t, err, codes.OK, codes.Canceled)
			case 4:
				if len(open) == 0 {
					continue
				}
				tx := open[0]
				open = open[1:]
				_, err := e.Commit(ctx, &pb.CommitRequest{Database: testDatabase, Transaction: tx,
					Writes: []*pb.Write{incrementWrite(name, "x", 1), {Operation: &pb.Write_Delete{Delete: testNames.Draw(t, "deleted")}}}})
				wantOneOf(t, err, codes.OK, codes.Canceled, codes.Aborted)
			}
		}
		for _, tx := range open {
			if err := e.Rollback(&pb.RollbackRequest{Database: testDatabase, Transaction: tx}); err != nil {
				t.Fatal(err)
			}
		}
		db, err := e.database(testDatabase)
		if err != nil {
			t.Fatal(err)
		}
		if db.locks.Len() != 0 || len(db.transactions.open) != 0 {
			t.Fatalf("%d locks and %d transactions are left", db.locks.Len(), len(db.transactions.open))
		}
		for name, n := range db.Nodes {
			if n.Name != name || n.Gone || n.Collection != db.Collections[n.Collection.Name] {
				t.Fatalf("%s is not where it should be", name)
			}
		}
		if n := listed(db, ""); n != len(db.Nodes) {
			t.Fatalf("%d documents are listed of %d", n, len(db.Nodes))
		}
	})
}

func wantOneOf(t *rapid.T, err error, want ...codes.Code) {
	if !slices.Contains(want, status.Code(err)) {
		t.Fatalf("got %v, want one of %v", err, want)
	}
}

// Two transactions read one document at once. Of the two that then write it, the younger is
// aborted, and gets through when it is run again, though another one reads the document meanwhile.
func TestReadersShare(t *testing.T) {
	t.Parallel()
	q := newQueued(t)
	ctx := context.Background()
	one, other := q.begin(), q.begin()
	for _, tx := range [][]byte{one, other} {
		if err := q.read(tx, "a/1"); err != nil { // doesn't wait: nobody would end what it waits for
			t.Fatal(err)
		}
	}
	commit := q.later(func() error { return q.write(ctx, one, "a/1") }) // waits for the other reader
	if err := q.write(ctx, other, "a/1"); status.Code(err) != codes.Aborted {
		t.Errorf("the younger one's commit: %v", err)
	}
	if err := <-commit; err != nil {
		t.Errorf("the older one's commit: %v", err)
	}
	if err := q.write(ctx, other, "a/1"); status.Code(err) != codes.Aborted {
		t.Errorf("a second commit of the one that was aborted: %v", err)
	}
	if err := q.write(ctx, one, "a/1"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a second commit of the one that was applied: %v", err)
	}
	r, err := q.e.Begin(&pb.BeginTransactionRequest{Database: testDatabase, Options: &pb.TransactionOptions{
		Mode: &pb.TransactionOptions_ReadWrite_{ReadWrite: &pb.TransactionOptions_ReadWrite{RetryTransaction: other}}}})
	if err != nil {
		t.Fatal(err)
	}
	newcomer := q.begin()
	for _, tx := range [][]byte{newcomer, r.Transaction} {
		if err := q.read(tx, "a/1"); err != nil {
			t.Fatal(err)
		}
	}
	commit = q.later(func() error { return q.write(ctx, newcomer, "a/1") })
	if err := q.write(ctx, r.Transaction, "a/1"); err != nil {
		t.Errorf("the one that is run again: %v", err)
	}
	if err := <-commit; status.Code(err) != codes.Aborted {
		t.Errorf("the newcomer: %v", err)
	}
	if s := q.e.Stats(); s.OpenLocks != 0 || s.LockRefused != 2 {
		t.Errorf("%+v", s)
	}
}

// Fifty transactions read one field, and all want to increment it: each is aborted once at most.
func TestFiftyContendersAreAbortedOnce(t *testing.T) {
	t.Parallel()
	q := newQueued(t)
	ctx := context.Background()
	const contenders = 50
	var reading, done sync.WaitGroup
	reading.Add(contenders)
	for range contenders {
		done.Go(func() {
			tx := q.begin()
			if err := q.read(tx, "a/1"); err != nil {
				t.Error(err)
			}
			reading.Done()
			reading.Wait() // all of them have read it
			err := q.write(ctx, tx, "a/1")
			if status.Code(err) == codes.Aborted {
				var r *pb.BeginTransactionResponse
				r, err = q.e.Begin(&pb.BeginTransactionRequest{Database: testDatabase, Options: &pb.TransactionOptions{
					Mode: &pb.TransactionOptions_ReadWrite_{ReadWrite: &pb.TransactionOptions_ReadWrite{RetryTransaction: tx}}}})
				if err == nil {
					if err = q.read(r.Transaction, "a/1"); err == nil {
						err = q.write(ctx, r.Transaction, "a/1")
					}
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if n := q.db.Nodes[testRoot+"/a/1"].Current().Fields["n"].GetIntegerValue(); n != contenders {
		t.Errorf("%d of %d increments are counted", n, contenders)
	}
	if s := q.e.Stats(); s.LockRefused < contenders-1 || s.LockRefused > contenders || s.OpenLocks != 0 {
		t.Errorf("%d of %d were aborted; %d locks are left", s.LockRefused, contenders, s.OpenLocks)
	}
}
