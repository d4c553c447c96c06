package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"time"
)

// profilesVariable names the directory in which a contestant's processes each have a socket for
// profiles.
const profilesVariable = "COUNTERS_BENCH_PROFILES"

func profileSocket(dir string, pid int) string { return filepath.Join(dir, strconv.Itoa(pid)+".sock") }

// serveProfiles serves CPU profiles of this process at its socket; without a directory it does
// nothing. What net/http/pprof has for it registers itself where it is imported, which everything
// in this program would then be.
func serveProfiles(dir string) {
	if dir == "" {
		return
	}
	l, err := net.Listen("unix", profileSocket(dir, os.Getpid()))
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve profiles:", err)
		return
	}
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d, err := time.ParseDuration(r.URL.Query().Get("for"))
			if err == nil {
				err = pprof.StartCPUProfile(w)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			time.Sleep(d)
			pprof.StopCPUProfile()
		}))
	}()
}

// profile writes a profile of the process's CPU time, for as long as given, to a file.
func (p *process) profile(ctx context.Context, dir string, d time.Duration, file string) error {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", profileSocket(dir, p.PID()))
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://profiles/?for="+d.String(), nil)
	if err != nil {
		return err
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("profile function %s: %w", p.function, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("profile function %s: %s", p.function, answer.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, answer.Body)
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}
