//go:build all && unix

package dev

import (
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stopped reports whether a process has no processor.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		t.Fatalf("ps of %d: %v", pid, err)
	}
	return strings.HasPrefix(string(state), "T")
}

func TestFreeze(t *testing.T) {
	t.Parallel()
	if signal.Ignored(syscall.SIGTSTP) {
		t.Skip("SIGTSTP is ignored here, and processes inherit that")
	}
	child := exec.CommandContext(t.Context(), "sleep", "600")
	freezable(child)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	for range 3 {
		freeze(child.Process)
		eventually(t, "it is stopped", func() bool { return stopped(t, child.Process.Pid) })
		thaw(child.Process)
		eventually(t, "it goes on", func() bool { return !stopped(t, child.Process.Pid) })
	}
}

// What is to stop a process may reach it when its parent has been killed: it isn't stopped then, as
// nobody would wake it.
func TestFreezeOfAnOrphan(t *testing.T) {
	t.Parallel()
	parent := exec.CommandContext(t.Context(), "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
	freezable(parent)
	out, err := parent.Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = orphan.Kill() })
	freeze(orphan)
	for range 20 { // one that is to be stopped may take a moment
		if stopped(t, pid) {
			t.Fatal("it is stopped for good")
		}
		time.Sleep(10 * time.Millisecond)
	}
}
