package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/shards"
)

// newImportCommand returns the import from the extension, also by its name, and that of lists.
func newImportCommand(t *target) *cobra.Command {
	cmd := newImportExtensionCommand(t, "import")
	cmd.AddCommand(newImportExtensionCommand(t, "firestore-counter"), newImportMembersCommand(t))
	return cmd
}

func newImportExtensionCommand(t *target, name string) *cobra.Command {
	var source extension.Source
	var id string
	var all bool
	var opts shards.CreateOptions
	var allOpts extension.ImportAllOptions
	cmd := &cobra.Command{
		Use:   name + " --path DOCUMENT --field FIELD",
		Short: "Take over counters of Firebase's Distributed Counter extension",
		Long: `Take over a counter of Firebase's Distributed Counter extension (firestore-counter), or of its successor, the function kit
@firebase-function-kits/firestore-counter: what its document holds, and what waits in _counter_shards_ beside it, with
partial sums.

Into a counter of its own: nothing of the extension's changes, and its clients may go on. Each run adds what has come
since the last one. So run it now, move the clients, and run it again when the last one has moved: then the counter is
exact. A field that nothing has counted is refused.

In place, when the document itself becomes the counter (--counter-path 'pages/{page}' --hosted --fields visits): its
number stays, and takes over what waits in _counter_shards_, so no reader sees another number. First uninstall the
extension (from 2027-03-31 on, as with the kit, delete its functions), or both write the field. Its clients may go on:
each run takes what they added.

With --all, all documents of a path such as pages/{page}, in place. --dry-run says what it would do. You may end it
anywhere and run it again: it goes on where it was.`,
		Example: `  counters import --all --path 'pages/{page}' --field visits --dry-run
  counters import --all --path 'pages/{page}' --field visits
  counters import firestore-counter --path pages/hello --field stats.views
  counters import firestore-counter --path pages/hello --field likes --to hello-likes --shards 20
  counters import firestore-counter --path pages/hello --field visits --counter-path 'pages/{page}' --hosted --fields visits`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if all {
				for _, flag := range []string{"to", "shards"} {
					if cmd.Flags().Changed(flag) {
						return badUsage("--%s: leave it out with --all, which counts on in the documents themselves", flag)
					}
				}
				return t.importAll(cmd, source, allOpts)
			}
			if allOpts.DryRun {
				return badUsage("--dry-run: want --all with it")
			}
			if strings.Contains(source.Path, "{") {
				return badUsage("--path %s: want one document, or --all", source.Path)
			}
			if source.Field == "" {
				return badUsage("--field is missing: the field that the extension counts")
			}
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
					return t.print(cmd, result, "%s: %s is %d, %d of it from _counter_shards_", terminal.Quote(id), source.Field, imported.Value, imported.Added)
				}
				return t.print(cmd, result, "%s %+d, of %d in %s", terminal.Quote(id), imported.Added, imported.Value, source.Path)
			})
		},
	}
	t.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "import all documents of --path, such as pages/{page}, in place")
	cmd.Flags().BoolVar(&allOpts.DryRun, "dry-run", false, "with --all: only say what would be done")
	cmd.Flags().IntVar(&allOpts.Parallel, "parallel", 32, "with --all: documents to import side by side")
	cmd.Flags().StringVar(&source.Path, "path", "", "path of the extension's document, such as pages/hello")
	cmd.Flags().StringVar(&source.Field, "field", "", "field that counts; dots lead into maps")
	cmd.Flags().StringVar(&id, "to", "", "counter to import into, which is made if it doesn't exist (default the document's own id)")
	cmd.Flags().IntVar(&opts.Shards, "shards", shards.DefaultNumShards, "shards of a counter that is made")
	_ = cmd.MarkFlagRequired("path")
	return cmd
}

// importedAll is what an import of all comes to.
type importedAll struct {
	Path      string               `json:"path"`
	Field     string               `json:"field"`
	DryRun    bool                 `json:"dry_run,omitempty"`
	Imported  int                  `json:"imported"`  // or would be
	Before    int                  `json:"before"`    // imported before, and nothing waits
	Nothing   int                  `json:"nothing"`   // has neither a number nor shards of the extension's
	Orphaned  int                  `json:"orphaned"`  // shards of the extension's without a document
	Failed    int                  `json:"failed"`    //
	Value     int64                `json:"value"`     // what those that were imported show, added up
	Added     int64                `json:"added"`     // of that from the extension's shards
	Shards    int                  `json:"shards"`    // the extension's
	Documents []extension.Document `json:"documents"` // those that failed or are orphaned
}

// add takes a document into account.
func (a *importedAll) add(d extension.Document) {
	a.Shards += d.Shards
	switch d.Outcome {
	case extension.Taken:
		a.Imported, a.Value, a.Added = a.Imported+1, a.Value+d.Value, a.Added+d.Added
	case extension.Before:
		a.Before++
	case extension.Nothing:
		a.Nothing++
	case extension.Orphaned:
		a.Orphaned++
		a.Documents = append(a.Documents, d)
	case extension.Failed:
		a.Failed++
		a.Documents = append(a.Documents, d)
	}
}

