package dev

import (
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	psnet "github.com/shirou/gopsutil/v4/net"

	"github.com/firestore-counters/counters/emulator"
)

// Whatever port the system listens at, a page of another site gets nothing done there: neither by a
// POST that its browser lets through, nor by a name of its own that it has lead to this machine.
// Behind the gateway only the gateway itself calls, and who delivers events. Not in parallel: all
// that this process listens at is the system's.
func TestForeignPagesGetNowhere(t *testing.T) {
	for name, c := range map[string]struct {
		Config
		foreign bool // Firestore is another's
		behind  int  // ports
	}{
		"all instances run":     {behind: 3},
		"instances come and go": {Config: Config{CloudRun: CloudRun{Concurrency: 10}}, behind: 1}, // and most are stopped
		"another's events":      {foreign: true, behind: 4},
	} {
		t.Run(name, func(t *testing.T) {
			if c.foreign {
				c.Environ = []string{"FIRESTORE_EMULATOR_HOST=" + emulator.Start(t).Addr}
			}
			s := startSystem(t, c.Config)
			var pids []int
			if c.CloudRun.Concurrency == 0 {
				pids = s.pids()
			}
			asked, behind := 0, 0
			for _, pid := range append(pids, os.Getpid()) {
				for _, addr := range listensAt(t, pid) {
					asked++
					call := func(method, host, origin string) int {
						r, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+"/reconcile", strings.NewReader("{}"))
						if err != nil {
							t.Fatal(err)
						}
						if r.Host = host; origin != "" {
							r.Header.Set("Origin", origin)
						}
						r.Header.Set("Content-Type", "text/plain")
						transport := &http.Transport{DisableKeepAlives: true}
						answer, err := transport.RoundTrip(r)
						if err != nil {
							t.Fatal(err)
						}
						answer.Body.Close()
						return answer.StatusCode
					}
					_, port, _ := net.SplitHostPort(addr)
					rebound := "evil.example:" + port
					foreign := [][2]string{{addr, "https://evil.example"}, {addr, "null"}, {rebound, "http://" + rebound}, {rebound, ""}, {"", "https://evil.example"}}
					if addr != strings.TrimPrefix(s.Gateway, "http://") && addr != s.Firestore {
						behind++
						foreign = append(foreign, [2]string{addr, "http://localhost:3000"}, [2]string{addr, "http://" + addr})
						if status := call(http.MethodPost, addr, ""); status == http.StatusForbidden {
							t.Errorf("POST to %s of no page: %d", addr, status)
						}
					}
					for _, from := range foreign {
						if status := call(http.MethodPost, from[0], from[1]); status != http.StatusForbidden {
							t.Errorf("POST to %s, Host %q, Origin %q: %d, want 403", addr, from[0], from[1], status)
						}
					}
					if status := call(http.MethodGet, rebound, ""); status != http.StatusForbidden {
						t.Errorf("GET of %s, Host %q: %d, want 403", addr, rebound, status)
					}
				}
			}
			if behind != c.behind || asked != c.behind+2 {
				t.Errorf("%d ports, %d of them behind the gateway; want %d, the gateway's and Firestore's", asked, behind, c.behind)
			}
			// Pages of the gateway get through it, and so do events.
			for _, path := range []string{"/increment/a", "/reconcile"} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Gateway+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Origin", s.Gateway)
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
				if answer.StatusCode != http.StatusOK {
					t.Errorf("POST %s of our own page: %s", path, answer.Status)
				}
			}
			waitForTotal(t, s.client(t), "a", 1)
		})
	}
}

// pids are those of the functions that answer.
func (s *System) pids() (pids []int) {
	s.supervisor.mu.Lock()
	defer s.supervisor.mu.Unlock()
	for _, i := range s.supervisor.all {
		if i.addr != "" {
			pids = append(pids, i.current.Pid)
		}
	}
	return pids
}

// listensAt are the addresses at which a process listens.
func listensAt(t *testing.T, pid int) (addrs []string) {
	t.Helper()
	sockets, err := psnet.ConnectionsPid("tcp", int32(pid))
	if err != nil {
		t.Skip("this system doesn't tell who listens where:", err)
	}
	for _, s := range sockets {
		if s.Status == "LISTEN" {
			addrs = append(addrs, net.JoinHostPort(s.Laddr.IP, strconv.Itoa(int(s.Laddr.Port))))
		}
	}
	return addrs
}

// A process that stands behind no gateway is called by the pages of its own setting, and by no others.
func TestPagesOfAProcessAlone(t *testing.T) {
	t.Setenv("ALLOWED_ORIGINS", "https://app.example,https://other.example")
	t.Setenv("GOOGLE_CLOUD_PROJECT", "p")
	t.Setenv("FIRESTORE_EMULATOR_HOST", emulator.Start(t).Addr)
	p := startProcess(t, incrementFunction)
	for origin, want := range map[string]int{"https://app.example": http.StatusNoContent, "https://other.example": http.StatusNoContent, "https://evil.example": http.StatusForbidden, "none": http.StatusForbidden} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, "http://"+p.Addr+"/hot", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", "POST")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != want {
			t.Errorf("a page of %s is answered %d, want %d", origin, answer.StatusCode, want)
		}
	}
}
