package deployment

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Cloud is a project on Google Cloud. What is there is read by its APIs, with gcloud's own token, or with what
// [Reading] is given; what changes is changed by gcloud.
type Cloud struct {
	Said io.Writer // for whoever waits
	Me   string    // how this program is called in what it says

	// Instead of gcloud, and of the network, in tests.
	Gcloud func(ctx context.Context, words ...string) (string, error)
	HTTP   http.RoundTripper

	reads          bool       // and changes nothing: HTTP has credentials of its own
	saying         sync.Mutex // what is done side by side speaks of itself
	project, token string
	mu             sync.Mutex
	read           map[string]*answer // :: address
}

// Reading reads by something that has credentials.
func Reading(by http.RoundTripper) *Cloud { return &Cloud{HTTP: by, reads: true, Said: io.Discard} }

func (c *Cloud) say(format string, args ...any) {
	c.saying.Lock()
	defer c.saying.Unlock()
	fmt.Fprintf(c.Said, format, args...)
}

// answer is what was read at an address.
type answer struct {
	sync.Once
	object Object
	err    error
}

// Refused is that an API refuses a call.
type Refused struct {
	Code            int
	Reason, Message string
}

func (r *Refused) Error() string { return fmt.Sprintf("%d: %s", r.Code, r.Message) }

func refusedWith(err error, code int) bool {
	r, ok := errors.AsType[*Refused](err)
	return ok && r.Code == code
}

// Off reports whether an API refuses because it isn't turned on, as far as it knows by now.
func Off(err error) bool {
	r, ok := errors.AsType[*Refused](err)
	return ok && r.Reason == "SERVICE_DISABLED"
}

// login asks gcloud for a token.
func (c *Cloud) login(ctx context.Context) error {
	if _, err := exec.LookPath("gcloud"); err != nil && c.Gcloud == nil {
		return fmt.Errorf("gcloud is not installed: https://cloud.google.com/sdk/docs/install: %w", err)
	}
	token, err := c.gcloud(ctx, "auth", "print-access-token")
	if err != nil {
		return fmt.Errorf("are you logged in (gcloud auth login)? %w", err)
	}
	c.token = strings.TrimSpace(token)
	return nil
}

// Unread is that an address can't be read.
type Unread struct {
	Address string
	Err     error
}

func (u *Unread) Error() string { return u.Err.Error() }

func (u *Unread) Unwrap() error { return u.Err }

// addressOf is where an API is: at Google's, or where gcloud goes instead.
func addressOf(api string) string {
	if other := os.Getenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_" + strings.ToUpper(api)); other != "" {
		return other
	}
	return "https://" + api + ".googleapis.com/"
}

// Call calls an API, such as "iam/v1/projects/p/serviceAccounts". Its answer is nil where there is no such thing.
func (c *Cloud) Call(ctx context.Context, method, address string, body any) (Object, error) {
	api, path, _ := strings.Cut(address, "/")
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	server := "https://" + api + ".googleapis.com/"
	if !c.reads {
		server = addressOf(api)
	}
	request, err := http.NewRequestWithContext(ctx, method, server+path, sent)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if !c.reads {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if !c.reads && api != "serviceusage" { // which alone is on in every project
		request.Header.Set("X-Goog-User-Project", c.project)
	}
	response, err := (&http.Client{Transport: c.HTTP}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 {
		err = refusal(response.StatusCode, text)
		if refusedWith(err, http.StatusNotFound) && method == http.MethodGet {
			return nil, nil
		}
		return nil, fmt.Errorf("%s %s: %w", method, address, err)
	}
	var object Object
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, address, err)
	}
	if object == nil {
		object = Object{}
	}
	return object, nil
}

func refusal(code int, text []byte) error {
	var said struct {
		Error struct {
			Message string
			Details []struct{ Reason string }
		}
	}
	r := &Refused{Code: code, Message: strings.TrimSpace(string(text))}
	if json.Unmarshal(text, &said) == nil {
		r.Message = cmp.Or(said.Error.Message, r.Message)
		for _, d := range said.Error.Details {
			if d.Reason != "" {
				r.Reason = d.Reason
			}
		}
	}
	if strings.Contains(r.Message, "it is disabled. Enable it by visiting") {
		r.Reason = "SERVICE_DISABLED"
	}
	return r
}

// Get reads an address, once until it is forgotten; nil is that nothing is there. Of a list it reads all pages. Its
// error is an [Unread], and of a refusal a [Refused] too.
func (c *Cloud) Get(ctx context.Context, address string) (Object, error) {
	c.mu.Lock()
	if c.read == nil {
		c.read = map[string]*answer{}
	}
	a := c.read[address]
	if a == nil {
		a = &answer{}
		c.read[address] = a
	}
	c.mu.Unlock()
	a.Do(func() { a.object, a.err = c.pages(ctx, address) })
	if a.err == nil {
		return a.object, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read[address] == a { // whoever tries again asks again
		delete(c.read, address)
	}
	return nil, &Unread{address, a.err}
}

// forget has what is read from now on be read anew.
func (c *Cloud) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = nil
}

