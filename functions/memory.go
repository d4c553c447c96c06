package functions

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// gcPercent lets the heap grow to five times what is in use before it is collected. What a
	// function holds between requests is a few MiB, and nearly all that it allocates is dead with the
	// request: with Go's default of 100 the collector takes a quarter of the CPU time of an increment.
	gcPercent = 400
	// memoryPercent is the part of an instance's memory from which on it is collected more often
	// instead, 230 of 512 MiB. What the limit leaves out takes some 20 MiB, and it is a soft one:
	// beyond it the rest is there for a burst.
	memoryPercent = 45
	// noLimit is a number of bytes that no machine has: a larger one stands for no limit.
	noLimit = 1 << 60
)

// limitFiles are where a container finds out how much memory it may use: control groups of version
// 2, and of version 1.
var limitFiles = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// collectSeldom has the garbage collector use the memory that an instance has anyway. GOGC and
// GOMEMLIMIT, where they are set, are left as they are.
func collectSeldom(lookup func(string) (string, bool), files []string) {
	if value, _ := lookup("GOGC"); value == "" { // which is none to Go's runtime either
		debug.SetGCPercent(gcPercent)
	}
	if value, _ := lookup("GOMEMLIMIT"); value != "" {
		return
	}
	if most, ok := containerMemory(files); ok {
		debug.SetMemoryLimit(MemoryLimit(most))
	}
}

// MemoryLimit is the GOMEMLIMIT, in bytes, that a function sets for itself in a container that may
// use this many bytes.
func MemoryLimit(container int64) int64 { return container / 100 * memoryPercent }

// containerMemory is how many bytes this container may use, by the first of the files that says so.
// It reports false where there is no limit.
func containerMemory(files []string) (int64, bool) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// Where there is none, version 2 says "max", and version 1 the largest number of whole pages.
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && limit > 0 && limit < noLimit {
			return limit, true
		}
	}
	return 0, false
}
