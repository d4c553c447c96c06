package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// processor names the processor, where the system tells, and how many of its cores this program may use.
func processor() string {
	cores := fmt.Sprintf("%d cores", runtime.GOMAXPROCS(0))
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return cores
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return cores + " of " + strings.TrimSpace(value)
		}
	}
	return cores
}
