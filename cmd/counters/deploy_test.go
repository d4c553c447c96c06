package main

import (
	"strings"
	"testing"
)

// The help names what each option takes, and completion offers them.
func TestDeploymentsHelp(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]string{"deploy": "--create-database", "destroy": "--region R", "smoke": "--token TOKEN"} {
		for _, args := range [][]string{{name, "--help"}, {"help", name}, {name, "-h"}} {
			out, errOut, code := counters(t, args...)
			if code != 0 || !strings.Contains(out, option) || !strings.Contains(out, "Usage:\n  counters "+name) {
				t.Errorf("%q: exit code %d, %s\n%s", args, code, errOut, out)
			}
		}
		if out, _, _ := counters(t, "__complete", name, "--"); !strings.Contains(out, strings.Fields(option)[0]+"\t") {
			t.Errorf("completion of %s offers %s", name, out)
		}
	}
}
