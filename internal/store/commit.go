package store

import (
	"context"
	"time"

	apiv1 "cloud.google.com/go/firestore/apiv1"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// Commit applies all writes or none. It is sent once: no layer below resends it. [KindOf] says of its
// error whether the commit may have been applied.
func (db *DB) Commit(ctx context.Context, writes ...*firestorepb.Write) (*firestorepb.CommitResponse, error) {
	return db.commit(ctx, &firestorepb.CommitRequest{Database: db.Layout.Database, Writes: writes})
}

func (db *DB) commit(ctx context.Context, req *firestorepb.CommitRequest) (resp *firestorepb.CommitResponse, err error) {
	err = db.api.call(ctx, func(ctx context.Context, api *apiv1.Client) error {
		resp, err = api.Commit(db.outgoing(ctx), req)
		return err
	})
	if err == nil {
		db.clock.saw(resp.GetCommitTime().AsTime())
	}
	return resp, err
}

// rollbackTimeout bounds the call that gives a transaction's locks back. If it fails, Firestore releases
// them after a minute.
const rollbackTimeout = 2 * time.Second

// rollback ends the transaction of a commit that was not made, if it has one.
func (db *DB) rollback(ctx context.Context, req *firestorepb.CommitRequest) {
	if len(req.GetTransaction()) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = db.api.call(ctx, func(ctx context.Context, api *apiv1.Client) error {
		return api.Rollback(db.outgoing(ctx), &firestorepb.RollbackRequest{Database: db.Layout.Database, Transaction: req.GetTransaction()})
	})
}
