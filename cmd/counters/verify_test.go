package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/counters/internal/verify"
	"github.com/firestore-counters/counters/emulator"
)

// A trial that can't be taken away keeps no other where it is.
func TestCleanGoesOnBehindATrialThatStays(t *testing.T) {
	t.Parallel()
	db := emulator.Start(t).Client(t, "a-project")
	for _, path := range []string{"verify_aaaaaa/one", "verify_bbbbbb/two"} {
		if _, err := db.Doc(path).Set(t.Context(), map[string]any{}); err != nil {
			t.Fatal(err)
		}
	}
	trial := &verify.Trial{Project: "a-project", Region: "us-central1", Database: "(default)", Firestore: db, Out: t.Output()}
	trial.Program = func(_ context.Context, args ...string) error {
		if slices.Contains(args, "v-aaaaaa") {
			return errors.New("refused")
		}
		return nil
	}
	trial.Gcloud = func(context.Context, ...string) (string, error) { return "", nil }
	var cmd cobra.Command
	var said bytes.Buffer
	cmd.SetContext(t.Context())
	cmd.SetErr(&said)
	if err := cleanUp(&cmd, trial, true); err == nil || !strings.Contains(err.Error(), "v-aaaaaa: destroy: refused") || said.String() != "v-bbbbbb is taken away.\n" {
		t.Errorf("%v\n%s", err, said.String())
	}
}

// A trial goes where the environment says that the deployment is, as all commands do.
func TestVerifyTakesTheDatabaseOfTheEnvironment(t *testing.T) {
	t.Setenv("DATABASE", "social")
	if got := newVerifyCommand().Flags().Lookup("database").DefValue; got != "social" {
		t.Errorf("the database is %q", got)
	}
}
