//go:build unix

package dev

import (
	"os"
	"os/exec"
	"syscall"
)

// freeze takes a process's processor away, one that is [freezable]. It is no SIGSTOP: one that is
// under way when this process is killed would stop the other for good, as there is nobody left to
// wake it. A process group that nobody looks after isn't stopped by SIGTSTP.
func freeze(p *os.Process) { _ = p.Signal(syscall.SIGTSTP) }

// thaw gives it back.
func thaw(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }

// freezable sees to it that a process which is stopped when this one dies goes on, to find that out
// and end: the kernel does so for a process group that nobody of its session looks after any more.
func freezable(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	wakeWithoutParent(c.SysProcAttr)
}
