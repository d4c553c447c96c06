//go:build all

package spec

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
)

// In each state in which the specification has a request decide, [escrow] and [hold] decide one of its
// actions, and what that leads to is one of the states that it leads to there. So what is shown of limits.tla
// is shown of what is built on them, as far as that keeps to its other rules: conditions, markers and
// settling.
func TestEscrowDecidesAsSpecified(t *testing.T) {
	t.Parallel()
	actions := []string{"Look", "Send", "Refuse", "Told"}
	seen := map[string]int{}
	for _, scenario := range []string{"takes", "gives", "back", "change", "sets", "seats", "again", "crowd"} {
		needsTLC(t)
		e := explored(t, "limits", scenario)
		if e.code != 0 {
			t.Fatalf("TLC ends with %d:\n%s", e.code, e.out)
		}
		states, next := graph(t, e.dump, actions)
		decisions := 0
		for id, s := range states {
			for name := range s["req"].(record) {
				action, want := decided(s, scenario, name)
				if action == "" {
					continue
				}
				decisions++
				seen[action]++
				if !next[id][action][want.String()] {
					t.Fatalf("%s: %s decides to %s, and the specification doesn't, in\n%v\nfor\n%v\nbut goes on to %v", scenario, name, action, s, want, slices.Collect(maps.Keys(next[id][action])))
				}
			}
		}
		t.Logf("%s: %d decisions in %d states", scenario, decisions, len(states))
	}
	for _, action := range actions {
		if seen[action] < 100 {
			t.Errorf("%d decisions are to %s", seen[action], action)
		}
	}
	t.Log(seen)
}

// asks are the requests of the scenarios: kind and amount.
var asks = map[string]map[string]struct {
	kind string
	n    int64
}{
	"takes":  {"two": {"take", 2}, "one": {"take", 1}},
	"gives":  {"one": {"take", 1}, "other": {"take", 1}, "back": {"give", 1}},
	"back":   {"back": {"give", 1}, "also": {"give", 1}},
	"change": {"one": {"take", 1}, "less": {"lower", 1}, "more": {"raise", 1}},
	"sets":   {"less": {"set", 1}, "same": {"set", 2}},
	"seats":  {"hold": {"hold", 1}, "confirm": {"confirm", 0}, "expire": {"expire", 1}},
	"again":  {"hold": {"hold", 1}, "again": {"hold", 1}, "expire": {"expire", 1}},
	"crowd":  {"hold": {"hold", 1}, "one": {"take", 1}, "expire": {"expire", 1}},
}

