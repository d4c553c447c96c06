package repotest

import (
	"os"
	"testing"
)

// npm takes the license of a package from its own folder.
func TestPackagesHaveTheLicense(t *testing.T) {
	atRoot(t)
	ours, err := os.ReadFile("LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile("web/LICENSE"); err != nil || string(text) != string(ours) {
		t.Errorf("web/LICENSE is not LICENSE: %v", err)
	}
}
