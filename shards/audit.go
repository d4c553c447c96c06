package shards

import (
	"context"
	"fmt"

	"github.com/firestore-counters/counters/internal/store"
)

// Audit is what a field of a counter is made of, all at one time.
type Audit struct {
	Field   string `json:"field"`
	Shards  int64  `json:"shards"`  // what they add up to
	Members int64  `json:"members"` // whom they count once each
	// Otherwise is what is counted besides the members: what was incremented, and Base. In a field that is for members
	// only it is 0, and anything else says that shards and memberships don't agree.
	Otherwise int64 `json:"otherwise"`
	// what the counter started from, or was set to, beyond its shards
	Base  int64 `json:"base"`
	Exact int64 `json:"exact"` // shards and base together: see [Counter.Sum]
	Total int64 `json:"total"` // as the roll-up has it, about a second old
}

// Audit counts the members of each field and adds up its shards, on the server and at one time. It
// costs two reads, two more per field, and one per 1,000 shards or members. Errors are those of
// [Counter.Sum].
func (c Counter) Audit(ctx context.Context) (audits []Audit, err error) {
	err = c.call("audit", func() (err error) { audits, err = c.audit(ctx); return err })
	return audits, err
}

func (c Counter) audit(ctx context.Context) ([]Audit, error) {
	s, at, of, err := c.parts(ctx)
	if err != nil {
		return nil, err
	}
	db := c.client.db
	var audits []Audit
	for i, field := range db.Layout.Fields {
		if field.LimitOf != "" { // which has no members
			continue
		}
		members, err := db.Count(ctx, db.Layout.MembersOf(c.id, field.Name), "", at)
		if err != nil {
			return nil, fmt.Errorf("count members: %w", err)
		}
		audits = append(audits, Audit{
			Field: field.Name, Members: members, Base: of[i].base, Shards: of[i].shards,
			Otherwise: store.Sub(of[i].total, members), Exact: of[i].total, Total: s.total(field.Name),
		})
	}
	return audits, nil
}