// decided is what a request does by escrow in a state, and the state that this leads to; "" is nothing.
func decided(s record, scenario, name string) (action string, after record) {
	ask, r := asks[scenario][name], s["req"].(record)[name].(record)
	if r["at"] != "asked" {
		return "", nil
	}
	knows := r["knows"].(record)
	docs, since := knows["docs"].(set), knows["since"].(set)
	var names []string // of the shards that are known
	var known []escrow.Balance
	for _, shard := range []string{"0", "1"} {
		if docs[strconv.Quote(shard)] {
			names = append(names, shard)
			known = append(known, escrow.Balance{Count: knows["count"].(record)[shard].(int64), Share: knows["share"].(record)[shard].(int64)})
		}
	}
	all := set{`"0"`: true, `"1"`: true, `"seat"`: true}
	if ask.kind == "set" {
		all[`"counter"`] = true
	}
	looked := len(since) == len(all)
	count, share := record{"0": int64(0), "1": int64(0)}, record{"0": int64(0), "1": int64(0)}
	on := set{}
	look, refused, none := false, false, false
	seat, told := "same", ""
	if ask.kind == "hold" || ask.kind == "confirm" || ask.kind == "expire" {
		look = !docs[`"seat"`]
		seat, told = seatAfter(ask.kind, knows["seat"].(string))
		if none = seat == "held" && knows["seat"] == "none"; !none { // or there is no document to be a condition
			on[`"seat"`] = true
		}
	}
	switch ask.kind {
	case "confirm":
	case "expire":
		if look || told != "" {
			break
		}
		for i := range known { // who holds the seat is its only member
			known[i].Members = known[i].Count
		}
		plan, _ := escrow.Spread(known, []escrow.Balance{escrow.By(-1, true, false)}, func(int) int { return 0 })
		for _, c := range plan {
			count[names[c.Shard]] = c.By.Count
			on[strconv.Quote(names[c.Shard])] = true
		}
	case "take", "give", "hold":
		by := ask.n
		if ask.kind == "give" {
			by = -by
		}
		var sums map[string]escrow.Balance
		if looked {
			sums = map[string]escrow.Balance{"": escrow.Sum(known...)}
		}
		d := escrow.Decide(map[string][]escrow.Balance{"": known}, sums, []escrow.Request[string]{{"": escrow.By(by, ask.kind == "hold", false)}}, func(int) int { return 0 })
		look, refused = look || d.Look, len(d.Refused) > 0
		for _, c := range d.Plan[""] {
			count[names[c.Shard]] = c.By.Count
			on[strconv.Quote(names[c.Shard])] = true
		}
	default:
		limit := escrow.Sum(known...).Share
		switch ask.kind {
		case "set":
			limit = ask.n
			on[`"counter"`] = true
		case "lower":
			limit -= ask.n
		default:
			limit += ask.n
		}
		shares, ok := escrow.ShareChanges(known, limit)
		look, refused = !ok && !looked || ask.kind == "set" && !looked, !ok
		for i, n := range shares {
			share[names[i]] = n
			if n < 0 {
				on[strconv.Quote(names[i])] = true
			}
		}
	}
	after = maps.Clone(s)
	r = maps.Clone(r)
	after["req"] = maps.Clone(s["req"].(record))
	after["req"].(record)[name] = r
	zero := record{"0": int64(0), "1": int64(0)}
	nothing := record{"docs": set{}, "since": set{}, "fresh": set{}, "count": zero, "share": zero, "seat": "none"}
	switch {
	case look:
		action = "Look"
		r["knows"] = record{"docs": all, "since": all, "fresh": all, "count": s["count"], "share": s["share"], "seat": s["seat"]}
	case told != "":
		action = "Told"
		r["at"], r["knows"] = told, nothing
	case refused:
		action = "Refuse"
		r["at"], r["knows"] = "refused", nothing
	default:
		action = "Send"
		r["at"], r["knows"] = "sent", nothing
		commit := record{
			"r": name, "try": r["try"], "count": count, "share": share, "seat": seat,
			"on": on, "none": none, "fresh": knows["fresh"],
		}
		marked := s["markers"].(record)[name].(set)[fmt.Sprint(r["try"])]
		stale := slices.ContainsFunc(slices.Collect(maps.Keys(on)), func(doc string) bool { return !knows["fresh"].(set)[doc] })
		if !marked && !stale { // or it can't be applied any more
			net := maps.Clone(s["net"].(set))
			net[commit.String()] = true
			after["net"] = net
		}
	}
	// Whoever still waits and has no room at this moment is noted.
	full := maps.Clone(s["full"].(set))
	taken, limit := sum(s["count"]), sum(s["share"])
	for other, state := range after["req"].(record) {
		of := asks[scenario][other]
		room := limit-taken >= of.n
		if of.kind == "give" {
			room = taken >= of.n
		}
		if at := state.(record)["at"]; !room && (at == "asked" || at == "sent" || at == "doubt") {
			full[strconv.Quote(other)] = true
		}
	}
	after["full"] = full
	return action, after
}

// seatAfter is what becomes of a seat by [hold], or what whoever asks is told instead.
func seatAfter(kind, knows string) (seat, told string) {
	state := map[string]hold.State{"none": hold.Vacant, "ended": hold.Vacant, "held": hold.Held, "kept": hold.Kept}[knows]
	switch kind {
	case "hold":
		if state.Holds() == hold.Take {
			return "held", ""
		}
		return "same", "held already"
	case "confirm":
		switch {
		case state.Confirms() == hold.Confirm:
			return "kept", ""
		case state == hold.Kept:
			return "same", "kept already"
		}
		return "same", "gone"
	}
	if state == hold.Held { // which it is asked of once the time is over
		state = hold.Over
	}
	if state.Confirms() == hold.End && state.Holds() == hold.End && state.Keeps() == hold.End {
		return "ended", ""
	}
	return "same", "idle"
}

