//go:build all

package demo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/shards"
)

// Everything goes wrong, and a crowd wants 500 seats: all are sold, none twice, and the page never shows
// one more than there are.
func TestSeatsAndACrowd(t *testing.T) {
	t.Parallel()
	s := startSystem(t, withoutSDK, "FIELDS=total=count,seats=limit(500)")
	b := startBrowser(t)
	b.do(chromedp.Navigate(s.url + "/seats"))
	b.until(`document.getElementById("counter").dataset.left === "500"`)
	b.until(`!document.getElementById("faults").hidden && !document.getElementById("load").disabled`)
	b.do(chromedp.Evaluate[chromedp.Void](`globalThis.most = 0; globalThis.least = 500; new MutationObserver(() => {
		const { sold, taken, left } = document.getElementById("counter").dataset;
		[most, least] = [Math.max(most, sold, taken), Math.min(least, left)];
	}).observe(document.getElementById("counter"), { attributes: true });undefined`))
	for _, fault := range []string{"events", "kills", "answers"} {
		b.do(chromedp.Click(chromedp.CSS(fmt.Sprintf(`[data-fault="%s"]`, fault))))
	}
	b.load(200)
	b.until(`document.getElementById("counter").dataset.taken > 250`)
	b.until(`!document.getElementById("befallen").hidden`)
	for _, scheme := range []string{"light", "dark"} {
		b.prefer(scheme)
		for _, width := range []int64{1280, 390} {
			b.resize(width, 844)
			if got := eval[int64](b, `document.documentElement.scrollWidth`); got > width {
				t.Errorf("the page is %d px wide in a window of %d", got, width)
			}
			b.keep(fmt.Sprintf("seats-%s-%d.png", scheme, width))
		}
	}
	// On a slow machine, a buyer who is sent away while an instance starts again may pay too late each time.
	b.do(chromedp.Click(chromedp.CSS(`[data-fault="kills"]`)))
	b.load(50)
	b.until(`document.getElementById("counter").dataset.sold === "500"`)
	b.load(0)
	if most, least := eval[int64](b, "most"), eval[int64](b, "least"); most != 500 || least != 0 {
		t.Errorf("it showed %d of 500 taken, and %d left", most, least)
	}
	b.until(`document.getElementById("oversold").textContent === "0" && document.getElementById("when").textContent.startsWith(", as of ")`)
	b.until(`document.getElementById("last-refused").textContent.startsWith(", last ")`)
	if eval[int64](b, `Number(document.getElementById("refused").textContent.replaceAll(",", ""))`) == 0 {
		t.Error("nobody heard that it is sold out")
	}
	counter := s.counter(t, eval[string](b, `document.getElementById("name").textContent`))
	audits, err := counter.Audit(t.Context())
	if err != nil || len(audits) != 2 || audits[1].Members != 500 || audits[1].Exact != 500 {
		t.Errorf("%+v, %v: want 500 members, and nothing else", audits, err)
	}
	// The counter of a visit goes with it.
	b.do(chromedp.Navigate(s.url + "/?counter=" + counter.ID()))
	b.until(live)
	b.until(`document.getElementById("counter").dataset.total === ""`)
}

// A buyer's request that was under way when its page went makes the counter again. It goes all the same.
func TestVisitsEndForGood(t *testing.T) {
	t.Parallel()
	firestore := emulator.Start(t)
	place := layout.Place{Project: "p", Fields: "total=count,seats=limit(500)"}
	page := newPage(t, Config{Place: place, Members: true, Firestore: firestore.Addr, NumShards: 3})
	documents := firestore.Client(t, "p")
	answer := func(method, url string) {
		t.Helper()
		w := httptest.NewRecorder()
		if page.ServeHTTP(w, httptest.NewRequest(method, url, nil)); w.Code != http.StatusNoContent {
			t.Fatalf("%s %s: %d %s", method, url, w.Code, w.Body)
		}
	}
	gone := func() { // and so is the mark of its deletion: until then nobody makes it again
		t.Helper()
		for _, name := range []string{"counters/seats-1", "counters/seats-1/counter_rollup/base"} {
			for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
				if _, err := documents.Doc(name).Get(t.Context()); status.Code(err) == codes.NotFound {
					break
				} else if err != nil || time.Now().After(end) {
					t.Fatalf("%s is still there, %v", name, err)
				}
			}
		}
	}
	answer(http.MethodPut, "/-/seats?counter=seats-1")
	answer(http.MethodPost, "/-/seats/over?counter=seats-1")
	gone()
	conn, err := grpc.NewClient(firestore.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	client, err := shards.Open(t.Context(), shards.Config{Place: place, AutoCreate: true}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() // and with it the connection
	late, err := client.Counter("seats-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.Join(t.Context(), "seats", "late"); err != nil {
		t.Fatal(err)
	}
	gone()
}
