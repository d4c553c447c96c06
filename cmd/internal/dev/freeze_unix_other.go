//go:build unix && !linux

package dev

import "syscall"

// wakeWithoutParent is the kernel's own care of process groups.
func wakeWithoutParent(*syscall.SysProcAttr) {}
