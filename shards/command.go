package shards

import (
	"context"
	"fmt"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"

	"github.com/firestore-counters/counters/internal/store"
)

// maxTries is how often a command is tried when others are faster or answers get lost: about fifteen seconds.
const maxTries = 20

// plan looks at what is there, and returns the next commit that a command takes; none when the command is done. final
// says that the command is done with that commit.
type plan func(context.Context) (writes []*firestorepb.Write, final bool, err error)

// carryOut commits what a plan asks for, until it is done. After a commit that failed, or whose answer was lost, the
// plan looks again: so it must recognize its own work.
func (c *Client) carryOut(ctx context.Context, next plan) error {
	pause := store.Pauses()
	for failed := 0; ; {
		writes, final, err := next(ctx)
		if err != nil || len(writes) == 0 {
			return err
		}
		_, err = c.db.Commit(ctx, writes)
		if err == nil {
			if final {
				return nil
			}
			continue
		}
		kind := store.KindOf(err)
		if kind == store.Permanent {
			return err
		}
		if failed++; failed == maxTries {
			if kind == store.Doubtful {
				return fmt.Errorf("%w: gave up after %d tries: %w", ErrUnknown, failed, err)
			}
			return fmt.Errorf("%w: gave up after %d tries: %w", ErrBusy, failed, err)
		}
		if err := gax.Sleep(ctx, pause.Pause()); err != nil {
			return err
		}
	}
}
