package demo

import (
	"net/http"
	"time"

	"github.com/firestore-counters/counters/cmd/internal/dev"
)

// fault is one that the page switches on and off. It leaves all others as they are.
type fault struct {
	on        func(dev.Faults) bool
	set       func(*dev.Faults, bool)
	ofCommits bool // which only the embedded Firestore has
}

var faults = map[string]fault{
	"events": {
		on: func(f dev.Faults) bool { return f.Events.Duplicate > 0 },
		set: func(f *dev.Faults, on bool) {
			f.Events.Duplicate, f.Events.Reorder = probability(on, 0.3), probability(on, 0.5)
		},
	},
	"kills": {
		on: func(f dev.Faults) bool { return f.KillEvery > 0 },
		set: func(f *dev.Faults, on bool) {
			if f.KillEvery = 0; on {
				f.KillEvery = 2 * time.Second
			}
		},
	},
	"answers": {
		on:        func(f dev.Faults) bool { return f.Commits.LoseAnswers > 0 },
		set:       func(f *dev.Faults, on bool) { f.Commits.LoseAnswers = probability(on, 0.1) },
		ofCommits: true,
	},
}

func probability(on bool, p float64) float64 {
	if on {
		return p
	}
	return 0
}

// switched is a fault as the page shows it.
type switched struct {
	On       bool `json:"on"`
	Possible bool `json:"possible"`
}

// serveFaults answers which faults are on, and what faults have done since the start, and when that
// was.
func (p *Page) serveFaults(w http.ResponseWriter, r *http.Request) {
	now := p.config.System.Faults()
	answer := struct {
		Started  int64               `json:"started"` // ms since 1970
		Faults   map[string]switched `json:"faults"`
		Befallen dev.Befallen        `json:"befallen"`
		ByHand   *dev.ByHand         `json:"by_hand,omitempty"` // of the parameter counter, while that trigger is on
	}{p.started.UnixMilli(), map[string]switched{}, p.config.System.Befallen(), nil}
	if id := r.URL.Query().Get("counter"); id != "" {
		var err error
		if answer.ByHand, err = p.config.System.ByHand(r.Context(), id); err != nil {
			p.config.Logger.Warn("the total by hand can't be read for the page", "counter", id, "error", err)
		}
	}
	for name, f := range faults {
		answer.Faults[name] = switched{On: f.on(now), Possible: !f.ofCommits || p.config.System.Embedded}
	}
	writeJSON(w, answer)
}

// switchFault switches a fault: PUT /-/faults/kills?on=true.
func (p *Page) switchFault(w http.ResponseWriter, r *http.Request) {
	f, ok := faults[r.PathValue("name")]
	on := r.URL.Query().Get("on")
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case on != "true" && on != "false":
		http.Error(w, "want ?on=true, or ?on=false", http.StatusBadRequest)
		return
	}
	if err := p.config.System.ChangeFaults(func(now *dev.Faults) { f.set(now, on == "true") }); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// switchByHand switches the trigger that is written by hand: PUT /-/by-hand?on=true.
func (p *Page) switchByHand(w http.ResponseWriter, r *http.Request) {
	on := r.URL.Query().Get("on")
	if on != "true" && on != "false" {
		http.Error(w, "want ?on=true, or ?on=false", http.StatusBadRequest)
		return
	}
	if err := p.config.System.SetByHand(on == "true"); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
