package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/shards"
)

func newCostCommand() *cobra.Command {
	var l cost.Load
	var location, edition, billing, mostPerDay string
	var asJSON, atLarge, exact bool
	var load loadFlags
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Work out what counters cost, and how many shards they need",
		Long: `Work out on paper what counters cost and how many shards they need: with this project, a blind trigger, a sum() per
read, or a single document. It also says from which rate on which of them is cheapest. Prices are list prices, without the
free tier. The benchmark, cmd/bench, measures the same on your machine.

It recommends twice as many shards as the writes need, because shards are picked at random, and at full load some are
always behind.

Cloud Run bills a function in one of two ways. By the request, you pay $0.40 a million, and an instance's time during
requests, in steps of 100 ms. By the instance, you pay nothing for requests, and a lower price for all the time that an
instance exists, up to 15 minutes after its last request. Each function is counted in the cheaper way, here and in all
alternatives; --billing takes one way for all. You set it with --increment-billing and --rollup-billing of counters
deploy, or increment_billing and rollup_billing in terraform.

Firestore's Standard edition bills documents, its Enterprise edition units of 1 KiB written and 4 KiB read. The output says
where the other one costs 30 % less. A database's edition never changes.

With --most-per-day it says instead what fits below so much a day, by counters deploy --most-per-day.

Commits are most of a busy counter's bill. With COMMIT_INTERVAL, increments wait and share them: the output says what
each millisecond saves.`,
		Example: `  counters cost
  counters cost --per-day 1000000 --counters 1000
  counters cost --rate 1000
  counters cost --rate 1000 --billing request
  counters cost --rate 1000 --edition enterprise
  counters cost --rate 1000 --commit-interval 50ms
  counters cost --rate 1000 --counters 1000 --reads 50 --json
  counters cost --rate 100 --keys 1
  counters cost --rate 5 --location europe-west1 --exact-writes=false
  counters cost --rate 0.1 --documents 500 --reads 10
  counters cost --most-per-day 5USD
  counters cost --at-large`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if atLarge {
				return printLarge(cmd.OutOrStdout(), asJSON)
			}
			if !slices.Contains(cost.Editions, cost.Edition(edition)) {
				return badUsage("--edition %s: want standard or enterprise", edition)
			}
			by := cost.Billing(billing)
			if by != cost.Cheaper && !slices.Contains(cost.Billings, by) {
				return badUsage("--billing %s: want request or instance", billing)
			}
			if mostPerDay != "" {
				return costCeiling(cmd, mostPerDay, location, cost.Edition(edition), by, asJSON)
			}
			l.InexactWrites = !exact
			if err := load.set(&l); err != nil {
				return err
			}
			if err := validLoad(l); err != nil {
				return usageError{err}
			}
			prices, err := cost.PricesOf(location)
			if err != nil {
				return badUsage("--location: %w", err)
			}
			sheet := newCostSheet(l, prices.In(cost.Edition(edition)), by)
			if asJSON {
				return writeSheet(cmd.OutOrStdout(), sheet)
			}
			return sheet.print(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	load.add(flags)
	flags.Float64Var(&l.Reads, "reads", 0, "reads of totals a second, which cost the same with each, as long as a sum() has 1,000 shards at most")
	flags.IntVar(&l.Documents, "documents", 0, "documents that a counter counts; each increment is then a document that your app makes, changes or deletes anyway")
	flags.IntVar(&l.Shards, "shards", 0, "shards of each counter, 1 to 1000; 0 takes as many as each design needs")
	flags.StringVar(&location, "location", "us-central1", "where the database is: one of "+strings.Join(cost.Locations(), ", "))
	flags.StringVar(&edition, "edition", string(cost.Standard), "edition of the database: standard or enterprise")
	flags.StringVar(&billing, "billing", "", "how all functions are billed: request or instance (default: the cheaper for each)")
	flags.DurationVar(&l.Commit, "commit", cost.CommitTime, "how long a commit takes")
	flags.DurationVar(&l.CommitInterval, "commit-interval", 0, "COMMIT_INTERVAL")
	flags.DurationVar(&l.Interval, "interval", time.Second, "ROLLUP_INTERVAL")
	flags.IntVar(&l.Instances, "instances", 1, "instances of each function")
	flags.Float64Var(&l.PerShard, "per-shard", cost.HotRate, "writes a second that one document takes, sustained")
	flags.BoolVar(&exact, "exact-writes", true, "EXACT_WRITES: a marker with each commit")
	flags.Float64Var(&l.Keys, "keys", 0, "share of the increments that have an Idempotency-Key, 0 to 1; the web client sends one with each")
	flags.StringVar(&mostPerDay, "most-per-day", "", "print what fits below US `DOLLARS` a day, such as 5USD, and how counters deploy --most-per-day keeps to it; of the flags above it takes --location, --edition and --billing")
	flags.BoolVar(&atLarge, "at-large", false, "print which limit a hot counter and a million lukewarm ones reach first, and ignore the other flags")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func validLoad(l cost.Load) error {
	var errs []error
	for _, c := range []struct {
		flag  string
		value any
		ok    bool // of NaN, too
		want  string
	}{
		{"rate", l.Rate, l.Rate > 0 && l.Rate <= 1e6, "increments a second, above 0 and up to 1000000"},
		{"counters", l.Counters, l.Counters >= 1 && l.Counters <= 1e6, "1 to 1000000"},
		{"shards", l.Shards, l.Shards >= 0 && l.Shards <= shards.MaxShards, fmt.Sprintf("1 to %d, or 0 for as many as are needed", shards.MaxShards)},
		{"documents", l.Documents, l.Documents >= 0 && l.Documents <= 1e9, "0 to 1000000000"},
		{"reads", l.Reads, l.Reads >= 0 && l.Reads <= 1e6, "reads a second, 0 to 1000000"},
		{"commit", l.Commit, l.Commit >= time.Millisecond && l.Commit <= time.Minute, "1ms to 1m"},
		{"commit-interval", l.CommitInterval, l.CommitInterval >= 0 && l.CommitInterval <= time.Second, "0s to 1s"},
		{"interval", l.Interval, l.Interval >= 10*time.Millisecond && l.Interval <= 5*time.Second, "10ms to 5s"},
		{"instances", l.Instances, l.Instances >= 1 && l.Instances <= 1000, "1 to 1000"},
		{"keys", l.Keys, l.Keys >= 0 && l.Keys <= 1, "a share, 0 to 1"},
		{"per-shard", l.PerShard, l.PerShard > 0 && l.PerShard <= 1e6, "writes a second, above 0 and up to 1000000"},
	} {
		if !c.ok {
			errs = append(errs, fmt.Errorf("--%s %v: want %s", c.flag, c.value, c.want))
		}
	}
	return errors.Join(errs...)
}

// secondsPerMonth is thirty days.
const (
	secondsPerDay   = 24 * 60 * 60
	secondsPerMonth = 30 * secondsPerDay
)

// costSheet is what the command finds out.
type costSheet struct {
	Load        cost.Load        `json:"load"`
	Billing     cost.Billing     `json:"billing,omitempty"` // of all functions; empty for the cheaper one of each
	Prices      cost.Prices      `json:"prices"`
	Designs     []pricedUsage    `json:"designs"`
	Functions   []pricedFunction `json:"functions"`
	Intervals   []pricedInterval `json:"commit_intervals"`
	Recommended cost.Name        `json:"recommended,omitempty"` // the cheapest that holds; none where none does
	Choices     []cost.Choice    `json:"choices"`
	Keys        float64          `json:"usd_per_month_of_keys"` // on top, with a key for each increment
	Other       otherEdition     `json:"other_edition"`
}

// otherEdition is what this project costs in a database of the other edition.
type otherEdition struct {
	Edition cost.Edition `json:"edition"`
	Month   float64      `json:"usd_per_month"`
}

type pricedUsage struct {
	cost.Design
	PerMillion cost.Usage `json:"per_million"` // increments
	Million    float64    `json:"usd_per_million"`
	ByRequest  float64    `json:"usd_per_million_by_request"`
	ByInstance float64    `json:"usd_per_million_by_instance"`
	Month      float64    `json:"usd_per_month"`
	Logs       float64    `json:"request_logs_usd_per_month"` // on top, where they are kept
}

// pricedFunction is a function of a design, in both ways to pay for it.
type pricedFunction struct {
	Design     cost.Name    `json:"design"`
	Function   string       `json:"function"`
	ByRequest  float64      `json:"usd_per_month_by_request"`
	ByInstance float64      `json:"usd_per_month_by_instance"`
	Billing    cost.Billing `json:"billing"`
	From       float64      `json:"by_instance_from,omitempty"` // increments a second; none where that is never the cheaper way
}

// pricedInterval is what this project is with another COMMIT_INTERVAL.
type pricedInterval struct {
	Interval time.Duration `json:"commit_interval_ns"`
	Commits  float64       `json:"commits_per_second"`
	Million  float64       `json:"usd_per_million"`
	Takes    time.Duration `json:"takes_ns"`
	Saves    float64       `json:"usd_per_million_saved_by_each_ms,omitempty"` // since the shorter one before
}

// intervals are what is tried.
var intervals = []time.Duration{
	0, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second,
}

// pricedIntervals are those that make a difference.
func pricedIntervals(l cost.Load, prices cost.Prices, by cost.Billing) (priced []pricedInterval) {
	for _, interval := range intervals {
		l.CommitInterval = interval
		d := l.Designs()[0] // ours
		p := pricedInterval{Interval: interval, Commits: d.Commits, Million: prices.Bill(l.PerMillion(d), by).Total(), Takes: d.Takes}
		if len(priced) > 0 {
			last := priced[len(priced)-1]
			if p.Takes-last.Takes < time.Microsecond {
				continue
			}
			p.Saves = (last.Million - p.Million) / (float64(p.Takes-last.Takes) / float64(time.Millisecond))
		}
		priced = append(priced, p)
	}
	return priced
}

func newCostSheet(l cost.Load, prices cost.Prices, by cost.Billing) *costSheet {
	s := &costSheet{Load: l, Billing: by, Prices: prices, Intervals: pricedIntervals(l, prices, by), Choices: l.Choices(prices, by)}
	for _, d := range l.Designs() {
		u := l.PerMillion(d)
		total := func(by cost.Billing) float64 { return prices.Bill(u, by).Total() }
		_, logs := prices.RequestLogs(d.Usage.Requests() * secondsPerMonth)
		s.Designs = append(s.Designs, pricedUsage{
			Design: d, PerMillion: u, Million: total(by), ByRequest: total(cost.ByRequest), ByInstance: total(cost.ByInstance),
			Month: prices.Bill(d.Usage, by).Total() * secondsPerMonth, Logs: logs,
		})
		s.addFunctions(d)
	}
	keyed := l
	keyed.Keys = 1
	s.Keys = prices.Bill(keyed.Designs()[0].Usage, by).Total()*secondsPerMonth - s.design(cost.Ours).Month
	other := prices.In(prices.Edition.Other())
	s.Other = otherEdition{other.Edition, other.Bill(l.Designs()[0].Usage, by).Total() * secondsPerMonth}
	if best, ok := l.Cheapest(prices, by); ok {
		s.Recommended = best.Name
	}
	return s
}

// addFunctions adds the functions of a design, but of those that have the same as another.
func (s *costSheet) addFunctions(d cost.Design) {
	if d.Name == cost.Unshared || d.Name == cost.OneDocument || d.Name == cost.Floor {
		return
	}
	bill, borders := s.Prices.Bill(d.Usage, s.Billing), s.Load.Borders(s.Prices, d.Name)
	names := [2]string{"increments", "trigger"}
	if d.Name == cost.Ours || d.Name == cost.Counted {
		names = [2]string{"Increment", "Rollup"}
	}
	for i, f := range []struct {
		cost.Function
		billing cost.Billing
		from    float64
	}{{d.Usage.Increment, bill.Increment, borders.Increment}, {d.Usage.Rollup, bill.Rollup, borders.Rollup}} {
		if f.billing == "" {
			continue
		}
		month := func(by cost.Billing) float64 {
			return s.Prices.Run.Total(f.Function, cost.Deployed, by) * secondsPerMonth
		}
		s.Functions = append(s.Functions, pricedFunction{d.Name, names[i], month(cost.ByRequest), month(cost.ByInstance), f.billing, f.from})
	}
}

func (s *costSheet) design(name cost.Name) pricedUsage {
	return s.Designs[slices.IndexFunc(s.Designs, func(d pricedUsage) bool { return d.Name == name })]
}

func (s *costSheet) print(w io.Writer) error {
	reads := ""
	if s.Load.Reads > 0 {
		reads = fmt.Sprintf(", and %s a second", terminal.Count(s.Load.Reads, "read"))
	}
	ours := s.design(cost.Ours)
	if s.Load.Documents > 0 {
		ours = s.design(cost.Counted)
	}
	fmt.Fprintf(w, "About %s a month, %s a million: %s%s, on paper.\n", about(ours.Month), about(ours.Million), of(s.Load), reads)
	if best := s.Recommended; best != "" && best != ours.Name {
		fmt.Fprintf(w, "%s would do, for about %s.\n", map[cost.Name]string{
			cost.OneDocument: "A plain increment() of one document each", cost.SumOnRead: "A sum() per read", cost.CountOnRead: "A count() per read",
		}[best], about(s.design(best).Month))
	}
	fmt.Fprintf(w, "\nBy list prices:\n  Firestore in %s, %s edition: %s\n  Cloud Run in %s, tier %d: %s\n\n",
		s.Prices.Location, named(s.Prices.Edition), s.Prices.Source, s.Prices.Run.Region, s.Prices.Tier, cost.RunSource)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	billed := map[cost.Edition]string{cost.Standard: "reads\twrites", cost.Enterprise: "read units\twrite units"}[s.Prices.Edition]
	fmt.Fprintf(t, "per million:\tshards\t%s\tdeletes\trequests\t$ by request\tby instance\tas billed\t$ a month\tms\t\n", billed)
	var remarks []string
	for _, d := range s.Designs {
		name, numShards := string(d.Name), "-"
		if d.Shards > 0 {
			numShards = fmt.Sprint(d.Shards)
		}
		if d.Unworkable != "" && d.Name != cost.Floor {
			remarks = append(remarks, fmt.Sprintf("  %s does not hold: %s.", d.Name, d.Unworkable))
			name += " (!)"
		}
		takes := "-"
		if d.Takes > 0 {
			takes = fmt.Sprintf("%.1f", float64(d.Takes)/float64(time.Millisecond))
		}
		u := d.PerMillion
		reads, writes := u.Billed(s.Prices.Edition)
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.3f\t%.3f\t%.3f\t%.2f\t%s\t\n",
			name, numShards, reads, writes, u.Deletes, u.Requests(), d.ByRequest, d.ByInstance, d.Million, d.Month, takes)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nms: an increment's average time to its answer, without network and function. MAX_BATCH=1 is this project when no\nincrement shares a commit: none waits for another's, and each pays for its own. The floor is what every counter needs:\none write for all increments during a commit, and one function on one instance.")
	if len(remarks) > 0 {
		fmt.Fprintln(w, "\n(!)\n"+strings.Join(remarks, "\n"))
	}
	if err := s.printFunctions(w); err != nil {
		return err
	}
	if err := s.printIntervals(w); err != nil {
		return err
	}
	if err := s.printShards(w); err != nil {
		return err
	}
	if s.Keys >= 0.005 {
		fmt.Fprintf(w, "An Idempotency-Key with each increment would add $%.2f a month (--keys 1).\n", s.Keys)
	}
	if logs := s.design(cost.Ours).Logs; logs > 0 {
		fmt.Fprintf(w, "Logging every request would add $%.2f a month; deployments leave them out.\n", logs)
	}
	if ours := ours.Month; s.Other.Month < muchLess*ours {
		fmt.Fprintf(w, "In a database of the %s edition it would cost $%s a month, %.0f %% less: --edition %s\n",
			named(s.Other.Edition), thousands(s.Other.Month), 100*(1-s.Other.Month/ours), s.Other.Edition)
	}
	return s.printChoices(w)
}

// muchLess is how little the other edition costs, of what this one does, where it is named.
const muchLess = 0.7

// named is an edition as Google calls it.
func named(e cost.Edition) string { return strings.ToUpper(string(e[:1])) + string(e[1:]) }

// printFunctions says how each function is billed, and from which rate on the other way would be
// the better one.
func (s *costSheet) printFunctions(w io.Writer) error {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "$ a month, each function:\t\tby request\tby instance\tbilled by\tby instance is less from\t")
	for i, f := range s.Functions {
		design, from := string(f.Design), "no rate on"
		if i > 0 && s.Functions[i-1].Design == f.Design {
			design = ""
		}
		if f.From > 0 {
			from = rate(f.From) + " on"
		}
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.2f\t%s\t%s\t\n", design, f.Function, f.ByRequest, f.ByInstance, f.Billing, from)
	}
	return t.Flush()
}

// printIntervals says what waiting for company buys.
func (s *costSheet) printIntervals(w io.Writer) error {
	first, last := s.Intervals[0], s.Intervals[len(s.Intervals)-1]
	if last.Million > 0.99*first.Million {
		_, err := fmt.Fprintln(w, "\nCOMMIT_INTERVAL would save nothing: hardly any increments come within a second of each other.")
		return err
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "COMMIT_INTERVAL:\tcommits a second\t$ a million\tms\teach ms saves\t")
	for i, p := range s.Intervals {
		saves := "-"
		if i > 0 {
			saves = fmt.Sprintf("$%.4f a million", p.Saves)
		}
		fmt.Fprintf(t, "%v\t%.3g\t%.3f\t%.1f\t%s\t\n", p.Interval, p.Commits, p.Million, float64(p.Takes)/float64(time.Millisecond), saves)
	}
	return t.Flush()
}

// printShards says what to create.
func (s *costSheet) printShards(w io.Writer) error {
	ours, direct := s.design(cost.Ours), s.design(cost.SumOnRead)
	if s.Load.Shards > 0 || ours.Unworkable != "" {
		return nil
	}
	also := fmt.Sprintf("With clients that write shards themselves it would need %s.", terminal.Count(direct.Shards, "shard"))
	if direct.Unworkable != "" {
		also = fmt.Sprintf("It would not work with clients that write shards themselves: %s.", direct.Unworkable)
	}
	_, err := fmt.Fprintf(w, "\nA counter of this project needs %s, for %.3g commits a second: counters create ID --shards %d\n%s\n",
		terminal.Count(ours.Shards, "shard"), ours.Commits/float64(s.Load.Counters), ours.Shards, also)
	return err
}

// reasons say what speaks for a design besides its price, or against it.
var reasons = map[cost.Name]string{
	cost.OneDocument: "one document, with no shards: right up to about one write a second",
	cost.SumOnRead:   "a sum() per read: never drifts, but can't be listened to, and retries may count twice",
	cost.Counted:     "a field that counts documents: nothing to increment, one document to read or listen to",
	cost.CountOnRead: "a count() per read: nothing runs, but can't be listened to or ordered by",
	cost.Ours:        "this project: any rate, one document to read or listen to, safe to retry",
}

func (s *costSheet) printChoices(w io.Writer) error {
	if s.Recommended == "" {
		fmt.Fprintln(w, "\nNone of these holds at that rate.")
	} else {
		fmt.Fprintf(w, "\nThe cheapest that holds: %s.\n", s.Recommended)
	}
	fmt.Fprintf(w, "The cheapest at each rate of increments, with %s a second and the shards that it needs:\n", terminal.Count(s.Load.Reads, "read"))
	for i, c := range s.Choices {
		at := "from " + rate(c.From)
		if i == 0 && len(s.Choices) > 1 {
			at = "below " + rate(s.Choices[1].From)
		}
		if _, err := fmt.Fprintf(w, "  %-12s %s\n", at, reasons[c.Name]); err != nil {
			return err
		}
	}
	return nil
}

func rate(perSecond float64) string {
	if perSecond < 10 {
		return fmt.Sprintf("%.2g/s", perSecond)
	}
	return fmt.Sprintf("%.0f/s", perSecond)
}

// printLarge says where a hot counter and a million lukewarm ones meet a limit first.
func printLarge(out io.Writer, asJSON bool) error {
	points := cost.LargeTable()
	if asJSON {
		return writeSheet(out, points)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "increments/s\tshard writes/s, hot\twrites/s\tevents/s\tIncrement\tRollup\tall new grows for\t")
	for _, l := range points {
		fmt.Fprintf(w, "%.0f\t%.0f (%.0f%%)\t%.0f\t%.0f\t%d\t%d\t%s\t\n", l.Rate, l.HotCommits, 100*l.Shards, l.Writes, l.Events, l.Increment, l.Rollup, l.Ramp.Round(time.Minute))
	}
	return w.Flush()
}

// writeSheet writes a value as JSON in many lines, which people read as well.
func writeSheet(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
