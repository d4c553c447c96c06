package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// What follows from each attempt, as a transcript: what became of the commit that was sent, or of the
// reads of the plan, and the verdict. The last line is what is told in the end.
func TestWhatFollowsFromAnAttempt(t *testing.T) {
	t.Parallel()
	same := func(writes []*firestorepb.Write) []*firestorepb.Write { return writes }
	for name, tt := range map[string]struct {
		patience   Patience
		transcript string
	}{
		"others are faster": {Patience{Conflicts: 3, Doubts: 3}, `
			sent: FailedPrecondition → at once
			sent: Aborted → after a pause
			sent: FailedPrecondition → give up
			too busy`},
		"others are faster, and the caller yields": {Patience{Conflicts: 3, Doubts: 3, Yield: true}, `
			sent: FailedPrecondition → at once
			sent: Aborted → end
			too busy`},
		"an answer is lost": {Patience{Conflicts: 3, Doubts: 3}, `
			sent: Unavailable → after a pause
			sent: DeadlineExceeded → after a pause
			sent: Internal → give up
			outcome unknown`},
		"a conflict says nothing of a commit before it": {Patience{Conflicts: 3, Doubts: 3, Yield: true}, `
			sent: Unavailable → after a pause
			sent: FailedPrecondition → after a pause
			sent: Aborted → after a pause
			sent: InvalidArgument → after a pause
			plan: its own → end
			outcome unknown`},
		"nothing was sent yet": {Patience{Conflicts: 3, Doubts: 3}, `
			plan: Unavailable → end
			Unavailable`},
		"a plan says no": {Patience{Conflicts: 3, Doubts: 3}, `
			sent: Aborted → after a pause
			plan: its own → end
			its own`},
		"a read while a commit is in doubt": {Patience{Conflicts: 3, Doubts: 3}, `
			sent: Unavailable → after a pause
			plan: Unavailable → after a pause
			plan: Unavailable → give up
			outcome unknown`},
		"too large": {Patience{Conflicts: 3, Doubts: 3}, `
			sent: InvalidArgument → end
			InvalidArgument`},
		"too large, and there is something smaller": {Patience{Conflicts: 3, Doubts: 3, Smaller: same}, `
			sent: InvalidArgument → at once
			sent: InvalidArgument → end
			InvalidArgument`},
		"a transaction's condition fails": {Patience{Conflicts: 3, Doubts: 3, locks: true}, `
			sent: Aborted → after a pause
			sent: FailedPrecondition → end
			FailedPrecondition`},
		"a transaction's reads meet contention": {Patience{Conflicts: 3, Doubts: 3, locks: true}, `
			plan: Aborted → after a pause
			plan: Unavailable → after a pause
			plan: Aborted → after a pause
			plan: Unavailable → after a pause
			plan: Unavailable → give up
			Unavailable`},
		"a transaction says no after a doubt": {Patience{Conflicts: 3, Doubts: 3, locks: true}, `
			sent: Unavailable → after a pause
			plan: its own → end
			its own`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, told := attempts{Patience: tt.patience}, error(nil)
			lines := strings.Split(strings.TrimSpace(tt.transcript), "\n")
			for _, line := range lines[:len(lines)-1] {
				what, want, _ := strings.Cut(strings.TrimSpace(line), " → ")
				how, why, _ := strings.Cut(what, ": ")
				failed := errorOf(why)
				next, err := s.failed(failed, how == "sent", how == "sent")
				if got := [...]string{"at once", "after a pause", "give up", "end"}[next]; got != want {
					t.Fatalf("%s → %s, want %s", what, got, want)
				}
				if told = err; next == giveUp && s.doubt == nil {
					told = s.gaveUp(failed)
				} else if next == giveUp {
					told = fmt.Errorf("%w: %w", ErrDoubt, s.doubt)
				}
			}
			if want := strings.TrimSpace(lines[len(lines)-1]); told == nil || !strings.Contains(told.Error(), want) || errors.Is(told, ErrDoubt) != (want == ErrDoubt.Error()) {
				t.Errorf("%v in the end, want %s", told, want)
			}
		})
	}
}

// errorOf is Firestore's error of a code, or a plan's own.
func errorOf(code string) error {
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		if c.String() == code {
			return status.Error(c, "no")
		}
	}
	return errors.New(code)
}

// A commit pays nothing beside one in doubt if one of the two can't be applied any more, whichever is.
func TestExcludes(t *testing.T) {
	t.Parallel()
	version, fields := IfVersion(time.Unix(1, 0)), map[string]*firestorepb.Value{"n": Int(1)}
	of := func(writes ...*firestorepb.Write) []*firestorepb.Write { return writes }
	for name, tt := range map[string]struct {
		a, b []*firestorepb.Write
		want bool
	}{
		"the same document is made":        {of(Create("a", fields)), of(Create("b", fields), Create("a", nil)), true},
		"of the same version":              {of(Update("a", version, fields, nil)), of(Update("a", version, nil, nil)), true},
		"deleted":                          {of(DeleteIf("a", version)), of(DeleteIf("a", version)), true},
		"of other versions":                {of(Update("a", version, fields, nil)), of(Update("a", IfVersion(time.Unix(2, 0)), fields, nil)), false},
		"other documents":                  {of(DeleteIf("a", version), Create("b", nil)), of(DeleteIf("b", version), Create("a", nil)), false},
		"it exists before and after":       {of(Update("a", Exists(true), fields, nil)), of(Update("a", Exists(true), fields, nil)), false},
		"that it isn't there, and no more": {of(DeleteIf("a", Exists(false))), of(DeleteIf("a", Exists(false))), false},
		"on no condition":                  {of(Delete("a")), of(Delete("a")), false},
		"nothing before it":                {nil, of(Create("a", nil)), false},
	} {
		if got := excludes(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
