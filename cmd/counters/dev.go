package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/firestore-counters/counters/cmd/counters/internal/demo"
	"github.com/firestore-counters/counters/cmd/internal/dev"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
)

// authEmulator is the variable by which Firebase's tools say where their Auth emulator is.
const authEmulator = "FIREBASE_AUTH_EMULATOR_HOST"

// rulesFile is where Firebase's tools look for security rules, too.
const rulesFile = "firestore.rules"

func newDevCommand() *cobra.Command {
	var c dev.Config
	var t target
	var signIn bool
	faults := pflag.NewFlagSet("faults", pflag.ContinueOnError)
	faults.SortFlags = false
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run the whole system on this machine",
		Long: `Run the whole system on this machine, until Ctrl-C: Firestore in memory, the functions as in production, the
delivery of events to them, and a gateway in front of them. It prints "ready" once everything answers.

If a server answers at FIRESTORE_EMULATOR_HOST, that is used instead of the embedded Firestore. --rules starts Google's
emulator, which evaluates security rules, and reloads the file after each change. It needs Java, and
"gcloud components install cloud-firestore-emulator".

The functions take their settings from the environment, as deployed. By default AUTO_CREATE is true, except with
--hosted, MEMBERS is any, except with an AUTH that asks for tokens, and pages of this machine are among the
ALLOWED_ORIGINS. The project is demo-counters, or GOOGLE_CLOUD_PROJECT.

With --sign-in callers are users of Firebase's Auth emulator, as with AUTH=firebase in production. Start that emulator with
the same project: firebase emulators:start --only auth --project demo-counters

A browser only needs the gateway's port: forward it, or let in a phone of your network with --host 0.0.0.0. Whoever
reaches it can read and write every counter. Pages of other sites can't; --allow-origin lets one site use the embedded
Firestore.

Events are delivered at once. With --push pubsub they come as in production: few at a time after a quiet while, and again
after 10 s to 10 minutes if the function fails. With --concurrency, instances start while requests wait, work only while
they have some, and end.

The flags from --duplicate on are faults, as production has them on a bad day. The total comes out right anyway; if events
were dropped, after a reconcile. The same --seed gives the same faults.`,
		Example: `  counters dev
  counters dev --instances 3 --duplicate 0.3 --reorder 0.5 --abort 0.1 --lose-answers 0.05 --kill 2s
  counters dev --doc-write-rate 1
  counters dev --push pubsub --ack-deadline 70s --instances 3 --concurrency 20
  counters dev --counter-path 'posts/{post}' --fields likes,views --hosted
  counters dev --rules firestore.rules
  counters dev --fields likes --sign-in
  counters dev --host 0.0.0.0`,
		Args: func(cmd *cobra.Command, args []string) error {
			// --rules FILE: a flag that may stand alone takes its value with = only
			if len(args) == 1 && c.Rules == rulesFile {
				c.Rules = args[0]
				return nil
			}
			return arguments(0)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				c.Faults.Seed = rand.Uint64N(1_000_000) // Short enough to be typed again.
			}
			if err := t.check(); err != nil {
				return err
			}
			if err := checkOrigins(c.AllowOrigins); err != nil {
				return err
			}
			cmd.Flags().Visit(func(f *pflag.Flag) { c.Given = append(c.Given, f.Name) })
			// What is started here is no Cloud Run service, even where this runs in one.
			c.Environ, c.Output = append(append(os.Environ(), "K_SERVICE="), t.variables(cmd.Flags())...), cmd.ErrOrStderr()
			if signIn {
				c.Environ = append(c.Environ, "AUTH=firebase", authEmulator+"="+cmp.Or(os.Getenv(authEmulator), "127.0.0.1:9099"))
			}
			return runDev(cmd, c, faults)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&c.FirestorePort, "firestore-port", 8080, "port of the embedded Firestore; 0 takes any free one")
	flags.IntVar(&c.Port, "port", 8081, "port of the gateway; 0 takes any free one")
	flags.StringVar(&c.Host, "host", "127.0.0.1", "address at which the gateway listens; 0.0.0.0 lets other machines in")
	flags.StringSliceVar(&c.AllowHosts, "allow-host", nil, "name by which browsers may reach the gateway, as well as addresses and localhost; .example.com means all below it")
	addAllowOrigin(flags, &c.AllowOrigins)
	flags.IntVar(&c.FunctionsPort, "functions-port", 5001, "port at which the official emulator posts events: its --functions_emulator; 0 takes any free one")
	flags.StringVar(&c.Rules, "rules", "", "security rules for Google's emulator to evaluate: this file, by default "+rulesFile)
	flags.Lookup("rules").NoOptDefVal = rulesFile
	flags.BoolVar(&signIn, "sign-in", false, "count users of Firebase's Auth emulator, at "+authEmulator+" or 127.0.0.1:9099; no others may")
	flags.IntVar(&c.Instances, "instances", 1, "processes per function, 1 to 100")
	flags.IntVar(&c.CloudRun.Concurrency, "concurrency", 0, "let instances come and go as on Cloud Run, up to --instances, each taking this many requests at a time; deployed ones take 1000")
	flags.DurationVar(&c.CloudRun.Idle, "idle", 15*time.Second, "with --concurrency: end an instance after this long without a request")
	t.addLayoutFlags(flags)

	addPush(flags, &c.Push)
	addEventFaults(faults, &c.Faults.Events)
	addCommitFaults(faults, &c.Faults.Commits)
	faults.DurationVar(&c.Faults.KillEvery, "kill", 0, "kill a random function process, on average once in this time, such as 2s")
	flags.AddFlagSet(faults)
	flags.Uint64Var(&c.Faults.Seed, "seed", 0, "repeat the faults of this seed (default random)")
	return cmd
}

