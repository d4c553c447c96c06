package deployment

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/internal/settings"
)

// Wanted is what a deployer asks for.
type Wanted struct {
	Project, Location, Region, TriggerLocation, Prefix string
	Runtime, Memory, Source                            string

	CreateDatabase, KeepUpdatedAt, KeepCreatedAt bool
	Edition                                      string // of a database that is created

	WebApps, Invokers, Set   []string
	Public, NoCheck          bool
	Extension                bool
	Ingress                  string
	Key, Images, KeyOfData   string
	MostPerDay               string // US dollars, such as 5USD, or none
	Concurrency, Most, Least int    // of Increment; no Most is as many as MostPerDay keeps busy
	RollupMost, RollupLeast  int
	Billing, RollupBilling   string // empty is by the request, where MostPerDay can be kept so
	Schedule                 string

	RequestLogs, NoAlerts  bool
	LagAlert, MissingAfter int // seconds
	Channels               []string
	Budget                 string

	all bool // all that any deployment of this prefix may have: to remove it

	// Accounts are those that have a job instead of the deployment's own, by the job.
	Accounts map[string]string
	// Settings are what Set comes to, once it was checked.
	Settings settings.Deployment
	// Ceiling is what MostPerDay leaves to each function, once the database's edition is known; nil for none.
	Ceiling *cost.Ceiling
	asked   bool // for MostPerDay
}

