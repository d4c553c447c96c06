package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// flagsAnywhere puts flags that stand before a command's name behind it, which is where the library
// reads them: "--json get post" becomes "get --json post". Arguments that name no command stay as
// they are.
func flagsAnywhere(root *cobra.Command, args []string) []string {
	names, flags, rest := split(root, args)
	if len(names) == 0 {
		return args
	}
	return slices.Concat(names, flags, rest)
}

// split splits arguments into the names of a command and those it is below, the flags that stand
// before and between these, and the rest.
func split(root *cobra.Command, args []string) (names, flags, rest []string) {
	cmd := root
	for i := 0; i < len(args); i++ {
		if isFlag(args[i]) {
			flags = append(flags, args[i])
			if takesValue(root, args[i]) && i+1 < len(args) {
				i++
				flags = append(flags, args[i])
			}
			continue
		}
		below := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == args[i] })
		if below < 0 {
			return names, flags, args[i:]
		}
		names = append(names, args[i])
		if cmd = cmd.Commands()[below]; !cmd.HasSubCommands() {
			return names, flags, args[i+1:]
		}
	}
	return names, flags, nil
}

func isFlag(arg string) bool { return strings.HasPrefix(arg, "-") && arg != "-" && arg != "--" }

// takesValue reports whether the argument behind a flag is the flag's value. A name means the same
// in all commands.
func takesValue(root *cobra.Command, arg string) bool {
	if !strings.HasPrefix(arg, "--") || strings.Contains(arg, "=") {
		return false // the only short flags are -h, -v and -y
	}
	f := flagOf(root, arg)
	return f != nil && f.NoOptDefVal == ""
}

// flagOf is the flag of an argument, of whatever command; nil where none has one of that name.
func flagOf(cmd *cobra.Command, arg string) *pflag.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	f := cmd.Flags().Lookup(name)
	for _, below := range cmd.Commands() {
		f = cmp.Or(f, flagOf(below, arg))
	}
	return f
}
