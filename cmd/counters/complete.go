package main

import (
	"context"
	"fmt"
	"strconv"
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

// bashCompletion says in a shell what the script that follows it needs, once: without it each Tab
// would fail with "_get_comp_words_by_ref: command not found".
const bashCompletion = `# The functions of the package bash-completion have to be loaded before this.
if ! declare -F _get_comp_words_by_ref >/dev/null && ! declare -F _init_completion >/dev/null; then
	for file in /usr/share/bash-completion/bash_completion /opt/homebrew/etc/profile.d/bash_completion.sh /usr/local/etc/profile.d/bash_completion.sh; do
		[ -r "$file" ] && . "$file" && break
	done
	declare -F _get_comp_words_by_ref >/dev/null || declare -F _init_completion >/dev/null ||
		echo "counters: completion needs the package bash-completion (apt install bash-completion, brew install bash-completion@2)" >&2
fi
`

// needBashCompletion has the script for bash say what it needs.
func needBashCompletion(completion *cobra.Command) {
	for _, cmd := range completion.Commands() {
		if cmd.Name() != "bash" {
			continue
		}
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			if _, err := fmt.Fprint(cmd.OutOrStdout(), bashCompletion); err != nil {
				return err
			}
			bare, err := cmd.Flags().GetBool("no-descriptions")
			if err != nil {
				return err
			}
			return cmd.Root().GenBashCompletionV2(cmd.OutOrStdout(), !bare)
		}
	}
}

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
				if strings.HasPrefix(s.Counter, begin) && !strings.ContainsFunc(s.Counter, unprintable) {
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

// unprintable is what a shell couldn't show, and a tab, after which it takes a description.
func unprintable(r rune) bool { return !strconv.IsPrint(r) }
