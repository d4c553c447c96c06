package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Less says what is left out of a plan. A seed that fails is shrunk by leaving out more and more of
// it, until it no longer fails.
type Less struct {
	Operations int      // in a storm, at most
	Without    []string // of [Parts]
	Only       []int    // the operations that are begun, by their number in the whole world; nil is all
	Order      uint64   // of goroutines and of what the runtime draws; it is no part of the plan
}

// part is something that a plan can do without.
type part struct {
	name  string
	leave func(*Plan)
}

var parts = []part{
	{"epochs", func(p *Plan) { p.Epochs = 1 }},
	{"outage", func(p *Plan) { p.Outage = 0 }},
	{"counted", func(p *Plan) { p.Documents = 0 }},
	{"members", func(p *Plan) { p.Mix.Member = 0 }},
	{"holds", func(p *Plan) { p.Holds = false }},
	{"amounts", func(p *Plan) { p.Mix.Amount = 0 }},
	{"ceiling", func(p *Plan) {
		p.Environ = slices.DeleteFunc(slices.Clone(p.Environ), func(pair string) bool { return strings.HasPrefix(pair, "CEILING=") })
	}},
	{"neighbour", func(p *Plan) { p.Neighbour = "" }},
	{"clocks", func(p *Plan) { p.Ahead, p.Clocks = 0, 0 }},
	{"many", func(p *Plan) { p.Many = 0 }},
	{"auth", func(p *Plan) { p.leaveAuth() }},
	{"sdk", func(p *Plan) { p.SDK = false }},
	{"imports", func(p *Plan) { p.Mix.Old, p.Mix.Import, p.Workers = 0, 0, 0 }},
	{"live", func(p *Plan) {
		p.Live, p.Environ = false, slices.DeleteFunc(slices.Clone(p.Environ), func(set string) bool { return set == live })
	}},
	{"limits", func(p *Plan) { p.Limits, p.Mix.Limit, p.Mix.Amount, p.Declared = false, 0, 0, 0 }},
	{"odd", func(p *Plan) { p.Mix.Odd = 0 }},
	{"shrinks", func(p *Plan) { p.Mix.Shrink = 0 }},
	{"lives", func(p *Plan) { p.Mix.Pieces, p.Mix.Ends, p.Starts = 0, 0, false }},
	{"resets", func(p *Plan) { p.Mix.Reset = 0 }},
	{"older", func(p *Plan) { p.Older, p.Renamed = false, false }},
	{"app", func(p *Plan) { p.App = 0 }},
	{"foreign", func(p *Plan) { p.Foreign = 0 }},
	{"damage", func(p *Plan) { p.Damage = 0 }},
	{"instances", func(p *Plan) { p.Increments, p.Rollups = 1, 1 }},
	{"increments", func(p *Plan) { p.Increments = 1 }},
	{"rollups", func(p *Plan) { p.Rollups = 1 }},
	{"crashes", func(p *Plan) { p.Crashes = 0 }},
	{"replacements", func(p *Plan) { p.Replacements = 0 }},
	{"cuts", func(p *Plan) { p.Cuts = 0 }},
	{"silences", func(p *Plan) { p.Silences = 0 }},
	{"hot", func(p *Plan) { p.DocWriteRate = 0 }},
	{"index", func(p *Plan) { p.Index = 0 }},
	{"enterprise", func(p *Plan) { p.Enterprise = false }},
	{"messages", func(p *Plan) { p.Messages = MessageFaults{} }},
	{"slow", func(p *Plan) { p.Messages.Slow = 0 }},
	{"late", func(p *Plan) { p.Messages.Late = 0 }},
	{"neversent", func(p *Plan) { p.Messages.NeverSent = 0 }},
	{"lostanswer", func(p *Plan) { p.Messages.LostAnswer = 0 }},
	{"lostsilence", func(p *Plan) { p.Messages.LostSilence = 0 }},
	{"contention", func(p *Plan) { p.Messages.Contention = 0 }},
	{"quota", func(p *Plan) { p.Messages.Quota = 0 }},
	{"tornstream", func(p *Plan) { p.Messages.TornStream = 0 }},
	{"events", func(p *Plan) { p.Events = EventFaults{} }},
	{"dropped", func(p *Plan) { p.Events.Drop = 0 }},
	{"lateevents", func(p *Plan) { p.Events.Late = 0 }},
	{"duplicates", func(p *Plan) { p.Events.Duplicate = 0 }},
	{"reordered", func(p *Plan) { p.Events.Reorder = 0 }},
}

// Parts are the names of what a plan can do without, the larger ones first.
func Parts() (names []string) {
	for _, x := range parts {
		names = append(names, x.name)
	}
	return names
}

// Less is the plan without what is to be left out. Its error names a part that there is not.
func (p Plan) Less(less Less) (Plan, error) {
	for _, name := range less.Without {
		n := slices.IndexFunc(parts, func(x part) bool { return x.name == name })
		if n < 0 {
			return p, fmt.Errorf("a plan has no part %q; there are %s", name, strings.Join(Parts(), ", "))
		}
		parts[n].leave(&p)
	}
	p.Only, p.Order = less.Only, less.Order
	if less.Operations > 0 {
		p = p.Shortened(less.Operations)
	}
	return p, nil
}

// Flags are what is left out, as flags of the tests and of simulate have it.
func (l Less) Flags() (flags []string) {
	if l.Operations > 0 {
		flags = append(flags, "operations="+strconv.Itoa(l.Operations))
	}
	if len(l.Without) > 0 {
		flags = append(flags, "without="+strings.Join(l.Without, ","))
	}
	if l.Only != nil {
		flags = append(flags, "only="+spans(l.Only))
	}
	if l.Order > 0 {
		flags = append(flags, "order="+strconv.FormatUint(l.Order, 10))
	}
	return flags
}

// spans writes numbers in order as 3,7-9; none is "none".
func spans(of []int) string {
	if len(of) == 0 {
		return "none"
	}
	var parts []string
	for n := 0; n < len(of); n++ {
		first := of[n]
		for n+1 < len(of) && of[n+1] == of[n]+1 {
			n++
		}
		if of[n] == first {
			parts = append(parts, strconv.Itoa(first))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", first, of[n]))
		}
	}
	return strings.Join(parts, ",")
}

// Numbers reads what [Less.Flags] writes for operations: "" is nil, all of them.
func Numbers(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	of := []int{}
	if text == "none" {
		return of, nil
	}
	for span := range strings.SplitSeq(text, ",") {
		from, to, wide := strings.Cut(span, "-")
		if !wide {
			to = from
		}
		first, err := strconv.Atoi(from)
		if err != nil {
			return nil, fmt.Errorf("operations %q: want numbers as 3,7-9", text)
		}
		last, err := strconv.Atoi(to)
		if err != nil || last < first || last-first > 1_000_000 {
			return nil, fmt.Errorf("operations %q: want numbers as 3,7-9", text)
		}
		for n := first; n <= last; n++ {
			of = append(of, n)
		}
	}
	return of, nil
}

// Report is what became of a seed.
type Report struct {
	Seed       uint64
	Hash       string // of the history
	Hours      float64
	Operations int // that were to begin in storms, those that were left out too
	Calls      int
	Commits    int
	Faults     Faults
	Violations []string `json:",omitempty"`
	Trace      []string `json:",omitempty"` // entries of the history that led to the first of them
}
