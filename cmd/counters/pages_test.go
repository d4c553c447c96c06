//go:build all

package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	psnet "github.com/shirou/gopsutil/v4/net"
)

// The program as it is built, not this test's, keeps pages of other sites from the functions' own ports: it imports
// the package that is deployed, which registers the functions as soon as it is imported.
func TestPagesGetNowhereInTheProgram(t *testing.T) {
	t.Parallel()
	built := filepath.Join(t.TempDir(), "counters.exe")
	if out, err := exec.Command("go", "build", "-o", built, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(built, "dev", "--port", "0", "--firestore-port", "0")
	cmd.Env = append(os.Environ(), "FIRESTORE_EMULATOR_HOST=", "GOOGLE_CLOUD_PROJECT=")
	dev := startUntilReady(t, cmd)
	asked := 0
	for _, pid := range childrenOf(t, dev.Process.Pid) {
		sockets, err := psnet.ConnectionsPid("tcp", pid)
		if err != nil {
			t.Skip("this system doesn't tell who listens where:", err)
		}
		for _, s := range sockets {
			if s.Status != "LISTEN" {
				continue
			}
			asked++
			addr := fmt.Sprintf("%s:%d", s.Laddr.IP, s.Laddr.Port)
			for _, from := range []struct{ host, origin string }{{addr, "https://evil.example"}, {addr, "null"}, {"evil.example", ""}} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/", strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				r.Host = from.host
				if from.origin != "" {
					r.Header.Set("Origin", from.origin)
				}
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
				if answer.StatusCode != http.StatusForbidden {
					t.Errorf("POST to a function, Host %s, Origin %q: %s", from.host, from.origin, answer.Status)
				}
			}
		}
	}
	if asked != 3 {
		t.Errorf("%d functions listen, want 3", asked)
	}
}

// childrenOf are the processes that a process has started.
func childrenOf(t *testing.T, parent int) (pids []int32) {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		t.Skip("this system doesn't tell whose process is whose:", err)
	}
	for line := range strings.Lines(string(out)) {
		var pid, of int
		if _, err := fmt.Sscan(line, &pid, &of); err == nil && of == parent {
			pids = append(pids, int32(pid))
		}
	}
	return pids
}
