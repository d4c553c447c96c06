package shards

import (
	"context"
	"fmt"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/conn"
)

// maxTries is how often a command is tried when others are faster or answers get lost: about fifteen seconds.
const maxTries = 20

// plan looks at what is there, and returns the next commit that a command takes; none when the command is done. final
// says that the command is done with that commit.
type plan func(context.Context) (writes []*firestorepb.Write, final bool, err error)

// carryOut commits what a plan asks for, until it is done. After a commit that failed, or whose answer was lost, the
// plan looks again: so it must recognize its own work.
func (c *Client) carryOut(ctx context.Context, next plan) error {
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
		kind := conn.KindOf(err)
		if kind == conn.Permanent {
			return err
		}
		if failed++; failed == maxTries {
			if kind == conn.Doubtful {
				return fmt.Errorf("%w: gave up after %d tries: %w", ErrUnknown, failed, err)
			}
			return fmt.Errorf("%w: gave up after %d tries: %w", ErrBusy, failed, err)
		}
		if err := pause(ctx, failed); err != nil {
			return err
		}
	}
}