// importAll imports one field of all documents of a path, in place.
func (t *target) importAll(cmd *cobra.Command, source extension.Source, opts extension.ImportAllOptions) error {
	if err := t.inPlace(cmd, source.Path, &source.Field, opts.Parallel); err != nil {
		return err
	}
	db, err := t.connect(cmd.Context())
	if err != nil {
		return err
	}
	defer db.Close()

	result := importedAll{Path: source.Path, Field: source.Field, DryRun: opts.DryRun, Documents: []extension.Document{}}
	return t.importing(cmd, opts.DryRun, &result, "nothing is added twice", func(done func(path, failed string)) error {
		opts.Report = func(d extension.Document) {
			result.add(d)
			done(d.Path, d.Error)
		}
		return extension.ImportAll(cmd.Context(), db, source.Field, opts)
	})
}

// importing shows how an import of all documents of a path goes, of which run says each that is done and why it failed.
// It prints what the import came to.
func (t *target) importing(cmd *cobra.Command, dryRun bool, result interface {
	table() string
	outcome() (imported, failed int)
}, again string, run func(done func(path, failed string)) error) error {
	doing := "importing"
	if dryRun {
		doing = "looking"
	}
	progress := newProgress(cmd.ErrOrStderr(), doing, "")
	err := run(func(path, failed string) {
		progress.Add()
		if failed != "" {
			progress.Clear()
			fmt.Fprintf(cmd.ErrOrStderr(), "counters: %s: %s\n", terminal.Quote(path), terminal.Line(failed))
		}
	})
	progress.Finish()
	imported, failed := result.outcome()
	if err != nil && imported == 0 {
		return err
	}
	if printed := t.print(cmd, result, "%s", result.table()); printed != nil {
		return printed
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w (import again: it goes on from here, and %s)", err, again)
	case failed > 0:
		return fmt.Errorf("%s could not be imported, for the reasons above; import again", terminal.Count(failed, "document"))
	}
	return nil
}

// importRow is how many documents of a kind there are in a table.
type importRow struct {
	n        int
	of, what string
}

// importTable shows what there is, and of the first row also if there is none.
func importTable(text string, width int, rows ...importRow) string {
	for i, row := range rows {
		if row.n > 0 || i == 0 {
			text += strings.TrimRight(fmt.Sprintf("\n%9d  %-*s %s", row.n, width, row.of, row.what), " ")
		}
	}
	return text
}

// inPlace makes the documents of a path the counters of the command, in which a field is taken over in place.
func (t *target) inPlace(cmd *cobra.Command, path string, field *string, parallel int) error {
	flags := cmd.Flags()
	if !t.given(flags.Changed("counter-path"), "COUNTERS") {
		t.Counters = path
	}
	if t.Counters != path {
		return badUsage("--path %s: want %s, where counters are (COUNTERS, --counter-path)", path, t.Counters)
	}
	fields := t.given(flags.Changed("fields"), "FIELDS")
	if *field == "" && fields && len(t.fieldNames()) == 1 {
		*field = t.fieldNames()[0]
	}
	switch {
	case *field == "":
		return badUsage("--field is missing: the field that is taken over")
	case strings.Contains(*field, "."):
		return badUsage("--field %s: want one that is in no map; import the others one by one, into counters beside their documents", *field)
	case !fields:
		t.Fields = *field
	}
	t.Hosted = true
	if parallel < 1 || parallel > 500 {
		return badUsage("--parallel %d: want 1 to 500", parallel)
	}
	return nil
}

// given reports whether a flag, or the variable that it stands for, is set.
func (t *target) given(flag bool, variable string) bool { return flag || os.Getenv(variable) != "" }

// table shows what an import of all comes to.
func (a *importedAll) table() string {
	taken, sum := "imported", fmt.Sprintf("%s: %d in all, %d of it from _counter_shards_", a.Field, a.Value, a.Added)
	if a.DryRun {
		taken, sum = "to import", fmt.Sprintf("%s: %d in all, without what waits in %s of _counter_shards_", a.Field, a.Value, terminal.Count(a.Shards, "document"))
	}
	return importTable(a.Path, 19, importRow{a.Imported, taken, sum}, importRow{a.Before, "imported before", "nothing has come since"},
		importRow{a.Nothing, "not counted", "neither a number nor _counter_shards_"}, importRow{a.Orphaned, "without a document", "only _counter_shards_ are left"},
		importRow{a.Failed, "failed", ""})
}

func (a *importedAll) outcome() (imported, failed int) { return a.Imported, a.Failed }

// idOf is the id of the counter whose document is at a path; of a document elsewhere, its own id.
func (t *target) idOf(document string) string {
	if p, err := layout.ParsePath(t.Counters); err == nil {
		if id, ok := p.ID(document); ok {
			return id
		}
	}
	return path.Base(document)
}
