package shards

import (
	"context"
	"fmt"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// Audit is what a field of a counter is made of, all at one time.
type Audit struct {
	Field   string `json:"field"`
	Shards  int64  `json:"shards"`  // what they add up to
	Members int64  `json:"members"` // whom they count once each
	// Otherwise is what the shards hold besides the members: what was incremented. In a field that
	// is for members only it is 0, and anything else says that shards and memberships don't agree.
	Otherwise int64 `json:"otherwise"`
	// what the counter started from, or was set to, beyond its shards
	Base  int64 `json:"base"`
	Exact int64 `json:"exact"` // shards and base together: see [Counter.Sum]
	Total int64 `json:"total"` // as the roll-up has it, about a second old
}

// Audit counts the members of each field of the counter and adds up its shards, on the server and
// at one time. It costs two reads, two more per field, and one per 1,000 shards or members. Errors
// are those of [Counter.Sum].
func (c Counter) Audit(ctx context.Context) (audits []Audit, err error) {
	err = c.call("audit", func() (err error) { audits, err = c.audit(ctx); return err })
	return audits, err
}

func (c Counter) audit(ctx context.Context) ([]Audit, error) {
	db := c.client.db
	docs, at, err := db.Get(ctx, db.Counter(c.id), db.LedgerOf(c.id))
	if err != nil {
		return nil, err
	}
	if _, ok := c.client.snapshotOf(c.id, docs[0]); !ok {
		return nil, ErrNotFound
	}
	var audits []Audit
	for _, field := range db.Fields {
		parts, err := c.sumField(ctx, field, docs[1], at)
		if err != nil {
			return nil, err
		}
		members, err := db.Count(ctx, db.MembersOf(c.id, field.Name), at)
		if err != nil {
			return nil, fmt.Errorf("count members: %w", err)
		}
		a := Audit{
			Field: field.Name, Members: members, Base: parts.base, Shards: ledger.Add(parts.shards...),
			Otherwise: ledger.Add(append(parts.shards, -members)...), Exact: parts.total(),
		}
		a.Total, _ = store.Integer(docs[0].GetFields()[field.Name])
		audits = append(audits, a)
	}
	return audits, nil
}
