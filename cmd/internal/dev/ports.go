package dev

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

const loopback = "127.0.0.1"

// ports are the ports of everything whose port can be chosen.
type ports struct {
	firestore, gateway, functions net.Listener // nil where there is no need for it.
}

// listen takes all ports that are needed, or none: ours says that Firestore is to listen at one of
// them, and foreign that it is not the embedded one. An error is a [*PortError] when a port is in
// use.
func listen(c Config, ours, foreign bool) (p ports, err error) {
	for _, o := range []struct {
		listener *net.Listener
		flag     string
		host     string
		port     int
		needed   bool
	}{
		{&p.firestore, "firestore-port", loopback, c.FirestorePort, ours},
		{&p.gateway, "port", cmp.Or(c.Host, loopback), c.Port, true},
		{&p.functions, "functions-port", loopback, c.FunctionsPort, foreign},
	} {
		if !o.needed {
			continue
		}
		addr := net.JoinHostPort(o.host, strconv.Itoa(o.port))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			p.close()
			if errors.Is(err, syscall.EADDRINUSE) {
				return ports{}, &PortError{Flag: o.flag, Addr: addr, Err: err}
			}
			if o.host != loopback {
				return ports{}, fmt.Errorf("--host %s: %w", o.host, err)
			}
			return ports{}, fmt.Errorf("--%s: %w", o.flag, err)
		}
		*o.listener = l
	}
	return p, nil
}

// urls are the URLs at which a browser gets to the gateway: of this machine first, and then of its
// addresses in its networks when it listens at all of them.
func (p ports) urls() []string {
	at := p.gateway.Addr().(*net.TCPAddr)
	if !at.IP.IsUnspecified() {
		return []string{"http://" + at.String()}
	}
	port := strconv.Itoa(at.Port)
	urls := []string{"http://" + net.JoinHostPort(loopback, port)}
	addrs, _ := net.InterfaceAddrs() // Without them, people know their addresses themselves.
	for _, addr := range addrs {
		if n, ok := addr.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && (n.IP.To4() != nil || at.IP.To4() == nil) {
			urls = append(urls, "http://"+net.JoinHostPort(n.IP.String(), port))
		}
	}
	return urls
}

func (p ports) close() {
	for _, l := range []net.Listener{p.firestore, p.gateway, p.functions} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// A PortError says that something else listens on a port, and which flag chooses another.
type PortError struct {
	Flag string // Without dashes.
	Addr string
	Err  error
}

func (e *PortError) Error() string {
	return fmt.Sprintf("%s is in use: choose another port with --%s", e.Addr, e.Flag)
}

// Unwrap returns the error of the attempt to listen.
func (e *PortError) Unwrap() error { return e.Err }
