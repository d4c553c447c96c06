package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/cmd/internal/dev"
	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
)

// emulatorConfig is what the flags of counters emulator say.
type emulatorConfig struct {
	host   string
	port   int
	hosts  []string
	pages  []string // origins
	ttl    map[string]string
	events map[string]string // pattern → URL
	push   eventarc.Push
	faults emulator.Faults

	edition string
}

func newEmulatorCommand() *cobra.Command {
	var c emulatorConfig
	cmd := &cobra.Command{
		Use:   "emulator",
		Short: "Run the embedded Firestore alone, for any language",
		Long: `Run the embedded Firestore alone, in memory, until Ctrl-C. It speaks gRPC, REST and the Web SDK's protocol on one
port; clients of any language find it through FIRESTORE_EMULATOR_HOST. It prints "ready" once it answers.

With --events, it posts changes of documents that match a pattern to a URL, as the CloudEvents that Eventarc sends to a
function: at least once, in any order, until the answer is 2xx. With --push pubsub, they come at production's pace.

There are no security rules: whoever reaches the port may do anything. Web pages of other sites can't, unless
--allow-origin names them.`,
		Example: `  counters emulator --port 8080
  counters emulator --events 'counters/{counter}/shards/{shard}=http://127.0.0.1:8082/'
  counters emulator --events 'posts/{post}=http://127.0.0.1:8082/' --push pubsub --ack-deadline 10s
  counters emulator --abort 0.1 --lose-answers 0.05 --doc-write-rate 1`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return runEmulator(cmd, c) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&c.port, "port", 8080, "port; 0 takes any free one")
	flags.StringVar(&c.host, "host", "127.0.0.1", "address to listen on; whoever reaches it may do anything")
	flags.StringSliceVar(&c.hosts, "allow-host", nil, "further names by which HTTP requests may call it, such as a container's")
	addAllowOrigin(flags, &c.pages)
	flags.StringVar(&c.edition, "edition", "standard", "edition that it plays: enterprise transactions lock nothing, and fail at their commit; a sum of nothing is null there")
	flags.StringToStringVar(&c.ttl, "ttl", map[string]string{layout.Requests: layout.ExpireAt}, "collection=field: documents of the collection expire at the time in the field; may be repeated")
	flags.StringToStringVar(&c.events, "events", nil, "pattern=URL: post changes of documents that match the pattern to the URL; may be repeated")
	addPush(flags, &c.push)

	addCommitFaults(flags, &c.faults)
	flags.Uint64Var(&c.faults.Seed, "seed", 0, "repeat the faults of this seed, for the same sequence of commits")
	return cmd
}

func runEmulator(cmd *cobra.Command, c emulatorConfig) error {
	if err := c.faults.Check(); err != nil {
		return usageError{err}
	}
	if !slices.Contains(cost.Editions, cost.Edition(c.edition)) {
		return badUsage("--edition %s: want standard or enterprise", c.edition)
	}
	if c.port < 0 || c.port > 65535 {
		return badUsage("--port %d: want a port, 1 to 65535, or 0 for any free one", c.port)
	}
	if err := checkOrigins(c.pages); err != nil {
		return err
	}
	ctx, cancel := dev.UntilOrphaned(cmd.Context())
	defer cancel()
	logger := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	var deliverers []*eventarc.Deliverer
	for pattern, to := range c.events {
		if u, err := url.Parse(to); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return badUsage("--events %s=%s: want a URL such as http://127.0.0.1:8082/", pattern, to)
		}
		d, err := eventarc.New(eventarc.Options{Pattern: pattern, Push: c.push, Logger: logger})
		if err != nil {
			return badUsage("--events: %w", err)
		}
		defer d.Close()
		if err := d.SetTargets(to); err != nil {
			return fmt.Errorf("--events: %w", err)
		}
		deliverers = append(deliverers, d)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(c.host, strconv.Itoa(c.port)))
	if err != nil {
		flag := "--host"
		if errors.Is(err, syscall.EADDRINUSE) {
			flag = "--port"
		}
		return fmt.Errorf("%w; choose another with %s", err, flag)
	}
	server := emulator.New(emulator.Options{
		Faults: c.faults, Logger: logger, TTL: c.ttl, Hosts: append(c.hosts, c.host), Origins: c.pages, Enterprise: c.edition == string(cost.Enterprise),
	})
	for _, d := range deliverers {
		server.OnChange(d.Deliver)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	addr := l.Addr().String()
	if _, port, ok := strings.Cut(addr, "[::]:"); ok {
		addr = "127.0.0.1:" + port // where a client on this machine finds what listens everywhere
	}
	fmt.Fprintf(cmd.OutOrStdout(), "Firestore  %s  (embedded, in memory)\n\nexport FIRESTORE_EMULATOR_HOST=%s\n\nready\n", l.Addr(), addr)
	select {
	case <-ctx.Done():
		server.Close()
		return <-ended
	case err := <-ended:
		server.Close()
		return errors.Join(errors.New("the server ended"), err)
	}
}

// addAllowOrigin adds the flag of the pages that may call the embedded Firestore.
func addAllowOrigin(flags *pflag.FlagSet, origins *[]string) {
	flags.StringSliceVar(origins, "allow-origin", nil, "origin, such as https://app.example, of web pages that may call the embedded Firestore, as well as pages of this machine; * is any")
}

// checkOrigins writes origins as browsers do, and says which can't be one.
func checkOrigins(origins []string) error {
	for i, origin := range origins {
		var want string
		if origins[i], want = settings.Origin(origin); want != "" {
			return badUsage("--allow-origin %s: want %s", origin, want)
		}
	}
	return nil
}
