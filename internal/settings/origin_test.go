package settings_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/settings"
)

// What is meant is written as browsers write it: what new URL(…).origin is.
func TestOrigins(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"*": "*", "https://app.example": "https://app.example", " https://app.example": "https://app.example", "http://localhost:5173": "http://localhost:5173",
		"HTTPS://App.Example": "https://app.example", "https://app.example:443": "https://app.example", "http://app.example:0080": "http://app.example", "https://app.example:80": "https://app.example:80",
		"https://app.example:": "https://app.example", "https://bücher.example": "https://xn--bcher-kva.example", "https://BÜCHER.example:8443": "https://xn--bcher-kva.example:8443",
		"https://faß.example": "https://xn--fa-hia.example", "https://my_app.example": "https://my_app.example", "https://ab--pr1-ud0abgoy.web.app": "https://ab--pr1-ud0abgoy.web.app",
		"https://xn--bcher-kva.example": "https://xn--bcher-kva.example", "https://ａｐｐ.example": "https://app.example", "https://app.example.": "https://app.example.",
		"http://127.0.0.1:3000": "http://127.0.0.1:3000", "http://[::1]:3000": "http://[::1]:3000", "http://[0:0::1]": "http://[::1]",
		"capacitor://localhost": "capacitor://localhost", "chrome-extension://abcdef": "chrome-extension://abcdef",
	} {
		if got, allowed := settings.Origin(given); got != want || allowed != "" {
			t.Errorf("%s is %s (want %s), should be %s", given, got, allowed, want)
		}
		s, err := settings.Parse([]string{"ALLOWED_ORIGINS=http://a.example," + given})
		if err != nil || !slices.Equal(s.AllowedOrigins, []string{"http://a.example", want}) {
			t.Errorf("%s: %q, %v", given, s.AllowedOrigins, err)
		}
	}
	for _, bad := range []string{
		"", "app.example", "https://", "null", "https://app.example/", "https://app.example/path", "https://app.example?x", "https://app.example?", "https://app.example#", "https://user@app.example",
		"https://user:secret@app.example", "https://@app.example", "https://app.example:65536", "https://app.example:http", "https://1234", "https://1.2.3.0x4", "https://a b.example", "https://%61.example",
		"https:app.example", "https:/app.example", "https://[fe80::1%25eth0]", "https://a..example", `https://a\b`, "https://\u202e.example", "https://<a>.example",
	} {
		if got, want := settings.Origin(bad); !strings.HasPrefix(want, "an origin such as") {
			t.Errorf("%s is taken for %q (want %s)", bad, got, want)
		}
	}
	for _, pattern := range []string{"https://*.web.app", "https://my-app--*.web.app", "*.example", "**", "https://*"} {
		_, err := settings.Parse([]string{"ALLOWED_ORIGINS=" + pattern})
		if err == nil || !strings.Contains(err.Error(), "ALLOWED_ORIGINS="+pattern+": want whole names, or * alone: others may own what a pattern matches.") {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// What an origin is written as is written so.
func TestOriginsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"https", "HTTP", "app"}).Draw(t, "scheme") + "://" +
			rapid.StringOfN(rapid.RuneFrom([]rune("aZ.-_:[]0ß日é1")), 1, 12, -1).Draw(t, "host")
		origin, want := settings.Origin(text)
		if want != "" {
			return
		}
		if again, want := settings.Origin(origin); again != origin || want != "" {
			t.Fatalf("%s is %s, and that %s (want %s)", text, origin, again, want)
		}
	})
}
