package repotest

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The container for contributors has this module's Go, Node.js of CI's, and every package that CI
// would install; what it is made of is pinned.
func TestDevcontainer(t *testing.T) {
	atRoot(t)
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var container struct {
		Name, Image       string
		Features          map[string]struct{ Version string }
		PostCreateCommand string
		ForwardPorts      []int
		PortsAttributes   map[string]struct{ Label, OnAutoForward string }
		Customizations    struct {
			VSCode struct {
				Extensions []string
				Settings   map[string]string
			}
		}
	}
	decoder := json.NewDecoder(strings.NewReader(read(".devcontainer/devcontainer.json")))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&container); err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read("go.mod"))
	image := regexp.MustCompile(`^mcr\.microsoft\.com/devcontainers/go:\d+\.\d+\.\d+-` + regexp.QuoteMeta(version[1]) + `-bookworm@sha256:[0-9a-f]{64}$`)
	if !image.MatchString(container.Image) { // a tag can be moved to another image
		t.Errorf("the image is %s, want %s", container.Image, image)
	}
	pinned, node := regexp.MustCompile(`^ghcr\.io/devcontainers/features/[a-z]+:\d+\.\d+\.\d+$`), false
	for name, feature := range container.Features {
		if !pinned.MatchString(name) {
			t.Errorf("feature %s; want one of three numbers", name)
		}
		if strings.Contains(name, "/node:") {
			node = strings.Contains(read(".github/workflows/ci.yml"), "node-version: "+feature.Version+"\n")
		}
	}
	if !node {
		t.Errorf("the features %v have not CI's Node.js", container.Features)
	}
	packages := regexp.MustCompile(`must\+=\(([^)]*)\)`).FindAllStringSubmatch(read(".ci/run"), -1)
	if len(packages) < 5 {
		t.Fatalf(".ci/run installs %v", packages)
	}
	for _, m := range packages {
		for name := range strings.FieldsSeq(m[1]) {
			if name != "nodejs" && name != "npm" && !strings.Contains(container.PostCreateCommand, " "+name+" ") {
				t.Errorf("%q doesn't install %s, which CI does", container.PostCreateCommand, name)
			}
		}
	}
}