func (c *Cloud) pages(ctx context.Context, address string) (Object, error) {
	method, body := http.MethodGet, any(nil)
	if strings.HasPrefix(address, "cloudresourcemanager/") && strings.HasSuffix(address, ":getIamPolicy") {
		method, body = http.MethodPost, Object{"options": Object{"requestedPolicyVersion": 3}}
	}
	var all Object
	for page := ""; ; {
		at := address
		if page != "" {
			at += map[bool]string{true: "&", false: "?"}[strings.Contains(at, "?")] + "pageToken=" + url.QueryEscape(page)
		}
		object, err := c.Call(ctx, method, at, body)
		if err != nil || object == nil {
			return nil, err
		}
		if all == nil {
			all = object
		} else {
			for key, value := range object {
				if list, ok := value.([]any); ok {
					before, _ := all[key].([]any)
					all[key] = append(before, list...)
				}
			}
		}
		page, _ = object["nextPageToken"].(string)
		if page == "" {
			return all, nil
		}
	}
}

// gcloud runs gcloud, and returns what it prints. Its error is what it said.
func (c *Cloud) gcloud(ctx context.Context, words ...string) (string, error) {
	if c.Gcloud != nil {
		return c.Gcloud(ctx, words...)
	}
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, "gcloud", words...)
	cmd.Env = append(os.Environ(), "CLOUDSDK_CORE_DISABLE_PROMPTS=1") // a prompt would wait unseen
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // gcloud ends what it is about
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return "", Failed(err, said.String(), words...)
	}
	return out.String(), nil
}

// Failed is gcloud's error where it was given these words: what it said, and then the command, a line each.
func Failed(err error, said string, words ...string) error {
	err = fmt.Errorf("%s (%w)", Line(append([]string{"gcloud"}, words...)...), err)
	if said = strings.TrimSpace(said); said == "" {
		return err
	}
	return errors.Join(lines(strings.Split(said, "\n")), err)
}

// run runs a command, and asks for what was unknown when it was made.
func (c *Cloud) run(ctx context.Context, command Command) error {
	if command.Call != nil {
		return command.Call(ctx, c)
	}
	words := make([]string, len(command.Words))
	for i, word := range command.Words {
		var err error
		words[i] = isAsked.ReplaceAllStringFunc(word, func(part string) string {
			answered, asked := c.gcloud(ctx, strings.Split(part[1:len(part)-1], between)...)
			if answered = strings.TrimSpace(answered); answered == "" && asked == nil {
				asked = fmt.Errorf("no answer to %s", Line(part))
			}
			err = errors.Join(err, asked)
			return answered
		})
		if err != nil {
			return err
		}
	}
	_, err := c.gcloud(ctx, words...)
	return err
}

// passes is what an error says that goes away by itself: something new is not known everywhere yet. It is empty where
// that isn't so.
func passes(err error) string {
	said := strings.Join(strings.Fields(err.Error()), " ")
	for _, p := range []struct{ says, what string }{
		{"SERVICE_DISABLED", "an API that was just turned on"},
		{"has not been used in project", "an API that was just turned on"},
		{"it is disabled. Enable it by visiting", "an API that was just turned on"},
		{"Eventarc Service Agent", "the role of Eventarc's agent"},
		{"missing permission on the build service account", "the roles of the build's account"},
		{"concurrent policy changes", "another change of the same policy"},
		{"UNAVAILABLE", "the platform, which is busy"},
		{"Please try again in 30 seconds", "the platform, which is busy"},
	} {
		if strings.Contains(said, p.says) {
			return p.what
		}
	}
	if lower := strings.ToLower(said); strings.Contains(lower, "service account") && strings.Contains(lower, "does not exist") {
		return "a new service account"
	}
	if r, ok := errors.AsType[*Refused](err); ok && (r.Code == http.StatusServiceUnavailable || r.Code == http.StatusTooManyRequests) {
		return "the platform, which is busy"
	}
	return ""
}

// patience is for how long something is tried whose errors pass.
const patience = 5 * time.Minute

// patiently does something again as long as its errors pass.
func (c *Cloud) patiently(ctx context.Context, what string, do func() error) error {
	pause, until := 2*time.Second, time.Now().Add(patience)
	for {
		err := do()
		if err == nil {
			return nil
		}
		why := passes(err)
		if why == "" || ctx.Err() != nil || time.Now().Add(pause).After(until) {
			return err
		}
		c.say("%s: %s: waiting for %s; again in %.0f s, for %.0f minutes at most\n", c.Me, what, why, pause.Seconds(), time.Until(until).Minutes())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		pause = min(2*pause, 10*time.Second)
	}
}

// Read reads a place; nil is that nothing is there. It is patient with a platform that is busy, and not with an API
// that is off, which may be so for good.
func (c *Cloud) Read(ctx context.Context, what string, place Place) (object Object, err error) {
	var offErr error
	err = c.patiently(ctx, what, func() (err error) {
		object, err = place.read(ctx, c)
		if Off(err) {
			offErr, err = err, nil
		}
		return err
	})
	return object, errors.Join(err, offErr)
}
