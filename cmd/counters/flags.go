package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