// Flags adds what may be asked for to the flags of a command.
func (w *Wanted) Flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&w.Project, "project", "", "`P`roject to deploy to")
	f.StringVar(&w.Location, "location", "", "location `L` of its Firestore database: a region, or nam5, nam7, eur3")
	f.StringVar(&w.Region, "region", "", "region `R` of the functions (default: the location, or the region next to a multi-region)")
	f.StringVar(&w.TriggerLocation, "trigger-location", "", "location `T` of the Eventarc trigger: the database's, or a region inside of a multi-region (default: the database's)")
	f.StringVar(&w.Prefix, "prefix", "counters", "`NAME` that the name of everything begins with")
	f.StringVar(&w.Runtime, "runtime", "", "(default: the newest for Go that the platform supports there)")
	f.StringVar(&w.Memory, "memory", "512Mi", "`SIZE` of an instance, 256Mi at least")
	f.StringVar(&w.Source, "source", "", "the functions' source, `FROM` a folder or a release's counters-functions_VERSION.zip (default: that of this program)")

	f.BoolVar(&w.CreateDatabase, "create-database", false, "create the Firestore database, protected against deletion")
	f.StringVar(&w.Edition, "edition", "", "`EDITION` of a database that is created: standard or enterprise, which costs less for most loads: counters cost (default: standard)")
	f.BoolVar(&w.KeepUpdatedAt, "no-exempt-updated-at", false, "keep the indexes of updated_at and of the map counter_rollup; they cap all counters at 500 roll-ups a second")
	f.BoolVar(&w.KeepCreatedAt, "no-exempt-created-at", false, "keep the index of created_at")

	f.StringArrayVar(&w.WebApps, "web-app", nil, "let pages of this `ORIGIN`, such as https://app.example, count for users who sign in with Firebase; may be repeated. "+
		"It stands for --public and with that --most-per-day "+UsualCeiling+", for --set AUTH=firebase, ALLOWED_ORIGINS=ORIGIN and, unless HOSTED is set, AUTO_CREATE=true, and for releasing rules by which clients read totals, "+
		"where the database has none. A --set of yours holds instead")
	f.StringArrayVar(&w.Invokers, "invoker", nil, "let this `MEMBER` call Increment, such as user:you@example.com; may be repeated")
	f.BoolVar(&w.Public, "public", false, "let the whole internet call Increment: allUsers may")
	f.BoolVar(&w.NoCheck, "no-invoker-check", false, "let the whole internet call Increment: Cloud Run doesn't check who calls. Organisations that share with their own domains only, "+
		"as new ones do, allow this and refuse allUsers (who may call it already and isn't named is listed at the end, with the command that takes it back)")
	f.StringArrayVar(&w.Set, "set", nil, "a setting of the functions, `NAME=VALUE`, such as AUTO_CREATE=true; may be repeated")

	f.BoolVar(&w.Extension, "extension", false, "take over what clients of Firebase's Distributed Counter extension count: it stands for --set HOSTED=true and --set EXTENSION=true. "+
		"Nothing is counted until the extension is uninstalled")
	f.StringVar(&w.Ingress, "increment-ingress", "all", "traffic `FROM` all, or internal-and-gclb behind Google's load balancer, so that nobody passes by what stands before it, such as Cloud Armor")
	f.StringVar(&w.Key, "kms-key", "", "encrypt the functions with this `KEY` of Cloud KMS, in their region")
	f.StringVar(&w.Images, "docker-repository", "", "repository `R` for their images; with --kms-key, one that is encrypted with the same key")
	f.StringVar(&w.KeyOfData, "database-kms-key", "", "encrypt a database that is created with this `KEY`, in the database's location")

	f.StringVar(&w.MostPerDay, "most-per-day", "", "what the deployment may cost a day, whatever anybody sends: US `DOLLARS`, such as 5USD, or none, with which nothing bounds it. "+
		"It works out instances, the way to pay, and what each function may write, read and answer (default: "+UsualCeiling+" with --web-app, --public or --no-invoker-check, none without)")
	f.IntVar(&w.Concurrency, "increment-concurrency", 500, "requests an instance takes at a time, `N`")
	f.IntVar(&w.Most, "increment-max-instances", 0, fmt.Sprintf("`N` at most (default %d, or as many as --most-per-day keeps busy)", UsualMost))
	f.IntVar(&w.Least, "increment-min-instances", 0, "`N` at least (default 0)")
	f.IntVar(&w.RollupMost, "rollup-max-instances", 0, fmt.Sprintf("`N`: shards that are busy at once / 1000, rounded up (default %d, or as many as --most-per-day keeps busy)", UsualRollupMost))
	f.IntVar(&w.RollupLeast, "rollup-min-instances", 0, "`N` at least (default 0)")
	f.StringVar(&w.Billing, "increment-billing", "", "`WAY` to pay: request, or instance for all the time that an instance is there, and nothing for requests. "+
		"That costs less from about ten requests a second on: counters cost (default: request, where --most-per-day can be kept so)")
	f.StringVar(&w.RollupBilling, "rollup-billing", "", "`WAY` for Rollup, where instance costs less as soon as counters are written all the time (default: request, where --most-per-day can be kept so)")
	f.StringVar(&w.Schedule, "reconcile-schedule", "7 * * * *", "`CRON` expression, in UTC")

	f.BoolVar(&w.RequestLogs, "request-logs", false, "keep Cloud Run's log of each request: a kilobyte each, $0.50 a GiB beyond 50 a month")
	f.BoolVar(&w.NoAlerts, "no-alerts", false, "make no alert policies")
	f.IntVar(&w.LagAlert, "lag-alert-seconds", 30, "`N` seconds of lag that are alarming")
	f.IntVar(&w.MissingAfter, "reconcile-missing-after", 10800, "`N` seconds without a Reconcile that are alarming")
	f.StringArrayVar(&w.Channels, "notification-channel", nil, "`C`, projects/P/notificationChannels/N, that alerts are sent to; may be repeated. Who is not named any more is not told any more")
	f.StringVar(&w.Budget, "budget", "", "tell the billing account's administrators when the project comes to half of this `AMOUNT` in a month, and to all of it, such as 100 or 100USD; "+
		"it stops nothing (default: no budget)")
}

// Args are the arguments that ask for this: the flags that aren't as they are by default.
func (w *Wanted) Args() (args []string) {
	var of Wanted
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	of.Flags(flags)
	of = *w // which the flags have their values from
	flags.VisitAll(func(f *pflag.Flag) {
		switch list, is := f.Value.(pflag.SliceValue); {
		case is:
			for _, item := range list.GetSlice() {
				args = append(args, "--"+f.Name, item)
			}
		case f.Value.String() == f.DefValue:
		case f.Value.Type() == "bool":
			args = append(args, "--"+f.Name)
		default:
			args = append(args, "--"+f.Name, f.Value.String())
		}
	})
	return args
}

