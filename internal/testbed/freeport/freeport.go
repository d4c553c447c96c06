// Package freeport finds ports of 127.0.0.1 for processes that can't be told to take any and say
// which.
//
// A port that the system gave to a listener on port 0 is given away again as soon as that is
// closed: to the next such listener, or to a connection, while the process is still starting. So
// these are below those that systems give away: 32,768 on Linux, 49,152 elsewhere.
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

const (
	lowest = 20_000
	end    = 32_000
	tries  = 100 // so many of 12,000 are not all taken

	// kept is how long a port that was found is found by nobody else: a process takes a second until it listens, on a
	// busy machine some ten.
	kept = time.Minute
)

// Find returns a port at which nobody listens, and that it finds for nobody else within a minute, in any process of
// this machine: as long, a socket of UDP is bound to that port, too. Without it, two processes that start side by side
// had the same port now and then, and who waits for the one found that the other listens.
func Find() (port string, err error) {
	for range tries {
		port = strconv.Itoa(lowest + rand.IntN(end-lowest))
		addr := net.JoinHostPort("127.0.0.1", port)
		var claim net.PacketConn
		if claim, err = net.ListenPacket("udp", addr); err != nil {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err != nil {
			_ = claim.Close()
			continue
		}
		time.AfterFunc(kept, func() { _ = claim.Close() })
		return port, l.Close()
	}
	return "", err
}
