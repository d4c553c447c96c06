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

// Google's emulator has rules for each database: those of the file hold in the counters' as in the default one. In
// others it would let everybody do everything.
func TestDevEvaluatesRulesInItsDatabase(t *testing.T) {
	t.Parallel()
	needOfficialEmulator(t)
	file := filepath.Join(t.TempDir(), "my.rules")
	text := "rules_version = '2';\nservice cloud.firestore { match /databases/{db}/documents { match /{all=**} { allow read, write: if false; } } }\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProgramIn(t, []string{"DATABASE=eu-data"}, "--functions-port", "0", "--rules", file)
	if want := "Security rules in the databases (default) and eu-data are those of " + file; !strings.Contains(p.banner, want) {
		t.Errorf("%q is not in\n%s", want, p.banner)
	}
	firestore := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(p.banner)
	for database, want := range map[string]int{"(default)": http.StatusForbidden, "eu-data": http.StatusForbidden, "third": http.StatusNotFound} {
		answer, err := http.Get("http://" + firestore + "/v1/projects/demo-counters/databases/" + database + "/documents/counters/ruled")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("a client's read in %s is answered %s, want %d", database, answer.Status, want)
		}
	}
	answer, err := http.Post(p.gateway+"/increment/ruled", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	p.waitForTotal(t, "ruled", 1)

	for range 3 { // of another project it is said once
		answer, err := http.Get("http://" + firestore + "/v1/projects/my-project/databases/(default)/documents/counters/ruled")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	said := func() int {
		return strings.Count(p.logs.String(), "where nothing is rolled up used=projects/my-project want=projects/demo-counters/databases/eu-data")
	}
	waitFor(t, func() (bool, string) { return said() > 0, p.logs.String() })
	if said() != 1 || strings.Count(p.logs.String(), "where nothing is rolled up") != 1 {
		t.Errorf("it is not said once:\n%s", p.logs)
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
