package main

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/shards"
)

func newImportCommand(t *target) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Take over counters of other kinds",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	extension := newImportExtensionCommand(t)
	t.addFlags(extension.Flags())
	cmd.AddCommand(extension)
	return cmd
}

func newImportExtensionCommand(t *target) *cobra.Command {
	var source extension.Source
	var id string
	var opts shards.CreateOptions
	cmd := &cobra.Command{
		Use:   "firestore-counter --path DOCUMENT --field FIELD",
		Short: "Take over a counter of Firebase's Distributed Counter extension",
		Long: `Take over a counter of Firebase's Distributed Counter extension (firestore-counter), which shuts down on 2027-03-31,
or of its successor, the function kit @firebase-function-kits/firestore-counter: what its document holds, and what waits
in _counter_shards_ beside it, with partial sums.

Into a counter of its own: nothing of the extension's changes, and its clients may go on. Each run adds what has come
since the last one. So run it now, move the clients, and run it again when the last one has moved: then the counter is
exact. A field that nothing has counted is refused.

In place, when the document itself becomes the counter (--counter-path 'pages/{page}' --hosted --fields visits): its
number stays, and takes over what waits in _counter_shards_, so no reader sees another number. First uninstall the
extension, or the kit's functions, or both write the field. Its clients may go on: each run takes what they added.`,
		Example: `  counters import firestore-counter --path pages/hello --field stats.views
  counters import firestore-counter --path pages/hello --field likes --to hello-likes --shards 20
  counters import firestore-counter --path pages/hello --field visits --counter-path 'pages/{page}' --hosted --fields visits`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if err := source.Validate(); err != nil {
				return usageError{err}
			}
			if id == "" {
				id = t.idOf(source.Path)
			}
			if err := checkShards(opts.Shards); err != nil {
				return err
			}
			if err := t.check(id); err != nil {
				return err
			}
			db, err := t.connect(ctx)
			if err != nil {
				return err
			}
			defer db.Close()
			return t.withCounterFor(ctx, id, func(ctx context.Context, c shards.Counter) error {
				var imported extension.Imported
				run := func() (err error) {
					imported, err = extension.Import(ctx, db, id, source)
					return err
				}
				err := run()
				if errors.Is(err, shards.ErrNotFound) && !t.Hosted {
					if err = c.Create(ctx, opts); err == nil || errors.Is(err, shards.ErrExists) {
						err = run()
					}
				}
				if errors.Is(err, context.Canceled) || errors.Is(err, shards.ErrUnknown) {
					return fmt.Errorf("%w (run the import again: it adds nothing twice)", err)
				}
				if err != nil {
					return err
				}
				result := struct {
					Counter string `json:"counter"`
					extension.Imported
				}{id, imported}
				if imported.InPlace {
					return t.print(cmd, result, "%s: %s is %d, %d of it from _counter_shards_", printable(id), source.Field, imported.Value, imported.Added)
				}
				return t.print(cmd, result, "%s %+d, of %d in %s", printable(id), imported.Added, imported.Value, source.Path)
			})
		},
	}
	cmd.Flags().StringVar(&source.Path, "path", "", "path of the extension's document, such as pages/hello")
	cmd.Flags().StringVar(&source.Field, "field", "", "field that counts; dots lead into maps")
	cmd.Flags().StringVar(&id, "to", "", "counter to import into, which is made if it doesn't exist (default the document's own id)")
	cmd.Flags().IntVar(&opts.Shards, "shards", shards.DefaultNumShards, "shards of a counter that is made")
	_ = cmd.MarkFlagRequired("path")
	_ = cmd.MarkFlagRequired("field")
	return cmd
}

// idOf is the id of the counter whose document is at a path; of a document elsewhere, its own id.
func (t *target) idOf(document string) string {
	if p, err := layout.ParsePath(t.Counters); err == nil {
		if id, ok := p.ID(document); ok {
			return id
		}
	}
	return path.Base(document)
}
