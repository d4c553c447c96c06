//go:build all

package demo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"
)

// In a real browser, a page of another origin counts also where tracing adds headers to its requests, and by a beacon
// of JSON.
func TestTracedPage(t *testing.T) {
	t.Parallel()
	s := startSystem(t, withoutSDK)
	b := startBrowser(t)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>another origin</title>"))
	}))
	t.Cleanup(page.Close)
	b.do(chromedp.Navigate(page.URL))
	got := run(b, chromedp.Evaluate[string](fmt.Sprintf(`(async () => {
		const url = %q;
		const headers = { "sentry-trace": "1-2-1", baggage: "a=b", traceparent: "00-1-2-01", "X-Requested-With": "XMLHttpRequest", "Idempotency-Key": "k" };
		const answer = await fetch(url, { method: "POST", headers, credentials: "include" });
		const sent = navigator.sendBeacon(url, new Blob(['{"by": 2}'], { type: "application/json" }));
		const total = async () => (await (await fetch(url + "?exact=true", { headers })).json()).total;
		while (await total() < 3) await new Promise((later) => setTimeout(later, 20));
		const authority = await fetch(url, { method: "POST", headers: { "X-Serverless-Authorization": "Bearer x" } }).then(() => "sent", () => "not sent");
		return [answer.status, sent, await total(), authority].join();
	})()`, s.Gateway+"/increment/traced"), chromedp.EvalAwaitPromise))
	if got != "200,true,3,not sent" {
		t.Errorf("the page says %s, want 200,true,3,not sent", got)
	}
}