// amounts are the requests of the scenarios of amounts.tla: kind and amount.
var amounts = map[string]map[string]struct {
	kind string
	n    int64
}{
	"reserve": {"hold": {"reserve", 2}, "again": {"reserve", 2}, "back": {"end", 0}},
	"settle":  {"less": {"settle", 1}, "all": {"settle", 2}, "expire": {"expire", 0}},
	"more":    {"more": {"settle", 2}, "again": {"settle", 2}, "one": {"take", 1}},
	"give":    {"back": {"give", 1}, "none": {"settle", 0}, "more": {"settle", 2}},
	"lower":   {"less": {"lower", 1}, "more": {"settle", 2}, "back": {"end", 0}},
	"crowd":   {"hold": {"reserve", 2}, "one": {"take", 1}, "expire": {"expire", 0}},
}

// In each state in which amounts.tla has a request commit or be refused, [escrow] and [hold] have it do so, and the
// commit is one of those of the specification.
func TestHoldsDecideAsSpecified(t *testing.T) {
	t.Parallel()
	actions := []string{"Send", "Refuse"}
	seen := map[string]int{}
	for scenario, asked := range amounts {
		needsTLC(t)
		e := explored(t, "amounts", scenario)
		if e.code != 0 {
			t.Fatalf("TLC ends with %d:\n%s", e.code, e.out)
		}
		states, next := graph(t, e.dump, actions)
		for id, s := range states {
			for name, ask := range asked {
				action, commit := finishes(s, ask.kind, ask.n, name)
				if action == "" {
					continue
				}
				seen[action]++
				after := maps.Clone(s)
				after["req"] = maps.Clone(s["req"].(record))
				after["req"].(record)[name] = record{"at": map[string]string{"Send": "sent", "Refuse": "refused"}[action], "says": int64(0), "knows": knowsNothing}
				if commit != nil && commit["on"].(set).in(commit["fresh"].(set)) {
					after["net"] = maps.Clone(s["net"].(set))
					after["net"].(set)[commit.String()] = true
				}
				after["full"] = maps.Clone(s["full"].(set))
				for other, state := range after["req"].(record) {
					if at := state.(record)["at"]; (at == "open" || at == "sent" || at == "doubt") && !roomFor(s, asked[other].kind, asked[other].n) {
						after["full"].(set)[strconv.Quote(other)] = true
					}
				}
				if !next[id][action][after.String()] {
					t.Fatalf("%s: %s decides to %s, and the specification doesn't, in\n%v\nfor\n%v\nbut goes on to %v", scenario, name, action, s, after, slices.Collect(maps.Keys(next[id][action])))
				}
			}
		}
		t.Logf("%s: %d states, decided so far %v", scenario, len(states), seen)
	}
	for _, action := range actions {
		if seen[action] < 100 {
			t.Errorf("%d decisions are to %s", seen[action], action)
		}
	}
}

var (
	noParts      = record{"0": int64(0), "1": int64(0)}
	noRecord     = record{"state": "none", "amount": int64(0), "parts": noParts, "used": int64(0)}
	knowsNothing = record{"read": false, "looked": false, "over": false, "fresh": set{}, "count": noParts, "held": noParts, "share": noParts, "rec": noRecord}
)

// roomFor is HasRoom of amounts.tla.
func roomFor(s record, kind string, n int64) bool {
	rec := s["rec"].(record)
	room := sum(s["share"]) - sum(s["count"])
	switch {
	case kind == "give":
		return sum(s["count"])-sum(s["held"]) >= n
	case kind == "settle":
		return room >= max(0, n-rec["amount"].(int64))
	case s["due"] == true && rec["state"] == "held":
		room += rec["amount"].(int64)
	}
	return room >= n
}

