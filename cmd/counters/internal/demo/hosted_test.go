//go:build all

package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/chromedp/chromedp"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
)

// aPost is a system that counts likes and views in posts of an app's own.
var aPost = []string{"COUNTERS=posts/{post}", "HOSTED=true", "FIELDS=likes,views,comments=count(comments)", "NUM_SHARDS=3"}

// press presses the button that adds to a field: by script, because what is above it may move while
// a mouse is on its way.
func (b *browser) press(field string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector('#fields button[data-field=%q]').click()`, field)))
}

// has waits until the page shows a field's total.
func (b *browser) has(field, total string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.querySelector('#fields [data-field="%s"]').previousElementSibling.textContent === %q`, field, total))
}

// comment adds a document below a post, as the app does.
func (b *browser) comment(s *system, post, text string) {
	b.t.Helper()
	client, err := firestore.NewClient(b.t.Context(), s.Project, option.WithEndpoint(s.Firestore), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		b.t.Fatal(err)
	}
	defer client.Close()
	if _, _, err := client.Doc("posts/"+post).Collection("comments").Add(b.t.Context(), map[string]any{"text": text}); err != nil {
		b.t.Fatal(err)
	}
}

// A post of the app's own is made by its title, counted in two fields, and its title stays the
// app's.
func TestHostedPost(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]feed{"SDK": withSDK, "gateway": withoutSDK} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSystem(t, from, aPost...)
			b := startBrowser(t)
			b.do(chromedp.Navigate(s.url + "/?counter=post-1"))
			b.until(live)
			b.until(`!document.getElementById("missing-document").hidden && document.getElementById("document-path").textContent === "posts/post-1"`)
			b.has("likes", "–")
			b.do(chromedp.SendKeys(chromedp.CSS("#title"), "My first post\n"))
			b.until(`document.getElementById("document-title").textContent === "My first post" && document.getElementById("missing-document").hidden`)
			b.has("likes", "0")
			for _, field := range []string{"likes", "views", "views"} {
				b.press(field)
			}
			b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('button[data-by="10"]').click()`))
			b.has("likes", "11")
			b.has("views", "2")
			b.comment(s, "post-1", "First!")
			b.has("comments", "1")
			b.total(11)
			b.shows(11)
			b.until(`document.querySelectorAll("#shards li").length === 3`)
			b.until(`document.getElementById("waiting").textContent === ""`)
			b.do(chromedp.SendKeys(chromedp.CSS("#title"), ", edited\n"))
			b.until(`document.getElementById("document-title").textContent === "My first post, edited"`)
			b.has("likes", "11")
			b.quiet(nil)
			for _, width := range []int64{1280, 390} {
				b.resize(width, 844)
				if got := eval[int64](b, `document.documentElement.scrollWidth`); got > width {
					t.Errorf("the page is %d px wide in a window of %d", got, width)
				}
				b.keep(fmt.Sprintf("hosted-%s-%d.png", name, width))
			}
		})
	}
}

// Posts in the order of a counted field, through the Web SDK in a browser.
func TestOrderByLikes(t *testing.T) {
	t.Parallel()
	s := startSystem(t, withSDK, aPost...)
	b := startBrowser(t)
	web := &http.Client{Transport: &http.Transport{}}
	defer web.CloseIdleConnections()
	send := func(method, path, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.Gateway+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode >= 300 {
			t.Fatalf("%s %s: %s", method, path, answer.Status)
		}
	}
	want := []string{"c 5 1", "a 3 2", "d 2 9", "b 1 4"}
	for _, post := range want {
		var id string
		var likes, views int
		if _, err := fmt.Sscan(post, &id, &likes, &views); err != nil {
			t.Fatal(err)
		}
		send(http.MethodPut, "/-/title?counter="+id, "Post "+id)
		for range likes {
			send(http.MethodPost, "/increment/"+id, `{"by": {"likes": 1}}`)
		}
		send(http.MethodPost, "/increment/"+id, fmt.Sprintf(`{"by": {"views": %d}}`, views))
	}
	send(http.MethodPut, "/-/title?counter=e", "A post that is never liked has no likes, and is not in the list")
	if err := s.WaitForEvents(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate(s.url + "/?counter=a"))
	b.until(live)
	got := run(b, chromedp.Evaluate[[]string](`(async () => {
		const { collection, getDocs, getFirestore, orderBy, query } = await import("firebase/firestore");
		const posts = await getDocs(query(collection(getFirestore(), "posts"), orderBy("likes", "desc")));
		return posts.docs.map((post) => [post.id, post.get("likes"), post.get("views")].join(" "));
	})()`, chromedp.EvalAwaitPromise))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("posts by their likes are %q, want %q", got, want)
	}
	b.quiet(nil)
}

// What is told of a post, without a browser; and that a title is only written where the page is the
// app.
func TestEventsOfAPost(t *testing.T) {
	t.Parallel()
	server := emulator.Start(t)
	client := server.Client(t, "p")
	page, err := New(Config{
		Place: layout.Place{Project: "p", Counters: "posts/{post}", Fields: "likes,views=seen", Hosted: true}, Firestore: server.Addr, CDN: nowhere,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = page.Close() })
	put := func(h http.Handler, id, title string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/-/title?counter="+id, strings.NewReader(title)))
		return w.Code
	}
	if code := put(page, "p1", "One"); code != http.StatusNoContent {
		t.Errorf("a title: %d", code)
	}
	for id, title := range map[string]string{"a%2Fb": "x", "p2": strings.Repeat("x", 501), "p3": "\xff", "": "x"} {
		if code := put(page, id, title); code != http.StatusBadRequest {
			t.Errorf("the title %.9q of %q: %d, want 400", title, id, code)
		}
	}
	if code := put(newPage(t, Config{Place: layout.Place{Project: "p"}, Firestore: server.Addr, CDN: nowhere}), "p1", "x"); code != http.StatusNotFound && code != http.StatusMethodNotAllowed {
		t.Errorf("a title where the documents are ours: %d", code)
	}
	post := client.Doc("posts/p1")
	until := openEvents(t, page, "p1")
	none := view{Exists: true, Title: "One", Total: 0.0, Totals: map[string]any{"likes": 0.0, "views": 0.0}, Shards: map[string]shard{}}
	until(none)
	if _, err := post.Collection("shards").Doc("0").Set(t.Context(), map[string]any{"likes": 2, "seen": 5}); err != nil {
		t.Fatal(err)
	}
	if _, err := post.Set(t.Context(), map[string]any{"title": "One", "likes": 2, "views": 5}); err != nil {
		t.Fatal(err)
	}
	all := none
	all.Total, all.Totals, all.Shards = 2.0, map[string]any{"likes": 2.0, "views": 5.0}, map[string]shard{"0": {Count: 2}}
	until(all)
	var listed struct{ Counters []struct{ ID string } }
	if err := json.Unmarshal(request(t, page, "/-/counters").Body.Bytes(), &listed); err != nil || len(listed.Counters) != 1 || listed.Counters[0].ID != "p1" {
		t.Errorf("the list is %+v, %v", listed, err)
	}
}
