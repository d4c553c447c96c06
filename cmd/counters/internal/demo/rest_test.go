//go:build all

package demo

import (
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestAtRest holds that the page of a counter that there isn't shows what will happen and no empty
// plots, is used by keyboard alone, and has the lag of the first roll-up on.
func TestAtRest(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]feed{"SDK": withSDK, "gateway": withoutSDK} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSystem(t, from)
			b := startBrowser(t)
			b.do(chromedp.Navigate(s.url + "/")) // which is the README's counter
			b.until(live)
			b.until(`document.getElementById("name").textContent === "post-123" && document.getElementById("connection").textContent === "Live"`)
			b.until(`document.getElementById("plots").hidden && !document.getElementById("no-shards").hidden`)
			b.until(`document.querySelectorAll("#flow.rest path").length === 10`)

			// Counter, Watch, Like, +1: the first two that one comes to in the counter
			// itself are the last two.
			reached := func(id string) {
				t.Helper()
				b.until(`document.activeElement.matches('` + id + `')`)
			}
			b.until(`!document.getElementById("like").disabled`)
			for _, id := range []string{"#id", "#choose button", "#like", `[data-by="1"]`} {
				b.do(chromedp.KeyEvent(kb.Tab))
				reached(id)
			}
			b.do(chromedp.KeyEvent(kb.Enter))
			b.shows(1)
			b.total(1)
			b.until(`!document.getElementById("plots").hidden && document.getElementById("commits").textContent !== "0"`)
			b.until(`document.querySelector("#plot-lag b").textContent !== "–"`)
			b.until(`document.querySelectorAll("#flow:not(.rest) path").length === 10`)

			// Then other amounts, and the load, whose keys are the arrows.
			for _, id := range []string{`[data-by="-10"]`, `[data-by="-1"]`, `[data-by="10"]`, `#load [value="0"]`} {
				b.do(chromedp.KeyEvent(kb.Tab))
				reached(id)
			}
			b.do(chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
			reached(`#load [value="50"]:checked`)
			b.until(`Number(document.getElementById("counter").dataset.total) > 20`)
			b.do(chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.ArrowLeft))
			reached(`#load [value="0"]:checked`)
			b.until(`document.getElementById("counter").dataset.pending === "0"`)
			// And the faults, below.
			b.do(chromedp.KeyEvent(kb.Tab))
			reached(`[data-fault="events"]`)
			b.do(chromedp.KeyEvent(" "))
			b.until(`document.querySelector("[data-fault]:checked") !== null && document.getElementById("befallen").textContent.endsWith("; off by 0")`)
			b.quiet(nil)
		})
	}
}

// TestAtRestDrawsItsShards holds that as many are drawn as a counter gets, before it is there and
// after, up to a number that a page has room for, and says so.
func TestAtRestDrawsItsShards(t *testing.T) {
	t.Parallel()
	for shards, want := range map[string]struct{ drawn, at, says string }{
		"1":   {"1", "1 shard", ""},
		"200": {"100", "200 shards, of which 100 are drawn", "100 of 200"},
	} {
		t.Run(shards, func(t *testing.T) {
			t.Parallel()
			s := startSystem(t, withoutSDK, "NUM_SHARDS="+shards)
			b := startBrowser(t)
			b.do(chromedp.Navigate(s.url + "/?counter=rest"))
			b.until(live)
			b.until(`document.querySelectorAll("#flow.rest path").length === ` + want.drawn)
			b.until(`document.getElementById("at-rest").textContent === "` + want.at + `"`)
			b.do(chromedp.Click(plusOne))
			b.total(1)
			b.until(`document.querySelectorAll("#flow:not(.rest) path").length === ` + want.drawn + ` && document.querySelectorAll("#shards li").length === ` + want.drawn)
			b.until(`document.getElementById("shards-of").textContent.includes("` + want.says + `")`)
			b.quiet(nil)
		})
	}
}

// TestDocumentsAlone holds that a page of a counter with nothing to add to has nothing to press,
// and shows what its documents come to, doubles and the average of none as well.
func TestDocumentsAlone(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]feed{"SDK": withSDK, "gateway": withoutSDK} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSystem(t, from, "COUNTERS=stats/site", "FIELDS=rating=avg(/ratings.stars),public=avg(/ratings.stars where public==true)", "MEMBERS=any")
			b := startBrowser(t)
			b.do(chromedp.Navigate(s.url + "/"))
			b.until(live)
			b.until(`document.getElementById("make").textContent === "counters create site" && !document.getElementById("missing-made").hidden`)
			if visible := eval[int](b, `[...document.querySelectorAll("main button, main input, #flow, #shards")].filter((e) => e.checkVisibility()).length`); visible > 0 {
				t.Errorf("%d controls and drawings are to be seen of a counter that nothing is added to", visible)
			}
			conn, err := grpc.NewClient(s.Firestore, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			fs, err := firestore.NewClient(t.Context(), s.Project, option.WithGRPCConn(conn))
			if err != nil {
				t.Fatal(err)
			}
			defer fs.Close()
			set := func(path string, data map[string]any) {
				t.Helper()
				if _, err := fs.Doc(path).Set(t.Context(), data); err != nil {
					t.Fatal(err)
				}
			}
			set("stats/site", map[string]any{})
			set("ratings/none", map[string]any{"text": "no stars"})
			shows := func(text string) {
				t.Helper()
				b.until(`document.getElementById("value").textContent === "` + text + `"`)
			}
			b.until(`document.getElementById("missing-made").hidden`)
			shows("–")
			set("ratings/one", map[string]any{"stars": 4})
			shows("4")
			set("ratings/two", map[string]any{"stars": 5})
			shows("4.5")
			b.until(`document.querySelector("#plot-total b").textContent === "4.5"`)
			b.resize(390, 844)
			if width := eval[int](b, `document.documentElement.scrollWidth`); width > 390 {
				t.Errorf("the page is %d px wide on a phone of 390", width)
			}
			b.quiet(nil)
		})
	}
}

// TestOfflineIsSaid holds that a page says it is offline as soon as the browser knows, whatever its
// feed, and is back by itself.
func TestOfflineIsSaid(t *testing.T) {
	t.Parallel()
	s := startSystem(t, withoutSDK)
	b := startBrowser(t)
	b.do(chromedp.Navigate(s.url + "/?counter=offline"))
	b.until(live)
	b.offline(true) // The connection that is open isn't cut.
	b.until(cutOff)
	b.until(`document.getElementById("connection").textContent.startsWith("Offline")`)
	b.offline(false)
	b.until(live)
	b.quiet(nil)
}

// TestPostBeforeItIsThere holds that nothing can be added to a document that the app has not made,
// which would be refused.
func TestPostBeforeItIsThere(t *testing.T) {
	t.Parallel()
	s := startSystem(t, withoutSDK, aPost...)
	b := startBrowser(t)
	b.do(chromedp.Navigate(s.url + "/?counter=post-1"))
	b.until(live)
	b.until(`!document.getElementById("missing-document").hidden`)
	const open = `document.querySelectorAll("[data-by]:enabled, #fields button:enabled, #like:enabled, #load:enabled").length`
	b.until(open + ` === 0`)
	b.do(chromedp.SendKeys(chromedp.CSS("#title"), "My first post\n"))
	b.until(open + ` > 6`)
	b.do(chromedp.Click(plusOne))
	b.total(1)
	b.quiet(nil)
}
