package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// post is a request of Pub/Sub to Rollup.
type post struct {
	began, ended time.Time
	ok           bool
}

// UnmarshalJSON reads an entry of Cloud Run's log of requests.
func (p *post) UnmarshalJSON(text []byte) error {
	var entry struct {
		Timestamp   time.Time
		HTTPRequest struct {
			Latency string
			Status  json.Number
		}
	}
	if err := json.Unmarshal(text, &entry); err != nil {
		return err
	}
	latency, err := time.ParseDuration(entry.HTTPRequest.Latency)
	if err != nil {
		return fmt.Errorf("the log says that a request took %q: %w", entry.HTTPRequest.Latency, err)
	}
	status, _ := strconv.Atoi(entry.HTTPRequest.Status.String())
	p.began, p.ended, p.ok = entry.Timestamp, entry.Timestamp.Add(latency), status >= 200 && status < 300
	return nil
}

// window is how far Pub/Sub's push window was open: how many posts had begun before the first was
// answered, and how many were in flight at a time, at most, in all and within so long of the first.
type window struct {
	posts, refused int
	first          int
	most           int
	within         []int // see [windowAt]
}

// windowAt is after how long a window is looked at.
var windowAt = []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}

// openedBy works out a window from posts, in any order.
func openedBy(posts []post) (w window) {
	if len(posts) == 0 {
		return w
	}
	posts = slices.Clone(posts)
	slices.SortFunc(posts, func(a, b post) int { return a.began.Compare(b.began) })
	began, answered := posts[0].began, posts[0].ended
	for _, p := range posts {
		if p.ended.Before(answered) {
			answered = p.ended
		}
	}
	w.posts, w.within = len(posts), make([]int, len(windowAt))
	for i, p := range posts {
		if !p.ok {
			w.refused++
		}
		if p.began.Before(answered) {
			w.first++
		}
		inFlight := 1
		for _, earlier := range posts[:i] {
			if earlier.ended.After(p.began) {
				inFlight++
			}
		}
		w.most = max(w.most, inFlight)
		for j, at := range windowAt {
			if p.began.Sub(began) <= at {
				w.within[j] = max(w.within[j], inFlight)
			}
		}
	}
	return w
}

// String is the growth, for a cell of the report.
func (w window) String() string {
	var all []string
	for i, n := range w.within {
		all = append(all, fmt.Sprintf("%d within %v", n, windowAt[i]))
	}
	return fmt.Sprintf("%s; %d at most, of %d posts, %d refused", strings.Join(all, ", "), w.most, w.posts, w.refused)
}

// How long the log of requests may take to be complete, and how often it is read.
const (
	logged   = 90 * time.Second
	lookInto = 5 * time.Second
)

// opened reads from Cloud Run's log of requests how Pub/Sub's window opened since a time: once two
// looks have found the same.
func (t *Trial) opened(ctx context.Context, since time.Time) (window, error) {
	filter := fmt.Sprintf(`resource.type="cloud_run_revision" AND resource.labels.service_name="%s-rollup" AND log_id("run.googleapis.com/requests") AND timestamp>="%s"`,
		t.Prefix, since.UTC().Format(time.RFC3339Nano))
	before := -1
	for began := time.Now(); ; {
		said, err := t.Gcloud(ctx, "logging", "read", filter, "--project="+t.Project, "--limit=5000", "--format=json(timestamp,httpRequest.latency,httpRequest.status)")
		if err != nil {
			return window{}, err
		}
		var posts []post
		if err := json.Unmarshal([]byte(said), &posts); err != nil {
			return window{}, fmt.Errorf("read the log of Rollup's requests: %w", err)
		}
		if len(posts) > 0 && len(posts) == before || time.Since(began) > logged {
			return openedBy(posts), nil
		}
		before = len(posts)
		if err := sleep(ctx, cmp.Or(t.pause, lookInto)); err != nil {
			return window{}, err
		}
	}
}
