package conformance

import (
	"context"
	"fmt"
	"slices"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func readOnly(at *timestamppb.Timestamp) *pb.TransactionOptions {
	o := &pb.TransactionOptions_ReadOnly{}
	if at != nil {
		o.ConsistencySelector = &pb.TransactionOptions_ReadOnly_ReadTime{ReadTime: at}
	}
	return &pb.TransactionOptions{Mode: &pb.TransactionOptions_ReadOnly_{ReadOnly: o}}
}

func (s *session) begin(opts *pb.TransactionOptions) []byte {
	s.Helper()
	resp, err := s.api.BeginTransaction(s.ctx, &pb.BeginTransactionRequest{Database: s.db, Options: opts})
	s.must(err)
	return resp.Transaction
}

func (s *session) rollback(tx []byte) error {
	_, err := s.api.Rollback(s.ctx, &pb.RollbackRequest{Database: s.db, Transaction: tx})
	return err
}

// commitTx notes what becomes of a transaction's commit.
func (s *session) commitTx(label string, tx []byte, writes ...*pb.Write) {
	resp, err := s.api.Commit(s.ctx, &pb.CommitRequest{Database: s.db, Transaction: tx, Writes: writes})
	s.note(label, resp, err)
}

// read reads a document in a transaction.
func (s *session) read(tx []byte, path string) (*pb.Document, error) {
	return s.document(&pb.BatchGetDocumentsRequest{ConsistencySelector: &pb.BatchGetDocumentsRequest_Transaction{Transaction: tx}}, path)
}

func (s *session) noteRead(label string, tx []byte, path string) {
	doc, err := s.read(tx, path)
	s.note(label, doc, err)
}

// soon is what a call that may wait for a lock comes to: waits returns at once, settled later.
type soon struct {
	s      *session
	done   chan error
	before int64 // how many calls had waited for a lock when it began
}

func (s *session) start(f func() error) soon {
	w := soon{s: s, done: make(chan error, 1)}
	if s.lockWaits != nil {
		w.before = s.lockWaits()
	}
	go func() { w.done <- f() }()
	return w
}

// waits notes whether the call waits for a lock. Where the server doesn't say, that is if it is
// still waiting after a while: long for a busy machine, and short beside the two seconds after
// which a wait for a lock ends.
func (w soon) waits(label string) {
	pause := time.Second
	waits := func() bool { return true }
	if w.s.lockWaits != nil {
		pause, waits = time.Millisecond, func() bool { return w.s.lockWaits() > w.before }
	}
	for {
		select {
		case err := <-w.done:
			w.s.note(label, "no", err)
			w.done <- err
			return
		case <-time.After(pause):
			if waits() {
				w.s.note(label, "yes", nil)
				return
			}
		}
	}
}

func (w soon) settled(label string) { w.s.note(label, "ok", <-w.done) }

var transactionScenarios = []scenario{
	{"transactions", func(s *session) {
		s.given(s.set("c/d", fields{"n": 1}))
		tx := s.begin(nil)
		s.noteRead("read", tx, "c/d")
		s.noteRead("read what is missing", tx, "c/none")
		s.commitTx("commit", tx, s.set("c/d", fields{"n": 2}))
		s.commitTx("commit again", tx, s.set("c/d", fields{"n": 3}))
		s.noteRead("read after the commit", tx, "c/d")
		s.note("roll back after the commit", "ok", s.rollback(tx))
		s.get("written once", "c/d")

		tx = s.begin(nil)
		s.note("roll back", "ok", s.rollback(tx))
		s.note("roll back again", "ok", s.rollback(tx))
		s.commitTx("commit after the rollback", tx, s.set("c/d", fields{"n": 3}))
		s.noteRead("read after the rollback", tx, "c/d")

		tx = s.begin(nil)
		s.commitTx("a write that makes no sense", tx, s.set("c/d", fields{"__n__": 3}))
		s.commitTx("leaves it open", tx, s.set("c/d", fields{"n": 3}))

		tx = s.begin(nil)
		s.commitTx("a precondition fails", tx, exists(s.set("c/d", fields{"n": 3}), false))
		s.commitTx("ends it", tx, s.set("c/d", fields{"n": 3}))

		tx = s.begin(nil)
		_, err := s.api.Commit(s.ctx, &pb.CommitRequest{Database: s.db, Transaction: tx})
		s.note("nothing", "ok", err)
		s.commitTx("nothing again", tx)

		stream, err := s.api.RunQuery(s.ctx, &pb.RunQueryRequest{Parent: s.root(),
			QueryType:           &pb.RunQueryRequest_StructuredQuery{StructuredQuery: from("c")},
			ConsistencySelector: &pb.RunQueryRequest_NewTransaction{NewTransaction: &pb.TransactionOptions{}}})
		s.must(err)
		answers := []string{}
		for {
			resp, err := stream.Recv()
			if err != nil {
				s.note("a query in a new transaction", answers, eof(err))
				break
			}
			answers = append(answers, fmt.Sprintf("transaction %v document %v time %v", resp.Transaction != nil, resp.Document != nil, resp.ReadTime != nil))
			if resp.Transaction != nil {
				tx = resp.Transaction
			}
		}
		s.note("is rolled back", "ok", s.rollback(tx))

		tx = s.begin(nil)
		s.given(s.set("c/e", fields{"n": 1}))
		s.noteRead("what was written after the beginning", tx, "c/e")
		s.must(s.rollback(tx))

		for i, id := range [][]byte{[]byte("x"), {}, {0x11}, slices.Repeat([]byte{0x11}, 9), slices.Repeat([]byte{0x11}, 17)} {
			nonsense := fmt.Sprintf("nonsense %d", i+1)
			s.note("roll back "+nonsense, "ok", s.rollback(id))
			if len(id) > 0 {
				s.commitTx("commit "+nonsense, id, s.set("c/d", fields{"n": 3}))
				s.noteRead("read in "+nonsense, id, "c/d")
			}
		}
		tx = s.begin(nil)
		_, err = s.api.BeginTransaction(s.ctx, &pb.BeginTransactionRequest{Database: s.db, Options: &pb.TransactionOptions{
			Mode: &pb.TransactionOptions_ReadWrite_{ReadWrite: &pb.TransactionOptions_ReadWrite{RetryTransaction: tx}}}})
		s.note("a retry of an open transaction", "ok", err)
		_, err = s.api.BeginTransaction(s.ctx, &pb.BeginTransactionRequest{Database: s.db, Options: &pb.TransactionOptions{
			Mode: &pb.TransactionOptions_ReadWrite_{ReadWrite: &pb.TransactionOptions_ReadWrite{RetryTransaction: []byte("x")}}}})
		s.note("a retry of nonsense", "ok", err)
		s.must(s.rollback(tx))
		_, err = s.api.BeginTransaction(s.ctx, &pb.BeginTransactionRequest{Database: s.db, Options: &pb.TransactionOptions{
			Mode: &pb.TransactionOptions_ReadWrite_{ReadWrite: &pb.TransactionOptions_ReadWrite{RetryTransaction: tx}}}})
		s.note("a retry of an ended transaction", "ok", err)
		retry := func(label string, tx []byte) {
			_, err := s.api.BeginTransaction(s.ctx, &pb.BeginTransactionRequest{Database: s.db, Options: &pb.TransactionOptions{
				Mode: &pb.TransactionOptions_ReadWrite_{ReadWrite: &pb.TransactionOptions_ReadWrite{RetryTransaction: tx}}}})
			s.note(label, "ok", err)
		}
		reader := s.begin(readOnly(nil))
		retry("a retry of a read-only transaction", reader)
		s.noteRead("the read-only one goes on", reader, "c/d")
		s.must(s.rollback(reader))
		retry("a retry of an ended read-only transaction", reader)
		retry("a retry of nothing", []byte{})

		docs, err := s.results(&pb.RunQueryRequest{QueryType: &pb.RunQueryRequest_StructuredQuery{StructuredQuery: from("c")},
			ConsistencySelector: &pb.RunQueryRequest_Transaction{Transaction: []byte("x")}})
		s.note("a query in nonsense", s.paths(docs), err)
	}},
	{"read-only", func(s *session) {
		first := s.given(s.set("c/d", fields{"n": 1})).CommitTime
		tx := s.begin(readOnly(nil))
		second := s.given(s.set("c/d", fields{"n": 2})).CommitTime
		s.given(s.remove("c/d"))
		s.noteRead("as of the beginning", tx, "c/d")
		s.commitTx("a write", tx, s.set("c/d", fields{"n": 3}))
		resp, err := s.api.Commit(s.ctx, &pb.CommitRequest{Database: s.db, Transaction: tx})
		s.note("no write", "ok", err)
		s.note("is at a time", resp.GetCommitTime() != nil, nil)
		for i, at := range []*timestamppb.Timestamp{first, second} {
			commit := fmt.Sprintf("commit %d", i+1)
			doc, err := s.document(&pb.BatchGetDocumentsRequest{ConsistencySelector: &pb.BatchGetDocumentsRequest_ReadTime{ReadTime: at}}, "c/d")
			s.note("as of "+commit, doc, err)
			tx := s.begin(readOnly(at))
			s.noteRead("in a transaction as of "+commit, tx, "c/d")
			docs, err := s.results(&pb.RunQueryRequest{QueryType: &pb.RunQueryRequest_StructuredQuery{StructuredQuery: from("c")},
				ConsistencySelector: &pb.RunQueryRequest_ReadTime{ReadTime: at}})
			s.note("a query as of "+commit, s.paths(docs), err)
		}
		before := timestamppb.New(first.AsTime().Add(-time.Microsecond))
		doc, err := s.document(&pb.BatchGetDocumentsRequest{ConsistencySelector: &pb.BatchGetDocumentsRequest_ReadTime{ReadTime: before}}, "c/d")
		s.note("as of before", doc, err)
		doc, err = s.document(&pb.BatchGetDocumentsRequest{ConsistencySelector: &pb.BatchGetDocumentsRequest_ReadTime{
			ReadTime: timestamppb.New(time.Now().Add(-100 * 24 * time.Hour).Truncate(time.Microsecond))}}, "c/d")
		s.note("long ago", doc, err)
		doc, err = s.document(&pb.BatchGetDocumentsRequest{ConsistencySelector: &pb.BatchGetDocumentsRequest_ReadTime{
			ReadTime: timestamppb.New(time.Now().Add(time.Hour).Truncate(time.Microsecond))}}, "c/d")
		s.note("in the future", doc, err)
		doc, err = s.document(&pb.BatchGetDocumentsRequest{ConsistencySelector: &pb.BatchGetDocumentsRequest_ReadTime{
			ReadTime: &timestamppb.Timestamp{Seconds: first.Seconds, Nanos: first.Nanos + 1}}}, "c/d")
		s.note("in nanoseconds", doc, err)
	}},
}

var lockScenarios = []scenario{
	{"lock-of-a-write", func(s *session) {
		s.given(s.set("c/d", fields{"n": 1}))
		tx := s.begin(nil)
		s.noteRead("read", tx, "c/d")
		write := s.start(func() error { _, err := s.send(s.set("c/d", fields{"n": 10})); return err })
		write.waits("another's write waits")
		doc, err := s.document(&pb.BatchGetDocumentsRequest{}, "c/d")
		s.note("a plain read doesn't", doc.GetFields(), err)
		s.noteRead("nothing has changed for the transaction", tx, "c/d")
		_, err = s.api.Commit(s.ctx, &pb.CommitRequest{Database: s.db, Transaction: tx, Writes: []*pb.Write{s.patch("c/d", fields{"m": 2}, "m")}})
		s.note("the transaction commits", "ok", err)
		write.settled("and then the other one")
		doc, err = s.document(&pb.BatchGetDocumentsRequest{}, "c/d")
		s.note("in this order", doc.GetFields(), err)
	}},
	{"lock-of-a-missing-document", func(s *session) {
		tx := s.begin(nil)
		s.noteRead("read", tx, "c/d")
		write := s.start(func() error { _, err := s.send(s.set("c/d", fields{"n": 10})); return err })
		write.waits("its creation waits")
		s.note("roll back", "ok", s.rollback(tx))
		write.settled("then it goes on")
	}},
	{"lock-of-a-query", func(s *session) {
		s.given(s.set("c/d", fields{"n": 1}), s.set("c/e", fields{"n": 2}), s.set("d/d", fields{"n": 2}))
		tx := s.begin(nil)
		docs, err := s.results(&pb.RunQueryRequest{QueryType: &pb.RunQueryRequest_StructuredQuery{StructuredQuery: where(from("c"), is("n", "==", 1))},
			ConsistencySelector: &pb.RunQueryRequest_Transaction{Transaction: tx}})
		s.note("query", s.paths(docs), err)
		elsewhere := s.start(func() error { _, err := s.send(s.set("d/x", fields{"n": 1})); return err })
		elsewhere.settled("a write elsewhere")
		phantom := s.start(func() error { _, err := s.send(s.set("c/x", fields{"n": 1})); return err })
		phantom.waits("a document that would match waits")
		s.note("roll back", "ok", s.rollback(tx))
		phantom.settled("then it goes on")
	}},
	{"lock-timeout", func(s *session) {
		s.given(s.set("c/d", fields{"n": 1}))
		tx := s.begin(nil)
		s.noteRead("read", tx, "c/d")
		write := s.start(func() error { _, err := s.send(s.set("c/d", fields{"n": 10})); return err })
		write.settled("a write that waits too long")
		s.commitTx("the transaction", tx, s.set("c/d", fields{"n": 2}))
	}},
	{"lock-shared", func(s *session) {
		s.given(s.set("c/d", fields{"n": 1}))
		a, b := s.begin(nil), s.begin(nil)
		s.noteRead("one reads", a, "c/d")
		read := s.start(func() error { _, err := s.read(b, "c/d"); return err })
		read.waits("the other one waits")
		s.note("the one rolls back", "ok", s.rollback(a))
		read.settled("the other one has read")
		s.commitTx("and commits", b, s.set("c/d", fields{"n": 2}))
	}},
	{"lock-of-an-expired-client", func(s *session) {
		// A client that goes away in the middle of a wait doesn't disturb others. Whether its write
		// is still done is open.
		s.given(s.set("c/d", fields{"n": 1}))
		tx := s.begin(nil)
		s.noteRead("read", tx, "c/d")
		ctx, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
		defer cancel()
		_, err := s.api.Commit(ctx, &pb.CommitRequest{Database: s.db, Writes: []*pb.Write{s.set("c/d", fields{"n": 5})}})
		s.note("a write that gives up", "ok", err)
		_, err = s.api.Commit(s.ctx, &pb.CommitRequest{Database: s.db, Transaction: tx, Writes: []*pb.Write{s.patch("c/d", fields{"m": 2}, "m")}})
		s.note("the transaction", "ok", err)
		_, err = s.send(s.set("c/e", fields{"n": 1}))
		s.note("a later write", "ok", err)
	}},
}
