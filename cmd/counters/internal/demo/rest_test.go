package demo

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestAtRest holds that the page of a counter that there isn't shows what will happen and no empty
// plots, is used by keyboard alone, and has the lag of the first roll-up on.
func TestAtRest(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]feed{"SDK": withSDK, "gateway": withoutSDK} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBrowser(t)
			s := startSystem(t, from)
			b.do(chromedp.Navigate(s.url + "/?counter=rest"))
			b.until(live)
			b.until(`document.getElementById("connection").textContent === "Live"`)
			b.until(`document.getElementById("plots").hidden && !document.getElementById("no-shards").hidden`)
			b.until(`document.querySelectorAll("#flow.rest path").length === 10`)

			// Counter, Watch, Like, +1: the first two that one comes to in the counter itself are
			// those.
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

			b.do(chromedp.KeyEvent(kb.Tab))
			reached("#crowd")
			b.do(chromedp.KeyEvent(" "))
			b.until(`document.getElementById("crowd").ariaPressed === "true" && document.getElementById("rate").value === "50"`)
			b.until(`Number(document.getElementById("counter").dataset.total) > 20`)
			b.do(chromedp.KeyEvent(" "))
			b.until(`document.getElementById("crowd").textContent === "50 a second" && document.getElementById("counter").dataset.pending === "0"`)
			b.quiet(nil)
		})
	}
}

// TestOfflineIsSaid holds that a page says it is offline as soon as the browser knows, whatever its
// feed, and is back by itself.
func TestOfflineIsSaid(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	s := startSystem(t, withoutSDK)
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
	b := startBrowser(t)
	s := startSystem(t, withoutSDK, aPost...)
	b.do(chromedp.Navigate(s.url + "/?counter=post-1"))
	b.until(live)
	b.until(`!document.getElementById("missing-document").hidden`)
	const open = `document.querySelectorAll("[data-by]:enabled, #fields button:enabled, #like:enabled, #crowd:enabled").length`
	b.until(open + ` === 0`)
	b.do(chromedp.SendKeys(chromedp.CSS("#title"), "My first post\n"))
	b.until(open + ` > 6`)
	b.do(chromedp.Click(plusOne))
	b.total(1)
	b.quiet(nil)
}
