package dev

import "syscall"

// wakeWithoutParent has a process go on when this one dies. The kernel does so for those that have
// stopped by then, and not for one of which some threads have yet to: it would stop for good.
func wakeWithoutParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGCONT }
