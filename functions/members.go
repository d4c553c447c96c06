package functions

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// memberPath is /{counter}/{field}/{member}.
type memberPath struct{ counter, field, member string }

// memberPathOf parses a path, and percent-decodes each part by itself. It reports false if the path
// hasn't two parts more than a counter's id. An encoded slash leads to an id that no counter has.
func memberPathOf(u *url.URL, partsOfID int) (p memberPath, is bool, err error) {
	parts := partsOf(u, partsOfID+2)
	if parts == nil {
		return p, false, nil
	}
	for i, part := range parts {
		if parts[i], err = url.PathUnescape(part); err != nil {
			return p, true, bad("the path can't be read: %v", err)
		}
	}
	return memberPath{counter: strings.Join(parts[:partsOfID], "/"), field: parts[partsOfID], member: parts[partsOfID+1]}, true, nil
}

// isMember reports whether a request is about a member. A POST never is: its caller took a document's
// path for an id.
func (h *incrementHandler) isMember(r *http.Request) bool {
	_, is, _ := memberPathOf(r.URL, h.partsOfID)
	return is && r.Method != http.MethodPost
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
}

// joined answers GET of a member.
type joined struct {
	Counter string     `json:"counter"`
	Field   string     `json:"field"`
	Member  string     `json:"member"`
	Joined  bool       `json:"joined"`
	At      *time.Time `json:"at,omitempty"` // since when
}

func (h *incrementHandler) serveMember(w http.ResponseWriter, r *http.Request, limited string) (any, error) {
	path, _, err := memberPathOf(r.URL, h.partsOfID)
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
		there, since, err := counter.Joined(r.Context(), path.field, member)
		if err != nil {
			return nil, during{err, errRead}
		}
		answer := joined{Counter: path.counter, Field: path.field, Member: member, Joined: there}
		if there {
			answer.At = &since
		}
		return answer, nil
	}
	if body, err := readBody(w, r, maxBody); err != nil {
		return nil, err
	} else if len(body) > 0 {
		return nil, bad("want no body: the path says it all")
	}
	toggle := counter.Join
	if r.Method == http.MethodDelete {
		toggle = counter.Leave
	} else if err := h.mayMake(r.Context(), limited, path.counter); err != nil {
		return nil, err
	}
	counted, err := toggle(r.Context(), path.field, member)
	if err != nil {
		return nil, during{err, errMember}
	}
	return toggled{Counter: path.counter, Field: path.field, Member: member, Counted: counted}, nil
}
