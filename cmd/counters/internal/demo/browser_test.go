//go:build all

package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// browser is a page in a headless Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu      sync.Mutex
	console []string // Errors, warnings and exceptions, since they were last asked for.
}

// chromium are the names that it goes by.
var chromium = []string{"chromium", "chromium-browser", "google-chrome"}

// shared is the Chromium that all tests share: each has a window with storage of its own.
var shared struct {
	once sync.Once
	ctx  context.Context
	err  error
}

// startChromium starts one, which ends after all tests.
func startChromium(path string) (context.Context, error) {
	dir, err := os.MkdirTemp("", "chromium")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.UserDataDir(dir),
		chromedp.NoSandbox, // It may run as root, in a container.
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		// Beside chromedp's own, two pages that Chromium loads for the address bar of each window: half of what a window takes.
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,WebUIOmniboxPopup,WebUIOmniboxAimPopup"),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("lang", "en-US"),
	)
	allocator, release := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	atEnd = func() {
		_ = chromedp.Cancel(ctx) // Unlike cancel, it waits until the browser has ended.
		cancel()
		release()
		_ = os.RemoveAll(dir)
	}
	// The browser lives as long as the context of the first call.
	return ctx, chromedp.Do(ctx)
}

// startBrowser opens a window of its own, which knows nothing of the others.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path := need(t, chromium...)
	shared.once.Do(func() { shared.ctx, shared.err = startChromium(path) })
	if shared.err != nil {
		t.Fatalf("start Chromium: %v", shared.err)
	}
	ctx, cancel := chromedp.NewContext(shared.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)

	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open a window: %v", err)
	}
	console := chromedp.Console(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		for m, err := range console {
			if err != nil {
				return
			}
			if m.Type == "error" || m.Type == "warning" || m.IsException() {
				b.mu.Lock()
				b.console = append(b.console, fmt.Sprintf("%s: %s (%s)", m.Type, m.Text, m.URL))
				b.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("close the window: %v", err)
		}
		reading.Wait()
	})
	b.resize(1120, 900)
	return b
}

// do runs actions.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	run(b, chromedp.Steps(actions...))
}

// run runs an action and returns its result.
func run[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("in the browser: %v", err)
	}
	return result
}

// eval evaluates an expression.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	return run(b, chromedp.Evaluate[T](expression))
}

// resize sets the size of the window, in CSS pixels.
func (b *browser) resize(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// prefer sets the color scheme that the user prefers.
func (b *browser) prefer(scheme string) {
	b.t.Helper()
	b.media("prefers-color-scheme", scheme)
}

// media sets what the user prefers, and nothing else.
func (b *browser) media(feature, value string) {
	b.t.Helper()
	features := []*emulation.MediaFeature{{Name: feature, Value: value}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		b.t.Fatal(err)
	}
}

// toggle switches a fault on or off, by the keyboard: a click may miss a box that has just moved.
func (b *browser) toggle(fault string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS(fmt.Sprintf(`[data-fault="%s"]`, fault)), " "))
}

// load sets how many increments a second the page makes by itself.
func (b *browser) load(rate int) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(fmt.Sprintf(`#load [value="%d"]`, rate))))
	b.until(fmt.Sprintf(`document.querySelector("#load :checked").value === "%d"`, rate))
}

// offline tells the page whether there is a network, as the operating system would. It changes
// nothing else: without it, the SDK takes half a minute to find out that its connection is cut.
func (b *browser) offline(offline bool) {
	b.t.Helper()
	state := network.OverrideNetworkStateParams{Offline: offline, DownloadThroughput: -1, UploadThroughput: -1}
	if _, err := chromedp.Call(b.ctx, network.OverrideNetworkState, state); err != nil {
		b.t.Fatal(err)
	}
}

// until waits until an expression is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); !eval[bool](b, expression); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			text := eval[string](b, "document.body.innerText")
			b.mu.Lock()
			defer b.mu.Unlock()
			b.t.Fatalf("waited too long until %s\nthe page: %s\nthe console: %q", expression, text, b.console)
		}
	}
}

// total waits until the page has a total from a snapshot of the roll-up document. The number that
// is displayed may be ahead of that, so it is not what this looks at.
func (b *browser) total(total int64) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.getElementById("counter").dataset.total === "%d"`, total))
}

// shows waits until the page displays a number.
func (b *browser) shows(value int64) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.getElementById("value").textContent === new Intl.NumberFormat("en").format(%d).replace("-", "−")`, value))
}

// quiet fails the test if the console has said anything since it was last asked, other than what is
// expected.
func (b *browser) quiet(expected *regexp.Regexp) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.console {
		if expected == nil || !expected.MatchString(line) {
			b.t.Errorf("console: %s", line)
		}
	}
	b.console = nil
}

// keep takes a screenshot of the whole page and keeps it as an artefact.
func (b *browser) keep(name string) {
	b.t.Helper()
	dir := os.Getenv("ARTEFACTS")
	if dir == "" {
		dir = b.t.ArtifactDir()
	}
	png := run(b, chromedp.FullScreenshot(100))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, png, 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.t.Logf("screenshot: %s", path)
}
