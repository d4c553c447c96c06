package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/encoding/protojson"
)

// channel is a client's WebChannel session.
type channel struct {
	browser
	path string
	sid  string
	ack  int // the last message that was read
	next int // number of the next message to send
}

const (
	listenPath = "/google.firestore.v1.Firestore/Listen/channel"
	writePath  = "/google.firestore.v1.Firestore/Write/channel"
)

// open begins a session with a first message.
func (b browser) open(path, first string) *channel {
	b.t.Helper()
	c := &channel{browser: b, path: path}
	resp, body := b.do("POST", path+"?VER=8&database="+url.QueryEscape(database)+"&RID=1&CVER=22&X-HTTP-Session-Id=gsessionid&t=1", c.form(first))
	if resp.StatusCode != http.StatusOK {
		b.t.Fatalf("open: %d %s", resp.StatusCode, body)
	}
	_, body, _ = strings.Cut(body, "\n")
	var answer [][2]json.RawMessage
	var hello []any
	if err := errors.Join(json.Unmarshal([]byte(body), &answer), json.Unmarshal(answer[0][1], &hello)); err != nil {
		b.t.Fatalf("open: %v in %s", err, body)
	}
	c.sid = hello[1].(string)
	return c
}

func (c *channel) form(data ...string) string {
	form := url.Values{"count": {strconv.Itoa(len(data))}, "ofs": {strconv.Itoa(c.next)}}
	for i, d := range data {
		form.Set(fmt.Sprintf("req%d___data__", i), d)
	}
	c.next += len(data)
	return form.Encode()
}

func (c *channel) send(data ...string) {
	c.t.Helper()
	resp, body := c.do("POST", fmt.Sprintf("%s?VER=8&SID=%s&RID=2&AID=%d", c.path, c.sid, c.ack), c.form(data...))
	if resp.StatusCode != http.StatusOK {
		c.t.Fatalf("send: %d %s", resp.StatusCode, body)
	}
}

func (c *channel) terminate() {
	c.t.Helper()
	if resp, body := c.do("POST", fmt.Sprintf("%s?VER=8&SID=%s&RID=3&TYPE=terminate", c.path, c.sid), ""); resp.StatusCode != http.StatusOK {
		c.t.Fatalf("terminate: %d %s", resp.StatusCode, body)
	}
}

// receive gives f every message but control messages until it returns false. A back channel that
// ends is followed by the next; when the session ends, or the context, that is the error.
func (c *channel) receive(ctx context.Context, f func(json.RawMessage) bool) error {
	for {
		more, err := c.back(ctx, f)
		if err != nil || !more {
			return err
		}
	}
}

func (c *channel) back(ctx context.Context, f func(json.RawMessage) bool) (more bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("%s%s?VER=8&RID=rpc&SID=%s&AID=%d&CI=0&TYPE=xmlhttp&t=1", c.base, c.path, c.sid, c.ack), nil)
	if err != nil {
		return false, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("back channel: %s", resp.Status)
	}
	for r := bufio.NewReader(resp.Body); ; {
		frame, err := readFrame(r)
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		for _, m := range frame {
			if m.id <= c.ack {
				continue // sent again
			}
			c.ack = m.id
			switch string(m.data) {
			case `"noop"`:
			case `"close"`:
				return false, io.EOF
			default:
				if !f(m.data) {
					return false, nil
				}
			}
		}
	}
}

type received struct {
	id   int
	data json.RawMessage
}

// readFrame reads a length and as many UTF-16 code units of JSON, which ends where they do.
func readFrame(r *bufio.Reader) ([]received, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	length, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return nil, err
	}
	var data strings.Builder
	for length > 0 {
		c, _, err := r.ReadRune()
		if err != nil {
			return nil, err
		}
		if length--; c >= 0x10000 {
			length--
		}
		data.WriteRune(c)
	}
	var arrays []json.RawMessage
	if err := json.Unmarshal([]byte(data.String()), &arrays); err != nil {
		return nil, fmt.Errorf("%w in %s", err, data.String())
	}
	out := make([]received, len(arrays))
	for i, a := range arrays {
		var payload [1]json.RawMessage
		if err := json.Unmarshal(a, &[]any{&out[i].id, &payload}); err != nil {
			return nil, fmt.Errorf("%w in %s", err, a)
		}
		out[i].data = payload[0]
	}
	return out, nil
}

