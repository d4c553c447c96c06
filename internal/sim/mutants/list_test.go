package main

import "testing"

// Each rule that is left out is still where the list says: otherwise the list is to follow the sources.
func TestMutantsApply(t *testing.T) {
	t.Chdir("../../..")
	for _, m := range mutants {
		if _, err := m.overlay(t.TempDir()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}
