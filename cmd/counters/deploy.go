package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/cost"
)

func newDeployCommand() *cobra.Command {
	var d deployment.Deployer
	var load loadFlags
	yes := false
	cmd := &cobra.Command{
		Use:   "deploy --project P --location L",
		Short: "Deploy the functions to a project, with gcloud",
		Long: `Deploy the functions to a project, and all that belongs to them. Run it again after any change: it runs the commands of
what differs, and none where nothing does.

It needs gcloud, logged in with roles/owner or with the roles that docs/deploying.md lists; alpha for alert policies and
beta for one of Google's accounts, as gcloud has no other commands for them. It checks the settings by the functions' own
code, prints what it would make or take back, who may call that and what it costs, and asks whether to go on where there is
a terminal to ask on. It takes five minutes in a new project. Rules that are there are never replaced. To replace them, take
the Firebase CLI, in the folder firestore: firebase deploy --only firestore:rules. It takes (default), unless firebase.json
names the database.`,
		Example: `  counters deploy --project my-project --location us-central1 --create-database --set AUTO_CREATE=true
  counters deploy --project my-project --location eur3 --set HOSTED=true --set 'COUNTERS=posts/{post}' --dry-run`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := load.set(new(cost.Load)); err != nil {
				return err
			}
			if err := d.Check(); err != nil {
				return usageError{err}
			}
			if d.Files != "" && !d.DryRun {
				return usageError{errors.New("--files: want --dry-run with it")}
			}
			d.Me, d.Said, d.Out = "deploy", cmd.ErrOrStderr(), cmd.OutOrStdout()
			d.Estimate = func(w *deployment.Wanted, edition string) (string, error) {
				return estimateOf(w, cost.Edition(edition), load)
			}
			d.Confirm = func() (bool, error) { return goOn(cmd, yes, "Go on") }
			return d.Deploy(cmd.Context())
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	d.Flags(cmd.Flags())
	load.add(cmd.Flags()) // of the plan's estimate
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask whether to go on")
	cmd.Flags().BoolVar(&d.DryRun, "dry-run", false, "print each command that it would run, and run none but those that ask what is there. "+
		"Without a login it prints those of a new deployment")
	cmd.Flags().StringVar(&d.Files, "files", "", "with --dry-run: leave in `DIR` what the commands read, so that they can be pasted into bash")
	return cmd
}

func newDestroyCommand() *cobra.Command {
	var d deployment.Deployer
	var r deployment.Removal
	yes := false
	cmd := &cobra.Command{
		Use:   "destroy --project P --region R",
		Short: "Remove what deploy made, but no data",
		Long: `Remove what deploy made, except for data and what other deployments may need, and say what is left. It is safe to run
again.

Without --everything that stays, and is listed at the end, each with the command that removes it. The database and its
documents stay, unless they are named. The APIs, rules of an app's own, and images in a repository that
--docker-repository named stay in any case. Counters keep their totals and shards; nothing adds to totals any more. What a
client still writes to shards is counted when the functions are deployed again, by the first roll-up or Reconcile.`,
		Example: `  counters destroy --project my-project --region us-central1`,
		Args:    arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := d.CheckRemoval(r); err != nil {
				return usageError{err}
			}
			d.Me, d.Said, d.Out = "destroy", cmd.ErrOrStderr(), cmd.OutOrStdout()
			question := fmt.Sprintf("Remove %[1]s-increment, %[1]s-rollup and %[1]s-reconcile from %[2]s", d.Prefix, d.Project)
			if r.Everything {
				question += ", and what other deployments of counters there may need"
			}
			if r.Database != "" {
				question += ", and the database " + r.Database + " with all documents in it"
			}
			if !yes && !d.DryRun {
				if !atTerminal(cmd) {
					return badUsage("nothing was removed, as there is no terminal to ask on: say --yes to do it")
				}
				if goes, err := goOn(cmd, false, question); err != nil || !goes {
					return errors.Join(err, errors.New("nothing was removed"))
				}
			}
			return d.Destroy(cmd.Context(), r)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&d.Project, "project", "", "project `P` that was deployed to")
	flags.StringVar(&d.Region, "region", "", "region `R` of the functions")
	flags.StringVar(&d.Prefix, "prefix", "counters", "`NAME` that was given to deploy")
	flags.BoolVar(&r.Everything, "everything", false, "remove what other deployments may need, too: the TTL policy, index exemptions and composite indexes, security rules that deploy released, and the role of Eventarc's agent")
	flags.StringVar(&r.Database, "delete-database", "", "with --everything: the database `ID` as well, with all documents in it, yours included")
	flags.StringArrayVar(&d.Set, "set", nil, "a setting that deploy was given, `NAME=VALUE`, such as DATABASE, COUNTERS or FIELDS, where the functions are gone already: as long as they are there, they say it; "+
		"may be repeated. Without it, nothing of a database is then removed or listed")
	flags.BoolVarP(&yes, "yes", "y", false, "don't ask")
	flags.BoolVar(&d.DryRun, "dry-run", false, "print each command, to be pasted into bash, and run none but those that ask what is there")
	return cmd
}

// goOn asks on a terminal whether to go on. Where there is none, or it was answered before, it goes on.
func goOn(cmd *cobra.Command, yes bool, question string) (bool, error) {
	if yes || !atTerminal(cmd) {
		return true, nil
	}
	return ask(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), question+"?")
}
