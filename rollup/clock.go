package rollup

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// check refuses a change from the future, as [ErrPoison]: its state would hide what the shard really
// holds until then. It asks Firestore for its time only if this process doesn't know that it is late
// enough, which is rare.
func (c *Client) check(ctx context.Context, change Change) error {
	t := change.AsOf
	if c.db.Passed(t) {
		return nil
	}
	select { // and no mutex, which would hold those who wait beyond their deadlines
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return fmt.Errorf("wait for Firestore's time: %w", ctx.Err())
	}
	if c.db.Passed(t) {
		return nil
	}
	_, now, err := c.db.Get(ctx, c.db.Layout.LedgerOf(change.Counter))
	if err != nil {
		return fmt.Errorf("ask Firestore for its time: %w", err)
	}
	if t.After(now) {
		return fmt.Errorf("%w: %q of counter %q was changed at %s, and it is only %s", ErrPoison,
			cmp.Or(change.Shard, change.Collection+"/"+change.Document), change.Counter, t.Format(time.RFC3339Nano), now.Format(time.RFC3339Nano))
	}
	return nil
}