// What the values of flags look like.
var (
	IsProject  = regexp.MustCompile(`^([a-z0-9.-]+[.][a-z]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	isLocation = regexp.MustCompile(`^([a-z]+-[a-z]+[0-9]+|[a-z]+[0-9]+)$`)
	isRegion   = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+$`)
	isPrefix   = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$`)
	isRuntime  = regexp.MustCompile(`^go1(2[6-9]|[3-9][0-9])$`)
	IsMemory   = regexp.MustCompile(`^([0-9]{1,6})(Mi|Gi)$`)
	IsSchedule = regexp.MustCompile(`^[^ ]+( [^ ]+){4}$`)
	isOrigin   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://[^/,|]+$`)
	IsMember   = regexp.MustCompile(`^(user|serviceAccount|group|domain|principal|principalSet):.+`)
	isBudget   = regexp.MustCompile(`^[1-9][0-9]{0,8}([A-Z]{3})?$`)
	isChannel  = regexp.MustCompile(`^projects/[^/]+/notificationChannels/[^/]+$`)
	isIngress  = regexp.MustCompile(`^(all|internal-and-gclb|internal-only)$`)
	isKey      = regexp.MustCompile(`^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$`)
	isImages   = regexp.MustCompile(`^projects/[^/]+/locations/[^/]+/repositories/[^/]+$`)
	isEdition  = regexp.MustCompile(`^(standard|enterprise)$`)
	isBilling  = regexp.MustCompile(`^(request|instance)$`)
)

// multiRegions are the regions inside of Firestore's multi-regions, the one to run in first.
var multiRegions = map[string][]string{
	"nam5": {"us-central1"},
	"nam7": {"us-central1", "us-east4"},
	"eur3": {"europe-west4", "europe-west1"},
}

// mostInstances is what Cloud Run lets a service grow to without asking for more.
const mostInstances = 1000

// Near are the regions whose functions are at home in a database of that location; the location itself when it is a
// region.
func Near(location string) []string {
	if near, ok := multiRegions[location]; ok {
		return near
	}
	return []string{location}
}

