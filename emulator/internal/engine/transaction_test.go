package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
)

// A transaction ends a minute after it was used last, to the moment, and 270 seconds after it began
// in any case: in virtual time.
func TestTransactionsEndOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{})
		defer e.Close()
		db, err := e.database(testDatabase)
		if err != nil {
			t.Fatal(err)
		}
		begin := func() []byte {
			t.Helper()
			id, err := db.begin(nil)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		use := func(id []byte) {
			t.Helper()
			if err := e.BatchGet(context.Background(), &pb.BatchGetDocumentsRequest{Database: testDatabase, Documents: []string{testRoot + "/a/1"},
				ConsistencySelector: &pb.BatchGetDocumentsRequest_Transaction{Transaction: id}}, func(*pb.BatchGetDocumentsResponse) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		wantOpen := func(when string, after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			db.mu.RLock()
			defer db.mu.RUnlock()
			if n := len(db.transactions.open); n != want {
				t.Errorf("%s: %d are open, want %d", when, n, want)
			}
		}
		const moment = time.Millisecond
		begin()
		wantOpen("never used", time.Minute-moment, 1)
		wantOpen("a minute later", 2*moment, 0)

		id := begin()
		time.Sleep(time.Second)
		use(id)
		wantOpen("used once", time.Minute-moment, 1)
		wantOpen("a minute after its use", 2*moment, 0)

		id = begin()
		for range 8 { // 240 s
			time.Sleep(30 * time.Second)
			use(id)
		}
		wantOpen("used all the time", 30*time.Second-moment, 1)
		wantOpen("too old", 2*moment, 0)
	})
}
