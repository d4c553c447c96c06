package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/terminal"
)

// smoke counts against a deployment, and checks each answer.
type smoke struct {
	url, counter string
	headers      http.Header
	timeout      time.Duration
	dryRun       bool
	out          io.Writer
	failures     int
}

func newSmokeCommand() *cobra.Command {
	var s smoke
	var token string
	var headers []string
	var seconds uint
	cmd := &cobra.Command{
		Use:   "smoke URL",
		Short: "Count against a deployment, and check that it answers as it should",
		Long: `Count against a deployment, or against counters dev, and check that it answers as it should. URL is that of Increment:
http://127.0.0.1:8081/increment, or what deploy says at its end. It must be of the function itself: what stands before it (a
load balancer, a proxy) may answer for it. Where the deployment's ceiling has it wait, it waits for up to 90 seconds. The
exit code is 1 when a check fails.`,
		Example: `  counters smoke https://counters-increment-abc123-uc.a.run.app --token "$(gcloud auth print-identity-token)"`,
		Args:    arguments(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if u, err := url.Parse(args[0]); err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http") {
				return badUsage("%s: want the URL of Increment, such as http://127.0.0.1:8081/increment", args[0])
			}
			s.url, s.timeout, s.out, s.headers = strings.TrimRight(args[0], "/"), time.Duration(seconds)*time.Second, cmd.OutOrStdout(), http.Header{}
			if token != "" {
				s.headers.Set("Authorization", "Bearer "+token)
			}
			for _, header := range headers {
				name, value, ok := strings.Cut(header, ":")
				if !ok {
					return badUsage("--header %s: want 'NAME: VALUE'", header)
				}
				s.headers.Add(name, strings.TrimSpace(value))
			}
			return s.run(cmd.Context())
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&s.counter, "counter", "", "count on the counter with this `ID`, which exists; the checks leave it 11 higher (default: a new one, which needs AUTO_CREATE=true, and COUNTERS with one wildcard)")
	flags.StringVar(&token, "token", "", "sent as Authorization: Bearer `TOKEN`, such as \"$(gcloud auth print-identity-token)\" for a private function")
	flags.StringArrayVar(&headers, "header", nil, "`'NAME: VALUE'` sent with every request, such as X-Firebase-AppCheck; may be repeated")
	flags.UintVar(&seconds, "timeout", 30, "seconds `S` that the total may take to arrive")
	flags.BoolVar(&s.dryRun, "dry-run", false, "print each request as a command, and send none")
	return cmd
}

// answered is what came of a request; status 0 is no answer at all.
type answered struct {
	status int
	header http.Header
	body   string
	err    error
}

// idempotencyKey is the header of a key by which a repetition is known.
const idempotencyKey = "Idempotency-Key"

// send sends a request, whose path is as it is to be on the wire.
func (s *smoke) send(ctx context.Context, method, path, body, key string) (a answered) {
	if s.dryRun {
		words := []string{"curl", "-sS", "--path-as-is", "-X", method}
		for _, name := range slices.Sorted(maps.Keys(s.headers)) {
			words = append(words, "-H", name+": "+s.headers.Get(name))
		}
		if key != "" {
			words = append(words, "-H", idempotencyKey+": "+key)
		}
		if body != "" {
			words = append(words, "-H", "Content-Type: application/json", "-d", body[:min(len(body), 200)])
		}
		fmt.Fprintln(s.out, deployment.Line(append(words, s.url+path)...))
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	// A ceiling leaves a new instance a few seconds' worth, which these checks use up.
	for a = s.sendOnce(ctx, method, path, body, key); a.status == http.StatusTooManyRequests; a = s.sendOnce(ctx, method, path, body, key) {
		seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
		if err != nil || seconds > longestWait {
			return a
		}
		fmt.Fprintf(s.out, "      waits for %d s, as the answer asks: %s\n", seconds, terminal.Line(a.body))
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
		case <-ctx.Done():
			return a
		}
	}
	return a
}

// longestWait is in seconds, for one answer.
const longestWait = 30

func (s *smoke) sendOnce(ctx context.Context, method, path, body, key string) answered {
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return answered{err: err}
	}
	r.Header = s.headers.Clone()
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set(idempotencyKey, key)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return answered{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return answered{response.StatusCode, response.Header, string(bytes.TrimSpace(text)), err}
}

func (s *smoke) report(name, want, got string) {
	ok := "ok"
	if want != got {
		ok = "FAIL"
		s.failures++
	}
	fmt.Fprintf(s.out, "%-5s %-44s %-22s %s\n", ok, name, want, terminal.Line(got))
}

// check sends a request, and says whether it is answered with a status, and with what is to be in it.
func (s *smoke) check(ctx context.Context, name string, want int, contains, method, path, body, key string) answered {
	a := s.send(ctx, method, path, body, key)
	if s.dryRun || ctx.Err() != nil {
		return a
	}
	got := fmt.Sprint(a.status)
	switch {
	case a.err != nil:
		got = "no answer: " + a.err.Error()
	case a.status != want:
		got = fmt.Sprintf("%d: %.200s", a.status, a.body)
	case !strings.Contains(strings.ReplaceAll(a.body, " ", ""), contains):
		got = fmt.Sprintf("%d without %s: %.200s", a.status, contains, a.body)
	case want >= 400 && !strings.HasPrefix(a.header.Get("Content-Type"), "application/problem+json"):
		got = fmt.Sprintf("%d, not as application/problem+json", a.status)
	}
	s.report(name, fmt.Sprint(want), got)
	return a
}

