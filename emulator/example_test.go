package emulator_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
)

// A Firestore within the program: no port, no process, nothing to clean up but Close. A test calls
// emulator.Start(t) instead, and gets a port, too.
func Example() {
	ctx := context.Background()
	server := emulator.New(emulator.Options{})
	defer server.Close()
	conn, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client, err := firestore.NewClient(ctx, "my-project", option.WithGRPCConn(conn))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.Doc("cities/LA").Set(ctx, map[string]any{"name": "Los Angeles"}); err != nil {
		log.Fatal(err)
	}
	doc, err := client.Doc("cities/LA").Get(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(doc.Data()["name"])
	// Output: Los Angeles
}

// A commit is applied, and its answer is lost: what does the caller make of it? Here the client
// sends it again by itself, and an increment counts twice.
func ExampleServer_SetInterceptor() {
	ctx := context.Background()
	server := emulator.New(emulator.Options{})
	defer server.Close()
	conn, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client, err := firestore.NewClient(ctx, "my-project", option.WithGRPCConn(conn))
	if err != nil {
		log.Fatal(err)
	}
	server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		server.SetInterceptor(nil) // the first commit only
		return emulator.Verdict{After: status.Error(codes.Unavailable, "the connection was lost")}
	})
	counter := client.Doc("counters/visits")
	if _, err := counter.Set(ctx, map[string]any{"n": firestore.Increment(1)}, firestore.MergeAll); err != nil {
		log.Fatal(err)
	}
	doc, err := counter.Get(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("one increment counts", doc.Data()["n"])
	// Output: one increment counts 2
}

// Changes become the events that a function gets from Eventarc.
func ExampleServer_OnChange() {
	ctx := context.Background()
	called := make(chan string)
	function := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called <- r.Header.Get("ce-type") + " " + r.Header.Get("ce-subject")
	}))
	defer function.Close()
	events, err := eventarc.New(eventarc.Options{Pattern: "posts/{post}"})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	if err := events.SetTargets(function.URL); err != nil {
		log.Fatal(err)
	}
	server := emulator.New(emulator.Options{})
	defer server.Close()
	server.OnChange(events.Deliver)

	conn, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client, err := firestore.NewClient(ctx, "my-project", option.WithGRPCConn(conn))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.Doc("posts/hello").Create(ctx, map[string]any{"likes": 0}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-called)
	// Output: google.cloud.firestore.document.v1.written documents/posts/hello
}
