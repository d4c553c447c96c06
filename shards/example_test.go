package shards_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/shards"
)

// Increments that are made at the same time share commits; each call returns after its own.
func Example() {
	ctx := context.Background()
	server := emulator.New(emulator.Options{}) // a Firestore in memory
	defer server.Close()
	conn, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	// in production, no option
	client, err := shards.Open(ctx, shards.Config{Place: shards.Place{Project: "my-project"}}, option.WithGRPCConn(conn))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	likes, err := client.Counter("post-123")
	if err != nil {
		log.Fatal(err)
	}
	if err := likes.Create(ctx, shards.CreateOptions{Shards: 10}); err != nil {
		log.Fatal(err)
	}
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			if err := likes.Add(ctx, 1); err != nil {
				log.Print(err)
			}
		})
	}
	group.Wait()
	now, err := likes.Sum(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(now.Counter, now.Total)
	// Output: post-123 100
}

// A seat is held while somebody pays. One that isn't confirmed in time is somebody else's.
func ExampleCounter_Hold() {
	ctx := context.Background()
	server := emulator.New(emulator.Options{}) // a Firestore in memory
	defer server.Close()
	conn, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client, err := shards.Open(ctx, shards.Config{Place: shards.Place{Project: "my-project", Fields: "seats=limit(1)"}}, option.WithGRPCConn(conn))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	concert, err := client.Counter("concert")
	if err != nil {
		log.Fatal(err)
	}
	if err := concert.Create(ctx, shards.CreateOptions{Shards: 1}); err != nil {
		log.Fatal(err)
	}
	counted, _, err := concert.Hold(ctx, "seats", "alice", 10*time.Minute)
	fmt.Println("alice:", counted, err)
	_, _, err = concert.Hold(ctx, "seats", "bob", 10*time.Minute)
	fmt.Println("bob is refused:", errors.Is(err, shards.ErrLimit))
	fmt.Println("alice confirms:", concert.Confirm(ctx, "seats", "alice"))
	fmt.Println("bob's hold is over:", errors.Is(concert.Confirm(ctx, "seats", "bob"), shards.ErrHoldEnded))
	// Output:
	// alice: true <nil>
	// bob is refused: true
	// alice confirms: <nil>
	// bob's hold is over: true
}

// With a key, a request may be repeated by whoever didn't get an answer.
func ExampleCounter_AddOnce() {
	ctx := context.Background()
	server := emulator.New(emulator.Options{}) // a Firestore in memory
	defer server.Close()
	conn, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client, err := shards.Open(ctx, shards.Config{Place: shards.Place{Project: "my-project"}, AutoCreate: true}, option.WithGRPCConn(conn))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	sold, err := client.Counter("sold")
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		replayed, err := sold.AddOnce(ctx, 3, shards.Key{Caller: "shop", Value: "order-17"})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("replayed:", replayed)
	}
	now, err := sold.Sum(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("sold:", now.Total)
	// Output:
	// replayed: false
	// replayed: true
	// sold: 3
}