// total is what a GET says; empty where it says none.
func (s *smoke) total(ctx context.Context, path string) (string, answered) {
	a := s.send(ctx, "GET", path, "", "")
	var said struct{ Total *json.Number }
	if a.status != http.StatusOK || json.Unmarshal([]byte(a.body), &said) != nil || said.Total == nil {
		return "", a
	}
	return said.Total.String(), a
}

func (s *smoke) run(ctx context.Context) error {
	isNew, now := s.counter == "", time.Now()
	if isNew {
		s.counter = fmt.Sprintf("smoke-%d-%05d", now.Unix(), now.Nanosecond()%100000)
	}
	at, before := "/"+s.counter, int64(0)
	if !isNew && !s.dryRun {
		total, a := s.total(ctx, at+"?exact=true")
		if total == "" {
			return fmt.Errorf("GET %s%s: %d %s. Is that counter there, and may you read it? %w", s.url, at, a.status, a.body, errors.Join(a.err))
		}
		_, _ = fmt.Sscan(total, &before)
	}
	if !s.dryRun {
		fmt.Fprintf(s.out, "%-5s %-44s %-22s %s\n", "", "CHECK", "WANT", "GOT")
	}
	// What counts. Together +11: 1 + 5 - 4 + 2 + 3 + 4.
	key := fmt.Sprintf("smoke-%d", now.UnixNano())
	switch a := s.check(ctx, "POST, empty body", 200, `"by":1`, "POST", at, "", ""); {
	case s.dryRun:
	case a.err != nil:
		return fmt.Errorf("no answer from %s: %w", s.url, a.err)
	case isNew && (a.status == 404 || a.status == 400):
		return fmt.Errorf("%s can't be created: set AUTO_CREATE=true, or name a counter that exists with --counter, such as red/post-1 where COUNTERS has two wildcards, or a document of your app's with HOSTED=true", s.counter)
	case a.status == 401 || a.status == 403:
		return errors.New("not allowed: give --token, and see who has roles/run.invoker, and what AUTH is")
	}
	of := func(by string) string { return fmt.Sprintf(`{"counter":%q,"by":%s}`, s.counter, by) }
	batch := func(a, b string) string { return `{"increments":[` + of(a) + "," + of(b) + "]}" }
	big := func(bytes int) string { return strings.Repeat(" ", bytes) + `{"by":1}` }
	for _, c := range []struct {
		name            string
		want            int
		contains        string
		method          string
		path, body, key string
	}{
		{"POST, by 5", 200, `"by":5`, "POST", at, `{"by":5}`, ""},
		{"POST, by -4", 200, `"by":-4`, "POST", at, `{"by":-4}`, ""},
		{"with an Idempotency-Key", 200, `"by":2`, "POST", at, `{"by":2}`, key},
		{"the same again", 200, `"replayed":true`, "POST", at, `{"by":2}`, key},
		{"the same key, another body", 422, "", "POST", at, `{"by":3}`, key},
		{"a batch", 200, "", "POST", "/", batch("3", "4"), ""},
		// What is refused, and counts nothing.
		{"by 0", 400, "", "POST", at, `{"by":0}`, ""},
		{"by null", 400, "", "POST", at, `{"by":null}`, ""},
		{"by a fraction", 400, "", "POST", at, `{"by":1.5}`, ""},
		{"by a string", 400, "", "POST", at, `{"by":"1"}`, ""},
		{"by beyond int64", 400, "", "POST", at, `{"by":9223372036854775808}`, ""},
		{"bad JSON", 400, "", "POST", at, `{"by":`, ""},
		{"trailing data", 400, "", "POST", at, `{"by":1} {"by":1}`, ""},
		{"an unknown field", 400, "", "POST", at, `{"by":1,"of":2}`, ""},
		{"a batch with one bad increment", 400, "", "POST", "/", batch("1", "0"), ""},
		{"a reserved id", 400, "", "POST", "/__smoke__", "", ""},
		{"an id of 1,501 bytes", 400, "", "POST", "/" + strings.Repeat("x", 1501), "", ""},
		{"an id that is not UTF-8", 400, "", "POST", "/%ff", "", ""},
		{"an id with a slash", 400, "", "POST", at + "%2Fx", "", ""},
		{"a counter that is not there", 404, "", "GET", at + "-not-there", "", ""},
		{"a body over 64 KiB", 413, "", "POST", at, big(64 << 10), ""},
		{"a batch over 1 MiB", 413, "", "POST", "/", big(1 << 20), ""},
	} {
		s.check(ctx, c.name, c.want, c.contains, c.method, c.path, c.body, c.key)
	}
	other := s.check(ctx, "another method", 405, "", "DELETE", at, "", "")
	if s.dryRun {
		s.send(ctx, "GET", at+"?exact=true", "", "")
		s.send(ctx, "GET", at, "", "")
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.report("  and its Allow header", "yes", map[bool]string{true: "yes", false: "no"}[strings.Contains(other.header.Get("Allow"), "POST")])

	// What it came to: at once on the shards, and soon in the total.
	want := fmt.Sprint(before + 11)
	exact, _ := s.total(ctx, at+"?exact=true")
	s.report("GET, exact", "total "+want, "total "+exact)
	began := time.Now()
	got, _ := s.total(ctx, at)
	for got != want && time.Since(began) < s.timeout && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		got, _ = s.total(ctx, at)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.report(fmt.Sprintf("GET, after %.0f s", time.Since(began).Seconds()), "total "+want, "total "+cmp.Or(got, "none"))
	if s.failures > 0 {
		return fmt.Errorf("%d failed, on counter %s", s.failures, s.counter)
	}
	fmt.Fprintf(s.out, "\nall green, on counter %s\n", s.counter)
	return nil
}