// listener is a Listen stream over WebChannel.
type listener struct {
	*channel
	messages chan string // as said by describe
	token    []byte      // of the last snapshot
	ended    chan error
	cancel   context.CancelFunc
}

// listen opens a Listen stream for a target.
func (b browser) listen(target string) *listener {
	l := &listener{channel: b.open(listenPath, addTarget(target)), messages: make(chan string, 1000), ended: make(chan error, 1)}
	l.read()
	return l
}

// read opens a back channel, and goes on until cut.
func (l *listener) read() {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.t.Cleanup(cancel)
	go func() {
		l.ended <- l.receive(ctx, func(data json.RawMessage) bool {
			l.messages <- l.describe(data)
			return true
		})
	}()
}

// cut closes the connection of the back channel.
func (l *listener) cut() {
	l.cancel()
	<-l.ended
}

func addTarget(target string) string {
	return fmt.Sprintf(`{"database":%q,"addTarget":%s}`, database, target)
}

func documents(id int, paths ...string) string {
	for i, p := range paths {
		paths[i] = strconv.Quote(database + "/documents/" + p)
	}
	return fmt.Sprintf(`{"targetId":%d,"documents":{"documents":[%s]}}`, id, strings.Join(paths, ","))
}

func collection(id int, name string) string {
	return fmt.Sprintf(`{"targetId":%d,"query":{"parent":"%s/documents","structuredQuery":{"from":[{"collectionId":%q}]}}}`, id, database, name)
}

// describe shortens a message of a Listen stream: "ADD [2]", "a/1 n=1 [2]", "a/1 deleted [2]".
func (l *listener) describe(data json.RawMessage) string {
	var m pb.ListenResponse
	if err := protojson.Unmarshal(data, &m); err != nil {
		return string(data) // an error
	}
	path := func(name string) string { return strings.TrimPrefix(name, database+"/documents/") }
	switch r := m.GetResponseType().(type) {
	case *pb.ListenResponse_TargetChange:
		c := r.TargetChange
		if c.GetTargetChangeType() == pb.TargetChange_NO_CHANGE && len(c.GetTargetIds()) == 0 {
			l.token = c.GetResumeToken()
			return "SNAPSHOT"
		}
		s := fmt.Sprint(c.GetTargetChangeType(), " ", c.GetTargetIds())
		if c.GetCause() != nil {
			s += fmt.Sprint(" code ", c.GetCause().GetCode())
		}
		return s
	case *pb.ListenResponse_DocumentChange:
		d := r.DocumentChange
		return fmt.Sprintf("%s n=%d %v", path(d.GetDocument().GetName()), d.GetDocument().GetFields()["n"].GetIntegerValue(), d.GetTargetIds())
	case *pb.ListenResponse_DocumentDelete:
		return fmt.Sprintf("%s deleted %v", path(r.DocumentDelete.GetDocument()), r.DocumentDelete.GetRemovedTargetIds())
	}
	return m.String()
}

// expect reads messages.
func (l *listener) expect(want ...string) {
	l.t.Helper()
	for _, w := range want {
		select {
		case got := <-l.messages:
			if got != w {
				l.t.Fatalf("got %q, want %q", got, w)
			}
		case <-l.t.Context().Done():
			l.t.Fatalf("waited for %q: the test is over", w)
		}
	}
}

// set writes {n: value} to a document.
func (b browser) set(path string, n int) {
	b.t.Helper()
	resp, body := b.do("PATCH", "/v1/"+database+"/documents/"+path, fmt.Sprintf(`{"fields":{"n":{"integerValue":%d}}}`, n))
	if resp.StatusCode != http.StatusOK {
		b.t.Fatalf("set: %s", body)
	}
}
