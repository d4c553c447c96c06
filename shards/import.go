package shards

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/schema"
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
// have moved, and the counter is exact. Resetting or rebasing the counter in between doesn't bring back what was
// imported before. Errors: [ErrInvalidSource], [ErrNotInteger], and those of [Counter.Reset].
func (c Counter) ImportExtension(ctx context.Context, source ExtensionCounter) (Import, error) {
	var done Import
	err := c.checkSource(source)
	if err == nil {
		key := hash("firestore-counter", source.Path, source.Field)
		err = c.command(ctx, func(ctx context.Context, l *schema.LedgerDoc) (*change, error) {
			// After the ledger: whoever imports at the same time has read an older value, or loses the condition.
			value, err := c.client.extensionValue(ctx, source)
			if err != nil {
				return nil, err
			}
			done = Import{Value: value, Added: value - l.Imported[key]}
			if _, again := l.Imported[key]; again && done.Added == 0 {
				return nil, nil
			}
			imported := map[string]*firestorepb.Value{key: schema.Int(value)}
			for other, value := range l.Imported {
				if other != key {
					imported[other] = schema.Int(value)
				}
			}
			return &change{
				ledger: map[string]*firestorepb.Value{
					schema.LedgerBase:     schema.Int(l.Base + done.Added),
					schema.LedgerImported: schema.Map(imported),
				},
				add: done.Added,
			}, nil
		})
	}
	if err != nil {
		return Import{}, fmt.Errorf("import %s of %s into counter %q: %w", source.Field, source.Path, c.id, err)
	}
	return done, nil
}

func (c Counter) checkSource(source ExtensionCounter) error {
	ref := c.client.db.Doc(source.Path)
	switch {
	case ref == nil:
		return fmt.Errorf("%w: %q is no path of a document", ErrInvalidSource, source.Path)
	case source.Field == "" || strings.Contains("."+source.Field+".", ".."):
		return fmt.Errorf("%w: %q is no field", ErrInvalidSource, source.Field)
	case ref.Path == c.ref().Path && source.Field == schema.Total:
		return fmt.Errorf("%w: the extension and the roll-up would both write %s", ErrInvalidSource, schema.Total)
	}
	return nil
}

// extensionValue is a counter's value at one moment: what its document has, what clients have added since, and what the
// extension's workers have summed up in between. Transactions of the extension move counts from one to the other.
func (c *Client) extensionValue(ctx context.Context, source ExtensionCounter) (int64, error) {
	var sum extensionSum
	err := c.atOneTime(ctx, func(tx *firestore.Transaction) error {
		sum = extensionSum{field: strings.Split(source.Field, ".")}
		ref := c.db.Doc(source.Path)
		doc, err := tx.Get(ref)
		if err != nil && status.Code(err) != codes.NotFound {
			return err
		}
		shards, err := tx.Documents(ref.Collection(extensionShards)).GetAll()
		if err != nil {
			return err
		}
		if !doc.Exists() && len(shards) == 0 {
			return fmt.Errorf("%w: there is nothing at %s", ErrInvalidSource, source.Path)
		}
		sum.add(doc.Data())
		for _, shard := range shards {
			if !strings.HasPrefix(shard.Ref.ID, "\t") {
				sum.add(shard.Data())
				continue
			}
			updates, _ := shard.Data()[extensionUpdates].([]any)
			for _, update := range updates {
				fields, _ := update.(map[string]any)
				data, _ := fields[extensionData].(map[string]any)
				sum.add(data)
			}
		}
		return sum.err
	})
	return sum.total, err
}

// extensionSum adds up one field of many documents.
type extensionSum struct {
	field []string
	total int64
	err   error
}

// add adds the field of a document. As for the extension, what is missing or no number counts nothing.
func (s *extensionSum) add(data map[string]any) {
	var value any = data
	for _, name := range s.field {
		fields, _ := value.(map[string]any)
		value = fields[name]
	}
	var n int64
	switch value := value.(type) {
	case int64:
		n = value
	case float64:
		if value != math.Trunc(value) || math.Abs(value) > 1<<53 {
			s.err = fmt.Errorf("%w: %v", ErrNotInteger, value)
			return
		}
		n = int64(value)
	}
	var ok bool
	if s.total, ok = add(s.total, n); !ok {
		s.err = fmt.Errorf("%w: the sum is beyond an int64", ErrNotInteger)
	}
}
