//go:build all

package demo

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// Everything goes wrong, and jobs hold, crash, repeat, and settle twice: what is used, held and left is 500 at any
// moment, and once no job runs, all that was not used can be held again.
func TestCreditsAndJobsThatCrash(t *testing.T) {
	t.Parallel()
	s := startSystem(t, withoutSDK, "FIELDS=total=count,seats=limit(500)")
	b := startBrowser(t)
	b.do(chromedp.Navigate(s.url + "/credits"))
	b.until(`document.getElementById("counter").dataset.left === "500"`)
	b.until(`!document.getElementById("faults").hidden && !document.getElementById("load").disabled`)
	b.do(chromedp.Evaluate[chromedp.Void](`globalThis.odd = []; new MutationObserver(() => {
		const shown = document.getElementById("sum").textContent;
		const [used, held, left, sum] = shown.match(/-?\d+/g).map(Number);
		if (sum !== 500 || used < 0 || held < 0 || left < 0 || document.getElementById("wrong").textContent !== "0") odd.push(shown);
	}).observe(document.body, { childList: true, subtree: true });undefined`))
	for _, fault := range []string{"events", "kills", "answers"} {
		b.toggle(fault)
	}
	b.load(10)
	b.until(`document.getElementById("counter").dataset.used > 20 && document.getElementById("counter").dataset.held > 0`)
	b.until(`!document.getElementById("befallen").hidden`)
	for _, scheme := range []string{"light", "dark"} {
		b.prefer(scheme)
		for _, width := range []int64{1280, 390} {
			b.resize(width, 844)
			if got := eval[int64](b, `document.documentElement.scrollWidth`); got > width {
				t.Errorf("the page is %d px wide in a window of %d", got, width)
			}
			b.keep(fmt.Sprintf("credits-%s-%d.png", scheme, width))
		}
	}
	b.until(`["refused", "crashed", "retried", "twice"].every((id) => document.getElementById(id).textContent !== "0")`)
	b.toggle("kills")
	b.load(0)
	b.until(`document.getElementById("counter").dataset.rests === "true" && document.getElementById("counter").dataset.held === "0"`)
	if odd := eval[[]string](b, "odd"); len(odd) > 0 {
		t.Errorf("it showed %q", odd)
	}
	if problem := eval[string](b, `document.getElementById("problem").textContent`); problem != "" {
		t.Error(problem)
	}
	counter := s.counter(t, eval[string](b, `document.getElementById("name").textContent`))
	used := eval[int64](b, `Number(document.getElementById("counter").dataset.used)`)
	sum, err := counter.Sum(t.Context())
	if err != nil || sum.Totals["seats"] != used {
		t.Errorf("it holds %d of %d used, %v", sum.Totals["seats"], used, err)
	}
	// The counter of a visit goes with it.
	b.do(chromedp.Navigate(s.url + "/?counter=" + counter.ID()))
	b.until(live)
	b.until(`document.getElementById("counter").dataset.total === ""`)
}
