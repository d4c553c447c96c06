// Package repotest holds the repository to what it says of itself: docs, what is uploaded and what is
// installed, imports, workflows. Its tests run at the root of the repository.
package repotest

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
