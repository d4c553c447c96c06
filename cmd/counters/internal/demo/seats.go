package demo

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/shards"
)

// seats is how many seats or credits the second and the third view have.
const seats = 500

// visit is the name of a counter that these views have made.
var visit = regexp.MustCompile(`^(seats|credits)-`)

// withSeats has a second and a third view.
const withSeats = "counters dev --fields 'total=count,seats=limit(500)'"

// hasSeats reports whether there are a second and a third view.
func (p *Page) hasSeats() bool { return len(p.layout.Limited()) > 0 && p.canHaveSeats() }

// canHaveSeats reports whether a limit is all that these views may lack: each buyer is a member, and the page makes the
// counter.
func (p *Page) canHaveSeats() bool {
	at := p.layout.Path
	return p.config.Members && at.Parts() == 1 && !at.Whole()
}

// noSeats says what starts these views.
func noSeats(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "This view needs a field with a limit:\n\n  "+withSeats, http.StatusNotFound)
}

// serveSeats makes a counter with a limit: PUT /-/seats?counter=ID.
func (p *Page) serveSeats(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("counter")
	if err := p.layout.Path.Validate(id); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := p.makeSeats(r.Context(), id); err != nil {
		p.config.Logger.Warn("the counter of a view with a limit can't be made", "counter", id, "error", err)
		http.Error(w, "the counter can't be made", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// lates are the pauses after which the counter of a visit that is over is deleted: requests that were under way when
// its page went make it again.
var lates = []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}

// endSeats deletes the counter of a visit that is over: POST /-/seats/over?counter=ID. The page of no other counter
// says so.
func (p *Page) endSeats(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("counter")
	if !visit.MatchString(id) || p.layout.Path.Validate(id) != nil {
		http.Error(w, "want the counter of a visit", http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	p.ending.Go(func() { // the page is gone, and waits for nothing
		for _, late := range lates {
			select {
			case <-time.After(late):
			case <-p.open.Done():
				return
			}
			if err := p.deleteVisit(p.open, id); err != nil && p.open.Err() == nil {
				p.config.Logger.Warn("the counter of an earlier visit stays", "counter", id, "error", err)
			}
		}
	})
}

// deleteVisit deletes the counter of a visit, if it is there.
func (p *Page) deleteVisit(ctx context.Context, id string) error {
	if p.layout.Hosted { // the page is the app whose documents they are
		if _, err := p.client.Doc(p.layout.Path.Document(id)).Delete(ctx); err != nil {
			return err
		}
	}
	err := p.withCounter(ctx, id, func(c shards.Counter) error { return c.Delete(ctx, shards.DeleteOptions{}) })
	if errors.Is(err, shards.ErrNotFound) {
		return nil
	}
	return err
}

// makeSeats makes the counter, also where it was made before.
func (p *Page) makeSeats(ctx context.Context, id string) (err error) {
	return p.withCounter(ctx, id, func(counter shards.Counter) error {
		var err error
		if p.layout.Hosted { // the page is the app whose documents they are
			_, err = p.client.Doc(p.layout.Path.Document(id)).Set(ctx, map[string]any{"title": "500 of them"}, firestore.MergeAll)
		} else if err = counter.Create(ctx, shards.CreateOptions{}); errors.Is(err, shards.ErrExists) {
			err = nil
		}
		if err != nil {
			return err
		}
		return counter.SetLimit(ctx, p.layout.Limited()[0].Name, seats)
	})
}

// withCounter opens a counter for as long as do runs.
func (p *Page) withCounter(ctx context.Context, id string, do func(shards.Counter) error) (err error) {
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
	return do(counter)
}
