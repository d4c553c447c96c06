package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/firestore-counters/counters/shards"
)

// target is which counters a command works on, and how it prints what it finds. Its flags are the root command's.
type target struct {
	project, database, counters, shards, countField string
	json                                            bool
}

// addFlags adds the flags. Their defaults are the variables that the functions read, so that a shell that is set up like
// a deployment works on the same counters.
func (t *target) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&t.project, "project", os.Getenv("GOOGLE_CLOUD_PROJECT"),
		"project of the database; found from the credentials when empty, demo-counters with FIRESTORE_EMULATOR_HOST")
	flags.StringVar(&t.database, "database", cmp.Or(os.Getenv("DATABASE"), "(default)"), "Firestore database")
	flags.StringVar(&t.counters, "counter-path", cmp.Or(os.Getenv("COUNTERS"), "counters/{counter}"), "path of the documents that are counters, such as teams/{team}/posts/{post}")
	flags.StringVar(&t.shards, "shards-name", cmp.Or(os.Getenv("SHARDS"), "shards"), "collection of the shards below a counter")
	flags.StringVar(&t.countField, "count-field", cmp.Or(os.Getenv("COUNT_FIELD"), "count"), "field of a shard that holds its count")
	flags.BoolVar(&t.json, "json", false, "print JSON")
}

// projectID is the project to open, which may be found only then.
func (t *target) projectID() string {
	if t.project == "" && os.Getenv("FIRESTORE_EMULATOR_HOST") != "" {
		return "demo-counters"
	}
	return t.project
}

// open connects to the counters. A server of FIRESTORE_EMULATOR_HOST that isn't there is noticed here: the client
// library would try it for minutes.
func (t *target) open(ctx context.Context) (*shards.Client, error) {
	if err := reachEmulator(); err != nil {
		return nil, err
	}
	client, err := shards.Open(ctx, shards.Config{
		Project: t.projectID(), Database: t.database, Counters: t.counters, Shards: t.shards, CountField: t.countField,
	})
	return client, whereTo(err)
}

// whereTo adds to an error of connecting what to do about it: without an emulator, credentials are looked for.
func whereTo(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (for a local system, start \"counters dev\" and set FIRESTORE_EMULATOR_HOST as it says; for a project of yours, run: gcloud auth application-default login)", err)
}

// reachEmulator reports that the server that FIRESTORE_EMULATOR_HOST names can't be reached.
func reachEmulator() error {
	host := os.Getenv("FIRESTORE_EMULATOR_HOST")
	if host == "" {
		return nil
	}
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(strings.TrimPrefix(host, "http://"), "https://"), 2*time.Second)
	if err != nil {
		return fmt.Errorf("no Firestore at FIRESTORE_EMULATOR_HOST=%s (%w); start one with: counters dev", host, err)
	}
	return conn.Close()
}

// with opens the counters for as long as do runs.
func (t *target) with(ctx context.Context, do func(*shards.Client) error) error {
	client, err := t.open(ctx)
	if err != nil {
		return err
	}
	err = do(client)
	if closeErr := client.Close(); err == nil {
		err = closeErr
	}
	return err
}

// withCounter opens the counter of that id for as long as do runs.
func (t *target) withCounter(ctx context.Context, id string, do func(shards.Counter) error) error {
	return t.with(ctx, func(client *shards.Client) error {
		counter, err := client.Counter(id)
		if err != nil {
			return err
		}
		return do(counter)
	})
}

// print prints value as JSON where that is asked for, and text otherwise.
func (t *target) print(cmd *cobra.Command, value any, text string, args ...any) error {
	return t.printTo(cmd.OutOrStdout(), value, text, args...)
}

func (t *target) printTo(w io.Writer, value any, text string, args ...any) error {
	if t.json {
		return json.NewEncoder(w).Encode(value)
	}
	_, err := fmt.Fprintf(w, text+"\n", args...)
	return err
}
