package store

import (
	"context"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// Cursor is where a walk over all counters goes on: after the last counter of a page that it has done.
type Cursor struct {
	Page string // token of the page
	Done string // id of the last counter of the page that was done; empty if none was
}

// Fields of the document that says where the last walk stopped.
const (
	cursorWalks = "walks" // :: path of counters → where its walk goes on
	cursorPage  = "page"
	cursorDone  = "done"
	cursorAt    = "updated_at"
)

// Stopped is where the last walk over all counters stopped.
func (db *DB) Stopped(ctx context.Context) (Cursor, error) {
	docs, _, err := db.Get(ctx, db.Layout.Cursor())
	if err != nil {
		return Cursor{}, err
	}
	at := docs[0].GetFields()[cursorWalks].GetMapValue().GetFields()[db.Layout.Path.String()].GetMapValue().GetFields()
	return Cursor{Page: at[cursorPage].GetStringValue(), Done: at[cursorDone].GetStringValue()}, nil
}

// Stop stores where a walk over all counters stopped.
func (db *DB) Stop(ctx context.Context, at Cursor) error {
	walk := Map(map[string]*firestorepb.Value{cursorPage: String(at.Page), cursorDone: String(at.Done)})
	_, err := db.Commit(ctx, Update(db.Layout.Cursor(), nil,
		map[string]*firestorepb.Value{cursorWalks: Map(map[string]*firestorepb.Value{db.Layout.Path.String(): walk})}, nil, ServerTime(cursorAt)))
	return err
}
