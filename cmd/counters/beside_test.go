//go:build all

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/testbed/freeport"
	"github.com/firestore-counters/counters/internal/testbed/official"
)

// TestBesideYourOwnEmulators types what docs/local.md says under that heading: a user's like is
// counted into Google's emulator, and the reader's own function goes on getting its events. Where
// the Firebase CLI isn't installed, its Firestore emulator runs alone, and the test says so.
func TestBesideYourOwnEmulators(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/local.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Beside your own emulators\n")
	shown := regexp.MustCompile("(?s)```sh\n(firebase [^\n]*)\n([^\n]*counters dev[^\n]*)\n```").FindStringSubmatch(section)
	if shown == nil {
		t.Fatal("docs/local.md has no two commands there")
	}
	project := regexp.MustCompile(`--project (\S+)`).FindStringSubmatch(shown[1])[1]
	firestore, auth, own := startFirebase(t, shown[1], project)

	d := newDesk(t)
	d.ports = strings.NewReplacer("localhost:8080", firestore)
	d.install(t)
	command := d.ports.Replace(strings.Replace(shown[2], "counters dev", "exec counters dev", 1)) + " --port 0"
	cmd := exec.Command("bash", "-e", "-c", "export FIREBASE_AUTH_EMULATOR_HOST="+auth.host+"\n"+command)
	cmd.Dir, cmd.Env = d.dir, d.environ
	dev := startUntilReady(t, cmd)
	if first, _, _ := strings.Cut(dev.banner, "\n"); !strings.Contains(first, firestore) || !strings.Contains(first, "FIRESTORE_EMULATOR_HOST") {
		t.Errorf("the first line doesn't say which Firestore it is: %s", first)
	}

	like := dev.gateway + "/increment/post-123/likes/me"
	if status, body := request(t, http.MethodPut, like, "", ""); status != http.StatusUnauthorized {
		t.Errorf("without a user: %d %s", status, body)
	}
	token := "Bearer " + auth.token(t)
	for range 2 { // the second counts nothing
		if status, body := request(t, http.MethodPut, like, token, ""); status != http.StatusOK {
			t.Fatalf("a like: %d %s", status, body)
		}
	}
	// What the reader's page reads is in the reader's Firestore.
	document := "http://" + firestore + "/v1/projects/" + project + "/databases/(default)/documents/counters/post-123"
	waitFor(t, func() (bool, string) {
		_, body := request(t, http.MethodGet, document, "Bearer owner", "")
		return regexp.MustCompile(`"likes":\s*\{\s*"integerValue":\s*"1"`).MatchString(body), body
	})
	if own == nil {
		return
	}
	post := "http://" + firestore + "/v1/projects/" + project + "/databases/(default)/documents/posts/hello"
	if status, body := request(t, http.MethodPatch, post, "Bearer owner", `{"fields": {}}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	select {
	case <-own:
	case <-time.After(time.Minute):
		t.Error("the reader's own function gets no event any more")
	}
}

// auth is Firebase's Auth emulator.
type auth struct {
	host  string
	token func(*testing.T) string // of a user who has just signed in
}

// startFirebase types the command for Firebase's emulators, and returns where they are. Without the
// Firebase CLI these are Google's Firestore emulator, tokens as the Auth emulator makes them, and a
// function of the reader's, which gets the events of posts/{post} at the place of Firebase's.
func startFirebase(t *testing.T, command, project string) (string, auth, <-chan struct{}) {
	t.Helper()
	missing := "the Firebase CLI isn't installed"
	if _, err := exec.LookPath("firebase"); err == nil {
		if firestore, auth, ok := startCLI(t, command); ok {
			t.Log("skipped: whether a function of the reader's still gets its events; it takes one that is installed")
			return firestore, auth, nil
		}
		missing = "the Firebase CLI can't start them here"
	}

	needOfficialEmulator(t)
	t.Logf("skipped: %s, because %s; its Firestore emulator runs alone", command, missing)
	own := make(chan struct{}, 1)
	functions := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); bytes.Contains(body, []byte("posts/hello")) || strings.Contains(fmt.Sprint(r.Header), "posts/hello") {
			select {
			case own <- struct{}{}:
			default:
			}
		}
	}))
	t.Cleanup(functions.Close)
	e, err := official.StartWith(t.Context(), official.Options{Functions: strings.TrimPrefix(functions.URL, "http://")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	trigger := "http://" + e.Addr + "/emulator/v1/projects/" + project + "/eventarcTrigger?eventarcTriggerId=own"
	if status, body := request(t, http.MethodPost, trigger, "Bearer owner", `{"eventType": "google.cloud.firestore.document.v1.written", "database": "(default)",
		"namespace": "(default)", "document": {"value": "posts/{post}", "matchType": "PATH_PATTERN"}}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	return e.Addr, auth{"127.0.0.1:9099", func(t *testing.T) string {
		t.Helper()
		now := time.Now().Unix()
		part := func(v any) string {
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return base64.RawURLEncoding.EncodeToString(text)
		}
		return part(map[string]any{"alg": "none", "typ": "JWT"}) + "." + part(map[string]any{
			"iss": "https://securetoken.google.com/" + project, "aud": project, "sub": "alice", "user_id": "alice", "auth_time": now, "iat": now, "exp": now + 3600,
			"firebase": map[string]any{"identities": map[string]any{}, "sign_in_provider": "anonymous"},
		}) + "."
	}}, own
}

// startCLI types the command where the Firebase CLI is installed. It reports whether that starts the
// emulators: the CLI may want a newer Java, or a network from which it downloads them.
func startCLI(t *testing.T, command string) (string, auth, bool) {
	t.Helper()
	dir, at := t.TempDir(), map[string]string{}
	config := map[string]any{"ui": map[string]any{"enabled": false}}
	for _, name := range []string{"auth", "firestore", "functions", "hub", "logging"} {
		port, err := freeport.Find()
		if err != nil {
			t.Fatal(err)
		}
		config[name], at[name] = map[string]any{"host": "127.0.0.1", "port": json.Number(port)}, net.JoinHostPort("127.0.0.1", port)
	}
	text, err := json.Marshal(map[string]any{"emulators": config})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "firebase.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", "exec "+command)
	logs, ended := &lockedBuffer{}, make(chan struct{})
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, logs, logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // so that it ends what it has started
		<-ended
	})
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(logs.String(), "All emulators ready"); {
		select {
		case <-ended:
		case <-time.After(100 * time.Millisecond):
			if time.Now().Before(end) {
				continue
			}
		}
		t.Logf("%s is not ready:\n%s", command, logs)
		return "", auth{}, false
	}
	return at["firestore"], auth{at["auth"], func(t *testing.T) string {
		t.Helper()
		_, body := request(t, http.MethodPost, "http://"+at["auth"]+"/identitytoolkit.googleapis.com/v1/accounts:signUp?key=any", "", "{}")
		var user struct{ IDToken string }
		if err := json.Unmarshal([]byte(body), &user); err != nil || user.IDToken == "" {
			t.Fatalf("%v: %s", err, body)
		}
		return user.IDToken
	}}, true
}

// request sends one, and returns what is answered.
func request(t *testing.T, method, url, authorization, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}
