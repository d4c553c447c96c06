package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/firestore-counters/counters/internal/layout"
)

//go:generate go test . -run TestGeneratedFiles -update

// Settings is everything that can be set on a deployment, by environment variables. All functions
// of a deployment take the same settings. The terraform module's variables and the documentation
// are made from this struct: run go generate after a change.
type Settings struct {
	// Where the counters are.
	Project      string        `env:"GOOGLE_CLOUD_PROJECT" desc:"Project of the database. When empty it is demo-counters with FIRESTORE_EMULATOR_HOST, otherwise that of the credentials or the metadata server."`
	Database     string        `env:"DATABASE" envDefault:"(default)" desc:"Firestore database."`
	Counters     layout.Path   `env:"COUNTERS" envDefault:"counters/{counter}" desc:"Path of the counters' documents: collections and wildcards in turn, such as posts/{post} or teams/{team}/posts/{post}, or one document, such as stats/site."`
	Shards       string        `env:"SHARDS" envDefault:"shards" desc:"Collection of the shards below a counter's document."`
	Fields       layout.Fields `env:"FIELDS" envDefault:"total=count" desc:"What a counter's document shows, comma-separated, at most 20: sums of shards, such as likes, total=count or seats=limit(500), and counts of documents, such as comments=count(comments)."`
	Hosted       bool          `env:"HOSTED" envDefault:"false" desc:"The documents are your app's own: none is made or deleted, and an increment of a missing one is answered 404."`
	Extension    bool          `env:"EXTENSION" envDefault:"false" desc:"With HOSTED: take over what clients of Firebase's Distributed Counter extension count, once that is uninstalled."`
	CleanupAfter time.Duration `env:"CLEANUP_AFTER" envDefault:"24h" range:"1s to 8760h" desc:"With HOSTED: how long a document must be gone, with nothing counted, before Reconcile removes what is below it, 1s to 8760h. With CLEANUP: how long nothing was written in a counter."`
	Cleanup      string        `env:"CLEANUP" envDefault:"off" desc:"Which counters Reconcile deletes once nothing was written in them for CLEANUP_AFTER and nothing of them is held: zero (all at 0, without members; needs AUTO_CREATE), idle (whatever they hold) or off. Not with HOSTED or counts of documents."`

	// Counters and their shards.
	AutoCreate AutoCreate    `env:"AUTO_CREATE" envDefault:"false" desc:"Create a counter with its first increment, instead of answering 404: true, false, or how many new counters a minute one caller may make on one instance, 1 to 100000."`
	NumShards  int           `env:"NUM_SHARDS" envDefault:"10" range:"1 to 1000" desc:"Shards of a counter that is created automatically, or whose document says no number, 1 to 1000."`
	MaxShards  int           `env:"MAX_SHARDS" envDefault:"0" range:"0 to 1000" desc:"Double a counter's shards under contention, up to this many, at most 1000; 0 never does."`
	CacheTTL   time.Duration `env:"CACHE_TTL" envDefault:"60s" range:"1s to 1h" desc:"How long an instance trusts the number of shards that it read, 1s to 1h."`
	ReadCache  time.Duration `env:"READ_CACHE" envDefault:"1s" range:"0s to 60s" desc:"How old the total may be that GET answers from memory, or that a cache on the way keeps, 0s to 60s. With 0s, and with exact=true, it is always read."`

	// Increments.
	MaxIncrement   int64         `env:"MAX_INCREMENT" envDefault:"1000000000" range:"1 to 4611686018427387904" desc:"Largest increment of a counter, up or down, that a request may ask for."`
	ExactWrites    bool          `env:"EXACT_WRITES" envDefault:"true" desc:"Write a marker with every commit, which tells after a lost answer whether the commit was applied. Without it, such an increment is answered 504."`
	RequestTTL     time.Duration `env:"REQUEST_TTL" envDefault:"24h" range:"1m to 720h" desc:"How long an Idempotency-Key is remembered at least, 1m to 720h."`
	RequestTimeout time.Duration `env:"REQUEST_TIMEOUT" envDefault:"20s" range:"1s to 60s" desc:"How long a request may take, with its commits and retries, 1s to 60s."`
	MaxBatch       int           `env:"MAX_BATCH" envDefault:"500" range:"1 to 500" desc:"Increments that share one commit at most, 1 to 500. With 1, each has its own: up to half a commit faster, with more writes; counters cost prints both."`
	CommitInterval time.Duration `env:"COMMIT_INTERVAL" envDefault:"0s" range:"0s to 1s" desc:"Least time between the beginnings of two commits of a counter on one instance, 0s to 1s, at most a quarter of REQUEST_TIMEOUT. Increments that come sooner share the next commit."`
	MaxQueue       int           `env:"MAX_QUEUE" envDefault:"10000" range:"1 to 1000000" desc:"Increments that may wait on one instance; more are answered 503."`

	// Who may call Increment.
	Auth           string   `env:"AUTH" envDefault:"none" desc:"Who may call Increment: none (Cloud Run's IAM decides), firebase (ID token in Authorization) or appcheck (App Check token in X-Firebase-AppCheck)."`
	ProjectNumber  string   `env:"PROJECT_NUMBER" desc:"Number of the project, for which App Check tokens are issued; AUTH=appcheck needs it."`
	PublicReads    bool     `env:"PUBLIC_READS" envDefault:"true" desc:"Answer GET without the token that AUTH asks for, except for members, and for exact=true where FIELDS counts documents."`
	Members        string   `env:"MEMBERS" desc:"Which members a caller may count: own (its token's user, with AUTH=firebase), any (with AUTH=none, for backends behind Cloud Run's IAM) or off. When empty it is own with AUTH=firebase, otherwise off."`
	Reset          string   `env:"RESET" envDefault:"off" desc:"Which counters a caller may set to 0 with POST /{counter}/reset: own (its user's, with AUTH=firebase and {uid} in COUNTERS), any (with AUTH=none, for backends behind Cloud Run's IAM) or off."`
	Limit          string   `env:"LIMIT" envDefault:"off" desc:"Which counters a caller may give a limit with PUT /{counter}/limit: own (its user's, with AUTH=firebase and {uid} in COUNTERS), any (with AUTH=none, for backends behind Cloud Run's IAM) or off."`
	AllowedOrigins []string `env:"ALLOWED_ORIGINS" desc:"Web origins whose pages may call Increment, comma-separated; * allows all. Others are answered 403."`
	RateLimit      float64  `env:"RATE_LIMIT" envDefault:"0" range:"0 to 1000000" desc:"Units a second that one caller may use of one instance: fields added to, reads, documents of new counters and holds. 0 sets no limit. A caller is a user with AUTH=firebase, otherwise an address."`
	TrustedProxies int      `env:"TRUSTED_PROXIES" envDefault:"0" range:"0 to 10" desc:"How many proxies before Cloud Run append their own address to X-Forwarded-For, after the caller's: 1 behind Google's load balancer, 0 without one."`

	// What it may cost.
	Ceiling Ceiling `env:"CEILING" desc:"What one instance may spend a second on average, such as writes=40,reads=60,creates=1,bytes=20000: documents, new counters and bytes answered; also logs (bytes) and requests. What is left out has no bound."`

	// The roll-up.
	RollupInterval time.Duration `env:"ROLLUP_INTERVAL" envDefault:"1s" range:"10ms to 5s" desc:"Time between two roll-ups of a busy counter by one instance, 10ms to 5s."`
	RollupBurst    int           `env:"ROLLUP_BURST" envDefault:"5" range:"1 to 100" desc:"Roll-ups that a quiet counter may have at once, 1 to 100, so that its first changes show without a wait. Each ROLLUP_INTERVAL earns one more."`
	RollupPending  int           `env:"ROLLUP_PENDING" envDefault:"5000" range:"1 to 100000" desc:"Events that may wait on one instance of Rollup; more are answered 503 and come again."`
	RollupFlushes  int           `env:"ROLLUP_FLUSHES" envDefault:"64" range:"1 to 1000" desc:"Counters that one instance rolls up at the same time, 1 to 1000."`

	RecountMax time.Duration `env:"RECOUNT_MAX" envDefault:"60s" range:"1s to 1h" desc:"How late a field such as comments=count(comments) may be, 1s to 1h. An event waits for 40s at most, or three quarters of REQUEST_TIMEOUT if that is more."`

	// Reconcile.
	ReconcileDeadline time.Duration `env:"RECONCILE_DEADLINE" envDefault:"240s" range:"1s to 1700s" desc:"How long one call of Reconcile walks before it stores where it stopped, 1s to 1700s."`
	ReconcileParallel int           `env:"RECONCILE_PARALLEL" envDefault:"8" range:"1 to 100" desc:"Counters that Reconcile checks at the same time, 1 to 100."`

	RecountAge   time.Duration `env:"RECOUNT_AGE" envDefault:"24h" range:"1s to 8760h" desc:"Reconcile repeats a query such as count(comments) that had no answer for this long, in case an event was lost, 1s to 8760h. Counters that are named don't wait."`
	RecountReads int64         `env:"RECOUNT_READS" envDefault:"10000" range:"0 to 1000000000" desc:"Reads that one call of Reconcile may spend on such queries: one per 1,000 documents."`

	// Go's own, which its runtime reads. Empty, the functions choose: see collectSeldom in package
	// functions.
	GoGC       string `env:"GOGC" desc:"How much an instance's heap may grow before the garbage collector runs, in percent of what is in use, or off; 400 when empty."`
	GoMemLimit string `env:"GOMEMLIMIT" desc:"Memory beyond which the garbage collector works harder, such as 200MiB, or off; 45 % of the instance's when empty."`

	LogLevel slog.Level `env:"LOG_LEVEL" envDefault:"INFO" desc:"Least severity that is logged: DEBUG, INFO, WARN or ERROR."`

	// AuthEmulator is FIREBASE_AUTH_EMULATOR_HOST, where Firebase's Auth emulator is. AUTH=firebase then
	// takes its tokens, which nobody signs. It has no tag, because no deployment can be given one.
	AuthEmulator string
}

