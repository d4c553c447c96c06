// Package conn opens the official Firestore client so that a commit can be sent exactly once.
//
// The client has two faces. The high-level one (cloud.google.com/go/firestore) is for reads, queries and transactions.
// Its commits go through a generated layer that resends them on UNAVAILABLE and RESOURCE_EXHAUSTED by itself, and a
// resent increment counts twice. Commits of ours therefore go through the generated client (firestore/apiv1) with that
// retry switched off, and whoever sends one decides what a failure means, by [KindOf].
package conn

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	apiv1 "cloud.google.com/go/firestore/apiv1"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// DB is one database.
type DB struct {
	*firestore.Client               // reads, queries and transactions
	API               *apiv1.Client // the generated client; commits go through [DB.Commit] instead
	Name              string        // projects/{project}/databases/{database}
}

// Open opens a database of a project. An empty project is found from the credentials or the metadata server, an empty
// database is "(default)". FIRESTORE_EMULATOR_HOST is respected unless opts bring a connection of their own. Nothing
// is sent yet.
func Open(ctx context.Context, project, database string, opts ...option.ClientOption) (*DB, error) {
	if project == "" {
		project = firestore.DetectProjectID
	}
	if database == "" {
		database = firestore.DefaultDatabaseID
	}
	emulator := os.Getenv("FIRESTORE_EMULATOR_HOST")
	if emulator != "" && len(opts) == 0 {
		// The client would dial by itself, and the generated one would not know of the emulator at all.
		conn, err := dialEmulator(emulator)
		if err != nil {
			return nil, fmt.Errorf("connect to FIRESTORE_EMULATOR_HOST=%s: %w", emulator, err)
		}
		opts = []option.ClientOption{option.WithGRPCConn(conn)}
	}
	client, err := firestore.NewClientWithDatabase(ctx, project, database, opts...)
	if err != nil {
		return nil, fmt.Errorf("open Firestore: %w", err)
	}
	api, err := apiv1.NewClient(ctx, opts...)
	if err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("open Firestore: %w", err)
	}
	// The only public way to the name of the database, whose project may just have been detected.
	path := client.Doc("a/b").Path
	return &DB{Client: client, API: api, Name: path[:strings.Index(path, "/documents/")]}, nil
}

// Close closes both clients.
func (db *DB) Close() error {
	err := db.API.Close()
	// Where both share a connection, the second close finds it closed, which is what was asked for.
	_ = db.Client.Close()
	return err
}

// Commit applies the writes as one, or none of them. It is sent once: no layer below resends it. [KindOf] tells what
// its error says about whether it was applied.
func (db *DB) Commit(ctx context.Context, writes []*firestorepb.Write) (*firestorepb.CommitResponse, error) {
	return db.API.Commit(db.outgoing(ctx), &firestorepb.CommitRequest{Database: db.Name, Writes: writes}, once)
}

// Get reads the named documents, in the order of the names, all as of the time that it returns; a missing one is nil.
// Reading is idempotent: the client retries it.
func (db *DB) Get(ctx context.Context, names ...string) ([]*firestorepb.Document, time.Time, error) {
	var readTime time.Time
	stream, err := db.API.BatchGetDocuments(db.outgoing(ctx), &firestorepb.BatchGetDocumentsRequest{Database: db.Name, Documents: names})
	if err != nil {
		return nil, readTime, err
	}
	found := make(map[string]*firestorepb.Document, len(names))
	for { // to the end: a stream that is left early lives on until its context ends
		resp, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, readTime, err
		}
		readTime = resp.GetReadTime().AsTime()
		if doc := resp.GetFound(); doc != nil {
			found[doc.GetName()] = doc
		}
	}
	docs := make([]*firestorepb.Document, len(names))
	for i, name := range names {
		docs[i] = found[name]
	}
	return docs, readTime, nil
}

func (db *DB) outgoing(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "google-cloud-resource-prefix", db.Name)
}

// once switches the generated client's own retries off.
var once = gax.WithRetry(func() gax.Retryer { return nil })

func dialEmulator(addr string) (*grpc.ClientConn, error) {
	addr = strings.TrimPrefix(strings.TrimPrefix(addr, "http://"), "https://")
	return grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(owner{}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)))
}

// owner is the token by which an emulator knows an administrator.
type owner struct{}

func (owner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

func (owner) RequireTransportSecurity() bool { return false }
