package rollup_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/rollup"
)

// A roller counts changes as they come, in one commit per second and counter; here two of one
// shard, the second of them twice.
func ExampleRoller() {
	ctx := context.Background()
	server := emulator.New(emulator.Options{}) // a Firestore in memory
	defer server.Close()
	conn, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client, err := rollup.Open(ctx, rollup.Config{Place: rollup.Place{Project: "my-project"}}, option.WithGRPCConn(conn))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	roller := rollup.NewRoller(client, rollup.RollerOptions{})

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
		change := rollup.Change{Counter: "post-123", Shard: "0", Fields: []string{"total"}, At: written.UpdateTime}
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
