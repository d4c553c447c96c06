package dev

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// ports are the ports of everything whose port can be chosen.
type ports struct {
	firestore, gateway, functions net.Listener // nil where there is no need for it.
}

// listen takes all ports that are needed, or none. An error is a [*PortError] when a port is in use.
func listen(c Config, embedded bool) (p ports, err error) {
	for _, o := range []struct {
		listener *net.Listener
		flag     string
		port     int
		needed   bool
	}{
		{&p.firestore, "firestore-port", c.FirestorePort, embedded},
		{&p.gateway, "port", c.Port, true},
		{&p.functions, "functions-port", c.FunctionsPort, !embedded},
	} {
		if !o.needed {
			continue
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			p.close()
			if errors.Is(err, syscall.EADDRINUSE) {
				return ports{}, &PortError{Flag: o.flag, Addr: addr, Err: err}
			}
			return ports{}, fmt.Errorf("--%s: %w", o.flag, err)
		}
		*o.listener = l
	}
	return p, nil
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