// finishes is what a request commits by the code, or that it is refused; "" is nothing of both, yet.
func finishes(s record, kind string, n int64, name string) (action string, commit record) {
	r := s["req"].(record)[name].(record)
	knows := r["knows"].(record)
	if r["at"] != "open" {
		return "", nil
	}
	rec := knows["rec"].(record)
	looked, names := knows["looked"] == true, kind == "settle" || kind == "end" || kind == "expire"
	amount := rec["amount"].(int64)
	more := kind == "settle" && n > amount
	switch {
	case !names && !looked, names && knows["read"] == false:
		return "", nil
	case names && rec["state"] == "held":
		if more && !looked {
			return "", nil
		}
	case names && (kind == "expire" || rec["state"] != "none" && rec["state"] != "fence"):
		return "", nil
	}
	shards := []string{"0", "1"}
	of := func(what, shard string) int64 { return knows[what].(record)[shard].(int64) }
	known := make([]escrow.Balance, 2)
	for i, shard := range shards {
		known[i] = escrow.Balance{Count: of("count", shard), Holds: of("held", shard), Share: of("share", shard)}
	}
	count, held, share := maps.Clone(noParts), maps.Clone(noParts), maps.Clone(noParts)
	on, none, after := set{}, false, record{"state": "same", "amount": int64(0), "parts": noParts, "used": int64(0)}
	decide := func(ask escrow.Balance) (refused bool) {
		d := escrow.Decide(map[string][]escrow.Balance{"": known}, map[string]escrow.Balance{"": escrow.Sum(known...)}, []escrow.Request[string]{{"": ask}}, func(int) int { return 0 })
		for _, c := range d.Plan[""] {
			count[shards[c.Shard]], held[shards[c.Shard]] = c.By.Count, c.By.Holds
			on[strconv.Quote(shards[c.Shard])] = true
		}
		return len(d.Refused) > 0
	}
	refused := false
	switch {
	case kind == "reserve":
		refused = decide(escrow.By(n, false, true))
		none, after = true, record{"state": "held", "amount": n, "parts": maps.Clone(held), "used": int64(0)}
	case kind == "take":
		refused = decide(escrow.By(n, false, false))
	case kind == "give":
		refused = decide(escrow.By(-n, false, false))
	case kind == "lower":
		by, ok := escrow.ShareChanges(known, sum(knows["share"])-n)
		refused = !ok
		for i, n := range by {
			if share[shards[i]] = n; n != 0 {
				on[strconv.Quote(shards[i])] = true
			}
		}
	case rec["state"] != "held":
		none, after = rec["state"] == "none", record{"state": "ended", "amount": amount, "parts": rec["parts"], "used": rec["used"]}
		if !none {
			on[`"record"`] = true
		}
	default:
		if more {
			refused = decide(escrow.By(n-amount, false, false))
		}
		on[`"record"`] = true
		used, state := n, "settled"
		if kind != "settle" {
			used, state = 0, "ended"
		}
		after = record{"state": state, "amount": amount, "parts": noParts, "used": used}
		names := layout.Layout{}
		h := hold.Record{Counter: "c", Amount: amount, Used: used, Parts: map[string]int64{}}
		for i, shard := range shards {
			if part := rec["parts"].(record)[shard].(int64); part != 0 {
				h.Parts[layout.LimitedShard("seats", i)] = part
			}
		}
		freed := hold.GivenBack{}
		freed.AddUnused(names, h)
		for i, shard := range shards {
			off := freed[names.Shard("c", layout.LimitedShard("seats", i))]
			count[shard] = count[shard].(int64) + off.Count
			held[shard] = held[shard].(int64) + off.Holds
		}
	}
	if refused {
		// What has been done meanwhile is no refusal, and what is over is ended first: the code asks for both again.
		now := s["rec"].(record)["state"]
		if knows["over"] == true && (kind == "take" || kind == "reserve") || kind == "settle" && now != "held" || kind == "reserve" && now != "none" && now != "fence" {
			return "", nil
		}
		return "Refuse", nil
	}
	return "Send", record{"r": name, "count": count, "held": held, "share": share, "rec": after, "on": on, "none": none, "fresh": knows["fresh"]}
}

// in reports whether all of a set are in another.
func (s set) in(other set) bool {
	for member := range s {
		if !other[member] {
			return false
		}
	}
	return true
}

func sum(v any) (n int64) {
	for _, part := range v.(record) {
		n += part.(int64)
	}
	return n
}

// record is a record of TLA+, or a function of strings; its other values are set, int64, string and bool.
type record map[string]any

// set holds its members as they are printed.
type set map[string]bool

func (r record) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r)) {
		b.WriteString(name + ":" + printed(r[name]) + " ")
	}
	return "[" + b.String() + "]"
}

func (s set) String() string {
	return "{" + strings.Join(slices.Sorted(maps.Keys(s)), ", ") + "}"
}

