//go:build all

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/testbed/official"
)

// needOfficialEmulator skips the test where Google's emulator isn't installed.
func needOfficialEmulator(t *testing.T) {
	t.Helper()
	if _, _, err := official.Find(); errors.Is(err, official.ErrMissing) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// With --rules, a client that has no rights is refused what the rules don't allow, as soon as the
// file says so; functions count all the same; and the emulator ends with the rest.
func TestDevEvaluatesRules(t *testing.T) {
	t.Parallel()
	needOfficialEmulator(t)
	file := filepath.Join(t.TempDir(), "my.rules")
	rules := func(allow string) {
		t.Helper()
		text := fmt.Sprintf("rules_version = '2';\nservice cloud.firestore { match /databases/{db}/documents { match /{all=**} { allow read, write: if %s; } } }\n", allow)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rules("false")
	p := startProgram(t, "--functions-port", "0", "--rules", file)
	firestore := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(p.banner)
	if !strings.Contains(p.banner, "(Google's emulator, started here)") || !strings.Contains(p.banner, "Security rules are those of "+file) {
		t.Errorf("it says\n%s", p.banner)
	}
	answer, err := http.Post(p.gateway+"/increment/ruled", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	p.waitForTotal(t, "ruled", 1)

	clientReads := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			answer, err := http.Get("http://" + firestore + "/v1/projects/demo-counters/databases/(default)/documents/counters/ruled")
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("a client's read is answered %s, want %d: %s\n%s", answer.Status, want, text, p.logs)
			}
		}
	}
	clientReads(http.StatusForbidden)
	rules("true")
	clientReads(http.StatusOK)
	rules("nonsense(")
	for deadline := time.Now().Add(time.Minute); !strings.Contains(p.logs.String(), "the rules stay as they were"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing is said of rules that don't compile:\n%s", p.logs)
		}
	}
	clientReads(http.StatusOK)

	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, p.rest)
	if err := p.Wait(); err != nil {
		t.Errorf("it ended with %v\n%s", err, p.logs)
	}
	p.waitGone(t)
	if conn, err := net.DialTimeout("tcp", firestore, time.Second); err == nil {
		conn.Close()
		t.Errorf("the emulator still listens on %s", firestore)
	}
}

func TestDevRefusesRules(t *testing.T) {
	t.Setenv("FIRESTORE_EMULATOR_HOST", "")
	refuses(t, []string{"--rules", "no-such.rules"}, "--rules: open no-such.rules: no such file")
	refuses(t, []string{"--rules=a.rules", "b.rules"}, "1 argument, want: counters dev")
	needOfficialEmulator(t)
	file := filepath.Join(t.TempDir(), "my.rules")
	if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, []string{"--rules", file, "--abort", "0.1"}, "faults of commits need the embedded Firestore, which evaluates no rules: leave out --rules, or the faults")
}
