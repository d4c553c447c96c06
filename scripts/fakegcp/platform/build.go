package main

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/firestore-counters/counters/internal/testbed/buildpack"
)

// builds builds each source once: the functions of a deployment are uploaded one by one, and all
// the same. Programs are kept in a folder that other projects may share.
type builds struct {
	dir  string
	kept string
	mu   sync.Mutex
}

// program builds an archive.
func (b *builds) program(ctx context.Context, archive string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, err := zip.OpenReader(archive)
	if err != nil {
		return "", err
	}
	defer r.Close()
	files := map[string][]byte{}
	var names []string
	for _, f := range r.File {
		if f.FileInfo().IsDir() {
			continue
		}
		content, err := f.Open()
		if err != nil {
			return "", err
		}
		if files[f.Name], err = io.ReadAll(content); err != nil {
			return "", err
		}
		names = append(names, f.Name)
	}
	slices.Sort(names)
	hash := sha256.New()
	for _, name := range names {
		fmt.Fprintf(hash, "%q %x\n", name, sha256.Sum256(files[name]))
	}
	id := fmt.Sprintf("%x", hash.Sum(nil))[:12]
	source, built, program := filepath.Join(b.dir, "source-"+id), filepath.Join(b.dir, "program"), filepath.Join(b.kept, "program-"+id)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	for _, name := range names {
		if !filepath.IsLocal(name) {
			return "", fmt.Errorf("%s is no file of an archive", name)
		}
		file := filepath.Join(source, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(file, files[name], 0o644); err != nil {
			return "", err
		}
	}
	if err := buildpack.Build(ctx, source, built); err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(names, " "), err)
	}
	if err := os.Rename(built, program); err != nil { // whole, whoever else builds it
		return "", err
	}
	return program, nil
}
