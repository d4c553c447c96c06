package web_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestListen(t *testing.T) {
	b := start(t)
	b.set("a/1", 1)
	l := b.listen(documents(2, "a/1", "a/none"))
	l.expect("ADD [2]", "a/none deleted [2]", "a/1 n=1 [2]", "CURRENT [2]", "SNAPSHOT")
	l.send(addTarget(collection(4, "a"))) // on the same stream
	l.expect("ADD [4]", "a/1 n=1 [4]", "CURRENT [4]", "SNAPSHOT")

	b.set("a/2", 2) // only what has changed, and only to whom it is of interest
	l.expect("a/2 n=2 [4]", "SNAPSHOT")
	b.set("a/2", 2) // changes nothing
	b.do("DELETE", "/v1/"+database+"/documents/a/2", "")
	l.expect("a/2 deleted [4]", "SNAPSHOT")

	l.send(fmt.Sprintf(`{"database":%q,"removeTarget":4}`, database))
	l.expect("REMOVE [4]")
	b.set("a/3", 3) // nobody looks
	b.set("a/1", 2)
	l.expect("a/1 n=2 [2]", "SNAPSHOT")

	l.send(addTarget(`{"targetId":6,"query":{"parent":"elsewhere","structuredQuery":{"from":[{"collectionId":"a"}]}}}`))
	l.expect("REMOVE [6] code 3")
	b.set("a/1", 3) // the stream goes on
	l.expect("a/1 n=3 [2]", "SNAPSHOT")
}

// TestCutOff loses connections in the two ways a client can recover from.
func TestCutOff(t *testing.T) {
	b := start(t)
	b.set("a/1", 1)
	l := b.listen(collection(2, "a"))
	l.expect("ADD [2]", "a/1 n=1 [2]", "CURRENT [2]", "SNAPSHOT")

	l.cut() // the connection: the session goes on with the next one
	b.set("a/2", 1)
	l.ack -= 2 // and two messages were swallowed
	l.read()
	l.expect("CURRENT [2]", "SNAPSHOT", "a/2 n=1 [2]", "SNAPSHOT")

	l.cut() // the session, too: the client listens anew, and says what it has seen
	l.terminate()
	b.set("a/2", 2)
	b.set("a/2", 3)
	b.do("DELETE", "/v1/"+database+"/documents/a/1", "")
	resumed := strings.TrimSuffix(collection(2, "a"), "}") + `,"resumeToken":"` + base64.StdEncoding.EncodeToString(l.token) + `"}`
	l = b.listen(resumed)
	l.expect("ADD [2]", "a/1 deleted [2]", "a/2 n=3 [2]", "CURRENT [2]", "SNAPSHOT")
}

func TestStreamThatFails(t *testing.T) {
	b := start(t)
	for _, first := range []string{`{"database":`, `{"database":"nonsense","addTarget":{}}`} {
		c := b.open(listenPath, first)
		var messages []string
		err := c.receive(t.Context(), func(data json.RawMessage) bool {
			messages = append(messages, string(data))
			return true
		})
		if !errors.Is(err, io.EOF) || len(messages) != 1 || !strings.Contains(messages[0], `"status":"INVALID_ARGUMENT"`) {
			t.Errorf("%s: %q, %v: want one error, and the end", first, messages, err)
		}
	}
}

// writer is a Write stream over WebChannel. It reads one answer at a time.
func (c *channel) answer() (m struct {
	StreamID     string `json:"streamId"`
	StreamToken  []byte `json:"streamToken"`
	WriteResults []struct{ UpdateTime string }
	CommitTime   string
	Error        struct{ Status string }
}) {
	c.t.Helper()
	err := c.receive(c.t.Context(), func(data json.RawMessage) bool {
		if err := json.Unmarshal(data, &m); err != nil {
			c.t.Fatalf("%v in %s", err, data)
		}
		return false
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

func writes(token string, writes ...string) string {
	return fmt.Sprintf(`{"streamToken":%q,"writes":[%s]}`, base64.StdEncoding.EncodeToString([]byte(token)), strings.Join(writes, ","))
}

func TestWrite(t *testing.T) {
	b := start(t)
	set := func(path string, n int) string {
		return fmt.Sprintf(`{"update":{"name":"%s/documents/%s","fields":{"n":{"integerValue":"%d"}}}}`, database, path, n)
	}
	verify := func(path, condition string) string {
		return fmt.Sprintf(`{"verify":"%s/documents/%s","currentDocument":%s}`, database, path, condition)
	}
	c := b.open(writePath, fmt.Sprintf(`{"database":%q}`, database))
	if m := c.answer(); m.StreamID == "" || string(m.StreamToken) != "0" {
		t.Fatalf("handshake: %+v", m)
	}
	c.send(writes("0", set("a/1", 1), set("a/2", 2)), writes("0", set("a/1", 3), verify("a/2", `{"exists":true}`))) // one ahead
	for token, results := range []int{2, 2} {
		if m := c.answer(); string(m.StreamToken) != fmt.Sprint(token+1) || len(m.WriteResults) != results || m.CommitTime == "" {
			t.Errorf("answer %d: %+v", token+1, m)
		}
	}
	if _, body := b.do("GET", "/v1/"+database+"/documents/a/1", ""); !strings.Contains(body, `"3"`) {
		t.Errorf("a/1 is %s", body)
	}
	c.send(writes("2", set("a/1", 4), verify("a/2", `{"exists":false}`)))
	if m := c.answer(); m.Error.Status != "ALREADY_EXISTS" {
		t.Errorf("a verification that fails: %+v", m)
	}
	if err := c.receive(t.Context(), func(json.RawMessage) bool { return true }); !errors.Is(err, io.EOF) {
		t.Errorf("after an error the stream must end, got %v", err)
	}
	if _, body := b.do("GET", "/v1/"+database+"/documents/a/1", ""); !strings.Contains(body, `"3"`) {
		t.Errorf("what was to be written with it was written: %s", body)
	}

	c = b.open(writePath, writes("0", set("a/1", 1)))
	if m := c.answer(); m.Error.Status != "INVALID_ARGUMENT" {
		t.Errorf("writes before the handshake: %+v", m)
	}
	c = b.open(writePath, fmt.Sprintf(`{"database":%q}`, database))
	c.answer()
	c.send(writes("0")) // no writes: the client leaves
	if m := c.answer(); string(m.StreamToken) != "1" {
		t.Errorf("the last answer: %+v", m)
	}
}
