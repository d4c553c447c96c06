package shards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/store"
)

const (
	// maxTries is how often in a row a plan's commit is tried when others are faster or answers get lost: about fifteen
	// seconds.
	maxTries = 20
	// lastLook bounds the look at what became of a commit whose answer was lost, when the caller's time is over.
	lastLook = 3 * time.Second
)

// plan looks at what is there, and returns the next commit that a creation, a deletion or a change of a counter takes;
// none when everything is done. final says that everything is done with that commit. It only reads.
type plan func(context.Context) (writes []*firestorepb.Write, final bool, err error)

// carryOut commits what a plan asks for, until it is done. After a commit that failed, or whose answer was lost, the
// plan looks again: so it must recognize its own work.
func (c *Client) carryOut(ctx context.Context, next plan) error {
	pause := store.Pauses()
	var doubt error // of a commit that may have been applied, or may still be
	for failed := 0; ; {
		writes, final, err := next(ctx)
		switch {
		case err == nil && len(writes) == 0:
			return nil
		case err == nil:
			if _, err = c.db.Commit(ctx, writes); err == nil {
				if final {
					return nil
				}
				failed, doubt = 0, nil
				continue
			}
			if store.KindOf(err) == store.Doubtful {
				doubt = err
			}
			if store.KindOf(err) == store.Permanent && doubt == nil {
				return err
			}
		case doubt == nil:
			return err
		case !fromFirestore(err):
			// The commit may yet come. Where the counter is gone, it may have come before that.
			return fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		if failed++; failed == maxTries || ctx.Err() != nil || gax.Sleep(ctx, pause.Pause()) != nil {
			if doubt != nil {
				return c.lookOnce(ctx, next, doubt)
			}
			return fmt.Errorf("%w: gave up with try %d: %w", ErrBusy, failed, err)
		}
	}
}

// lookOnce reports whether a commit was applied after all when there is no more time to try it again.
func (c *Client) lookOnce(ctx context.Context, next plan, doubt error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	if writes, _, err := next(ctx); err == nil && len(writes) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnknown, doubt)
}

// fromFirestore tells an error of Firestore's, or of the way there, from one of ours.
func fromFirestore(err error) bool {
	_, ok := status.FromError(err)
	return ok || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
