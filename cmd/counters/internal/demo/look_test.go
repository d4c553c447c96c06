//go:build all

package demo

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestLook has axe look at the page, and keeps pictures for people to look at.
func TestLook(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile(nodeModules(t) + "/axe-core/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	s := startSystem(t, withoutSDK, "FIELDS=total=count,seats=limit(500)")
	b := startBrowser(t)
	for _, counter := range []string{"post-123", "down", strings.Repeat("long name ", 12)} {
		c := s.counter(t, counter)
		for _, by := range []int64{10, -20, 5, -25, 8, -8, 3, -3} {
			add(t, c, by)
		}
	}
	for _, width := range []int64{1280, 390} {
		b.resize(width, 844)
		for _, scheme := range []string{"light", "dark"} {
			b.prefer(scheme)
			for name, path := range map[string]string{"empty": "/?counter=none", "negative": "/?counter=down", "seats": "/seats", "credits": "/credits"} {
				b.do(chromedp.Navigate(s.url + path))
				b.until(live)
				if name == "seats" || name == "credits" {
					b.until(`document.getElementById("counter").dataset.left === "500"`)
				} else {
					b.until(`!document.getElementById("choose-counters").hidden`)
				}
				if name == "negative" {
					if b.until(`!document.getElementById("like").disabled`); !eval[bool](b, `document.getElementById("like").ariaPressed === "true"`) {
						b.do(chromedp.Click(chromedp.CSS("#like")))
					}
					b.shows(-29)
					b.until(`document.querySelector("#shards .held.down") !== null`)
				}
				b.do(chromedp.Evaluate[chromedp.Void](string(axe) + ";undefined"))
				type violation struct {
					ID    string
					Nodes []struct{ Target []string }
				}
				found := run(b, chromedp.Evaluate[[]violation](`axe.run().then(({violations}) => violations.map(({id, nodes}) => ({id, nodes: nodes.map(({target}) => ({target}))})))`, chromedp.EvalAwaitPromise))
				if len(found) > 0 {
					t.Errorf("%s, %s, %d px: axe finds %+v", name, scheme, width, found)
				}
				if got := eval[int64](b, `document.documentElement.scrollWidth`); got > width {
					t.Errorf("%s, %s: the page is %d px wide in a window of %d", name, scheme, got, width)
				}
				b.keep(fmt.Sprintf("page-%s-%s-%d.png", name, scheme, width))
				b.quiet(nil)
			}
		}
	}
}
