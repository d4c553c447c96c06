package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/internal/testbed/official"
)

// rulesPolling is how often the file of the rules is looked at, for what an editor has saved.
const rulesPolling = 500 * time.Millisecond

// canEvaluate says why the rules of a file can't be evaluated, before anything is started.
func canEvaluate(file string, here bool) error {
	if file == "" {
		return nil
	}
	if _, err := os.ReadFile(file); err != nil {
		return fmt.Errorf("--rules: %w", err)
	}
	if here {
		if _, _, err := official.Find(); err != nil {
			return fmt.Errorf("--rules: %w", err)
		}
	}
	return nil
}

// startOfficial starts Google's emulator, which evaluates security rules, at the port that was
// chosen, or else at one that is free.
func (s *System) startOfficial(ctx context.Context, chosen bool, firestore net.Listener, functions string) error {
	opts := official.Options{
		Functions: functions, Project: s.Project,
		Elsewhere: func(project string) { s.notice("projects/" + project) },
	}
	if chosen {
		opts.Addr = firestore.Addr().String()
	}
	// for the emulator, which takes a number and no socket
	if err := firestore.Close(); err != nil {
		return err
	}
	e, err := official.StartWith(ctx, opts)
	if err != nil {
		return fmt.Errorf("--rules: %w", err)
	}
	s.Firestore = e.Addr
	closing := make(chan struct{})
	s.onClose(func() {
		close(closing)
		e.Stop()
	})
	go func() {
		select {
		case <-closing:
		case <-e.Ended():
			s.fail(errors.New("the official Firestore emulator has ended"))
		}
	}()
	return nil
}

// startRules gives the emulator the rules of a file, now and whenever the file changes. Rules that
// it refuses now are an error, and later a line in the log: the earlier ones stay.
func (s *System) startRules(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--rules: %w", err)
	}
	e := &triggers{emulator: s.Firestore, project: s.Project, database: s.settings.Database}
	if err := e.release(ctx, text); err != nil {
		return fmt.Errorf("--rules: %s: %w", file, err)
	}
	where := ""
	if s.settings.Database != firestore.DefaultDatabaseID {
		where = " in the databases " + firestore.DefaultDatabaseID + " and " + s.settings.Database
	}
	s.Notes = append(s.Notes, "Security rules"+where+" are those of "+file+", again whenever it changes. Functions and the other commands pass them by.")
	watching, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-watching.Done():
				return
			case <-time.After(rulesPolling):
			}
			now, err := os.ReadFile(file)
			if err != nil || string(now) == string(text) {
				continue // an editor may be at it
			}
			text = now
			if err := e.release(watching, text); err != nil {
				s.logger.Error("the rules stay as they were", "file", file, "error", err)
			} else {
				s.logger.Info("the rules have changed", "file", file)
			}
		}
	})
	s.onClose(func() {
		cancel()
		running.Wait()
	})
	return nil
}

// release makes these the rules of the project's default database, and of the counters'. The emulator lets everybody do
// everything in a database for which there are none.
func (t *triggers) release(ctx context.Context, rules []byte) error {
	body, err := json.Marshal(map[string]any{"rules": map[string]any{"files": []any{map[string]any{"name": "firestore.rules", "content": string(rules)}}}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout) // it has just started, and compiles them
	defer cancel()
	for _, database := range slices.Compact([]string{firestore.DefaultDatabaseID, t.database}) {
		path := "/emulator/v1/projects/" + url.PathEscape(t.project) + "/databases/" + url.PathEscape(database) + ":securityRules"
		if err := t.call(ctx, http.MethodPut, path, body); err != nil {
			return err
		}
	}
	return nil
}
