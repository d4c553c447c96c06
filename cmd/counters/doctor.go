package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/counters/internal/doctor"
	"github.com/firestore-counters/counters/cmd/internal/terminal"
)

func newDoctorCommand(t *target) *cobra.Command {
	var where doctor.Target
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong with a deployment, and how to repair it",
		Long: `Read a deployment and say what is wrong with it: its functions, trigger and settings, permissions, TTL policy and
indexes, Scheduler, and its first counters. Each finding has a severity, a meaning, and the command that repairs it.

It changes nothing. It lists what it may not read, with the role that it needs, and checks the rest: roles/viewer and
roles/iam.securityReviewer are enough for everything but budgets, which take roles/billing.viewer on the billing
account. The exit code is 1 if there are errors.

If FIRESTORE_EMULATOR_HOST is set, it only checks the counters there.`,
		Example: `  counters doctor --project my-project
  counters doctor --project my-project --location nam5 --prefix likes --json`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if where.Most < 0 {
				return badUsage("--counters %d: want how many, or 0 for none", where.Most)
			}
			if err := t.check(); err != nil {
				return err
			}
			if err := t.reachEmulator(cmd.Context()); err != nil {
				return err
			}
			where.Project = t.projectID()
			// Unless they are asked for, the deployment itself says where its counters are.
			for _, f := range []struct {
				flag, variable, value string
				to                    *string
			}{
				{"database", "DATABASE", t.Database, &where.Database},
				{"counter-path", "COUNTERS", t.Counters, &where.Counters},
				{"shards-name", "SHARDS", t.Shards, &where.Shards},
				{"fields", "FIELDS", t.Fields, &where.Fields},
			} {
				if t.given(cmd.Flags().Changed(f.flag), f.variable) {
					*f.to = f.value
				}
			}
			where.Hosted = t.Hosted
			where.Emulator = os.Getenv("FIRESTORE_EMULATOR_HOST")
			progress := newProgress(cmd.ErrOrStderr(), "reading the deployment", "")
			reader := doctor.Reader{Progress: func(what string) { progress.Say("reading " + what) }}
			d, err := reader.Read(cmd.Context(), where)
			progress.Finish()
			if err != nil {
				return err
			}
			return t.diagnose(cmd, d)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&where.Location, "location", "", "location of the database, or region of the functions (default: wherever they are)")
	flags.StringVar(&where.Prefix, "prefix", "", `what the functions' names begin with (default "counters", and otherwise by their entry points)`)
	flags.IntVar(&where.Most, "counters", 100, "counters to check at most, in the order of their ids; each costs a read per shard, and one per 1,000 documents counted")
	return cmd
}

// diagnose prints what is wrong with a deployment. Its error is that there are errors.
func (t *target) diagnose(cmd *cobra.Command, d *doctor.Deployment) error {
	report := doctor.NewReport(d, doctor.Check(d, time.Now()))
	var err error
	if t.json {
		err = t.print(cmd, report, "")
	} else {
		_, err = report.WriteTo(cmd.OutOrStdout())
	}
	if err == nil && report.Errors > 0 {
		return fmt.Errorf("doctor found %s", terminal.Count(report.Errors, "error"))
	}
	return err
}
