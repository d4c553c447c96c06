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
	// Host is the address, or a name of it, at which the gateway listens: 127.0.0.1 when empty, and
	// 0.0.0.0 for all of this machine. Whoever reaches the gateway can read and write everything.
	// All else stays on 127.0.0.1.
	Host string
	// AllowHosts are names by which browsers reach the gateway, beside localhost, Host and
	// addresses; one that begins with a dot stands for all names that end so.
	AllowHosts []string
	// AllowOrigins are origins of web pages that may call the embedded Firestore, beside those of
	// this machine; "*" is any.
	AllowOrigins  []string
	FunctionsPort int // At which an official emulator posts its events; only used with one.
	// Rules is a file of security rules. Google's emulator evaluates them: it is started, where it
	// is installed, unless FIRESTORE_EMULATOR_HOST names one. Empty for none.
	Rules     string
	Instances int // Processes per function, at least 1.

	// CloudRun lets instances come and go, up to Instances; otherwise all of them run.
	CloudRun CloudRun

	Push   eventarc.Push // How events are delivered; at once unless it says otherwise.
	Faults Faults

	// Given are the flags that somebody gave, without dashes: [Start] refuses those that it would
	// ignore.
	Given []string

	// Environ is the environment, as of [os.Environ]. The functions get it, with their settings. Of
	// its variables, FIRESTORE_EMULATOR_HOST names a server to use instead of the embedded one,
	// unless it is on this machine and nothing answers there; GOOGLE_CLOUD_PROJECT is the project
	// ("demo-counters" when empty), AUTO_CREATE is true unless set or HOSTED, and ALLOWED_ORIGINS
	// has the origins of this machine in any case.
	Environ []string

	Page   http.Handler // What the gateway serves at paths that have no other owner; nil for a list of what is where.
	Output io.Writer    // Where the lines that functions print go; required.
	Logger *slog.Logger // When nil, its lines go to Output, too.

}

// Faults are what shall go wrong.
type Faults struct {
	Events  eventarc.Faults
	Commits emulator.Faults // they need the embedded Firestore

	// KillEvery is how often, on average, a random function process is killed with SIGKILL; 0 for
	// never.
	KillEvery time.Duration

	// Seed makes the same faults befall the nth event and commit again. It is that of Events and
	// Commits, too.
	Seed uint64
}

func (f Faults) seeded() Faults {
	f.Events.Seed, f.Commits.Seed = f.Seed, f.Seed
	return f
}

// ofCommits reports whether any fault of commits is set.
func (f Faults) ofCommits() bool {
	f.Commits.Seed = 0
	return f.Commits != (emulator.Faults{})
}

// Check names every fault that is out of range, by the name of its flag.
func (f Faults) Check() error {
	var err error
	if f.KillEvery < 0 || f.KillEvery > 0 && f.KillEvery < 100*time.Millisecond {
		err = fmt.Errorf("kill %v: want 0s (never), or 100ms and more", f.KillEvery)
	}
	return errors.Join(f.Events.Check(), f.Commits.Check(), err)
}

// Validate names, by its flag, every value that is out of range.
func (c Config) Validate() error {
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
	if c.CloudRun.Concurrency < 0 || c.CloudRun.Concurrency > 1000 {
		errs = append(errs, fmt.Errorf("--concurrency %d: want 1 to 1000, or 0 to keep all instances running", c.CloudRun.Concurrency))
	}
	if c.CloudRun.Idle < 0 {
		errs = append(errs, fmt.Errorf("--idle %v: want 0s and more", c.CloudRun.Idle))
	}
	return errors.Join(append(errs, c.Push.Check(), c.Faults.Check())...)
}

// refuseIgnored says which of the flags that were given would have no effect, and why. Whoever gave
// one expects something of it. silent is a Firestore that was named and doesn't answer.
func (c Config) refuseIgnored(s *System, silent string) error {
	foreign := !s.Embedded && !s.Official
	for _, flag := range c.Given {
		var why string
		switch {
		case flag == "firestore-port" && foreign:
			why = "no Firestore is started, because FIRESTORE_EMULATOR_HOST names one: " + s.Firestore + ". Leave the flag out, or unset the variable"
		case flag == "functions-port" && s.Embedded && silent != "":
			return fmt.Errorf("no Firestore answers at FIRESTORE_EMULATOR_HOST=%s: start Google's emulator first, or leave --functions-port out to use the embedded one", silent)
		case flag == "functions-port" && s.Embedded:
			why = "the embedded Firestore posts no events there. Leave it out, unless FIRESTORE_EMULATOR_HOST names Google's emulator, or --rules starts it"
		case flag == "allow-origin" && !s.Embedded:
			why = "it is the embedded Firestore's, and this is another. Leave it out"
		case flag == "idle" && c.CloudRun.Concurrency == 0:
			why = "all instances are kept running. Leave it out, or say --concurrency"
		default:
			continue
		}
		return fmt.Errorf("--%s would do nothing: %s", flag, why)
	}
	return nil
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
