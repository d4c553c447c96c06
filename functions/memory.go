package functions

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// gcPercent lets the heap grow to five times what is in use before it is collected. A function keeps
	// a few MiB between requests, and nearly everything that it allocates is garbage after the request.
	// With Go's default of 100 the collector takes a quarter of an increment's CPU time.
	gcPercent = 400
	// memoryPercent is the part of an instance's memory beyond which Go collects more often, 230 of 512
	// MiB. The limit doesn't cover some 20 MiB, and it is soft: the rest is for bursts.
	memoryPercent = 45
	// noLimit is more bytes than any machine has: a larger number stands for no limit.
	noLimit = 1 << 60
)

// limitFiles say how much memory a container may use: control groups of version 2, and of version 1.
var limitFiles = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// collectSeldom lets the garbage collector use the memory that an instance has anyway. It leaves GOGC
// and GOMEMLIMIT alone if they are set.
func collectSeldom(lookup func(string) (string, bool), files []string) {
	if value, _ := lookup("GOGC"); value == "" { // Go's runtime takes "" for unset, too
		debug.SetGCPercent(gcPercent)
	}
	if value, _ := lookup("GOMEMLIMIT"); value != "" {
		return
	}
	if most, ok := containerMemory(files); ok {
		debug.SetMemoryLimit(MemoryLimit(most))
	}
}

// MemoryLimit is the GOMEMLIMIT, in bytes, that a function sets for itself in a container of this size.
func MemoryLimit(container int64) int64 { return container / 100 * memoryPercent }

// containerMemory is how many bytes this container may use, by the first of the files that has a
// number. It reports false if there is no limit.
func containerMemory(files []string) (int64, bool) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// Without a limit, version 2 says "max", and version 1 the largest number of whole pages.
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && limit > 0 && limit < noLimit {
			return limit, true
		}
	}
	return 0, false
}
