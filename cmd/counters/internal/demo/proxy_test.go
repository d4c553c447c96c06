//go:build all

package demo

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// proxy is a TCP connection to somewhere that can be cut.
type proxy struct {
	net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	to    string
	cut   bool
	conns map[net.Conn]struct{}
}

func startProxy(t *testing.T) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, conns: make(map[net.Conn]struct{})}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.setCut(true)
		p.wg.Wait()
	})
	return p
}

// setTo sets where connections lead from now on, by a URL without a path.
func (p *proxy) setTo(url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = strings.TrimPrefix(url, "http://")
}

// setCut closes all connections and every new one, or lets new ones through again.
func (p *proxy) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	if cut {
		for c := range p.conns {
			_ = c.Close()
		}
	}
}

// add registers a connection, to be closed by a cut, and reports whether there is none now.
func (p *proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
	return !p.cut
}

func (p *proxy) remove(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

func (p *proxy) pass(client net.Conn) {
	defer p.remove(client)
	if !p.add(client) {
		return
	}
	p.mu.Lock()
	to := p.to
	p.mu.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer p.remove(server)
	if !p.add(server) {
		return
	}
	p.wg.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	_, _ = io.Copy(client, server)
}
