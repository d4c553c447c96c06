package main

import (
	"strings"
	"testing"
)

// Doctor, the docs and the changelog have it typed.
func TestReconcileRebuildsLedgers(t *testing.T) {
	t.Parallel()
	if newReconcileCommand(&target{}).Flags().Lookup("rebuild-ledgers") == nil {
		t.Error("counters reconcile has no --rebuild-ledgers")
	}
	if help := newReconcileCommand(&target{}).Flags().FlagUsages(); !strings.Contains(help, "from the shards") {
		t.Errorf("it doesn't say what that does:\n%s", help)
	}
}
