//go:build all

package conformance

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/official"
)

// The two servers side by side, in one run and on one machine, which their client shares:
//
//	go test -tags all -run '^$' -bench . ./emulator/internal/conformance

// contenders runs a benchmark against both servers.
func contenders(b *testing.B, run func(b *testing.B, addr string)) {
	b.Run("embedded", func(b *testing.B) { run(b, emulator.Start(b).Addr) })
	b.Run("official", func(b *testing.B) {
		if google == nil {
			b.Skip(why)
		}
		run(b, google.Addr)
	})
}

func connect(b *testing.B, addr string) (*firestore.Client, pb.FirestoreClient, string) {
	b.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(owner{}))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	project := fmt.Sprintf("bench-%d", plays.Add(1))
	c, err := firestore.NewClient(context.Background(), project, option.WithGRPCConn(conn))
	if err != nil {
		b.Fatal(err)
	}
	return c, pb.NewFirestoreClient(conn), "projects/" + project + "/databases/(default)"
}

// BenchmarkCommits increments a hundred shards from 32 goroutines, one commit each.
func BenchmarkCommits(b *testing.B) {
	contenders(b, func(b *testing.B, addr string) {
		c, _, _ := connect(b, addr)
		ctx := context.Background()
		for i := range 100 {
			if _, err := c.Doc(fmt.Sprintf("counters/c/shards/%d", i)).Set(ctx, map[string]any{"count": 0}); err != nil {
				b.Fatal(err)
			}
		}
		var n atomic.Int64
		b.SetParallelism(16)
		b.ResetTimer()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				doc := c.Doc(fmt.Sprintf("counters/c/shards/%d", n.Add(1)%100))
				if _, err := doc.Update(ctx, []firestore.Update{{Path: "count", Value: firestore.Increment(1)}}); err != nil {
					b.Error(err)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	})
}

// BenchmarkListens begins to listen to a document, and goes when it has been told of it.
func BenchmarkListens(b *testing.B) {
	contenders(b, func(b *testing.B, addr string) {
		c, _, _ := connect(b, addr)
		ctx := context.Background()
		doc := c.Doc("counters/c")
		if _, err := doc.Set(ctx, map[string]any{"total": 1}); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			it := doc.Snapshots(ctx)
			if _, err := it.Next(); err != nil {
				b.Fatal(err)
			}
			it.Stop()
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "listens/s")
	})
}

// BenchmarkStart is from nothing to the first answer.
func BenchmarkStart(b *testing.B) {
	first := func(b *testing.B, addr string) {
		c, _, _ := connect(b, addr)
		if _, err := c.Doc("a/1").Set(context.Background(), map[string]any{"n": 1}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("embedded", func(b *testing.B) {
		for b.Loop() {
			first(b, emulator.Start(b).Addr)
		}
	})
	b.Run("official", func(b *testing.B) {
		for b.Loop() {
			another, err := official.Start(b.Context())
			if err != nil {
				b.Skip(err)
			}
			first(b, another.Addr)
			another.Stop()
		}
	})
}

// BenchmarkMemory writes 100,000 documents of a counter's size, and reports what a server has grown
// by.
func BenchmarkMemory(b *testing.B) {
	const documents, perCommit = 100_000, 500
	fill := func(b *testing.B, addr string) {
		_, api, db := connect(b, addr)
		for i := 0; i < documents; i += perCommit {
			req := &pb.CommitRequest{Database: db}
			for j := range perCommit {
				req.Writes = append(req.Writes, &pb.Write{Operation: &pb.Write_Update{Update: &pb.Document{
					Name:   fmt.Sprintf("%s/documents/counters/%d", db, i+j),
					Fields: values(fields{"num_shards": 10, "total": 1 << 40, "title": "0123456789abcdef"})}}})
			}
			if _, err := api.Commit(context.Background(), req); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("embedded", func(b *testing.B) {
		for b.Loop() {
			in := emulator.Start(b)
			before := heap()
			fill(b, in.Addr)
			b.ReportMetric(float64(heap()-before)/1e6, "MB")
			runtime.KeepAlive(in)
		}
	})
	b.Run("official", func(b *testing.B) {
		if _, err := os.Stat("/proc/self/statm"); err != nil {
			b.Skip(err)
		}
		for b.Loop() {
			another, err := official.Start(b.Context())
			if err != nil {
				b.Skip(err)
			}
			before := resident(b, another)
			fill(b, another.Addr)
			b.ReportMetric(float64(resident(b, another)-before)/1e6, "MB")
			another.Stop()
		}
	})
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// resident is the memory that the emulator's process has, its garbage included.
func resident(b *testing.B, e *official.Emulator) int64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", e.PID))
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