// Place says where the counters are.
func (s Settings) Place() layout.Place {
	return layout.Place{Project: s.Project, Database: s.Database, Counters: s.Counters.String(), Fields: s.Fields.String(), Shards: s.Shards, Hosted: s.Hosted, Extension: s.Extension}
}

// Parse reads Settings from an environment of the form that [os.Environ] returns. Its error names
// every variable that is wrong, with its value and what is allowed.
func Parse(environ []string) (Settings, error) {
	values := env.ToMap(environ)
	s, err := env.ParseAsWithOptions[Settings](env.Options{Environment: values})
	if err != nil {
		return Settings{}, fmt.Errorf("settings: %w", unparsed(err, values))
	}
	err = s.validate()
	if s.Members == "" {
		s.Members = "off"
		if s.Auth == "firebase" {
			s.Members = "own"
		}
	}
	// The library takes an empty value for one that isn't set. Whoever sets this one, with a
	// variable that turns out to be empty, say, does not mean that anybody may call.
	if auth, set := values["AUTH"]; set && auth == "" {
		err = errors.Join(err, errors.New("AUTH=: want none, firebase or appcheck"))
	}
	// Taken for nothing, it would have the functions count in another collection than the one that
	// is meant.
	if collection := values["COLLECTION"]; collection != "" {
		err = errors.Join(err, fmt.Errorf("COLLECTION=%s: want COUNTERS=%[1]s/{counter} instead", collection))
	}
	if field := values["COUNT_FIELD"]; field != "" {
		err = errors.Join(err, fmt.Errorf("COUNT_FIELD=%s: want FIELDS=total=%[1]s instead", field))
	}
	// Anybody can write a token that nobody signs. Cloud Run sets K_SERVICE, and nobody else.
	if s.AuthEmulator = values["FIREBASE_AUTH_EMULATOR_HOST"]; s.AuthEmulator != "" && values["K_SERVICE"] != "" {
		err = errors.Join(err, fmt.Errorf("FIREBASE_AUTH_EMULATOR_HOST=%s: want it left out on Cloud Run (K_SERVICE=%s): anybody could be any user", s.AuthEmulator, values["K_SERVICE"]))
	}
	if err != nil {
		return Settings{}, fmt.Errorf("settings: %w", err)
	}
	return s, nil
}

