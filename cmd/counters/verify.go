package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/counters/internal/doctor"
	"github.com/firestore-counters/counters/cmd/counters/internal/verify"
	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/internal/layout"
)

func newVerifyCommand() *cobra.Command {
	var trial verify.Trial
	var yes, clean, asJSON bool
	var report string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Try a whole deployment in a project of yours, and take it away again",
		Long: `Deploy under a prefix of its own, count, compare, measure, write a report, and take everything away: the functions,
their accounts and the documents. It takes some 20 minutes, most of them for building and deleting functions.

The deployment is private, and has at most two instances of Increment and one of Rollup. Its counters are the documents
of a collection verify_XXXXXX, which is deleted. Whatever happens, also after Ctrl-C, all is taken away; what a crash
leaves, verify --clean finds by its names.

The report names no project. It says what passed, and what was measured of what this project's models assume: please
paste it into an issue.

It needs gcloud, logged in (gcloud auth login, and gcloud auth application-default login for Firestore), the roles that
deploy needs, and a Firestore database. The exit code is 1 when a check fails or something is left.`,
		Example: `  counters verify --project my-project --location us-central1
  counters verify --project my-project --location nam5 --yes --report report.md
  counters verify --project my-project --location us-central1 --clean`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if trial.Project == "" {
				return badUsage("--project is missing: the project to try it in, whose Firestore database is there")
			}
			if trial.Location == "" {
				return badUsage("--location is missing: that of the database; see: gcloud firestore databases list")
			}
			if trial.Most <= 0 {
				return badUsage("--most %v: want US dollars, such as 0.12", trial.Most)
			}
			if trial.Hot < time.Second || trial.Hot > time.Minute {
				return badUsage("--hot %v: want 1s to 1m", trial.Hot)
			}
			var err error
			if trial.Prices, err = cost.PricesOf(trial.Location); err != nil {
				trial.Prices = cost.Dearest(trial.Location)
			}
			return runVerify(cmd, &trial, yes, clean, asJSON, report)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&trial.Project, "project", os.Getenv("GOOGLE_CLOUD_PROJECT"), "project to try it in")
	flags.StringVar(&trial.Location, "location", "", "location of its Firestore database, such as us-central1 or nam5")
	flags.StringVar(&trial.Region, "region", "", "region of the functions (default: the location, or the region next to a multi-region)")
	flags.StringVar(&trial.Database, "database", cmp.Or(os.Getenv("DATABASE"), "(default)"), "Firestore database")
	flags.DurationVar(&trial.Hot, "hot", time.Minute, "for how long one document is written at each of four rates: 1s to 1m; less rewrites fewer documents, too")
	flags.Float64Var(&trial.Most, "most", 0.12, "US dollars that documents and requests may cost at most: it stops before that")
	flags.StringVar(&report, "report", "verify-report.md", "where the report is written")
	flags.BoolVar(&clean, "clean", false, "take away what earlier trials left, and try nothing")
	flags.BoolVar(&asJSON, "json", false, "print the report as JSON, too")
	addYes(cmd, &yes)
	return cmd
}

