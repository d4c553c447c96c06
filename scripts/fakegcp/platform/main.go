// Command platform is what runs in the project that fakegcp.py plays: it builds what was uploaded
// as the buildpack does, runs the functions as Cloud Run would, with nothing in their environment
// but what the deployment says, brings them the events of their triggers and the calls of
// Scheduler's jobs, and checks who calls them. Firestore is the embedded one.
//
// fakegcp.py starts it with --run, and tells it over HTTP what the project is told. It ends with
// its standard input.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: platform DIR BUILDS")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := run(ctx, os.Args[1], os.Args[2], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "platform:", err)
		os.Exit(1)
	}
}

// run plays the platform until the context ends. It prints where it is told what there is, and
// where Firestore is.
func run(ctx context.Context, dir, kept string, out io.Writer) error {
	data, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	firestore := emulator.New(emulator.Options{TTL: map[string]string{layout.Requests: layout.ExpireAt}})
	go func() { _ = firestore.Serve(data) }()
	p := &platform{
		ctx: ctx, builds: builds{dir: dir, kept: kept}, firestore: data.Addr().String(), dir: dir,
		logger:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		services: map[string]*service{}, triggers: map[string]*trigger{},
	}
	firestore.OnChange(p.change)
	secret := "/" + rand.Text() // no web page knows it
	server := &http.Server{Handler: http.StripPrefix(secret, p.control())}
	go func() { _ = server.Serve(control) }()
	err = json.NewEncoder(out).Encode(map[string]string{"address": "http://" + control.Addr().String() + secret, "firestore": data.Addr().String()})
	<-ctx.Done()
	_ = server.Close()
	p.close()
	firestore.Close()
	return err
}
