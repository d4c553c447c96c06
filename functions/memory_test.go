package functions

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

func TestCollectSeldom(t *testing.T) { // not parallel: it changes the process
	for _, tt := range []struct {
		name        string
		environ     map[string]string
		v2, v1      string // what the files hold, "" for none
		wantPercent int
		wantLimit   int64
	}{
		{"512 MiB, version 2", nil, "536870912\n", "", 400, 241591905},
		{"512 MiB, version 1", nil, "", "536870912\n", 400, 241591905},
		{"2 GiB, and a group above without a limit", nil, "max\n", "2147483648\n", 400, 966367620},
		{"no limit in version 2", nil, "max\n", "", 400, math.MaxInt64},
		{"no limit in version 1", nil, "", "9223372036854771712\n", 400, math.MaxInt64},
		{"no limit, with larger pages", nil, "", "9223372036854710272\n", 400, math.MaxInt64},
		{"no such files", nil, "", "", 400, math.MaxInt64},
		{"not a number", nil, "lots", "", 400, math.MaxInt64},
		{"zero", nil, "0", "", 400, math.MaxInt64},
		{"GOGC is set", map[string]string{"GOGC": "50"}, "536870912\n", "", 100, 241591905},
		{"GOMEMLIMIT is set", map[string]string{"GOMEMLIMIT": "1GiB"}, "536870912\n", "", 400, math.MaxInt64},
		{"both are empty, as a deployment says that doesn't choose", map[string]string{"GOGC": "", "GOMEMLIMIT": ""}, "536870912\n", "", 400, 241591905},
		{"both are", map[string]string{"GOGC": "off", "GOMEMLIMIT": "1GiB"}, "536870912\n", "", 100, math.MaxInt64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
			defer func() {
				debug.SetGCPercent(percent)
				debug.SetMemoryLimit(limit)
			}()
			files := []string{filepath.Join(t.TempDir(), "memory.max"), filepath.Join(t.TempDir(), "memory.limit_in_bytes")}
			for i, text := range []string{tt.v2, tt.v1} {
				if text != "" {
					if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			collectSeldom(func(name string) (string, bool) {
				value, set := tt.environ[name]
				return value, set
			}, files)
			if got := debug.SetGCPercent(100); got != tt.wantPercent {
				t.Errorf("the garbage collector runs at %d %%, want %d", got, tt.wantPercent)
			}
			if got := debug.SetMemoryLimit(-1); got != tt.wantLimit {
				t.Errorf("the memory's limit is %d bytes, want %d", got, tt.wantLimit)
			}
		})
	}
}
