package main

import (
	"fmt"
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
FIRESTORE_EMULATOR_HOST or the default credentials point at. They end with the exit code 0, 1 where
something failed, 2 where the arguments are wrong, and 130 where Ctrl-C ended them.`,
		Version: readBuild().String(), // for --version
		// A page of usage hides the one line that says what is wrong.
		SilenceUsage:  true,
		SilenceErrors: true, // run prints them.
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(badFlag)
	root.AddCommand(newDevCommand(), newEmulatorCommand(), newServeCommand(), newCostCommand(), newEstimateCommand(), newSettingsCommand(), newVersionCommand())
	var t target
	for _, cmd := range []*cobra.Command{
		newCreateCommand(&t), newIncCommand(&t), newDecCommand(&t), newGetCommand(&t), newWatchCommand(&t),
		newResetCommand(&t), newRebaseCommand(&t), newResizeCommand(&t), newDeleteCommand(&t), newListCommand(&t),
		newJoinCommand(&t), newLeaveCommand(&t), newMembersCommand(&t), newAuditCommand(&t),
		newReconcileCommand(&t), newLagCommand(&t), newDoctorCommand(&t),
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
	root.AddCommand(newScriptCommands()...)
	refuseUnknownTopics(root)
	return root
}

// refuseUnknownTopics has the commands that the library brings say what is wrong with their
// arguments, as all others do: by themselves they print a page of help, and succeed.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return fmt.Errorf("no such command: %s", strings.Join(args, " "))
				}
				return nil
			}
		case "completion":
			needBashCompletion(cmd)
			cmd.RunE = func(cmd *cobra.Command, _ []string) error {
				return badUsage("want: %s bash|fish|powershell|zsh", cmd.CommandPath())
			}
		}
	}
}
