//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup has a command not hear Ctrl-C by itself: this program tells it.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
