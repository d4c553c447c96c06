package conformance

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
)

// requestsJSON are requests over REST, as one who probes a server would send them, in the order in
// which they are sent.
//
//go:embed testdata/requests.json
var requestsJSON []byte

// request is one of them. {db} stands for projects/{project}/databases/(default). Those called
// setup are not noted.
type request struct {
	Label, Method, Path string
	Body                json.RawMessage
	Text                *string // a body that is not JSON
	Anonymous           bool
}

var requestScenarios = []scenario{
	{"requests", func(s *session) {
		var requests []request
		s.must(json.Unmarshal(requestsJSON, &requests))
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for _, r := range requests {
			answer := s.ask(client, r)
			if r.Label != "setup" {
				s.note(r.Label, answer, nil)
			}
		}
	}},
}

// ask sends a request, and says what it is answered: the status of an error, or the body of a
// success.
func (s *session) ask(client *http.Client, r request) string {
	body := bytes.ReplaceAll(r.Body, []byte("{db}"), []byte(s.db))
	if r.Text != nil {
		body = []byte(*r.Text)
	}
	req, err := http.NewRequestWithContext(s.ctx, r.Method, "http://"+s.addr+strings.ReplaceAll(r.Path, "{db}", s.db), bytes.NewReader(body))
	s.must(err)
	req.Header.Set("Content-Type", "application/json")
	if !r.Anonymous {
		req.Header.Set("Authorization", "Bearer owner")
	}
	resp, err := client.Do(req)
	s.must(err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	s.must(err)
	return s.answerText(resp.StatusCode, data)
}

var timestamps = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[\d:.]+Z"`)

func (s *session) answerText(code int, data []byte) string {
	var v any
	if json.Unmarshal(data, &v) != nil {
		if code == http.StatusNotFound { // no path of the API's
			return "NOT_FOUND"
		}
		return fmt.Sprint(code)
	}
	if list, ok := v.([]any); ok && len(list) == 1 {
		if _, failed := list[0].(map[string]any)["error"]; failed {
			v = list[0] // streams answer with an array, and some of their errors are in it
		}
	}
	if list, ok := v.([]any); ok {
		for _, e := range list { // of a stream: that it ends is said by its end, too
			delete(e.(map[string]any), "done")
		}
	}
	if m, ok := v.(map[string]any); ok {
		if failure, ok := m["error"].(map[string]any); ok {
			s.Logf("%v", failure["message"])
			return fmt.Sprint(failure["status"])
		}
		if _, ok := m["nextPageToken"]; ok {
			m["nextPageToken"] = "token"
		}
		if statuses, ok := m["status"].([]any); ok { // of a batch
			for _, st := range statuses {
				delete(st.(map[string]any), "message")
			}
		}
	}
	out, err := json.Marshal(v)
	s.must(err)
	out = timestamps.ReplaceAll(bytes.ReplaceAll(out, []byte(s.db), []byte("{db}")), []byte(`"T"`))
	return string(out)
}
