package shards

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// ErrInvalidSource says that there can be no counter to import from there.
var ErrInvalidSource = errors.New("invalid source of an import")

// Where Firebase's Distributed Counter extension keeps what it has not yet added to a counter's document.
const (
	extensionShards  = "_counter_shards_"
	extensionUpdates = "_updates_" // of a partial sum, whose id begins with a tab: an array of maps
	extensionData    = "_data_"    // of an update: fields as in the counter's document
)

// ExtensionCounter is a counter of Firebase's Distributed Counter extension (firestore-counter).
type ExtensionCounter struct {
	Path  string // of its document, such as pages/hello
	Field string // that counts; dots lead into maps, as in stats.views
}

// Import is what an import found and did.
type Import struct {
	Value int64 `json:"value"` // of the counter that was imported
	Added int64 `json:"added"` // by this import: what has come since the last one
}

// ImportExtension adds what the extension's counter has counted since it was last imported into this counter; the first
// time, that is all of it. The extension's documents are left alone, and its clients may go on: import again once they
// have moved, and the counter is exact. A sum beyond an int64 stays at the largest or smallest one. Resetting or rebasing the counter in between doesn't bring back what was
// imported before. Errors: [ErrInvalidSource], [ErrNotInteger], and those of [Counter.Reset].
func (c Counter) ImportExtension(ctx context.Context, source ExtensionCounter) (Import, error) {
	var done Import
	err := c.checkSource(source)
	if err == nil {
		key := hash("firestore-counter", source.Path, source.Field)
		err = c.command(ctx, func(ctx context.Context, l *ledger.Ledger) (*change, error) {
			// After the ledger: whoever imports at the same time has read an older value, or loses the condition.
			value, err := c.client.extensionValue(ctx, source)
			if err != nil {
				return nil, err
			}
			done = Import{Value: value, Added: ledger.Sub(value, l.Imported[key])}
			if _, again := l.Imported[key]; again && done.Added == 0 {
				return nil, nil
			}
			imported := map[string]*firestorepb.Value{key: store.Int(value)}
			for other, value := range l.Imported {
				if other != key {
					imported[other] = store.Int(value)
				}
			}
			name := c.client.db.Fields[0].Name
			sum := l.Sums[name]
			if sum == nil {
				return nil, ErrNoLedger
			}
			return &change{
				bases:    ledger.Counts{name: ledger.Add(sum.Base, done.Added)},
				ledger:   map[string]*firestorepb.Value{ledger.FieldImported: store.Map(imported)},
				increase: ledger.Counts{name: done.Added},
			}, nil
		})
	}
	if err != nil {
		return Import{}, fmt.Errorf("import %s of %s into counter %q: %w", source.Field, source.Path, c.id, err)
	}
	return done, nil
}

func (c Counter) checkSource(source ExtensionCounter) error {
	ids := strings.Split(source.Path, "/")
	switch {
	case len(ids)%2 != 0 || slices.Contains(ids, ""):
		return fmt.Errorf("%w: %q is not the path of a document", ErrInvalidSource, source.Path)
	case source.Field == "" || strings.Contains("."+source.Field+".", ".."):
		return fmt.Errorf("%w: %q is not a field", ErrInvalidSource, source.Field)
	case c.client.db.Document(source.Path) == c.client.db.Counter(c.id) && source.Field == store.Total:
		return fmt.Errorf("%w: the extension and the roll-up would both write %s", ErrInvalidSource, store.Total)
	}
	return nil
}

// extensionValue is a counter's value at one moment: what its document has, what clients have added since, and what the
// extension's workers have summed up in between. Transactions of the extension move counts from one to the other.
func (c *Client) extensionValue(ctx context.Context, source ExtensionCounter) (int64, error) {
	name := c.db.Document(source.Path)
	docs, at, err := c.db.Get(ctx, name)
	if err != nil {
		return 0, err
	}
	shards, err := c.db.Documents(ctx, store.Query{Collection: name + "/" + extensionShards, At: at})
	if err != nil {
		return 0, err
	}
	if docs[0] == nil && len(shards) == 0 {
		return 0, fmt.Errorf("%w: there is nothing at %s", ErrInvalidSource, source.Path)
	}
	sum := extensionSum{field: strings.Split(source.Field, ".")}
	sum.add(docs[0].GetFields())
	for _, shard := range shards {
		if !strings.HasPrefix(path.Base(shard.GetName()), "\t") {
			sum.add(shard.GetFields())
			continue
		}
		for _, update := range shard.GetFields()[extensionUpdates].GetArrayValue().GetValues() {
			sum.add(update.GetMapValue().GetFields()[extensionData].GetMapValue().GetFields())
		}
	}
	return sum.total, sum.err
}

// extensionSum adds up one field of many documents.
type extensionSum struct {
	field []string
	total int64
	err   error
}

// add adds the field of a document. As for the extension, what is missing or no number counts nothing.
func (s *extensionSum) add(fields map[string]*firestorepb.Value) {
	last := len(s.field) - 1
	for _, name := range s.field[:last] {
		fields = fields[name].GetMapValue().GetFields()
	}
	value := fields[s.field[last]]
	switch value.GetValueType().(type) {
	case *firestorepb.Value_IntegerValue, *firestorepb.Value_DoubleValue:
	default:
		return
	}
	n, ok := store.Integer(value)
	if !ok {
		s.err = fmt.Errorf("%w: %v", ErrNotInteger, value)
		return
	}
	s.total = ledger.Add(s.total, n)
}
