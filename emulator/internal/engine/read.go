package engine

import (
	"context"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator/internal/document"
	"github.com/firestore-counters/counters/emulator/internal/locks"
)

// consistency is how a read wants its moment chosen: at most one of its fields is set.
type consistency struct {
	transaction []byte
	begin       *pb.TransactionOptions
	readTime    *timestamppb.Timestamp
}

// moment is when a read happens.
type moment struct {
	at          int64
	transaction []byte // of the transaction that the read has begun
	pinned      bool   // the reader, or its transaction, asked for this time and no other
}

// moment finds the time that a read is of. In a read-write transaction it first gets the locks that
// the read wants.
func (db *database) moment(ctx context.Context, c consistency, wants func(locks.Mode) []locks.Want) (moment, error) {
	switch {
	case c.readTime != nil:
		at, err := db.pastTime(c.readTime)
		return moment{at: at, pinned: true}, err
	case c.transaction == nil && c.begin == nil:
		return moment{at: db.present()}, nil
	}
	var m moment
	if c.begin != nil {
		var err error
		if m.transaction, err = db.begin(c.begin); err != nil {
			return m, err
		}
		c.transaction = m.transaction
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	tx, err := db.enter(c.transaction)
	if err != nil {
		return m, err
	}
	defer db.leave(tx)
	if tx.readOnly {
		m.at, m.pinned = tx.at, true
		return m, db.checkKept(m.at)
	}
	if db.engine.opts.Enterprise {
		if tx.at == 0 {
			tx.at = db.readTime()
		}
		m.at = tx.at
		tx.reads = append(tx.reads, wants(tx.readMode())...)
		return m, db.checkKept(m.at)
	}
	if err := db.lockFor(ctx, tx, wants(tx.readMode())); err != nil {
		return m, err
	}
	m.at = db.readTime()
	return m, nil
}

// BatchGet reads documents by name, each distinct one once, all of one moment.
func (e *Engine) BatchGet(ctx context.Context, req *pb.BatchGetDocumentsRequest, send func(*pb.BatchGetDocumentsResponse) error) error {
	db, err := e.database(req.GetDatabase())
	if err != nil {
		return err
	}
	names, err := distinctDocuments(db.name, req.GetDocuments())
	if err != nil {
		return err
	}
	mask, err := document.ParseMask(req.GetMask())
	if err != nil {
		return err
	}
	c := consistency{transaction: req.GetTransaction(), begin: req.GetNewTransaction(), readTime: req.GetReadTime()}
	m, err := db.moment(ctx, c, func(mode locks.Mode) []locks.Want { return readWants(names, mode) })
	if err != nil {
		return err
	}
	docs := db.documentsAt(names, m.at)
	if err := db.checkKept(m.at); err != nil {
		return err
	}
	if m.transaction != nil {
		if err := send(&pb.BatchGetDocumentsResponse{Transaction: m.transaction}); err != nil {
			return err
		}
	}
	e.stats.reads.Add(int64(len(names)))
	for _, doc := range docs {
		e.stats.readUnits.Add(units(document.Size(doc.GetName(), doc.GetFields()), readUnit))
	}
	readTime := timestamp(m.at)
	for i, name := range names {
		resp := &pb.BatchGetDocumentsResponse{ReadTime: readTime}
		if doc := docs[i]; doc == nil {
			resp.Result = &pb.BatchGetDocumentsResponse_Missing{Missing: name}
		} else {
			if mask != nil {
				doc = document.Project(doc, mask)
			}
			resp.Result = &pb.BatchGetDocumentsResponse_Found{Found: doc}
		}
		if err := send(resp); err != nil {
			return err
		}
	}
	return nil
}

func distinctDocuments(database string, names []string) ([]string, error) {
	out := make([]string, 0, len(names))
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if err := document.CheckName(database, name); err != nil {
			return nil, err
		}
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out, nil
}

func (db *database) documentsAt(names []string, at int64) []*pb.Document {
	docs := make([]*pb.Document, len(names))
	db.mu.RLock()
	defer db.mu.RUnlock()
	for i, name := range names {
		if n := db.Nodes[name]; n != nil {
			docs[i] = n.At(at)
		}
	}
	return docs
}

// Get reads one document.
func (e *Engine) Get(ctx context.Context, req *pb.GetDocumentRequest) (*pb.Document, error) {
	name, err := document.DatabaseOf(req.GetName())
	if err != nil {
		return nil, err
	}
	get := &pb.BatchGetDocumentsRequest{Database: name, Documents: []string{req.GetName()}, Mask: req.GetMask()}
	switch c := req.GetConsistencySelector().(type) {
	case *pb.GetDocumentRequest_Transaction:
		get.ConsistencySelector = &pb.BatchGetDocumentsRequest_Transaction{Transaction: c.Transaction}
	case *pb.GetDocumentRequest_ReadTime:
		get.ConsistencySelector = &pb.BatchGetDocumentsRequest_ReadTime{ReadTime: c.ReadTime}
	}
	var doc *pb.Document
	err = e.BatchGet(ctx, get, func(r *pb.BatchGetDocumentsResponse) error {
		doc = r.GetFound()
		return nil
	})
	if err == nil && doc == nil {
		err = status.Errorf(codes.NotFound, "Document %q not found.", req.GetName())
	}
	return doc, err
}
