package main

import (
	"context"
	"errors"
	"path"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/shards"
)

func newImportCommand(t *target) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Bring counters of other kinds into ours",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	extension := newImportExtensionCommand(t)
	t.addFlags(extension.Flags())
	cmd.AddCommand(extension)
	return cmd
}

func newImportExtensionCommand(t *target) *cobra.Command {
	var source shards.ExtensionCounter
	var id string
	var opts shards.CreateOptions
	cmd := &cobra.Command{
		Use:   "firestore-counter --path DOCUMENT --field FIELD",
		Short: "Bring in a counter of Firebase's Distributed Counter extension",
		Long: `Bring in a counter of Firebase's Distributed Counter extension (firestore-counter), which is shut
down on 2027-03-31: what its document holds, and what waits in _counter_shards_ beside it.

Nothing of the extension's is changed, and its clients may go on. Each run adds what has come since
the last one, so run it once now, move the clients, and run it again when the last one has moved:
then the counter is exact.`,
		Example: `  counters import firestore-counter --path pages/hello --field stats.views
  counters import firestore-counter --path pages/hello --field likes --to hello-likes --shards 20`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if id == "" {
				id = path.Base(source.Path)
			}
			if err := checkShards(opts.Shards); err != nil {
				return err
			}
			return t.withCounterFor(ctx, id, func(ctx context.Context, c shards.Counter) error {
				var imported shards.Import
				run := func() (err error) {
					imported, err = c.ImportExtension(ctx, source)
					return err
				}
				err := t.adopted(ctx, id, run)
				if errors.Is(err, shards.ErrNotFound) {
					if err = c.Create(ctx, opts); err == nil || errors.Is(err, shards.ErrExists) {
						err = run()
					}
				}
				if err != nil {
					return err
				}
				return t.print(cmd, struct {
					Counter string `json:"counter"`
					shards.Import
				}{id, imported}, "%s %+d, of %d in %s", printable(id), imported.Added, imported.Value, source.Path)
			})
		},
	}
	cmd.Flags().StringVar(&source.Path, "path", "", "path of the extension's document, such as pages/hello")
	cmd.Flags().StringVar(&source.Field, "field", "", "field that counts; dots lead into maps")
	cmd.Flags().StringVar(&id, "to", "", "counter to bring it into, which is made where there is none (default the document's id)")
	cmd.Flags().IntVar(&opts.Shards, "shards", 10, "shards of a counter that is made")
	_ = cmd.MarkFlagRequired("path")
	_ = cmd.MarkFlagRequired("field")
	return cmd
}