// unparsed says of values that are not of their variables' types what the library says of struct
// fields.
func unparsed(err error, values map[string]string) error {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return err
	}
	var errs []error
	for _, err := range all.Errors {
		if one, ok := errors.AsType[env.ParseError](err); ok {
			field, _ := reflect.TypeFor[Settings]().FieldByName(one.Name)
			name := field.Tag.Get("env")
			switch err = fmt.Errorf("%s=%s: want %s", name, values[name], allowed(field.Type)); field.Type {
			case reflect.TypeFor[layout.Path](), reflect.TypeFor[layout.Fields](), reflect.TypeFor[AutoCreate](), reflect.TypeFor[Ceiling]():
				err = fmt.Errorf("%w: %w", err, one.Err)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func allowed(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[layout.Path]():
		return "collections and wildcards in turn, such as posts/{post}, or one document, such as stats/site"
	case reflect.TypeFor[layout.Fields]():
		return "names with commas between them, such as likes,views or total=count, and counts of documents, such as comments=count(comments) or users=count(/users)"
	case reflect.TypeFor[AutoCreate]():
		return "true, false, or how many new counters a minute and caller, such as 60"
	case reflect.TypeFor[Ceiling]():
		return "units a second with commas between them, such as writes=40,reads=60,creates=1,bytes=20000"
	case reflect.TypeFor[bool]():
		return "true or false"
	case reflect.TypeFor[time.Duration]():
		return "a duration such as 90s or 10m"
	case reflect.TypeFor[slog.Level]():
		return "DEBUG, INFO, WARN or ERROR"
	case reflect.TypeFor[float64]():
		return "a number"
	}
	return "a whole number"
}

// What Go's runtime takes.
var (
	goGC       = regexp.MustCompile(`^(|off|[1-9][0-9]{0,5})$`)
	goMemLimit = regexp.MustCompile(`^(|off|[1-9][0-9]{0,14}(B|KiB|MiB|GiB|TiB)?)$`)
)

func (s Settings) validate() error {
	var errs []error
	bad := func(name string, value any, allowed string) {
		errs = append(errs, fmt.Errorf("%s=%v: want %s", name, value, allowed))
	}
	s.ranges(bad)
	if !goGC.MatchString(s.GoGC) { // of which the runtime would say nothing
		bad("GOGC", s.GoGC, "a whole number of percent, such as 400, or off")
	}
	if !goMemLimit.MatchString(s.GoMemLimit) { // with which the runtime would not start
		bad("GOMEMLIMIT", s.GoMemLimit, "a whole number with B, KiB, MiB, GiB or TiB, such as 200MiB, or off")
	}
	if s.Database == "" || strings.Contains(s.Database, "/") {
		bad("DATABASE", s.Database, "the id of a database, such as (default)")
	}
	if allowed := layout.WrongShardsCollection(s.Shards, s.Fields); allowed != "" {
		bad("SHARDS", s.Shards, allowed)
	}
	if allowed := layout.WrongFields(s.Counters, s.Fields); allowed != "" {
		bad("FIELDS", s.Fields, allowed)
	}
	if s.Extension && !s.Hosted {
		bad("EXTENSION", s.Extension, "HOSTED=true with it: the extension counts in documents of your app's own")
	}
	if sums, _ := s.Fields.Split(); s.Extension && len(sums) == 0 {
		bad("EXTENSION", s.Extension, fmt.Sprintf("a field in FIELDS that the extension's clients count, such as visits, and not only %s", s.Fields))
	}
	if s.Hosted && s.AutoCreate.On {
		bad("AUTO_CREATE", s.AutoCreate, "false with HOSTED=true: the documents are the app's to make")
	}
	_, counted := s.Fields.Split()
	switch {
	case !slices.Contains([]string{"off", "zero", "idle"}, s.Cleanup):
		bad("CLEANUP", s.Cleanup, "off, zero or idle")
	case s.Cleanup != "off" && s.Hosted:
		bad("CLEANUP", s.Cleanup, "off with HOSTED=true: the documents are the app's to delete")
	case s.Cleanup != "off" && len(counted) > 0:
		bad("CLEANUP", s.Cleanup, fmt.Sprintf("off where documents are counted (%s): these would stay", counted))
	case s.Cleanup == "zero" && !s.AutoCreate.On:
		bad("CLEANUP", s.Cleanup, "AUTO_CREATE=true with it: or the next increment of a counter that was at 0 is answered 404")
	}
	if s.MaxShards > 0 && s.NumShards > s.MaxShards {
		bad("NUM_SHARDS", s.NumShards, fmt.Sprintf("at most MAX_SHARDS=%d", s.MaxShards))
	}
	if s.RequestTTL <= s.RequestTimeout {
		bad("REQUEST_TTL", s.RequestTTL, fmt.Sprintf("more than REQUEST_TIMEOUT=%v: a key has to outlive the request that it came with", s.RequestTimeout))
	}
	if s.RequestTimeout < s.RollupInterval {
		bad("REQUEST_TIMEOUT", s.RequestTimeout, fmt.Sprintf("at least ROLLUP_INTERVAL=%v: events wait for it to be counted", s.RollupInterval))
	}
	if s.CommitInterval > s.RequestTimeout/4 {
		bad("COMMIT_INTERVAL", s.CommitInterval, fmt.Sprintf("at most a quarter of REQUEST_TIMEOUT=%v: increments wait for it to be committed", s.RequestTimeout))
	}
	if !slices.Contains([]string{"none", "firebase", "appcheck"}, s.Auth) {
		bad("AUTH", s.Auth, "none, firebase or appcheck")
	}
	switch {
	case s.Members == "own" && s.Auth != "firebase":
		bad("MEMBERS", s.Members, "AUTH=firebase with it: other callers are not users")
	case s.Members == "any" && s.Auth != "none":
		bad("MEMBERS", s.Members, "AUTH=none with it, and Cloud Run's IAM: users of an app would join and leave for each other")
	case !slices.Contains([]string{"", "off", "own", "any"}, s.Members):
		bad("MEMBERS", s.Members, "own, any or off")
	}
	commands := func(name, value, others string) {
		switch {
		case value == "own" && s.Auth != "firebase":
			bad(name, value, "AUTH=firebase with it: other callers are not users")
		case value == "own" && !slices.Contains(s.Counters.Wildcards(), layout.UserWildcard):
			bad(name, value, fmt.Sprintf("a path that names the user with it, such as COUNTERS=users/{%s}, and not %s", layout.UserWildcard, s.Counters))
		case value == "any" && s.Auth != "none":
			bad(name, value, "AUTH=none with it, and Cloud Run's IAM: users of an app would "+others+" each other's")
		case !slices.Contains([]string{"off", "own", "any"}, value):
			bad(name, value, "off, own or any")
		}
	}
	commands("RESET", s.Reset, "set back")
	commands("LIMIT", s.Limit, "limit")
	if number, err := strconv.ParseUint(s.ProjectNumber, 10, 64); s.Auth == "appcheck" && (err != nil || number == 0) {
		bad("PROJECT_NUMBER", strconv.Quote(s.ProjectNumber), "the project's number, which is not its id, because AUTH=appcheck")
	}
	for i, origin := range s.AllowedOrigins { // which are written as browsers do, too
		var want string
		if s.AllowedOrigins[i], want = Origin(origin); want != "" {
			bad("ALLOWED_ORIGINS", origin, want)
		}
	}
	return errors.Join(errs...)
}

// ranges reports each value that is outside of its field's range.
func (s Settings) ranges(bad func(name string, value any, allowed string)) {
	for field, value := range reflect.ValueOf(s).Fields() {
		least, most, ok := strings.Cut(field.Tag.Get("range"), " to ")
		if !ok {
			continue
		}
		var within bool
		switch v := value.Interface().(type) {
		case time.Duration:
			a, _ := time.ParseDuration(least)
			b, _ := time.ParseDuration(most)
			within = v >= a && v <= b
		case float64:
			a, _ := strconv.ParseFloat(least, 64)
			b, _ := strconv.ParseFloat(most, 64)
			within = v >= a && v <= b // false of NaN
		default:
			a, _ := strconv.ParseInt(least, 10, 64)
			b, _ := strconv.ParseInt(most, 10, 64)
			within = value.Int() >= a && value.Int() <= b
		}
		if !within {
			bad(field.Tag.Get("env"), value.Interface(), field.Tag.Get("range"))
		}
	}
}
