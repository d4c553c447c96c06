package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/iterator"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// Left finds the prefixes of trials that left something: functions, accounts, or documents.
func Left(ctx context.Context, t *Trial) ([]string, error) {
	var prefixes []string
	accounts, err := t.list(ctx, "iam", "service-accounts", "list", "--project="+t.Project, "--format=value(email)")
	if err != nil {
		return nil, err
	}
	functions, err := t.list(ctx, "functions", "list", "--v2", "--project="+t.Project, "--format=value(name.basename())")
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Fields(accounts + "\n" + functions) {
		name, _, _ = strings.Cut(name, "@")
		if at := strings.LastIndexByte(name, '-'); at > 0 && Prefix.MatchString(name[:at]) {
			prefixes = append(prefixes, name[:at])
		}
	}
	all := t.Firestore.Collections(ctx)
	for {
		c, err := all.Next()
		if errors.Is(err, iterator.Done) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("list the collections: %w", err)
		}
		if hash, is := strings.CutPrefix(c.ID, "verify_"); is && Prefix.MatchString("v-"+hash) {
			prefixes = append(prefixes, "v-"+hash)
		}
	}
	slices.Sort(prefixes)
	return slices.Compact(prefixes), nil
}

// list asks gcloud for names. Where an API is off, there are none.
func (t *Trial) list(ctx context.Context, args ...string) (string, error) {
	names, err := t.Gcloud(ctx, args...)
	if err != nil && strings.Contains(err.Error(), "SERVICE_DISABLED") {
		return "", nil
	}
	return names, err
}

// Clean takes away what a trial made: its functions and all that belongs to them, then its documents. It
// returns what is left.
func Clean(ctx context.Context, t *Trial, prefix string) (left []string, err error) {
	region, err := t.where(ctx, prefix)
	if err != nil {
		return nil, err
	}
	if region == "" { // a deployment that failed may have made accounts, and no function yet
		region = t.Region
	}
	if region == "" {
		region = t.Prices.Region // beside the database
	}
	var failed []error
	if err := t.Program(ctx, "destroy", "--project", t.Project, "--region", region, "--prefix", prefix, "--yes"); err != nil {
		failed = append(failed, fmt.Errorf("destroy: %w", err))
	}
	if err := t.clear(ctx, collection(prefix)); err != nil {
		failed = append(failed, err)
	}
	// An exemption of the trial's own collection. Firestore allows a few hundred of them in a database, and in
	// Enterprise edition none.
	if t.Edition != cost.Enterprise {
		if _, err := t.Gcloud(ctx, "firestore", "indexes", "fields", "update", "counter_rollup", "--project="+t.Project, "--database="+t.Database,
			"--collection-group="+collection(prefix), "--clear-exemption", "--format=none"); err != nil {
			failed = append(failed, fmt.Errorf("clear the index exemption of %s: %w", collection(prefix), err))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	prefixes, err := Left(ctx, t)
	if slices.Contains(prefixes, prefix) {
		left = append(left, prefix)
	}
	return left, err
}

// clear deletes a collection's documents, and all below them. Below one that isn't there may be
// others.
func (t *Trial) clear(ctx context.Context, id string) error {
	writer := t.Firestore.BulkWriter(ctx)
	var jobs []*firestore.BulkWriterJob
	var below func(c *firestore.CollectionRef) error
	below = func(c *firestore.CollectionRef) error {
		docs := c.DocumentRefs(ctx)
		for {
			doc, err := docs.Next()
			if errors.Is(err, iterator.Done) {
				return nil
			}
			if err != nil {
				return err
			}
			inner, err := doc.Collections(ctx).GetAll()
			if err != nil {
				return err
			}
			for _, c := range inner {
				if err := below(c); err != nil {
					return err
				}
			}
			job, err := writer.Delete(doc)
			if err != nil {
				return err
			}
			jobs = append(jobs, job)
		}
	}
	err := below(t.Firestore.Collection(id))
	writer.End()
	for _, job := range jobs {
		if _, failed := job.Results(); failed != nil && err == nil {
			err = failed
		}
	}
	if err != nil {
		return fmt.Errorf("delete the documents of %s: %w", id, err)
	}
	return nil
}
