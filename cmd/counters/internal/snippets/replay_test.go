//go:build all

package snippets

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/internal/testbed/official"
)

// bare are rules as many have them: a signed-in client adds 1, or takes it away.
const bare = `rules_version = '2';
service cloud.firestore {
  match /databases/{database}/documents/counters/{counter}/shards/{shard} {
    allow update: if request.auth != null
      && request.resource.data.diff(resource.data).affectedKeys().hasOnly(['count'])
      && request.resource.data.count - resource.data.count in [1, -1];
  }
}`

// TestReplayedBatch loses the answer of one write of four, after the server has applied it. The
// SDK sends it again: a bare increment counts twice, and one with a membership or a request once,
// as the rules refuse the second.
func TestReplayedBatch(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../../../firestore/firestore.rules")
	if err != nil {
		t.Fatal(err)
	}
	exact := regexp.MustCompile(`(?m)^(\s*)//\+ `).ReplaceAllString(string(content), "$1")
	node, browser := inNode(), inNode("--import", "./browser.mjs")
	node.need(t)
	google, err := official.Start(t.Context())
	if errors.Is(err, official.ErrMissing) {
		t.Skipf("nothing evaluates the rules: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(google.Stop)
	for _, c := range []struct {
		sdk         *toolchain
		kind, rules string
		applied     int64 // what the shards hold when the third is applied
		want        int64
		by          string // what counts: exact.mjs, or the module for web pages
	}{
		{node, "plain", bare, 3, 5, "docs"},
		{node, "add", exact, 3, 4, "docs"},
		{node, "join", exact, 3, 4, "docs"},
		{node, "leave", exact, 0, 0, "docs"},
		{browser, "plain", bare, 3, 5, "docs"},
		{browser, "add", exact, 3, 4, "docs"},
		{browser, "join", exact, 3, 4, "docs"},
		{browser, "leave", exact, 0, 0, "docs"},
		{node, "add", exact, 3, 4, "module"},
		{node, "join", exact, 3, 4, "module"},
		{node, "leave", exact, 0, 0, "module"},
		{browser, "add", exact, 3, 4, "module"},
		{browser, "join", exact, 3, 4, "module"},
		{browser, "leave", exact, 0, 0, "module"},
	} {
		name, between := c.by+"-"+c.kind+"-grpc", newTCPProxy
		if c.sdk == browser {
			name, between = c.by+"-"+c.kind+"-webchannel", newWebChannelProxy
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			project := "replay-" + name
			db := asOwner(t, google.Addr, project)
			release(t, google.Addr, project, c.rules)
			for _, counter := range []string{"counted", "warm"} {
				if _, err := db.Doc("counters/"+counter).Set(ctx, map[string]any{"num_shards": 2}); err != nil {
					t.Fatal(err)
				}
				for _, shard := range []string{"0", "1"} {
					if _, err := db.Doc("counters/"+counter+"/shards/"+shard).Set(ctx, map[string]any{"count": 0}); err != nil {
						t.Fatal(err)
					}
				}
			}
			proxy := between(t, google.Addr)

			command := c.sdk.command("replay.mjs", c.kind, c.by)
			cmd := exec.CommandContext(ctx, command.Path, command.Args[1:]...)
			cmd.Env = append(os.Environ(), "FIRESTORE_EMULATOR_HOST="+proxy.addr(), "GOOGLE_CLOUD_PROJECT="+project)
			cmd.Stderr = t.Output()
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := make(chan string, 2) // all that it says
			go func() {
				defer close(lines)
				for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
					lines <- scanner.Text()
				}
			}()
			said := <-lines
			if said == "cut" {
				proxy.hold()
				if _, err := io.WriteString(stdin, "go\n"); err != nil {
					t.Error(err)
				}
				for sum(ctx, t, db) != c.applied && ctx.Err() == nil && said == "cut" {
					select {
					case said = <-lines:
						t.Errorf("without an answer, the client ends with %q", said)
					case <-time.After(20 * time.Millisecond):
					}
				}
				proxy.cut()
				said = <-lines
			}
			if err := cmd.Wait(); err != nil || said != "done" {
				t.Errorf("the client ends with %q: %v", said, err)
			}
			if got := sum(ctx, t, db); got != c.want {
				t.Errorf("four times, the shards hold %d, want %d", got, c.want)
			}
			members, err := db.Collection("counters/counted/total_members").Documents(ctx).GetAll()
			if want := map[string]int{"join": 4}[c.kind]; err != nil || len(members) != want {
				t.Errorf("%d memberships, want %d: %v", len(members), want, err)
			}
		})
	}
}

