package verify

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/googleapis/gax-go/v2"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// load counts by HTTP.
type load struct {
	uri, token string
	meter      *meter
	client     *http.Client
}

func newLoad(uri, token string, m *meter) *load {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = workers
	return &load{uri: uri, token: token, meter: m, client: &http.Client{Transport: transport, Timeout: 80 * time.Second}}
}

// tries bounds how often an increment is sent that isn't answered, or is asked to come again.
const tries = 8

// add sends an increment with a key until it is acknowledged, and returns how long its last try took and
// whether it was a replay.
func (l *load) add(ctx context.Context, counter, key string) (took time.Duration, replayed bool, err error) {
	return l.post(ctx, counter, key, "")
}

// post is add, with a body.
func (l *load) post(ctx context.Context, counter, key, body string) (took time.Duration, replayed bool, err error) {
	pause := gax.Backoff{Initial: 200 * time.Millisecond, Max: 5 * time.Second, Multiplier: 2}
	for range tries {
		if err := l.meter.allow(perIncrement); err != nil {
			return 0, false, err
		}
		l.meter.add(perIncrement)
		began := time.Now()
		var status int
		var text []byte
		status, text, err = l.send(ctx, http.MethodPost, counter, key, body)
		took = time.Since(began)
		if ctx.Err() != nil {
			return 0, false, ctx.Err()
		}
		switch {
		case status == http.StatusConflict && bytes.Contains(text, []byte(`"reason":"limit-reached"`)):
			return took, false, errSoldOut
		case err != nil, status == http.StatusTooManyRequests, status == http.StatusConflict, status >= 500:
			if err == nil {
				err = fmt.Errorf("POST %s/%s: %d %.200s", l.uri, counter, status, text)
			}
		case status == http.StatusOK:
			var answer struct{ Replayed bool }
			if err := json.Unmarshal(text, &answer); err != nil {
				return 0, false, fmt.Errorf("POST %s/%s answers %.200s: %w", l.uri, counter, text, err)
			}
			return took, answer.Replayed, nil
		default:
			return 0, false, fmt.Errorf("POST %s/%s: %d %.200s", l.uri, counter, status, text)
		}
		if err := gax.Sleep(ctx, pause.Pause()); err != nil {
			return 0, false, err
		}
	}
	return 0, false, fmt.Errorf("after %d tries: %w", tries, err)
}

func (l *load) send(ctx context.Context, method, path, key, body string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, l.uri+"/"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+l.token)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	answer, err := l.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	return answer.StatusCode, text, err
}

// errSoldOut says that a limit left no room, and nothing was counted.
var errSoldOut = errors.New("the limit is reached")

// limit gives a counter a limit.
func (l *load) limit(ctx context.Context, counter string, most int) (err error) {
	pause := gax.Backoff{Initial: 200 * time.Millisecond, Max: 5 * time.Second, Multiplier: 2}
	for range tries {
		l.meter.add(cost.Usage{Reads: 30, Writes: 30, Deletes: 20, Increment: cost.Function{Requests: 1, Busy: 1}}) // its shards are made anew
		var status int
		var text []byte
		status, text, err = l.send(ctx, http.MethodPut, counter+"/limit", "", fmt.Sprintf(`{"limit": %d}`, most))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
		case status == http.StatusOK:
			return nil
		default:
			err = fmt.Errorf("PUT %s/%s/limit: %d %.200s", l.uri, counter, status, text)
			if status != http.StatusTooManyRequests && status < 500 {
				return err
			}
		}
		if err := gax.Sleep(ctx, pause.Pause()); err != nil {
			return err
		}
	}
	return fmt.Errorf("after %d tries: %w", tries, err)
}

// refuse sends a request that Increment refuses before it does anything, and returns how long that took.
func (l *load) refuse(ctx context.Context) (time.Duration, error) {
	l.meter.add(cost.Usage{Increment: cost.Function{Requests: 1, Busy: 0.1}})
	began := time.Now()
	status, _, err := l.send(ctx, http.MethodDelete, "lag", "", "")
	if err != nil {
		return 0, err
	}
	if status != http.StatusMethodNotAllowed {
		return 0, fmt.Errorf("DELETE %s/lag: %d, and 405 was expected", l.uri, status)
	}
	return time.Since(began), nil
}

func key() string { return rand.Text() }
