//go:build !unix

package dev

import (
	"os"
	"os/exec"
)

// Without signals instances have a processor all the time.
func freeze(*os.Process)  {}
func thaw(*os.Process)    {}
func freezable(*exec.Cmd) {}
