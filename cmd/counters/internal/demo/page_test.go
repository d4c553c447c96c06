package demo

import (
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/cmd/counters/internal/dev"
	"github.com/firestore-counters/counters/shards"
)

// system is the whole local system with the page, and a connection between browser and Firestore that can be cut.
type system struct {
	*dev.System
	line *proxy
}

func startSystem(t *testing.T, settings ...string) *system {
	t.Helper()
	line := startProxy(t)
	s, err := dev.Start(t.Context(), dev.Config{
		Instances: 1,
		Environ:   append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LOG_LEVEL=WARN"}, settings...),
		Page:      Handler(Config{Project: dev.DefaultProject, Firestore: line.Addr().String(), NodeModules: nodeModules(t)}),
		Output:    t.Output(),
		Logger:    slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	line.setTo(s.Firestore)
	return &system{s, line}
}

// counter is a counter as another program sees it.
func (s *system) counter(t *testing.T, id string) shards.Counter {
	t.Helper()
	conn, err := grpc.NewClient(s.Firestore, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	client, err := shards.Open(t.Context(), shards.Config{Project: s.Project, AutoCreate: true}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	counter, err := client.Counter(id)
	if err != nil {
		t.Fatal(err)
	}
	return counter
}

// add adds to a counter from elsewhere.
func add(t *testing.T, c shards.Counter, by int64) {
	t.Helper()
	if err := c.Add(t.Context(), by); err != nil {
		t.Fatal(err)
	}
}

const (
	plusOne  = chromedp.CSS(`button[data-by="1"]`)
	minusOne = chromedp.CSS(`button[data-by="-1"]`)
	plusTen  = chromedp.CSS(`button[data-by="10"]`)
	live     = `document.getElementById("counter").dataset.state === "live"`
	cutOff   = `document.getElementById("counter").dataset.state === "cut off"`
)

func TestClicksAndOthersAndCut(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	s := startSystem(t)
	elsewhere := s.counter(t, "clicks & more")

	// A counter that doesn't exist is offered, and its first increment makes it.
	b.do(chromedp.Navigate(s.Gateway + "/?counter=clicks+%26+more"))
	b.until(live)
	b.until(`!document.getElementById("missing").hidden`)
	b.do(chromedp.Click(plusOne))
	b.shows(1)
	b.total(1)
	b.until(`document.getElementById("missing").hidden`)
	b.do(chromedp.Click(plusOne), chromedp.Click(plusOne), chromedp.Click(minusOne))
	b.shows(2)
	b.total(2)

	// What others add appears, without a reload.
	b.do(chromedp.Evaluate[chromedp.Void](`window.sameDocument = true`))
	add(t, elsewhere, 40)
	b.total(42)
	b.shows(42)
	b.until(`document.querySelectorAll("#shards li").length === 10`)
	b.until(`[...document.querySelectorAll("#shards .count")].reduce((sum, count) => sum + Number(count.textContent), 0) === 42`)
	b.quiet(nil)

	// Cut off, it goes on with what it knows and what it adds by itself; then it catches up.
	s.line.setCut(true)
	b.offline(true)
	b.until(cutOff)
	b.do(chromedp.Click(plusOne))
	b.shows(43)
	add(t, elsewhere, 100)
	if err := s.WaitForEvents(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.shows(43)
	b.total(42)
	s.line.setCut(false)
	b.offline(false)
	b.until(live)
	b.total(143)
	b.shows(143)
	b.quiet(regexp.MustCompile(`Firestore|/google\.firestore\.v1\.|/cleardot\.gif`)) // The SDK says so, and asks whether there is an internet.

	add(t, elsewhere, -3)
	b.total(140)
	b.shows(140)
	if !eval[bool](b, `window.sameDocument`) {
		t.Error("the page was loaded again")
	}
	b.quiet(nil)
}

// TestLoad holds that under a load of its own, every number that the page ever displayed is what it had added, whatever
// of that the roll-up had counted.
func TestLoad(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	s := startSystem(t)
	counter := s.counter(t, "load")
	add(t, counter, 1_000)

	b.do(chromedp.Navigate(s.Gateway + "/?counter=load"))
	b.total(1_000)
	b.do(chromedp.Evaluate[chromedp.Void](`
		window.seen = {totals: new Set(), values: new Set(), wrong: []};
		new MutationObserver(() => {
			const number = (id) => Number(document.getElementById(id).textContent.replaceAll(",", ""));
			const [value, added] = [number("value"), 1000 + number("answered") + number("flying")];
			seen.totals.add(number("total"));
			seen.values.add(value);
			if (value !== added) seen.wrong.push([value, added]);
		}).observe(document.getElementById("counter"), {attributes: true});`))

	// The slider works by keyboard: twelve steps are sixty a second.
	keys := ""
	for range 12 {
		keys += kb.ArrowRight
	}
	b.do(chromedp.SendKeys(chromedp.CSS("#rate"), keys))
	if got := eval[string](b, `document.getElementById("rate").getAttribute("aria-valuetext")`); got != "60 increments a second" {
		t.Errorf("the slider says %q", got)
	}
	b.until(`seen.totals.size > 8`)
	b.keep("load.png")
	b.prefer("dark")
	b.keep("load-dark.png")
	b.prefer("light")
	b.resize(360, 800)
	b.keep("load-narrow.png")
	if width := eval[int](b, `document.documentElement.scrollWidth`); width > 360 {
		t.Errorf("the page is %d px wide in a window of 360", width)
	}
	b.do(chromedp.SendKeys(chromedp.CSS("#rate"), kb.Home))

	b.until(`document.getElementById("flying").textContent === "0"`)
	sum, err := counter.Sum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.total(sum.Total)
	b.shows(sum.Total)
	type seen struct {
		Totals, Values int
		Wrong          [][2]int64
		Answered       string
	}
	got := eval[seen](b, `({totals: seen.totals.size, values: seen.values.size, wrong: seen.wrong.slice(0, 10), answered: document.getElementById("answered").textContent.replaceAll(",", "")})`)
	if len(got.Wrong) > 0 {
		t.Errorf("displayed, and what was added by then: %v", got.Wrong)
	}
	if got.Values < 2*got.Totals {
		t.Errorf("%d numbers were displayed, and the total had %d: increments don't show at once", got.Values, got.Totals)
	}
	if want := sum.Total - 1_000; got.Answered != strconv.FormatInt(want, 10) {
		t.Errorf("%s increments were answered, and %d were counted", got.Answered, want)
	}
	b.quiet(nil)
}

// TestRefused holds that an increment that the function refuses is taken back, and the others are not.
func TestRefused(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	s := startSystem(t, "MAX_INCREMENT=5")
	b.do(chromedp.Navigate(s.Gateway + "/?counter=refused"))
	b.until(live)
	b.do(chromedp.Evaluate[chromedp.Void](`
		window.seen = [];
		new MutationObserver(() => seen.push(document.getElementById("counter").dataset.value))
			.observe(document.getElementById("counter"), {attributes: true});`))
	b.do(chromedp.Click(plusOne), chromedp.Click(plusTen))
	b.until(`seen.includes("10") || seen.includes("11")`)
	b.total(1)
	b.shows(1)
	b.until(`document.getElementById("problem").textContent.includes("taken back: 400")`)
	b.quiet(regexp.MustCompile(`status of 400`))
}

// TestNoSuchID holds that what can't be an id is said to be so.
func TestNoSuchID(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	s := startSystem(t)
	for _, id := range []string{"a%2Fb", "..", "__x__"} {
		b.do(chromedp.Navigate(s.Gateway + "/?counter=" + id))
		b.until(`!document.getElementById("problem").hidden`)
	}
	b.quiet(nil)
}
