//go:build all && !race

package simulation

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pages are browsers with live pages, in which the web client of package web runs as it is, in
// Node.js. It has the world's time: it does something only when it is told, until nothing is left
// to do at that moment, and says when its next timer is due. Meanwhile the world stands still.
type pages struct {
	w     *world
	t     *testing.T
	to    io.Writer
	from  *bufio.Reader
	r     *rand.Rand
	woken chan struct{}
	under sync.WaitGroup

	mu      sync.Mutex
	answers []pageAnswer
	intents map[string]int // :: counter and amount → intent
	calm    bool

	counters []string
	users    [][2]string // of each browser
	now      []int       // who uses it
	tabs     []pageTab
	made     int
	bits     map[string]int // :: counter → bits that were given out
	clicks   int
	failed   []string
}

type pageTab struct {
	ID, Browser, Pending, Waiting int
	Frozen, Kept                  bool
	Trouble                       string
	Values                        []*int64
}

type pageAnswer struct {
	ID     int    `json:"id"`
	Status int    `json:"status"` // 0 is no answer
	Body   string `json:"body"`
	After  string `json:"after,omitempty"`
}

type pageRequest struct {
	ID                            int
	Method, Path, Body, Key, User string
}

type pageAction struct {
	Does     string   `json:"does"`
	Seed     uint32   `json:"seed,omitempty"`
	Counters []string `json:"counters,omitempty"`
	Users    []string `json:"users,omitempty"`
	Browser  int      `json:"browser"`
	Tab      int      `json:"tab"`
	User     string   `json:"user,omitempty"`
	Counter  string   `json:"counter,omitempty"`
	By       int64    `json:"by,omitempty"`
	Joined   bool     `json:"joined,omitempty"`
	Click    int      `json:"click,omitempty"`
}

type pageStep struct {
	Requests []pageRequest
	Ended    []struct {
		Click int
		Error string
	}
	Next int64
	Tabs []pageTab
}

// step has the pages do what is due, and what is asked for.
func (p *pages) step(actions ...pageAction) (next time.Duration) {
	synctest.Wait() // all else at this moment is done: what comes next does not depend on the machine
	p.mu.Lock()
	answers := p.answers
	p.answers = nil
	p.mu.Unlock()
	line, err := json.Marshal(map[string]any{"at": time.Now().UnixMilli(), "answers": answers, "actions": actions})
	if err == nil {
		_, err = p.to.Write(append(line, '\n'))
	}
	var said []byte
	if err == nil {
		said, err = p.from.ReadBytes('\n')
	}
	var did pageStep
	if err == nil {
		err = json.Unmarshal(said, &did)
	}
	if err != nil {
		p.t.Errorf("the pages are gone: %v", err)
		return time.Hour
	}
	p.tabs = did.Tabs
	for _, e := range did.Ended {
		if e.Error != "" {
			p.failed = append(p.failed, fmt.Sprint(e.Click, " ", e.Error))
		}
	}
	for _, r := range did.Requests {
		own := rand.New(rand.NewPCG(p.r.Uint64(), 0))
		p.under.Go(func() { p.carry(own, r) })
	}
	if did.Next == 0 {
		return time.Hour
	}
	return max(time.Until(time.UnixMilli(did.Next)), time.Millisecond)
}

// until lets time pass, in which the pages do what they do by themselves.
func (p *pages) until(end time.Time) {
	for next := p.step(); time.Now().Before(end) && !p.t.Failed(); next = p.step() {
		select {
		case <-time.After(min(next, time.Until(end))):
		case <-p.woken:
		}
	}
}

