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
		Long: `Exact, live counters for Firestore that any number of people can increment at the same time.

"counters dev" runs the whole system on this machine. The other commands use the database that FIRESTORE_EMULATOR_HOST or
your default credentials point to. The exit code is 0, or 1 if something failed, 2 if the arguments are wrong, and 130
after Ctrl-C.`,
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
