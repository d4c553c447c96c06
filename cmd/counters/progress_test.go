package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/counters/internal/doctor"
)

// Where there is no terminal, what takes long writes a line a minute, and nothing once it has ended.
func TestALineAMinute(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		work func(w *bytes.Buffer)
		want string
	}{
		"counters": {func(w *bytes.Buffer) {
			p := newProgress(w, "reconciling")
			time.Sleep(time.Second / 2)
			for range 150 {
				_ = p.Add(1)
				time.Sleep(time.Second)
			}
			_ = p.Finish()
			_ = p.Finish()
			time.Sleep(time.Hour)
		}, "counters: reconciling: 60, after 1m0s\ncounters: reconciling: 120, after 2m0s\n"},
		"of so many": {func(w *bytes.Buffer) {
			p := newProgress(w, "moving shards")
			p.Set(400, 1000)
			time.Sleep(90 * time.Second)
			_ = p.Finish()
		}, "counters: moving shards: 400 of 1000, after 1m0s\n"},
		"steps": {func(w *bytes.Buffer) {
			cmd := &cobra.Command{}
			cmd.SetErr(w)
			count, end := underWay(cmd, "deleting post", "documents gone")
			time.Sleep(61 * time.Second)
			count(495)
			time.Sleep(61 * time.Second)
			end()
		}, "counters: deleting post, after 1m0s\ncounters: deleting post: 495 documents gone, after 2m0s\n"},
		"reading": {func(w *bytes.Buffer) {
			var reader doctor.Reader
			done := showReading(&reader, w)
			reader.Progress("indexes")
			time.Sleep(61 * time.Second)
			done()
		}, "counters: reading indexes, after 1m0s\n"},
		"quick": {func(w *bytes.Buffer) {
			p := newProgress(w, "reconciling")
			time.Sleep(59 * time.Second)
			_ = p.Finish()
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var w bytes.Buffer
				c.work(&w)
				if w.String() != c.want {
					t.Errorf("it writes\n%s\nwant\n%s", &w, c.want)
				}
			})
		})
	}
}