func (p *pages) answer(a pageAnswer) {
	p.mu.Lock()
	p.answers = append(p.answers, a)
	p.mu.Unlock()
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// carry carries a request to one of the functions, and its answer back, as the internet does: it is
// lost, or late, or only its answer is.
func (p *pages) carry(r *rand.Rand, ask pageRequest) {
	there, back := between(r, time.Millisecond, time.Second), between(r, time.Millisecond, time.Second)
	fate, late := r.IntN(12), between(r, time.Second, 20*time.Second)
	p.mu.Lock()
	if p.calm {
		fate = 12
	}
	p.mu.Unlock()
	told := func(a pageAnswer) { a.ID = ask.ID; p.answer(a) }
	switch fate {
	case 0: // it is lost
		time.Sleep(there)
		told(pageAnswer{})
		return
	case 1: // it comes when nobody waits for it any more
		told(pageAnswer{})
		there = late
	}
	time.Sleep(there)
	status, body, after := p.call(r, ask)
	switch fate {
	case 1:
		return
	case 2, 3: // its answer is lost
		status = 0
	case 4:
		back = late
	}
	time.Sleep(back)
	told(pageAnswer{Status: status, Body: body, After: after})
}

// call sends a request to an instance, and records what it asks for and what it is told.
func (p *pages) call(r *rand.Rand, ask pageRequest) (status int, body, after string) {
	w := p.w
	end := End{Outcome: Unknown}
	asks, err := url.Parse(ask.Path)
	if err != nil {
		p.t.Error(err)
		return 0, "", ""
	}
	parts := strings.Split(strings.TrimPrefix(asks.Path, "/"), "/")
	var begin Begin
	switch ask.Method {
	case http.MethodPost:
		var asked struct{ By map[string]int64 }
		if err := json.Unmarshal([]byte(ask.Body), &asked); err != nil || asked.By["total"] == 0 {
			p.t.Errorf("a page asks for %q: %v", ask.Body, err)
			return 0, "", ""
		}
		by, counter := asked.By["total"], asks.Query().Get("counter")
		p.mu.Lock()
		intent := p.intents[clickOf(counter, by)]
		p.mu.Unlock()
		begin = Begin{Kind: Increment, Intent: intent, Adds: []Add{{Counter: counter, By: by}}}
		if begin.Intent == 0 {
			p.t.Errorf("a page adds %d to %q, which nobody has clicked", by, counter)
		}
	case http.MethodPut:
		begin = Begin{Kind: Join, Counter: parts[0], Member: parts[2]}
	case http.MethodDelete:
		begin = Begin{Kind: Leave, Counter: parts[0], Member: parts[2]}
	}
	if begin.Kind != "" {
		end.Call = w.begin(begin)
		defer func() { w.rec.add(end) }()
	}
	to := w.increments.pick(r)
	token, err := w.tokens.of(ask.User, to.link.ahead)
	if err != nil {
		p.t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, ask.Method, "http://simulated"+ask.Path, strings.NewReader(ask.Body))
	if err != nil {
		p.t.Error(err)
		return 0, "", ""
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if ask.Key != "" {
		req.Header.Set("Idempotency-Key", ask.Key)
	}
	resp, err := to.RoundTrip(req)
	if err != nil {
		return 0, "", ""
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", ""
	}
	var answer struct{ Replayed, Counted bool }
	_ = json.Unmarshal(text, &answer)
	switch {
	case resp.StatusCode == http.StatusOK && answer.Replayed:
		end.Outcome = Replayed
	case resp.StatusCode == http.StatusOK:
		end.Outcome, end.There = OK, (begin.Kind == Join || begin.Kind == Leave) && !answer.Counted
	case resp.StatusCode != http.StatusGatewayTimeout:
		end.Outcome, end.Detail = Refused, fmt.Sprint(resp.StatusCode, " ", string(text))
	}
	return resp.StatusCode, string(text), resp.Header.Get("Retry-After")
}

func clickOf(counter string, by int64) string { return counter + " " + strconv.FormatInt(by, 10) }

// someTab is one that is there, and not put aside.
func (p *pages) someTab() (pageTab, bool) {
	var live []pageTab
	for _, tab := range p.tabs {
		if !tab.Frozen {
			live = append(live, tab)
		}
	}
	if len(live) == 0 {
		return pageTab{}, false
	}
	return live[p.r.IntN(len(live))], true
}

func (p *pages) open(browser int) pageAction {
	p.made++
	return pageAction{Does: "open", Browser: browser, Tab: p.made}
}

// act draws what a user does, or what becomes of a page.
func (p *pages) act() (actions []pageAction) {
	for browser := range p.users {
		there := false
		for _, tab := range p.tabs {
			there = there || tab.Browser == browser && !tab.Frozen
		}
		if !there {
			actions = append(actions, p.open(browser))
		}
	}
	tab, ok := p.someTab()
	if !ok {
		return actions
	}
	user := p.users[tab.Browser][p.now[tab.Browser]]
	counter := p.counters[p.r.IntN(len(p.counters))]
	of := 0
	for _, other := range p.tabs {
		if other.Browser == tab.Browser {
			of++
		}
	}
	switch kind := p.r.IntN(20); {
	case kind < 8 && p.bits[counter] < 53: // that a page can count
		by := int64(1) << p.bits[counter]
		p.bits[counter]++
		p.clicks++
		p.w.load.mu.Lock()
		p.w.load.intents++
		intent := p.w.load.intents
		p.w.load.mu.Unlock()
		p.mu.Lock()
		p.intents[clickOf(counter, by)] = intent
		p.mu.Unlock()
		p.w.rec.add(Clicked{Intent: intent, Adds: []Add{{Counter: counter, By: by}}})
		actions = append(actions, pageAction{Does: "click", Tab: tab.ID, Counter: counter, By: by, Click: intent})
	case kind < 14:
		p.clicks++
		joined := p.r.IntN(2) == 0
		p.w.rec.add(Wished{Counter: counter, Member: user, Joined: joined})
		actions = append(actions, pageAction{Does: "like", Tab: tab.ID, Counter: counter, Joined: joined, Click: p.clicks})
	case kind == 14:
		actions = append(actions, pageAction{Does: "freeze", Tab: tab.ID})
	case kind == 15:
		for _, other := range p.tabs {
			if other.Frozen && p.r.IntN(2) == 0 {
				actions = append(actions, pageAction{Does: "thaw", Tab: other.ID})
			}
		}
	case kind == 16 && tab.Kept:
		actions = append(actions, pageAction{Does: "close", Tab: tab.ID})
	case kind == 17 && of < 3:
		actions = append(actions, p.open(tab.Browser))
	case kind == 18:
		actions = append(actions, p.sign(tab.Browser))
	}
	return actions
}

// sign signs another user in.
func (p *pages) sign(browser int) pageAction {
	p.now[browser] = 1 - p.now[browser]
	return pageAction{Does: "user", Browser: browser, User: p.users[browser][p.now[browser]]}
}

// storm is what goes on while things go wrong.
func (p *pages) storm(ctx context.Context, every time.Duration) {
	for ctx.Err() == nil && !p.t.Failed() {
		p.step(p.act()...)
		p.until(time.Now().Add(200*time.Millisecond + time.Duration(p.r.ExpFloat64()*float64(every)))) // all tabs hear of a click first
	}
}

// settle is until all is well: every page is brought back, and every user comes back once more.
func (p *pages) settle() {
	p.mu.Lock()
	p.calm = true
	p.mu.Unlock()
	for _, tab := range p.tabs {
		if tab.Frozen {
			p.step(pageAction{Does: "thaw", Tab: tab.ID})
		}
	}
	for range 2 {
		for browser := range p.users {
			p.step(p.sign(browser))
		}
		p.until(time.Now().Add(8 * time.Minute))
	}
	p.under.Wait()
	for _, tab := range p.tabs {
		if tab.Waiting > 0 || tab.Pending > 0 || tab.Trouble != "" {
			p.w.rec.add(Stuck{What: fmt.Sprintf("long after everything, a page still waits: %+v", tab)})
		}
	}
	for _, what := range p.failed {
		p.w.rec.add(Stuck{What: "a page was told that a click failed: " + what})
	}
	p.w.rec.add(Answered{})
}

// TestPages has users of the web client among the world's callers: browsers with several live pages
// each, in which two users take turns, who click and like while pages are put aside, closed and
// brought back, and while all goes wrong that goes wrong elsewhere. Nothing clicked is lost or
// counted twice, and who wants to be a member in the end is one. Without Node.js it is skipped, but not in CI.
func TestPages(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("node"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("the web client needs Node.js, which is not here")
	}
	for n := range uint64(min(*seeds, 200)+1) / 2 {
		t.Run(fmt.Sprint("seed ", *firstSeed+n), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "node", "simulated.mjs")
			cmd.Dir, cmd.Stderr = "../web", os.Stderr
			to, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			from, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = to.Close()
				if err := cmd.Wait(); err != nil {
					t.Errorf("the pages' process: %v", err)
				}
			}()
			p := planOfPages(*firstSeed + n)
			clicks := 0
			p.pages = func(w *world) (func(context.Context), func()) {
				own := newPages(t, w, to, bufio.NewReader(from))
				return func(ctx context.Context) { own.storm(ctx, 10*time.Second) }, func() { own.settle(); clicks = own.clicks }
			}
			h, _ := simulate(t, p)
			check(t, p, h)
			if clicks < 20 {
				t.Errorf("there were only %d clicks", clicks)
			}
		})
	}
}

