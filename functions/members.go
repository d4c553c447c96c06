package functions

import (
	"net/http"
	"strings"
	"time"

	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/shards"
)

// Whose members or counters a caller may change: the settings MEMBERS, RESET and LIMIT.
const (
	settingOwn = "own" // those of the user of its token
	settingAny = "any" // all
)

// me names the caller as a member.
const me = "me"

// membership is the member that a request names, in what is answered about it.
type membership struct {
	Counter string `json:"counter"`
	Field   string `json:"field"`
	Member  string `json:"member"`
}

// memberOf is a request's counter and member.
func (h *incrementHandler) memberOf(w http.ResponseWriter, r *request) (counter shards.Counter, at membership, err error) {
	at = membership{r.counter, r.field, r.member}
	switch user, isUser := strings.CutPrefix(r.caller, userPrefix); {
	case h.Members == settingAny && r.member == me:
		err = bad("%q is the user that a token names, and no token is asked for here: name the member", me)
	case h.Members == settingAny:
	case h.Members != settingOwn:
		err = errNoMembers
	case !isUser || r.member != me && r.member != user:
		err = errNotOwn
	default:
		at.Member = user
	}
	if err == nil {
		counter, err = h.client.Counter(r.counter)
	}
	if err == nil && r.kind != joined {
		err = noBody(w, r.Request)
	}
	w.Header().Set("Cache-Control", "no-store")
	return counter, at, err
}

// joined answers whether a member is counted.
func (h *incrementHandler) joined(w http.ResponseWriter, r *request) (any, error) {
	counter, at, err := h.memberOf(w, r)
	if err != nil {
		return nil, err
	}
	m, there, err := counter.Joined(r.Context(), at.Field, at.Member)
	return struct {
		membership
		Joined bool      `json:"joined"`
		At     time.Time `json:"at,omitzero"` // since when
		Until  time.Time `json:"until,omitzero"`
	}{at, there, m.At, m.Until}, err
}

// toggle has a member join or leave.
func (h *incrementHandler) toggle(w http.ResponseWriter, r *request) (any, error) {
	counter, at, err := h.memberOf(w, r)
	if err != nil {
		return nil, err
	}
	if r.kind == join {
		if err := h.mayMake(r, r.counter); err != nil {
			return nil, err
		}
	}
	changed, until, committedAt, err := counter.Toggle(r.Context(), at.Field, at.Member, r.kind == join, r.hold)
	return struct {
		membership
		Counted     bool      `json:"counted"`        // false if nothing had to change
		Until       time.Time `json:"until,omitzero"` // of a seat that is held: when that is over
		CommittedAt time.Time `json:"committed_at,omitzero"`
	}{at, changed, until, committedAt}, err
}

// confirm makes a held seat the member's for good.
func (h *incrementHandler) confirm(w http.ResponseWriter, r *request) (any, error) {
	counter, at, err := h.memberOf(w, r)
	if err != nil {
		return nil, err
	}
	h.budget.Spend(ceiling.Reads, -r.promised[ceiling.Reads]) // Confirm spends it first, and may then end a hold for others, too
	r.promised[ceiling.Reads] = 0
	return struct {
		membership
		Confirmed bool `json:"confirmed"`
	}{at, true}, counter.Confirm(r.Context(), at.Field, at.Member)
}
