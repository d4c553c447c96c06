package shards

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Join counts a member in a field of the counter, once ever until it leaves: it reports whether
// that was done now, or the member was there already. It may be repeated. A member is any text of 1
// to 1,500 bytes that Firestore takes for a document's id, such as a user's. Errors are those of
// [Counter.Add], and [ErrInvalidMember].
//
// Calls of one client for the same member are carried out in their order. Those of different
// members share commits.
func (c Counter) Join(ctx context.Context, field, member string) (counted bool, err error) {
	return c.toggle(ctx, field, member, true)
}

// Leave takes a member off again: it reports whether that was done now, or the member was not
// there, nor perhaps the counter. See [Counter.Join].
func (c Counter) Leave(ctx context.Context, field, member string) (counted bool, err error) {
	return c.toggle(ctx, field, member, false)
}

// toggle has a member join or leave. The increment takes any shard, also that of a member who
// leaves: the shards add up to the same. (Clients that write by themselves are held to the shard
// that the membership names, because rules can look at one shard, and not at a sum.)
func (c Counter) toggle(ctx context.Context, field, member string, join bool) (counted bool, err error) {
	verb, by := "leave", int64(-1)
	if join {
		verb, by = "join", 1
	}
	err = c.call(verb+" "+field+" of", func() error {
		name, err := c.membershipName(field, member)
		if err != nil {
			return err
		}
		r, err := newRequest(c.client.db.Layout, []Increment{{Counter: c.id, Field: field, By: by}}, Key{}, "")
		if err != nil {
			return err
		}
		r.member = &membership{name: name, member: member, join: join}
		over, err := c.client.turns.take(ctx, name)
		if err != nil {
			return c.client.plainly(fmt.Errorf("%w: %w", ErrBusy, err))
		}
		out := c.client.perform(ctx, r)
		if out.pending {
			go func() {
				<-r.done
				over()
			}()
		} else {
			over()
		}
		counted = !out.replayed && out.err == nil
		if !join && errors.Is(out.err, ErrNotFound) && !errors.Is(out.err, ErrUnknown) {
			// A page that takes a like back before it was ever sent is not mistaken. But a member may be
			// left below a document that the app has deleted and makes again: that one has not left.
			switch m, back, err := c.below(ctx, name); {
			case err != nil:
				return c.client.plainly(fmt.Errorf("%w: %w", ErrBusy, err))
			case m == nil:
				return nil
			case back:
				return c.client.plainly(fmt.Errorf("%w: the counter was made at this moment", ErrBusy))
			}
		}
		return c.client.plainly(out.err)
	})
	return counted, err
}

// below looks, after the counter's document was missing, for a membership below it, and whether the
// document is there by now, both at one time.
func (c Counter) below(ctx context.Context, membership string) (m *Member, back bool, err error) {
	docs, _, err := c.client.db.Get(ctx, membership, c.client.db.Layout.Counter(c.id))
	if err != nil || docs[0] == nil {
		return nil, false, err
	}
	_, missing := c.client.snapshotOf(c.id, docs[1])
	return new(memberOf(docs[0])), missing == nil, nil
}

// membershipName is the resource name of a membership.
func (c Counter) membershipName(field, member string) (string, error) {
	if err := c.countsMembers(field); err != nil {
		return "", err
	}
	if err := layout.ValidateID(member); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalidMember, err)
	}
	return c.client.db.Layout.MembersOf(c.id, field) + "/" + member, nil
}

func (c Counter) countsMembers(field string) error {
	if err := c.client.db.Layout.CheckField(field); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidField, err)
	}
	return nil
}

// Joined reports whether a member is counted in a field of the counter, and since when. It costs
// one read, and another one where this client has not read the counter lately. A counter that isn't
// there counts nobody; but somebody whom an app's deleted document still has below it is neither
// counted nor gone: that is [ErrNotFound]. Other errors: [ErrInvalidField], [ErrInvalidMember], or
// the client library's.
func (c Counter) Joined(ctx context.Context, field, member string) (there bool, since time.Time, err error) {
	err = c.call("look for a member of "+field+" of", func() error {
		name, err := c.membershipName(field, member)
		if err != nil {
			return err
		}
		missing, err := c.client.resolve(ctx, c.id)
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			m, back, err := c.below(ctx, name)
			if err != nil || m == nil {
				return err
			}
			if !back { // It is a member again once the document is back.
				return ErrNotFound
			}
			there, since = true, m.At
			return nil
		}
		docs, _, err := c.client.db.Get(ctx, name)
		if err == nil && docs[0] != nil {
			there, since = true, memberOf(docs[0]).At
		}
		return err
	})
	return there, since, err
}

// membersPage is how many memberships are read at a time.
const membersPage = 500

// Members yields the members that a field of the counter counts, in the order of their ids, each of
// which costs a read. Those who join or leave meanwhile may be there or not. It ends with the first
// error: [ErrInvalidField], or the client library's.
func (c Counter) Members(ctx context.Context, field string) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		err := c.call("members of "+field+" of", func() error {
			if err := c.countsMembers(field); err != nil {
				return err
			}
			for after, more := "", true; more; {
				docs, err := c.client.db.Documents(ctx, store.Query{Collection: c.client.db.Layout.MembersOf(c.id, field), After: after, Limit: membersPage})
				if err != nil {
					return err
				}
				for _, doc := range docs {
					if after = doc.GetName(); !yield(memberOf(doc), nil) {
						return nil
					}
				}
				more = len(docs) == membersPage
			}
			return nil
		})
		if err != nil {
			yield(Member{}, err)
		}
	}
}
