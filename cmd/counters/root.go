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
	var t target
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"On this machine:", []*cobra.Command{newDevCommand(), newEmulatorCommand(), newServeCommand()}},
		{"Counters:", t.addTo(
			newCreateCommand(&t), newIncCommand(&t), newDecCommand(&t), newGetCommand(&t), newWatchCommand(&t), newListCommand(&t),
			newLimitCommand(&t), newRebaseCommand(&t), newResetCommand(&t), newResizeCommand(&t), newDeleteCommand(&t))},
		{"Members, who count once each:", t.addTo(newJoinCommand(&t), newLeaveCommand(&t), newMembersCommand(&t), newForgetCommand(&t), newAuditCommand(&t))},
		{"Amounts that are held:", t.addTo(newHoldCommand(&t), newSettleCommand(&t), newReleaseCommand(&t), newHeldCommand(&t))},
		{"Before a deployment:", []*cobra.Command{newCostCommand(), newSettingsCommand(), newVerifyCommand()}},
		{"A deployment:", append([]*cobra.Command{newDeployCommand(), newDestroyCommand(), newSmokeCommand()}, t.addTo(newDoctorCommand(&t), newLagCommand(&t), newReconcileCommand(&t))...)},
		{"From elsewhere:", []*cobra.Command{newImportCommand(&t)}}, // its flags are its own
		{otherGroup, []*cobra.Command{newVersionCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID(otherGroup)
	root.SetCompletionCommandGroupID(otherGroup)
	refuseUnknownTopics(root)
	return root
}

// otherGroup is the last group of commands, which those that the library brings are in.
const otherGroup = "This program:"

// Commands are listed in the order in which they are added: that of a counter's life, and of a
// deployment's.
func init() { cobra.EnableCommandSorting = false }

// addTo adds to commands the flags that say which counters they work on, and the completion of
// these counters' ids.
func (t *target) addTo(commands ...*cobra.Command) []*cobra.Command {
	for _, cmd := range commands {
		t.addFlags(cmd.Flags())
		switch {
		case strings.Contains(cmd.Use, " ID..."):
			cmd.ValidArgsFunction = t.completeIDs(0)
		case strings.Contains(cmd.Use, " ID") && cmd.Name() != "create":
			cmd.ValidArgsFunction = t.completeIDs(1)
		default:
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	return commands
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
