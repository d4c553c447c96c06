package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/shards"
)

const (
	// completionTimeout bounds how long a shell waits for completions.
	completionTimeout = 3 * time.Second
	// completionReads bounds how many counters are read for them, each of which is billed.
	completionReads = 300
)

// completeIDs completes the ids of counters, at most as many as a command takes; 0 is any number.
func (t *target) completeIDs(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		var ids []cobra.Completion
		err := t.with(ctx, func(client *shards.Client) error {
			read := 0
			for s, err := range client.List(ctx) {
				if read++; err != nil || read > completionReads {
					return err
				}
				if strings.HasPrefix(s.Counter, begin) && printable(s.Counter) == s.Counter {
					ids = append(ids, s.Counter)
				}
			}
			return nil
		})
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}