// planOfPages is a seed's plan with pages in place of all that ends lives of counters. Requests of
// a page are not carried out minutes later, which it relies on for likes: see LATE in web/queue.js.
func planOfPages(seed uint64) Plan {
	p := PlanOf(seed)
	p.Storm, p.Epochs = 15*time.Minute, 1
	p.Likes, p.Older, p.Reordered, p.Renamed, p.Hosted, p.InPlace, p.SDK, p.Limits, p.Holds = false, false, false, false, false, false, false, false, false
	p.Counted, p.OlderCounted, p.Documents, p.App, p.Foreign, p.Workers, p.Outage, p.Many, p.Neighbour = nil, nil, 0, 0, 0, 0, 0, 0, ""
	p.Messages.Late, p.Messages.Slow = 0, 0
	p.Cuts, p.Crashes = 2*time.Minute, 3*time.Minute // or else few requests are answered that nothing is known of
	p.Rate, p.Mix = 0.1, Mix{Add: 5, Exact: 1, Read: 1}
	p.Named, p.Auth, p.Members, p.IDs, p.Counters = true, true, 1, 0, flatCounters
	p.Environ = append(p.Environ, "HOSTED=false", "AUTO_CREATE=true", "COUNTERS="+flatCounters, "AUTH=firebase", "RESET=off", "LIMIT=off", "MEMBERS=own")
	return p
}

func newPages(t *testing.T, w *world, to io.Writer, from *bufio.Reader) *pages {
	p := &pages{
		w: w, t: t, to: to, from: from, r: dice(w.plan.Seed, "pages", 0), woken: make(chan struct{}, 1),
		bits: map[string]int{}, intents: map[string]int{}, now: make([]int, 2),
		counters: []string{"named-page-1", "named-page-2"}, users: [][2]string{{"ada", "bob"}, {"eve", "dan"}},
	}
	crashes := w.plan.Crashes
	w.plan.Crashes = 0 // or else there may be no counter, and nobody can leave it
	for _, counter := range p.counters {
		p.bits[counter] = w.plan.firstBit()
		w.makeCounter(p.r, counter)
	}
	w.plan.Crashes = crashes
	p.step(pageAction{Does: "begin", Seed: p.r.Uint32(), Counters: p.counters, Users: []string{"ada", "eve"}})
	p.step(p.open(0), p.open(0), p.open(1))
	return p
}
