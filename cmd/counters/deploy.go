package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	source "github.com/firestore-counters/counters"
)

// newScriptCommands are the scripts that deploy, try and remove the functions, for those who have
// no checkout: the program carries them, with the functions' source and all that they read.
func newScriptCommands() []*cobra.Command {
	return []*cobra.Command{
		newScriptCommand("deploy", "Deploy the functions to a project, with gcloud",
			`  counters deploy --project my-project --location us-central1 --create-database --set AUTO_CREATE=true
  counters deploy --project my-project --location eur3 --set HOSTED=true --set 'COUNTERS=posts/{post}' --dry-run`),
		newScriptCommand("destroy", "Remove what deploy made, but no data",
			`  counters destroy --project my-project --region us-central1`),
		newScriptCommand("smoke", "Count against a deployment, and check that it answers as it should",
			`  counters smoke https://counters-increment-abc123-uc.a.run.app --token "$(gcloud auth print-identity-token)"`),
	}
}

// scriptVariable tells a script which program runs it: that checks settings for it, and is what its
// messages name.
const scriptVariable = "COUNTERS_PROGRAM"

// newScriptCommand returns the command that runs a script. Its flags are the script's, and so is
// its help.
func newScriptCommand(name, short, example string) *cobra.Command {
	script := "scripts/" + name + ".sh"
	help := scriptHelp(script)
	use, rest, _ := strings.Cut(strings.ReplaceAll(help, script, "counters "+name), "\n")
	cmd := &cobra.Command{
		Use:                strings.TrimPrefix(use, "Usage: counters "),
		Short:              short,
		Long:               strings.TrimSpace(short + ".\n" + rest),
		Example:            example,
		DisableFlagParsing: true, DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
				return cmd.Help()
			}
			return runScript(cmd, script, args)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var options []string
			for _, m := range scriptOption.FindAllStringSubmatch(help, -1) {
				options = append(options, m[1])
			}
			return options, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.InitDefaultHelpFlag()
	cmd.Flags().Lookup("help").Hidden = true // It is among the script's.
	return cmd
}

var (
	helpText     = regexp.MustCompile(`(?s)<<'HELP'\n(.*?)HELP\n`)
	scriptOption = regexp.MustCompile(`(?m)^  (--[a-z-]+)`)
)

// scriptHelp is what a script prints when it is asked for help.
func scriptHelp(script string) string {
	text, err := source.Source.ReadFile(script)
	help := helpText.FindSubmatch(text)
	if err != nil || help == nil {
		panic(fmt.Sprintf("%s has no help: %v", script, err)) // Not possible: it is ours.
	}
	return string(help[1])
}

// scriptFailed says that a script failed, and has said why.
type scriptFailed struct{ code int }

func (e scriptFailed) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// runScript unpacks what the program carries, and runs a script of it.
func runScript(cmd *cobra.Command, script string, args []string) error {
	bash, err := exec.LookPath("bash")
	if err != nil {
		return fmt.Errorf("%s runs a script, which needs bash; on Windows, install Git, which has it (https://git-scm.com): %w", cmd.CommandPath(), err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, which checks the settings: %w", err)
	}
	dir, err := os.MkdirTemp("", "counters-")
	if err != nil {
		return fmt.Errorf("make a folder for the functions' source: %w", err)
	}
	if script != "scripts/deploy.sh" || !slices.Contains(args, "--dry-run") { // which prints commands that read what is there
		defer func() { _ = os.RemoveAll(dir) }()
	}
	if err := os.CopyFS(dir, source.Source); err != nil {
		return fmt.Errorf("unpack the functions' source: %w", err)
	}

	c := exec.CommandContext(cmd.Context(), bash, append([]string{filepath.Join(dir, filepath.FromSlash(script))}, args...)...)
	c.Env = append(os.Environ(), scriptVariable+"="+self)
	c.Stdin, c.Stdout, c.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	// Ctrl-C reaches the script by itself, and kill only this program. Either way the script
	// removes what it made to work with, and gcloud what it was about.
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	err = c.Run()
	if cmd.Context().Err() != nil {
		return fmt.Errorf("%s was interrupted; you may run it again: %w", cmd.CommandPath(), context.Cause(cmd.Context()))
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return scriptFailed{exit.ExitCode()}
	}
	return err
}
