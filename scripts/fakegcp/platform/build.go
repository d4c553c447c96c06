package main

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/mod/sumdb/dirhash"

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
	hash, err := dirhash.HashZip(archive, dirhash.Hash1)
	if err != nil {
		return "", err
	}
	id := fmt.Sprintf("%x", sha256.Sum256([]byte(hash)))[:12]
	source, built, program := filepath.Join(b.dir, "source-"+id), filepath.Join(b.dir, "program"), filepath.Join(b.kept, "program-"+id)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	r, err := zip.OpenReader(archive)
	if err != nil {
		return "", err
	}
	defer r.Close()
	if err := errors.Join(os.RemoveAll(source), os.CopyFS(source, r)); err != nil { // what a build that failed has left would be in the way
		return "", err
	}
	if err := buildpack.Build(ctx, source, built); err != nil {
		return "", err
	}
	if err := os.Rename(built, program); err != nil { // whole, whoever else builds it
		return "", err
	}
	return program, nil
}
