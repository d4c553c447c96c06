package dev

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
)

// Config says what [Start] starts. A port of 0 is any free one.
type Config struct {
	FirestorePort int // Of the embedded Firestore.
	Port          int // Of the gateway.
	// Host is the address, or a name of it, at which the gateway listens: 127.0.0.1 when empty, and 0.0.0.0 for all of
	// this machine. Whoever reaches the gateway can read and write everything. All else stays on 127.0.0.1.
	Host string
	// AllowHosts are names by which browsers reach the gateway, beside localhost, Host and addresses; one that begins with
	// a dot stands for all names that end so.
	AllowHosts    []string
	FunctionsPort int // At which an official emulator posts its events; only used with one.
	Instances     int // Processes per function, at least 1.

	Faults Faults

	// Environ is the environment, as of [os.Environ]. The functions get it, with their settings. Of its variables,
	// FIRESTORE_EMULATOR_HOST names a server to use instead of the embedded one, unless it is on this machine and nothing
	// answers there; GOOGLE_CLOUD_PROJECT is the project ("demo-counters" when empty), AUTO_CREATE is true unless set, and
	// ALLOWED_ORIGINS has the origins of this machine in any case.
	Environ []string

	Page   http.Handler // What the gateway serves at paths that are nobody else's; nil for a list of what is where.
	Output io.Writer    // Where the lines that functions print go; required.
	Logger *slog.Logger // When nil, its lines go to Output, too.
}

// Faults are what shall go wrong. The probabilities are 0 to 1.
type Faults struct {
	// Of events: see [eventarc.Faults].
	Duplicate, Drop, Reorder float64

	// Of commits: see [emulator.Faults]. They need the embedded Firestore.
	Abort, Unavailable, LoseAnswers float64
	DocWriteRate                    float64 // Commits a second that one document takes; 0 for any number.
	CommitLatency                   time.Duration

	// KillEvery is how often, on average, a random function process is killed with SIGKILL; 0 for never.
	KillEvery time.Duration

	// Seed makes the same faults befall the nth event and commit again.
	Seed uint64
}

func (f Faults) events() eventarc.Faults {
	return eventarc.Faults{Duplicate: f.Duplicate, Drop: f.Drop, Reorder: f.Reorder, Seed: f.Seed}
}

func (f Faults) commits() emulator.Faults {
	return emulator.Faults{
		Abort: f.Abort, Unavailable: f.Unavailable, LoseAnswers: f.LoseAnswers,
		DocWriteRate: f.DocWriteRate, CommitLatency: f.CommitLatency, Seed: f.Seed,
	}
}

// String lists the faults that are set, by the names of their flags, and the seed. It is empty when none is set.
func (f Faults) String() string {
	var set []string
	for _, fault := range []struct {
		name  string
		value any
		unset bool
	}{
		{"duplicate", f.Duplicate, f.Duplicate == 0},
		{"drop", f.Drop, f.Drop == 0},
		{"reorder", f.Reorder, f.Reorder == 0},
		{"abort", f.Abort, f.Abort == 0},
		{"unavailable", f.Unavailable, f.Unavailable == 0},
		{"lose-answers", f.LoseAnswers, f.LoseAnswers == 0},
		{"doc-write-rate", f.DocWriteRate, f.DocWriteRate == 0},
		{"commit-latency", f.CommitLatency, f.CommitLatency == 0},
		{"kill", f.KillEvery, f.KillEvery == 0},
	} {
		if !fault.unset {
			set = append(set, fmt.Sprintf("%s %v", fault.name, fault.value))
		}
	}
	if len(set) == 0 {
		return ""
	}
	return strings.Join(set, ", ") + fmt.Sprintf(", seed %d", f.Seed)
}

// validate names every fault that is out of range, by the name of its flag.
func (f Faults) validate() error {
	var errs []error
	for _, p := range []struct {
		name  string
		value float64
	}{
		{"duplicate", f.Duplicate}, {"drop", f.Drop}, {"reorder", f.Reorder},
		{"abort", f.Abort}, {"unavailable", f.Unavailable}, {"lose-answers", f.LoseAnswers},
	} {
		if !(p.value >= 0 && p.value <= 1) { // Written this way round so that NaN is refused too.
			errs = append(errs, fmt.Errorf("--%s %v: want a probability, 0 to 1", p.name, p.value))
		}
	}
	if !(f.DocWriteRate >= 0 && f.DocWriteRate <= 1e6) {
		errs = append(errs, fmt.Errorf("--doc-write-rate %v: want commits a second, 0 (any number) to 1000000", f.DocWriteRate))
	}
	if f.CommitLatency < 0 || f.CommitLatency > time.Minute {
		errs = append(errs, fmt.Errorf("--commit-latency %v: want 0s to 1m", f.CommitLatency))
	}
	if f.KillEvery < 0 || f.KillEvery > 0 && f.KillEvery < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("--kill %v: want 0s (never), or 100ms and more", f.KillEvery))
	}
	return errors.Join(errs...)
}

func (c Config) validate() error {
	var errs []error
	for _, p := range []struct {
		name  string
		value int
	}{{"firestore-port", c.FirestorePort}, {"port", c.Port}, {"functions-port", c.FunctionsPort}} {
		if p.value < 0 || p.value > 65535 {
			errs = append(errs, fmt.Errorf("--%s %d: want a port, 1 to 65535, or 0 for any free one", p.name, p.value))
		}
	}
	if c.Instances < 1 || c.Instances > 100 {
		errs = append(errs, fmt.Errorf("--instances %d: want 1 to 100", c.Instances))
	}
	return errors.Join(append(errs, c.Faults.validate())...)
}

// lookup returns a variable of an environment, of which the last one counts, or "".
func lookup(environ []string, name string) string {
	value := ""
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}
