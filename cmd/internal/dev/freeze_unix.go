//go:build unix

package dev

import (
	"os"
	"os/exec"
	"syscall"
)

// freeze takes a process's processor away.
func freeze(p *os.Process) { _ = p.Signal(syscall.SIGSTOP) }

// thaw gives it back.
func thaw(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }

// freezable sees to it that a process which is stopped when this one dies goes on, to find that out
// and end: the kernel does so for a process group that nobody of its session looks after any more.
func freezable(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
