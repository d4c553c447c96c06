package demo

import (
	"context"
	"errors"
	"net/http"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/shards"
)

// seats is how many the second view has.
const seats = 500

// hasSeats reports whether there is a second view: each buyer is a member, and the page makes the counter.
func (p *Page) hasSeats() bool {
	at := p.layout
	return p.config.Members && len(at.Fields) > 0 && at.Path.Parts() == 1 && !at.Path.Whole()
}

// serveSeats makes a counter with a limit: PUT /-/seats?counter=ID.
func (p *Page) serveSeats(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("counter")
	if err := p.layout.Path.Validate(id); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := p.makeSeats(r.Context(), id); err != nil {
		p.config.Logger.Warn("the counter of the page with seats can't be made", "counter", id, "error", err)
		http.Error(w, "the counter can't be made", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// makeSeats makes the counter, also where it was made before.
func (p *Page) makeSeats(ctx context.Context, id string) (err error) {
	conn, err := grpc.NewClient("passthrough:///"+p.config.Firestore, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	client, err := shards.Open(ctx, shards.Config{Place: p.config.Place, NumShards: p.config.NumShards, Logger: p.config.Logger}, option.WithGRPCConn(conn))
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	defer func() { err = errors.Join(err, client.Close()) }() // and with it the connection
	counter, err := client.Counter(id)
	if err != nil {
		return err
	}
	if p.layout.Hosted { // the page is the app whose documents they are
		_, err = p.client.Doc(p.layout.Path.Document(id)).Set(ctx, map[string]any{"title": "500 seats"}, firestore.MergeAll)
	} else if err = counter.Create(ctx, shards.CreateOptions{}); errors.Is(err, shards.ErrExists) {
		err = nil
	}
	if err != nil {
		return err
	}
	return counter.SetLimit(ctx, first(p.layout).Name, seats)
}
