package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/internal/lists"
	"github.com/firestore-counters/counters/shards"
)

func newImportMembersCommand(t *target) *cobra.Command {
	var path, field string
	var opts lists.Options
	cmd := &cobra.Command{
		Use:   "members --path PATH --field FIELD",
		Short: "Make the users in lists of your documents members",
		Long: `Take over lists of user ids, such as likes: ["uid-1", "uid-2"], in all documents of a path: the users become members of
the field, and then its total takes the place of the list.

A list stays as it is until all of its ids are members. If it changes meanwhile, who is added becomes a member, and who
is taken out leaves. A list with an entry that can't be a member's id is left alone, and named. You may end the command
anywhere and run it again: nobody is counted twice. Don't run two at a time.`,
		Example: `  counters import members --path 'posts/{post}' --field likes --dry-run
  counters import members --path 'posts/{post}' --field likes`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.inPlace(cmd, path, &field, opts.Parallel); err != nil {
				return err
			}
			return t.importMembers(cmd, field, opts)
		},
	}
	t.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&path, "path", "", "path of the documents, such as posts/{post}")
	cmd.Flags().StringVar(&field, "field", "", "field that holds the lists")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "only say what would be done")
	cmd.Flags().IntVar(&opts.Parallel, "parallel", 32, "documents to import side by side")
	_ = cmd.MarkFlagRequired("path")
	return cmd
}

// importedMembers is what an import of lists comes to.
type importedMembers struct {
	Path       string           `json:"path"`
	Field      string           `json:"field"`
	DryRun     bool             `json:"dry_run,omitempty"`
	Imported   int              `json:"imported"`   // lists, or would be
	Members    int              `json:"members"`    // in them, each once in its list
	Joined     int              `json:"joined"`     // of these, whom this run has made members
	Left       int              `json:"left"`       // who had left their list before it was replaced
	Duplicates int              `json:"duplicates"` // entries that were in their list before
	Number     int              `json:"number"`     // documents that show a number already
	Nothing    int              `json:"nothing"`    // that haven't the field
	Failed     int              `json:"failed"`
	Documents  []lists.Document `json:"documents"` // those that failed
}

// add takes a document into account.
func (m *importedMembers) add(d lists.Document) {
	m.Joined, m.Left = m.Joined+d.Joined, m.Left+d.Left
	switch d.Outcome {
	case lists.Taken:
		m.Imported, m.Members, m.Duplicates = m.Imported+1, m.Members+d.Members, m.Duplicates+d.Duplicates
	case lists.Number:
		m.Number++
	case lists.Nothing:
		m.Nothing++
	case lists.Failed:
		m.Failed++
		m.Documents = append(m.Documents, d)
	}
}

// importMembers takes over the lists in a field of all documents of the path.
func (t *target) importMembers(cmd *cobra.Command, field string, opts lists.Options) error {
	ctx := cmd.Context()
	if err := t.checkField(field); err != nil {
		return err
	}
	db, err := t.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	client, err := shards.Open(ctx, shards.Config{Place: t.place()})
	if err != nil {
		return err
	}
	defer client.Close()

	result := importedMembers{Path: t.Counters, Field: field, DryRun: opts.DryRun, Documents: []lists.Document{}}
	return t.importing(cmd, opts.DryRun, &result, "nobody is counted twice", func(done func(path, failed string)) error {
		opts.Report = func(d lists.Document) {
			result.add(d)
			done(d.Path, d.Error)
		}
		return lists.Import(ctx, db, client, field, opts)
	})
}

func (m *importedMembers) outcome() (imported, failed int) { return m.Imported, m.Failed }

// table shows what an import of lists comes to.
func (m *importedMembers) table() string {
	taken := "imported"
	sum := fmt.Sprintf("%s, %d of them new", terminal.Count(m.Members, "member"), m.Joined)
	if m.DryRun {
		taken, sum = "to import", terminal.Count(m.Members, "member")
	}
	if m.Duplicates > 0 {
		sum += "; " + terminal.Count(m.Duplicates, "duplicate")
	}
	if m.Left > 0 {
		sum += fmt.Sprintf("; %d left meanwhile", m.Left)
	}
	return importTable(m.Path, 10, importRow{m.Imported, taken, sum}, importRow{m.Number, "a number", "imported before, or never a list"},
		importRow{m.Nothing, "nothing", "no " + m.Field}, importRow{m.Failed, "failed", ""})
}
