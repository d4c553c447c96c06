package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// newRoot returns the program's commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "counters",
		Short: "Distributed counters on Firestore",
		Long: `Counters that take any number of increments a second, spread over shard documents in Firestore and rolled up
into one total by Cloud Functions.

"counters dev" runs all of it on this machine. The other commands work on the database that
FIRESTORE_EMULATOR_HOST or the default credentials point at.`,
		SilenceUsage:  true, // A page of usage hides the one line that says what is wrong.
		SilenceErrors: true, // run prints them.
	}
	root.SetFlagErrorFunc(badFlag)
	root.AddCommand(newDevCommand(), newEmulatorCommand(), newServeCommand(), newBenchCommand(), newCostCommand(), newVersionCommand())
	var t target
	for _, cmd := range []*cobra.Command{
		newCreateCommand(&t), newIncCommand(&t), newDecCommand(&t), newGetCommand(&t), newWatchCommand(&t),
		newResetCommand(&t), newRebaseCommand(&t), newResizeCommand(&t), newDeleteCommand(&t), newListCommand(&t),
		newJoinCommand(&t), newLeaveCommand(&t), newMembersCommand(&t), newAuditCommand(&t),
		newReconcileCommand(&t), newDoctorCommand(&t),
	} {
		t.addFlags(cmd.Flags())
		switch {
		case strings.Contains(cmd.Use, " ID..."):
			cmd.ValidArgsFunction = t.completeIDs(0)
		case strings.Contains(cmd.Use, " ID") && cmd.Name() != "create":
			cmd.ValidArgsFunction = t.completeIDs(1)
		default:
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		root.AddCommand(cmd)
	}
	root.AddCommand(newImportCommand(&t)) // Its flags are its own.
	return root
}