func printed(v any) string {
	switch v := v.(type) { // hundreds of thousands of states take fmt a third of the test's time
	case string:
		return strconv.Quote(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case fmt.Stringer:
		return v.String()
	}
	return fmt.Sprint(v)
}

// graph reads what TLC dumps: states, and by state and action, of those that are asked for, where that leads to.
func graph(t *testing.T, name string, actions []string) (states map[string]record, next map[string]map[string]map[string]bool) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	states = map[string]record{}
	var edges [][3]string
	unescaped := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		id, label, _ := strings.Cut(lines.Text(), ` [label="`)
		label, _, found := cutLast(label, `"`)
		if from, to, step := strings.Cut(id, " -> "); step {
			if action, _, _ := strings.Cut(label, `"`); slices.Contains(actions, action) {
				edges = append(edges, [3]string{from, to, action})
			}
		} else if found && states[id] == nil {
			states[id] = parse(t, unescaped.Replace(label))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(states) < 100 || len(edges) < 100 {
		t.Fatalf("TLC dumps %d states and %d steps", len(states), len(edges))
	}
	printed := map[string]string{}
	next = map[string]map[string]map[string]bool{}
	for _, e := range edges {
		from, to, action := e[0], e[1], e[2]
		if next[from] == nil {
			next[from] = map[string]map[string]bool{}
		}
		if next[from][action] == nil {
			next[from][action] = map[string]bool{}
		}
		if printed[to] == "" {
			printed[to] = states[to].String()
		}
		next[from][action][printed[to]] = true
	}
	return states, next
}

// steps are the actions that are taken in what TLC dumps.
func steps(t *testing.T, name string) map[string]bool {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	taken := map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		id, label, _ := bytes.Cut(lines.Bytes(), []byte(` [label="`))
		if bytes.Contains(id, []byte(" -> ")) {
			action, _, _ := bytes.Cut(label, []byte(`"`))
			taken[string(action)] = true
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return taken
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// parse reads a state as TLC prints it.
func parse(t *testing.T, text string) record {
	t.Helper()
	p := &parser{t: t, text: text, rest: text}
	s := record{}
	for p.peek() != "" {
		p.want(`/\`)
		name := p.next()
		p.want("=")
		s[name] = p.value()
	}
	return s
}

type parser struct {
	t          *testing.T
	text, rest string
}

// peek is the next token: a number, a name, a text with its quotes, or a sign; "" at the end.
func (p *parser) peek() string {
	p.rest = strings.TrimLeft(p.rest, " \n")
	for _, sign := range []string{`/\`, "|->", ":>", "@@", "<<", ">>"} {
		if strings.HasPrefix(p.rest, sign) {
			return sign
		}
	}
	end := 0
	switch {
	case p.rest == "":
		return ""
	case p.rest[0] == '"':
		end = strings.IndexByte(p.rest[1:], '"') + 1
	default:
		for end+1 < len(p.rest) && (p.rest[end] == '-' || isWord(p.rest[end])) && isWord(p.rest[end+1]) {
			end++
		}
	}
	return p.rest[:end+1]
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func (p *parser) next() string {
	first := p.peek()
	if first == "" {
		p.t.Fatalf("a state ends early: %s", p.text)
	}
	p.rest = p.rest[len(first):]
	return first
}

func (p *parser) want(token string) {
	if got := p.next(); got != token {
		p.t.Fatalf("%q where %q is expected: %s", got, token, p.text)
	}
}

func (p *parser) value() any {
	switch first := p.next(); {
	case first == "[":
		r := record{}
		for end := ","; end != "]"; end = p.next() {
			name := p.next()
			p.want("|->")
			r[name] = p.value()
		}
		return r
	case first == "(": // a function
		r := record{}
		for end := "@@"; end != ")"; end = p.next() {
			name := p.value().(string)
			p.want(":>")
			r[name] = p.value()
		}
		return r
	case first == "{":
		s := set{}
		if p.peek() == "}" {
			p.next()
			return s
		}
		for end := ","; end != "}"; end = p.next() {
			s[printed(p.value())] = true
		}
		return s
	case first[0] == '"':
		return strings.Trim(first, `"`)
	case first == "TRUE" || first == "FALSE":
		return first == "TRUE"
	default:
		n, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			p.t.Fatalf("%q is no value: %s", first, p.text)
		}
		return n
	}
}