func runVerify(cmd *cobra.Command, trial *verify.Trial, yes, clean, asJSON bool, file string) error {
	ctx := cmd.Context()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, which deploys: %w", err)
	}
	if _, err := exec.LookPath("gcloud"); err != nil {
		return fmt.Errorf("gcloud is not installed, which deploys (https://cloud.google.com/sdk/docs/install): %w", err)
	}
	trial.Out, trial.Version = cmd.ErrOrStderr(), readBuild().String()
	trial.Blind = os.Getenv("FIRESTORE_EMULATOR_HOST") != ""
	trial.Fake = trial.Blind || os.Getenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDFUNCTIONS") != "" // gcloud doesn't go to Google
	trial.Program = func(ctx context.Context, args ...string) error {
		c := exec.CommandContext(ctx, self, args...)
		said := trial.Watching(cmd.ErrOrStderr())
		c.Stdout, c.Stderr = said, said
		gently(c)
		if err := c.Run(); err != nil {
			return fmt.Errorf("counters %s: %w", args[0], err)
		}
		return nil
	}
	trial.Gcloud = func(ctx context.Context, args ...string) (string, error) {
		var out, said bytes.Buffer
		c := exec.CommandContext(ctx, "gcloud", args...)
		c.Env = append(os.Environ(), "CLOUDSDK_CORE_DISABLE_PROMPTS=1")
		c.Stdout, c.Stderr = &out, &said
		gently(c)
		if err := c.Run(); err != nil {
			return "", deployment.Failed(err, said.String(), args...)
		}
		return strings.TrimSpace(out.String()), nil
	}
	trial.Doctor = func(ctx context.Context) (found doctor.Report, err error) {
		d, err := new(doctor.Reader).Read(ctx, doctor.Target{Place: layout.Place{Project: trial.Project}, Location: trial.Location, Prefix: trial.Prefix, Most: 10})
		if err == nil {
			found = doctor.NewReport(d, doctor.Check(d, time.Now()))
			_, err = found.WriteTo(cmd.ErrOrStderr())
		}
		return found, err
	}
	if trial.Firestore, err = firestore.NewClientWithDatabase(ctx, trial.Project, trial.Database); err != nil {
		return whereTo(err)
	}
	defer trial.Firestore.Close()
	trial.Resources = cmp.Or(os.Getenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER"), "https://cloudresourcemanager.googleapis.com/")
	edition, err := trial.Gcloud(ctx, "firestore", "databases", "describe", "--database="+trial.Database, "--project="+trial.Project, "--format=value(databaseEdition)")
	if trial.Edition = cost.Edition(strings.ToLower(edition)); err == nil && slices.Contains(cost.Editions, trial.Edition) {
		trial.Prices = trial.Prices.In(trial.Edition)
	}
	off, err := preflight(ctx, trial)
	if err != nil {
		return err
	}
	if clean {
		return cleanUp(cmd, trial, yes)
	}
	if sdk, err := trial.Gcloud(ctx, "version", `--format=value("Google Cloud SDK")`); err == nil {
		trial.Version += ", gcloud " + sdk
	}
	if err := checkRoles(ctx, trial); err != nil {
		return err
	}
	trial.Prefix = verify.NewPrefix()
	fmt.Fprintf(cmd.ErrOrStderr(), `In project %s this makes, and takes away again:
  three functions %s-increment, -rollup and -reconcile, their six accounts and grants, two triggers, a job of Scheduler,
  log metrics and a dashboard; at most some 500 documents in a collection of their own.
It costs at most $%.2f for documents and requests, without the free tier (--most $%.2f), and some minutes of Cloud Build.
`, trial.Project, trial.Prefix, verify.Bound(trial.Prices, trial.Hot), trial.Most)
	if len(off) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "These APIs are turned on, and stay on: %s.\n", strings.Join(off, ", "))
	}
	if err := confirmKnowing(cmd, yes, "try a deployment in project "+trial.Project, "All of it is taken away again"); err != nil {
		return err
	}
	if f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644); err != nil {
		return badUsage("--report: %w", err) // not after a quarter of an hour
	} else if err := f.Close(); err != nil {
		return err
	}
	r, failed := trial.Run(ctx)
	account, _ := trial.Gcloud(context.WithoutCancel(ctx), "config", "get-value", "account")
	number, _ := trial.Gcloud(context.WithoutCancel(ctx), "projects", "describe", trial.Project, "--format=value(projectNumber)")
	r.Hide(trial.Project, account, number)
	var text bytes.Buffer
	if err := r.Markdown(&text); err != nil {
		return err
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		return errors.Join(failed, fmt.Errorf("write the report: %w", err))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "The report is in %s. It names no project: please paste it into an issue of this one.\n", file)
	if asJSON {
		if err := terminal.WriteJSON(cmd.OutOrStdout(), r); err != nil {
			return err
		}
	}
	return failed
}

// gently has a command that is cut short end by itself, with what it has under way.
func gently(c *exec.Cmd) {
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 30 * time.Second
	ownGroup(c) // Ctrl-C is for this program: it says what is to end
}

// preflight finds out what would fail after minutes, and which APIs are off.
func preflight(ctx context.Context, trial *verify.Trial) (off []string, err error) {
	// Service Usage is on in every project, when nothing else is.
	enabled, err := trial.Gcloud(ctx, "services", "list", "--enabled", "--project="+trial.Project, "--format=value(config.name)")
	if err != nil {
		return nil, fmt.Errorf("the project can't be read; log in with gcloud auth login, and see gcloud projects list: %w", err)
	}
	for _, api := range deployment.APIs() {
		if !slices.Contains(strings.Fields(enabled), api) {
			off = append(off, api)
		}
	}
	billed, err := trial.Gcloud(ctx, "billing", "projects", "describe", trial.Project, "--format=value(billingEnabled)")
	if err == nil && !strings.EqualFold(billed, "true") {
		return nil, fmt.Errorf("project %s has no billing account, without which no function is deployed: gcloud billing projects link %s --billing-account=ACCOUNT", trial.Project, trial.Project)
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	if _, err := trial.Firestore.Collection("counters").Limit(1).Documents(ctx).GetAll(); err != nil {
		return nil, whereTo(fmt.Errorf("read database %s of project %s: %w", trial.Database, trial.Project, err))
	}
	return off, nil
}

// checkRoles refuses a trial that would be refused by Google somewhere in its middle.
func checkRoles(ctx context.Context, trial *verify.Trial) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	roles, err := verify.Lacking(ctx, trial)
	switch {
	case err != nil:
		fmt.Fprintf(trial.Out, "Which roles you have can't be asked, so it shows on the way (%v).\n", err)
	case len(roles) > 0:
		return fmt.Errorf("gcloud's account lacks what a deployment takes. Give it roles/owner in project %s, or all of: %s", trial.Project, strings.Join(roles, ", "))
	}
	return nil
}

// cleanUp takes away what earlier trials left.
func cleanUp(cmd *cobra.Command, trial *verify.Trial, yes bool) error {
	prefixes, err := verify.Left(cmd.Context(), trial)
	if err != nil {
		return err
	}
	if len(prefixes) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "No trial left anything.")
		return nil
	}
	if err := confirm(cmd, yes, fmt.Sprintf("take away what the trials %s left in project %s", strings.Join(prefixes, ", "), trial.Project)); err != nil {
		return err
	}
	var failed []error // of one trial, which is no reason to leave the others
	for _, prefix := range prefixes {
		left, err := verify.Clean(cmd.Context(), trial, prefix)
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("%s: %w", prefix, err))
		case len(left) > 0:
			failed = append(failed, fmt.Errorf("%s: it is still there", prefix))
		default:
			fmt.Fprintf(cmd.ErrOrStderr(), "%s is taken away.\n", prefix)
		}
		if cmd.Context().Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}
