package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// Where there is no terminal, what takes long writes a line a minute, and nothing once it has ended.
func TestALineAMinute(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		work func(w *bytes.Buffer)
		want string
	}{
		"counters": {func(w *bytes.Buffer) {
			p := newProgress(w, "reconciling", "")
			time.Sleep(time.Second / 2)
			for range 150 {
				p.Add()
				time.Sleep(time.Second)
			}
			p.Finish()
			p.Finish()
			time.Sleep(time.Hour)
		}, "counters: reconciling: 60, after 1m0s\ncounters: reconciling: 120, after 2m0s\n"},
		"of so many": {func(w *bytes.Buffer) {
			p := newProgress(w, "moving shards", "")
			p.Set(400, 1000)
			time.Sleep(90 * time.Second)
			p.Finish()
		}, "counters: moving shards: 400 of 1000, after 1m0s\n"},
		"steps": {func(w *bytes.Buffer) {
			p := newProgress(w, "deleting post", " documents gone")
			time.Sleep(61 * time.Second)
			p.Set(495, 0)
			time.Sleep(61 * time.Second)
			p.Finish()
		}, "counters: deleting post, after 1m0s\ncounters: deleting post: 495 documents gone, after 2m0s\n"},
		"reading": {func(w *bytes.Buffer) {
			p := newProgress(w, "reading the deployment", "")
			p.Say("reading indexes")
			time.Sleep(61 * time.Second)
			p.Finish()
		}, "counters: reading indexes, after 1m0s\n"},
		"quick": {func(w *bytes.Buffer) {
			p := newProgress(w, "reconciling", "")
			time.Sleep(59 * time.Second)
			p.Finish()
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
