package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/shards"
)

// where names the database that a command works on.
func (t *target) where(client *shards.Client) string {
	return fmt.Sprintf("project %s, database %s", client.Project(), t.Database)
}

// withConfirmed opens the counter of that id, asks whether to do with it what is said, such as "delete %s", and does it,
// for as long as it takes.
func (t *target) withConfirmed(cmd *cobra.Command, yes bool, what, id string, do func(context.Context, shards.Counter, string) error) error {
	return t.withCounterAt(cmd.Context(), id, func(counter shards.Counter, where string) error {
		if err := confirm(cmd, yes, fmt.Sprintf(what, terminal.Quote(id))+" in "+where); err != nil {
			return err
		}
		err := do(cmd.Context(), counter, where)
		if cmd.Name() == "delete" && errors.Is(err, shards.ErrNotFound) {
			return t.notFoundAt(where, id, err) // and nobody wants to make it
		}
		return t.unlessFound(where, id, err)
	})
}

// addYes adds the flag that answers [confirm]'s question.
func addYes(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "do it without being asked")
}

// confirm asks before what can't be undone, such as "delete likes in project p, database
// (default)". Where there is no terminal to ask at, it takes --yes.
func confirm(cmd *cobra.Command, yes bool, what string) error {
	return confirmKnowing(cmd, yes, what, "It can't be undone")
}

// confirmKnowing is confirm of something of which there is more to know than what it is.
func confirmKnowing(cmd *cobra.Command, yes bool, what, know string) error {
	if yes {
		return nil
	}
	if !atTerminal(cmd) {
		return badUsage("%s: nothing was done. %s, and there is no terminal to ask on: say --yes to do it", what, know)
	}
	switch goes, err := ask(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), strings.ToUpper(what[:1])+what[1:]+"? "+know+"."); {
	case err != nil:
		return fmt.Errorf("%s: nothing was done: %w", what, err)
	case !goes:
		return fmt.Errorf("%s: nothing was done", what)
	}
	return nil
}

func atTerminal(cmd *cobra.Command) bool {
	f, ok := cmd.InOrStdin().(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ask asks on a terminal. Anything but a clear yes is a no, and Ctrl-C doesn't wait for an answer.
func ask(ctx context.Context, in io.Reader, out io.Writer, question string) (yes bool, err error) {
	fmt.Fprintf(out, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(in).ReadString('\n')
		answers <- answer
	}()
	select {
	case answer := <-answers:
		answer = strings.ToLower(strings.TrimSpace(answer))
		return answer == "y" || answer == "yes", nil
	case <-ctx.Done():
		fmt.Fprintln(out) // what comes next is not to stand behind the question
		return false, ctx.Err()
	}
}
