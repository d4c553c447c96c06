package functions

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/firestore-counters/counters/shards"
)

// memberPath is /{counter}/{field}/{member}.
type memberPath struct{ counter, field, member string }

// confirmation ends the path of POST /{counter}/{field}/{member}/confirm.
const confirmation = "confirm"

// memberPathOf parses a path, and percent-decodes each part by itself. It reports false if the path
// hasn't two parts more than a counter's id, and then those of end. An encoded slash leads to an id that
// no counter has.
func memberPathOf(u *url.URL, partsOfID int, end ...string) (p memberPath, is bool, err error) {
	parts := partsOf(u, partsOfID+2+len(end))
	if parts == nil || !slices.Equal(parts[partsOfID+2:], end) {
		return p, false, nil
	}
	for i, part := range parts {
		if parts[i], err = url.PathUnescape(part); err != nil {
			return p, true, bad("the path can't be read: %v", err)
		}
	}
	return memberPath{counter: strings.Join(parts[:partsOfID], "/"), field: parts[partsOfID], member: parts[partsOfID+1]}, true, nil
}

// isMember reports whether a request is about a member. A POST to one never is: its caller took a
// document's path for an id.
func (h *incrementHandler) isMember(r *http.Request) bool {
	_, is, _ := memberPathOf(r.URL, h.partsOfID)
	return is && r.Method != http.MethodPost || h.isConfirmation(r)
}

// isConfirmation reports whether a request is to confirm a hold.
func (h *incrementHandler) isConfirmation(r *http.Request) bool {
	_, is, _ := memberPathOf(r.URL, h.partsOfID, confirmation)
	return is
}

// Whom a caller may name as a member: the setting MEMBERS.
const (
	membersOwn = "own" // only the user of its token
	membersAny = "any" // anybody
)

// me names the caller as a member.
const me = "me"

// memberNamed is the member that a request names.
func (h *incrementHandler) memberNamed(r *http.Request, member string) (string, error) {
	switch h.members {
	case membersAny:
		if member == me {
			return "", bad("%q is the user that a token names, and no token is asked for here: name the member", me)
		}
		return member, nil
	case membersOwn:
		user, is := strings.CutPrefix(callerOf(r.Context()), userPrefix)
		if !is || member != me && member != user {
			return "", errNotOwn
		}
		return user, nil
	}
	return "", errNoMembers
}

// toggled answers PUT and DELETE of a member.
type toggled struct {
	Counter string `json:"counter"`
	Field   string `json:"field"`
	Member  string `json:"member"`
	Counted bool   `json:"counted"` // false if nothing had to change

	Until *time.Time `json:"until,omitempty"` // of a seat that is held: when that is over
}

// confirmed answers POST of a member's confirmation.
type confirmed struct {
	Counter   string `json:"counter"`
	Field     string `json:"field"`
	Member    string `json:"member"`
	Confirmed bool   `json:"confirmed"` // always true
}

// joined answers GET of a member.
type joined struct {
	Counter string     `json:"counter"`
	Field   string     `json:"field"`
	Member  string     `json:"member"`
	Joined  bool       `json:"joined"`
	At      *time.Time `json:"at,omitempty"` // since when
	Until   *time.Time `json:"until,omitempty"`
}

// untilOf is a time in an answer; nil is none.
func untilOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// holdOf is how long a request wants to hold a seat; 0 is for good.
func holdOf(r *http.Request) (time.Duration, error) {
	query, err := queryOf(r.URL)
	if err != nil || !query.Has("hold") {
		return 0, err
	}
	text := query.Get("hold")
	d, err := time.ParseDuration(text)
	if err != nil || d < shards.MinHold || d > shards.MaxHold {
		return 0, bad("hold is %q; want a time from 1s to 720h, such as 10m", text)
	}
	return d, nil
}

func (h *incrementHandler) serveMember(w http.ResponseWriter, r *http.Request, limited string) (any, error) {
	path, confirms, err := memberPathOf(r.URL, h.partsOfID, confirmation)
	if !confirms {
		path, _, err = memberPathOf(r.URL, h.partsOfID)
	}
	if err != nil {
		return nil, err
	}
	member, err := h.memberNamed(r, path.member)
	if err != nil {
		return nil, err
	}
	counter, err := h.client.Counter(path.counter)
	if err != nil {
		return nil, err
	}
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodGet {
		m, there, err := counter.Joined(r.Context(), path.field, member)
		if err != nil {
			return nil, during{err, errRead}
		}
		answer := joined{Counter: path.counter, Field: path.field, Member: member, Joined: there}
		if there {
			answer.At, answer.Until = &m.At, untilOf(m.Until)
		}
		return answer, nil
	}
	if body, err := readBody(w, r, maxBody); err != nil {
		return nil, err
	} else if len(body) > 0 {
		return nil, bad("want no body: the path says it all")
	}
	answer := toggled{Counter: path.counter, Field: path.field, Member: member}
	switch {
	case confirms:
		ctx, cancel := context.WithTimeout(r.Context(), h.timeout)
		defer cancel()
		if err := counter.Confirm(ctx, path.field, member); err != nil {
			return nil, during{err, errMember}
		}
		return confirmed{Counter: path.counter, Field: path.field, Member: member, Confirmed: true}, nil
	case r.Method == http.MethodDelete:
		answer.Counted, err = counter.Leave(r.Context(), path.field, member)
	default:
		d, wrong := holdOf(r)
		if wrong != nil {
			return nil, wrong
		}
		if err := h.mayMake(r.Context(), limited, path.counter); err != nil {
			return nil, err
		}
		if d == 0 {
			answer.Counted, err = counter.Join(r.Context(), path.field, member)
			break
		}
		var until time.Time
		answer.Counted, until, err = counter.Hold(r.Context(), path.field, member, d)
		answer.Until = untilOf(until)
	}
	if err != nil {
		return nil, during{err, errMember}
	}
	return answer, nil
}
