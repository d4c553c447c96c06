package main

import "github.com/spf13/cobra"

func newDecCommand(t *target) *cobra.Command {
	cmd := newAddCommand(t, -1)
	cmd.Use, cmd.Short = "dec ID", "Take off a counter"
	cmd.Example = `  counters dec post-123
  counters dec post-123 --by 2`
	return cmd
}
