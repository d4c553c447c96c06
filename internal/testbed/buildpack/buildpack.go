// Package buildpack builds the functions from an upload as Google's buildpack for Go does, so that
// what is deployed is what is tried.
package buildpack

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// framework is the package that the one at the root of an upload has to import: without it the
// buildpack takes the functions for some of an older form.
const framework = "github.com/GoogleCloudPlatform/functions-framework-go/functions"

// program is what the buildpack puts beside functions that are registered declaratively
// (GoogleCloudPlatform/buildpacks, cmd/go/functions_framework), in words of our own: two paths that
// browsers ask for are not found, and the framework serves the rest.
const program = `package main

import (
	"log"
	"net/http"
	"os"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"

	_ %q
)

func main() {
	for _, path := range []string{"/robots.txt", "/favicon.ico"} {
		http.HandleFunc(path, http.NotFound)
	}
	log.Fatal(funcframework.Start(os.Getenv("PORT")))
}
`

// Build builds the source in a folder, and writes the program that serves its functions to a file.
// It adds a package to the folder, and tidies its go.mod. Its errors are what the platform would
// say of the source.
func Build(ctx context.Context, dir, to string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("unable to find Go package: there is no Go file beside go.mod")
	}
	packages, imports := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		packages[source.Name.Name] = true
		for _, i := range source.Imports {
			imports[strings.Trim(i.Path.Value, `"`)] = true
		}
	}
	if len(packages) != 1 {
		return fmt.Errorf("multiple packages beside go.mod: %v", packages)
	}
	if !imports[framework] {
		return fmt.Errorf("the package beside go.mod does not import %s", framework)
	}
	module, err := run(ctx, dir, "list", "-m")
	if err != nil {
		return err
	}
	app := filepath.Join(dir, "functions.local", "app")
	if err := os.MkdirAll(app, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(app, "main.go"), fmt.Appendf(nil, program, strings.TrimSpace(module)), 0o644); err != nil {
		return err
	}
	if _, err := run(ctx, dir, "mod", "tidy"); err != nil {
		return err
	}
	_, err = run(ctx, dir, "build", "-o", to, "./functions.local/app")
	return err
}

func run(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// With -trimpath, what one folder has compiled another needn't.
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false -trimpath", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}