// sum adds up the counter's shards.
func sum(ctx context.Context, t *testing.T, db *firestore.Client) (sum int64) {
	t.Helper()
	docs, err := db.Collection("counters/counted/shards").Documents(ctx).GetAll()
	if err != nil {
		t.Error(err)
	}
	for _, doc := range docs {
		n, _ := doc.Data()["count"].(int64)
		sum += n
	}
	return sum
}

// owner is whom the emulator's rules don't bind.
type owner struct{}

func (owner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}
func (owner) RequireTransportSecurity() bool { return false }

func asOwner(t *testing.T, addr, project string) *firestore.Client {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(owner{}))
	if err != nil {
		t.Fatal(err)
	}
	db, err := firestore.NewClient(t.Context(), project, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// release makes these the project's rules.
func release(t *testing.T, addr, project, rules string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"rules": map[string]any{"files": []any{map[string]any{"name": "firestore.rules", "content": rules}}}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, fmt.Sprintf("http://%s/emulator/v1/projects/%s:securityRules", addr, project), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("the emulator refuses the rules: %s", strings.TrimSpace(string(answer)))
	}
}

// proxy stands between a client and a server, and can lose what the server answers.
type proxy interface {
	addr() string
	hold() // all answers are lost from now on
	cut()  // what is open breaks; what comes then is whole again
}

// tcpProxy breaks connections, as those that gRPC is spoken on.
type tcpProxy struct {
	listener net.Listener
	target   string

	mu      sync.Mutex
	holding bool
	conns   []net.Conn
}

func newTCPProxy(t *testing.T, target string) proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tcpProxy{listener: l, target: target}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() { l.Close(); p.cut(); running.Wait() })
	return p
}

func (p *tcpProxy) addr() string { return p.listener.Addr().String() }

// serve passes on what both sides say, until one of them or cut closes the connection.
func (p *tcpProxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	var asking sync.WaitGroup
	asking.Go(func() {
		_, _ = io.Copy(server, client)
		server.Close()
	})
	buf := make([]byte, 32<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			break
		}
		p.mu.Lock()
		lost := p.holding
		p.mu.Unlock()
		if lost {
			continue
		}
		if _, err := client.Write(buf[:n]); err != nil {
			break
		}
	}
	client.Close()
	asking.Wait()
}

func (p *tcpProxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding = true
}

func (p *tcpProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding = false
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

// webChannelProxy breaks sessions of WebChannel, which outlive a connection and send again what one
// of them lost, each message once. After a cut their ids are unknown, as where the server has moved
// or the page was loaded anew.
type webChannelProxy struct {
	server  *httptest.Server
	forward *httputil.ReverseProxy

	mu             sync.Mutex
	holding        bool
	known, unknown map[string]bool // ids of sessions
	open           map[*http.Request]context.CancelFunc
}

func newWebChannelProxy(t *testing.T, target string) proxy {
	t.Helper()
	transport := &http.Transport{}
	p := &webChannelProxy{
		forward: &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: target}) },
			Transport:     transport,
			FlushInterval: -1,
			ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		},
		known: map[string]bool{}, unknown: map[string]bool{}, open: map[*http.Request]context.CancelFunc{},
	}
	p.server = httptest.NewServer(p)
	t.Cleanup(func() { p.cut(); p.server.Close(); transport.CloseIdleConnections() })
	return p
}

func (p *webChannelProxy) addr() string { return p.server.Listener.Addr().String() }

func (p *webChannelProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	session := r.URL.Query().Get("SID")
	p.mu.Lock()
	unknown := p.unknown[session]
	if session != "" {
		p.known[session] = true
	}
	p.open[r] = cancel
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, r)
	}()
	if unknown {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.forward.ServeHTTP(&losing{w, p}, r.WithContext(ctx))
	if ctx.Err() != nil {
		panic(http.ErrAbortHandler)
	}
}

func (p *webChannelProxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding = true
}

func (p *webChannelProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding = false
	for session := range p.known {
		p.unknown[session] = true
	}
	for _, cancel := range p.open {
		cancel()
	}
}

// losing loses what is written while the proxy holds answers: it waits there until it is cut.
type losing struct {
	http.ResponseWriter
	p *webChannelProxy
}

func (l *losing) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func (l *losing) Write(data []byte) (int, error) {
	l.p.mu.Lock()
	lost := l.p.holding
	l.p.mu.Unlock()
	if lost {
		return len(data), nil
	}
	return l.ResponseWriter.Write(data)
}
