package rollup

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/store"
)

// What no repetition helps is answered at once; all else goes again for a while.
func TestFailure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want outcome
	}{
		{status.Error(codes.PermissionDenied, "no"), permanent},
		{ErrPoison, permanent},
		{ErrDamagedBase, ownFault},
		{book.ErrFormat, ownFault},
		{book.ErrOthers, ownFault},
		{store.ErrClosed, permanent},
		{ErrContention, contended},
		{fmt.Errorf("%w: %w", ErrContention, status.Error(codes.Aborted, "busy")), contended},
		{store.ErrDoubt, contended},
		{status.Error(codes.Unavailable, "busy"), failed},
		{status.Error(codes.Aborted, "busy"), failed},
		{errors.New("something else"), failed},
	} {
		if got := failure(fmt.Errorf("roll up: %w", tt.err)); got != tt.want {
			t.Errorf("%v: outcome %d, want %d", tt.err, got, tt.want)
		}
	}
}