// runDev runs the system until the context ends, which is a clean end.
func runDev(cmd *cobra.Command, c dev.Config, faults *pflag.FlagSet) error {
	ctx, cancel := dev.UntilOrphaned(cmd.Context())
	defer cancel()
	if err := c.Validate(); err != nil {
		return usageError{err}
	}
	set, err := settings.Parse(c.Environ)
	if err != nil {
		return usageError{err}
	}
	page := http.NewServeMux() // Its handler comes below: where Firestore is, is only known then.
	c.Page = page
	s, err := dev.Start(ctx, c)
	if err != nil {
		if ctx.Err() != nil {
			return nil // Ended before it was ready, as asked for.
		}
		return err
	}
	defer s.Close()
	place := set.Place()
	place.Project = s.Project
	shown, err := demo.New(demo.Config{
		Place: place, NumShards: set.NumShards, Members: s.NamesMembers(),
		Firestore: s.Firestore, NodeModules: "node_modules", System: s, Logger: s.Logger(),
	})
	if err != nil {
		return err
	}
	defer func() {
		s.Close() // So that no request uses what is closed next.
		_ = shown.Close()
	}()
	page.Handle("/", shown)
	describe(cmd, s, faultsSet(faults, c.Faults.Seed), set)
	return s.Wait(ctx)
}

// describe prints where everything is, and then that it is ready.
func describe(cmd *cobra.Command, s *dev.System, faults string, set settings.Settings) {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "Firestore  %s  (%s), project %s\n", s.Firestore, s.Kind, s.Project)
	fmt.Fprintf(w, "Gateway    %s  / (a page)  /increment/{counter}  /reconcile  /-/ready\n", s.Gateway)
	for _, url := range s.Elsewhere {
		fmt.Fprintf(w, "           %s  from other machines\n", url)
	}
	if faults != "" {
		fmt.Fprintf(w, "Faults     %s\n", faults)
	}
	for _, note := range s.Notes {
		fmt.Fprintln(w, note)
	}
	fmt.Fprintf(w, "\nexport FIRESTORE_EMULATOR_HOST=%s\n", s.Firestore)
	fmt.Fprintf(w, "export GOOGLE_CLOUD_PROJECT=%s\n", s.Project)
	for _, v := range []struct{ name, value, standard string }{
		{"DATABASE", set.Database, firestore.DefaultDatabaseID},
		{"COUNTERS", set.Counters.String(), layout.DefaultPath},
		{"SHARDS", set.Shards, layout.DefaultShards},
		{"FIELDS", set.Fields.String(), layout.DefaultFields},
		{"HOSTED", strconv.FormatBool(set.Hosted), "false"}, {"EXTENSION", strconv.FormatBool(set.Extension), "false"},
	} {
		if v.value != v.standard { // so that the other commands work on the same counters
			fmt.Fprintf(w, "export %s='%s'\n", v.name, strings.ReplaceAll(v.value, "'", `'\''`))
		}
	}
	if set.Hosted {
		fmt.Fprintf(w, "\nYour app makes the documents %s. They show: %s.\n", set.Counters, strings.Join(set.Fields.Names(), ", "))
	} else if sums, _ := set.Fields.Split(); len(sums) == 0 {
		id := "ID"
		if set.Counters.Whole() {
			id, _ = set.Counters.ID(set.Counters.String())
		}
		fmt.Fprintf(w, "\nOnly documents are counted (%s), so there is nothing to increment. Make the counter that shows them: counters create %s\n", set.Fields, id)
	}
	if set.Auth != "none" {
		fmt.Fprintln(w, "\nOnly who is signed in counts, on your own page. The page below, which signs nobody in, shows totals.")
	}
	fmt.Fprintf(w, "\nOpen %s\n\nready\n", s.Gateway)
}
