package rollup_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/api/option"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/rollup"
)

// An event becomes a change, and a change a state: what the shard holds, and since when.
func ExampleDecode() {
	data, err := proto.Marshal(&firestoredata.DocumentEventData{
		Value: &firestoredata.Document{
			Name:       "projects/my-project/databases/(default)/documents/counters/post-123/shards/7",
			Fields:     map[string]*firestoredata.Value{"count": {ValueType: &firestoredata.Value_IntegerValue{IntegerValue: 42}}},
			UpdateTime: timestamppb.New(time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	change, err := rollup.Decode("application/protobuf", data, "count")
	if err != nil {
		log.Fatal(err)
	}
	state := change.State()
	fmt.Printf("counter %s, shard %s: %+d, now %d since %s\n", change.Counter, state.Shard, change.Delta(), state.Count, state.AsOf.Format(time.TimeOnly))
	// Output: counter post-123, shard 7: +42, now 42 since 09:30:00
}

// A roller counts changes as they come, in one commit per second and counter; here two of one shard, the second of them
// twice.
func ExampleRoller() {
	ctx := context.Background()
	server := emulator.New(emulator.Options{}) // a Firestore in memory
	defer server.Close()
	conn, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client, err := rollup.Open(ctx, rollup.Config{Project: "my-project"}, option.WithGRPCConn(conn))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	roller := rollup.NewRoller(client, rollup.Pace{}, slog.New(slog.DiscardHandler))

	fs, err := firestore.NewClient(ctx, "my-project", option.WithGRPCConn(conn))
	if err != nil {
		log.Fatal(err)
	}
	counter := fs.Doc("counters/post-123")
	if _, err := counter.Set(ctx, map[string]any{"num_shards": 1}); err != nil {
		log.Fatal(err)
	}
	shard := counter.Collection("shards").Doc("0")
	var adding sync.WaitGroup
	for _, count := range []int64{1, 5, 5} {
		written, err := shard.Set(ctx, map[string]any{"count": count}) // the third changes nothing
		if err != nil {
			log.Fatal(err)
		}
		change := rollup.Change{Counter: "post-123", Shard: "0", After: &rollup.Version{Count: count, Updated: written.UpdateTime}}
		adding.Go(func() { // returns when the change is counted
			if err := roller.Add(ctx, change); err != nil {
				log.Print(err)
			}
		})
	}
	adding.Wait()
	if err := roller.Close(ctx); err != nil {
		log.Fatal(err)
	}
	doc, err := counter.Get(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("total", doc.Data()["total"])
	// Output: total 5
}
