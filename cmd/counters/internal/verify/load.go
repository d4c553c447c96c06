package verify

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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
	pause := gax.Backoff{Initial: 200 * time.Millisecond, Max: 5 * time.Second, Multiplier: 2}
	for range tries {
		if err := l.meter.allow(perIncrement); err != nil {
			return 0, false, err
		}
		l.meter.add(perIncrement)
		began := time.Now()
		var status int
		var text []byte
		status, text, err = l.post(ctx, counter, key)
		took = time.Since(began)
		if ctx.Err() != nil {
			return 0, false, ctx.Err()
		}
		switch {
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

func (l *load) post(ctx context.Context, counter, key string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.uri+"/"+counter, bytes.NewReader(nil))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+l.token)
	r.Header.Set("Idempotency-Key", key)
	answer, err := l.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	return answer.StatusCode, text, err
}

// refuse sends a request that Increment refuses before it does anything, and returns how long that took.
func (l *load) refuse(ctx context.Context) (time.Duration, error) {
	l.meter.add(cost.Usage{Increment: cost.Function{Requests: 1, Busy: 0.1}})
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, l.uri+"/lag", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+l.token)
	began := time.Now()
	answer, err := l.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)); err != nil {
		return 0, err
	}
	if answer.StatusCode != http.StatusMethodNotAllowed {
		return 0, fmt.Errorf("DELETE %s/lag: %d, and 405 was expected", l.uri, answer.StatusCode)
	}
	return time.Since(began), nil
}

func key() string { return rand.Text() }
