// Package repotest holds the repository to what it says of itself: docs, what is uploaded and what is
// installed, imports, workflows. Its tests run at the root of the repository.
package repotest

import (
	"os"
	"sync"
	"testing"
)

var toRoot = sync.OnceValue(func() error { return os.Chdir("../..") })

// atRoot runs a test beside others, at the root of the repository. Go answers from its test cache only while the
// files that tests opened are as they were, and finds them only if it saw a test change the directory: it doesn't
// see what TestMain does.
func atRoot(t *testing.T) {
	t.Helper()
	t.Parallel()
	if err := toRoot(); err != nil {
		t.Fatal(err)
	}
}
