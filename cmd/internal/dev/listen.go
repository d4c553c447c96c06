package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/firestore-counters/counters/emulator/eventarc"
)

// listener turns what a Listen on a collection group brings into changes, for a server that has no
// triggers.
//
// A Listen brings states, not commits: several commits may appear as one, and what happened before
// the start never does. After a broken stream, what differs from the last known state appears as a
// change.
type listener struct {
	client   firestorepb.FirestoreClient
	database string // projects/P/databases/D
	group    string // Id of the collections.
	deliver  func(eventarc.Change)
	logger   *slog.Logger

	known   map[string]*firestorepb.Document // By name.
	current bool                             // known was complete once, so that what differs has changed since.
}

// dialEmulator connects to an emulator. Nothing is sent yet.
func dialEmulator(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
}

// run listens until the context ends, and again whenever the stream breaks. It calls ready once
// everything that exists is known, so that later changes are delivered.
func (l *listener) run(ctx context.Context, ready func()) {
	const shortest, longest = 100 * time.Millisecond, 5 * time.Second
	l.known = make(map[string]*firestorepb.Document)
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer owner", "google-cloud-resource-prefix", l.database)
	wait := shortest
	for {
		err := l.listen(ctx, func() {
			wait = shortest
			ready()
		})
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, io.EOF) { // Which a server sends to a stream that has run for long.
			l.logger.Warn("the Listen on shards broke and is started again", "wait", wait.String(), "error", err)
		}
		if gax.Sleep(ctx, wait) != nil {
			return
		}
		wait = min(2*wait, longest)
	}
}

// listen runs one stream to its end.
func (l *listener) listen(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := l.client.Listen(ctx)
	if err != nil {
		return err
	}
	const target = 1
	if err := stream.Send(&firestorepb.ListenRequest{
		Database: l.database,
		TargetChange: &firestorepb.ListenRequest_AddTarget{AddTarget: &firestorepb.Target{
			TargetId: target,
			TargetType: &firestorepb.Target_Query{Query: &firestorepb.Target_QueryTarget{
				Parent: l.database + "/documents",
				QueryType: &firestorepb.Target_QueryTarget_StructuredQuery{StructuredQuery: &firestorepb.StructuredQuery{
					From: []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: l.group, AllDescendants: true}},
				}},
			}},
		}},
	}); err != nil {
		return err
	}
	seen := make(map[string]bool) // Until the initial state is complete; then nil.
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		switch m := m.ResponseType.(type) {
		case *firestorepb.ListenResponse_DocumentChange:
			doc := m.DocumentChange.GetDocument()
			if len(m.DocumentChange.GetTargetIds()) == 0 {
				continue // It left the group, which no document of a collection group does without being deleted.
			}
			if seen != nil {
				seen[doc.GetName()] = true
			}
			l.set(doc)
		case *firestorepb.ListenResponse_DocumentDelete:
			l.remove(m.DocumentDelete.GetDocument(), m.DocumentDelete.GetReadTime().AsTime())
		case *firestorepb.ListenResponse_DocumentRemove:
			l.remove(m.DocumentRemove.GetDocument(), m.DocumentRemove.GetReadTime().AsTime())
		case *firestorepb.ListenResponse_TargetChange:
			switch c := m.TargetChange; c.GetTargetChangeType() {
			case firestorepb.TargetChange_REMOVE:
				return fmt.Errorf("the server ended it: %s", c.GetCause().GetMessage())
			case firestorepb.TargetChange_RESET: // Everything comes again.
				seen = make(map[string]bool)
			case firestorepb.TargetChange_CURRENT:
				if seen == nil {
					continue
				}
				for name := range l.known {
					if !seen[name] {
						l.remove(name, c.GetReadTime().AsTime())
					}
				}
				seen, l.current = nil, true
				ready()
			}
		}
	}
}

// set takes a document's state.
func (l *listener) set(doc *firestorepb.Document) {
	old := l.known[doc.GetName()]
	if old != nil && !doc.GetUpdateTime().AsTime().After(old.GetUpdateTime().AsTime()) {
		return // As known.
	}
	if old != nil && !doc.GetCreateTime().AsTime().Equal(old.GetCreateTime().AsTime()) {
		l.remove(doc.GetName(), doc.GetCreateTime().AsTime()) // It was deleted and made again meanwhile.
		old = nil
	}
	l.known[doc.GetName()] = doc
	l.emit(eventarc.Change{Name: doc.GetName(), Old: old, New: doc, CommitTime: doc.GetUpdateTime().AsTime()})
}

func (l *listener) remove(name string, at time.Time) {
	old := l.known[name]
	if old == nil {
		return
	}
	delete(l.known, name)
	l.emit(eventarc.Change{Name: name, Old: old, CommitTime: at})
}

func (l *listener) emit(c eventarc.Change) {
	if l.current {
		l.deliver(c)
	}
}