// Check says what is wrong with what is asked for, before anything is asked of Google, and fills in what follows from
// it. Its error is of the first thing.
func (w *Wanted) Check() error {
	if w.Project == "" {
		return fmt.Errorf("--project is missing")
	}
	if w.Location == "" {
		return fmt.Errorf("--location is missing: that of the Firestore database; see gcloud firestore databases list")
	}
	type rule struct {
		flag, value string
		is          *regexp.Regexp
		want        string
	}
	rules := []rule{
		{"--project", w.Project, IsProject, "a project's id, which is not its name or number: see gcloud projects list"},
		{"--location", w.Location, isLocation, "a location of Firestore, such as us-central1, nam5 or eur3"},
		{"--prefix", w.Prefix, isPrefix, "1 to 20 lower-case letters, digits and hyphens"},
		{"--memory", w.Memory, IsMemory, "a number of Mi or Gi, such as 512Mi"},
		{"--reconcile-schedule", w.Schedule, IsSchedule, "a cron expression of five fields, such as '7 * * * *'"},
		{"--increment-ingress", w.Ingress, isIngress, "all, internal-and-gclb or internal-only"},
	}
	optional := func(flag, value string, is *regexp.Regexp, want string) {
		if value != "" {
			rules = append(rules, rule{flag, value, is, want})
		}
	}
	optional("--runtime", w.Runtime, isRuntime, "go126 or later: see gcloud functions runtimes list")
	optional("--increment-billing", w.Billing, isBilling, "request or instance")
	optional("--rollup-billing", w.RollupBilling, isBilling, "request or instance")
	optional("--edition", w.Edition, isEdition, "standard or enterprise")
	optional("--region", w.Region, isRegion, "a region, such as us-central1")
	optional("--budget", w.Budget, isBudget, "a whole amount a month, such as 100, or 100USD in the billing account's currency")
	optional("--kms-key", w.Key, isKey, "projects/P/locations/L/keyRings/R/cryptoKeys/K")
	optional("--database-kms-key", w.KeyOfData, isKey, "projects/P/locations/L/keyRings/R/cryptoKeys/K")
	optional("--docker-repository", w.Images, isImages, "projects/P/locations/L/repositories/R")
	for _, origin := range w.WebApps {
		rules = append(rules, rule{"--web-app", origin, isOrigin, "an origin such as https://app.example, without a path"})
	}
	for _, member := range w.Invokers {
		rules = append(rules, rule{"--invoker", member, IsMember, "a member such as user:you@example.com; everybody is let in by --public"})
	}
	for _, channel := range w.Channels {
		rules = append(rules, rule{"--notification-channel", channel, isChannel, "projects/P/notificationChannels/N: see gcloud beta monitoring channels list"})
	}
	for _, r := range rules {
		if !r.is.MatchString(r.value) || strings.ContainsAny(r.value, opens+between+closes+"\n\r") {
			return fmt.Errorf("%s %s: want %s", r.flag, r.value, r.want)
		}
	}
	if w.Key != "" && w.Images == "" {
		return fmt.Errorf("--kms-key: want --docker-repository too, one of Artifact Registry that is encrypted with the same key")
	}
	for _, n := range []struct {
		flag               string
		value, least, most int
	}{
		{"--increment-concurrency (less than 100 undoes group commit)", w.Concurrency, 100, 1000},
		{"--increment-max-instances", cmp.Or(w.Most, mostInstances), 1, mostInstances}, {"--increment-min-instances", w.Least, 0, cmp.Or(w.Most, mostInstances)},
		{"--rollup-max-instances", cmp.Or(w.RollupMost, mostInstances), 1, mostInstances}, {"--rollup-min-instances", w.RollupLeast, 0, cmp.Or(w.RollupMost, mostInstances)},
		{"--lag-alert-seconds", w.LagAlert, 5, 3600}, {"--reconcile-missing-after", w.MissingAfter, 60, 82800},
	} {
		if n.value < n.least || n.value > n.most {
			return fmt.Errorf("%s %d: want a whole number from %d to %d", n.flag, n.value, n.least, n.most)
		}
	}
	if w.MissingAfter%60 != 0 {
		return fmt.Errorf("--reconcile-missing-after %d: want whole minutes", w.MissingAfter)
	}
	size := IsMemory.FindStringSubmatch(w.Memory)
	megabytes, _ := strconv.Atoi(size[1])
	if size[2] == "Gi" {
		megabytes *= 1024
	}
	if megabytes < 256 {
		return fmt.Errorf("--memory %s: want 256Mi at least: an instance takes %d requests at a time, one of Rollup 1000", w.Memory, w.Concurrency)
	}
	if megabytes < 512 && w.Billing == "" {
		w.Billing = usualBilling // whatever the ceiling
	}
	if megabytes < 512 && w.RollupBilling == "" {
		w.RollupBilling = usualBilling
	}
	if megabytes < 512 && (w.Billing == "instance" || w.RollupBilling == "instance") { // and a whole CPU, as all have
		return fmt.Errorf("--memory %s: want 512Mi at least with --increment-billing or --rollup-billing instance: Cloud Run refuses less", w.Memory)
	}
	if w.Region == "" {
		w.Region = Near(w.Location)[0]
	}
	if !isRegion.MatchString(w.Region) {
		return fmt.Errorf("--region %s: want a region, such as us-central1", w.Region)
	}
	if w.TriggerLocation == "" {
		w.TriggerLocation = w.Location
	}
	if w.TriggerLocation != w.Location && !slices.Contains(Near(w.Location), w.TriggerLocation) {
		return fmt.Errorf("--trigger-location %s: want %s, the database's: Firestore hands its events out there alone", w.TriggerLocation, w.Location)
	}
	if err := w.settle(); err != nil {
		return err
	}
	return w.checkCeiling()
}

// settle works out the functions' settings.
func (w *Wanted) settle() (err error) {
	given := w.Set
	if w.Extension {
		given = append([]string{"HOSTED=true", "EXTENSION=true"}, given...)
	}
	if len(w.WebApps) > 0 { // first, so that what is given holds
		w.Public = true
		given = append([]string{"AUTH=firebase", "ALLOWED_ORIGINS=" + strings.Join(w.WebApps, ",")}, given...)
		if !w.Extension && !slices.ContainsFunc(w.Set, func(pair string) bool { return strings.HasPrefix(pair, "HOSTED=") }) {
			given = append([]string{"AUTO_CREATE=true"}, given...)
		}
	}
	if w.Settings, err = settings.ForDeployment(given); err != nil {
		return errors.Join(err, errors.New("nothing was made; docs/settings.md has the settings"))
	}
	return nil
}

// setting is one of the functions' settings, as they will have it.
func (w *Wanted) setting(name string) string {
	for _, pair := range w.Settings.Environment {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// warnings are about what is allowed, and may not be meant.
func (w *Wanted) warnings() (lines []string) {
	if w.Settings.Auth == "none" && (w.Public || w.NoCheck) {
		lines = append(lines, "with AUTH=none anybody on the internet can count")
		if w.Settings.MakesForAnybody {
			lines = append(lines, "with AUTO_CREATE=true too, they can make counters without bound; set it to a number of new counters a minute and caller")
		}
	}
	return lines
}
