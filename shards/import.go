package shards

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// Where Firebase's Distributed Counter extension, and its successor @firebase-function-kits/firestore-counter, keep what
// they have not yet added to a counter's document.
const (
	extensionShards  = "_counter_shards_"
	extensionUpdates = "_updates_" // of a partial sum, whose id begins with a tab: an array of maps
	extensionID      = "_id_"      // of an update, which makes it another than all others
	extensionData    = "_data_"    // of an update: fields as in the counter's document
)

// ExtensionCounter is a counter of Firebase's Distributed Counter extension (firestore-counter), or of its successor.
type ExtensionCounter struct {
	Path  string // of its document, such as pages/hello
	Field string // that counts; dots lead into maps, as in stats.views
}

// key is what a ledger calls it.
func (s ExtensionCounter) key() string { return hash("firestore-counter", s.Path, s.Field) }

// counted is the name of the counted field that it goes into, where there is one of that name.
func (s ExtensionCounter) counted() string { return s.Field[strings.LastIndexByte(s.Field, '.')+1:] }

// Import is what an import found and did.
type Import struct {
	Value int64 `json:"value"` // of the counter that was imported; in place, the total from now on
	Added int64 `json:"added"` // by this import: what has come since the last one; in place, beyond what the document held
	// InPlace says that the field is a counted one of this very document, which is the app's own, and goes on from there.
	InPlace bool `json:"in_place,omitempty"`
}

// ImportExtension adds what the extension's counter has counted since it was last imported into this counter; the first
// time, that is all of it. It goes into the counted field of the same name, or else into the first. The extension's documents
// are left alone, and its clients may go on: import again once they have moved, and the counter is exact. A sum beyond an int64
// stays at the largest or smallest one. Resetting or rebasing the counter in between doesn't bring back what was imported before.
//
// With Config.Hosted, a counted field of the very document that the extension has kept is taken over in place: its number
// stays, and what waits in the extension's shards is moved to it. Clients of the extension may go on; what they have added
// since comes with the next import. The extension itself has to be uninstalled first.
//
// Errors: [ErrInvalidSource], [ErrExtensionRuns], [ErrNotInteger], and those of [Counter.Reset].
func (c Counter) ImportExtension(ctx context.Context, source ExtensionCounter) (Import, error) {
	err := c.checkSource(source)
	var done Import
	switch {
	case err != nil:
	case c.inPlace(source):
		done, err = c.takeOver(ctx, source)
		done.InPlace = true
	default:
		done, err = c.copyFrom(ctx, source)
	}
	if err != nil {
		return Import{}, fmt.Errorf("import %s of %s into counter %q: %w", source.Field, source.Path, c.id, err)
	}
	return done, nil
}

// copyFrom adds what a counter of the extension's in another document, or field, has counted since the last time.
func (c Counter) copyFrom(ctx context.Context, source ExtensionCounter) (Import, error) {
	var done Import
	name, key := c.client.db.Fields[0].Name, source.key()
	if field, counted := c.client.db.Field(source.counted()); counted {
		name = field.Name
	}
	err := c.command(ctx, func(ctx context.Context, l *ledger.Ledger) (*change, error) {
		// After the ledger: whoever imports at the same time has read an older value, or loses the condition.
		value, err := c.client.extensionValue(ctx, source)
		if err != nil {
			return nil, err
		}
		found := Import{Value: value, Added: ledger.Sub(value, l.Imported[key])}
		if _, again := l.Imported[key]; again && found.Added == 0 {
			done = found
			return nil, nil
		}
		sum := l.Sums[name]
		if sum == nil {
			return nil, ErrNoLedger
		}
		return &change{
			bases:   ledger.Counts{name: ledger.Add(sum.Base, found.Added)},
			ledger:  importedWith(l, key, value),
			applied: func() { done = found },
		}, nil
	})
	return done, err
}

// Validate says why nothing can have that path or field, as [ErrInvalidSource].
func (s ExtensionCounter) Validate() error {
	ids := strings.Split(s.Path, "/")
	switch {
	case len(ids)%2 != 0 || slices.Contains(ids, ""):
		return fmt.Errorf("%w: %q is not the path of a document", ErrInvalidSource, s.Path)
	case s.Field == "" || strings.Contains("."+s.Field+".", ".."):
		return fmt.Errorf("%w: %q is not a field", ErrInvalidSource, s.Field)
	}
	return nil
}

func (c Counter) checkSource(source ExtensionCounter) error {
	name := source.counted()
	switch err := source.Validate(); {
	case err != nil:
		return err
	case slices.ContainsFunc(c.client.db.Counted, func(f layout.Field) bool { return f.Name == name }):
		// Taken for a field that isn't counted here, it would be added to the first one.
		return fmt.Errorf("%w: %w", ErrInvalidSource, c.client.db.CheckField(name))
	case c.client.db.Document(source.Path) != c.client.db.Counter(c.id) || c.inPlace(source):
	case slices.Contains(c.client.db.FieldNames(), source.Field):
		return fmt.Errorf("%w: the extension and the roll-up would both write %s; it is taken over in place where the documents are the app's own (HOSTED=true)", ErrInvalidSource, source.Field)
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
	if sum.add(docs[0].GetFields()); sum.err != nil {
		return 0, sum.err
	}
	for _, shard := range shards {
		n, err := extensionAmount(shard, source)
		if err != nil {
			return 0, err
		}
		sum.total = ledger.Add(sum.total, n)
	}
	return sum.total, nil
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
