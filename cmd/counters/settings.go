package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/internal/settings"
)

func newSettingsCommand() *cobra.Command {
	var check, asJSON bool
	cmd := &cobra.Command{
		Use:   "settings [NAME=VALUE...]",
		Short: "Print the functions' settings, or check those of a deployment",
		Long: `Print all settings of the functions: yours, and the defaults of the others. If the functions would not start with a
value, the error says what is allowed.

With --check, print what a deployment makes of them: the functions' environment, the fields whose indexes matter, and the
collections whose documents are counted.`,
		Example: `  counters settings
  counters settings --check HOSTED=true 'COUNTERS=posts/{post}' 'FIELDS=likes,comments=count(comments)'`,
		RunE: func(cmd *cobra.Command, given []string) error {
			d, err := settings.ForDeployment(given)
			if err != nil {
				return usageError{err}
			}
			out := cmd.OutOrStdout()
			switch {
			case asJSON:
				err = json.NewEncoder(out).Encode(d)
			case check:
				_, err = fmt.Fprintf(out, "the functions start with these settings; shards: %s of %s/%s; counted collections: %s\n",
					orNone(d.ShardFields), d.Counters, d.Shards, orNone(d.Collections))
			default:
				_, err = fmt.Fprintln(out, strings.Join(d.Environment, "\n"))
			}
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&check, "check", false, "say what a deployment makes of them, instead of printing them")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what a deployment makes of them as JSON")
	return cmd
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
