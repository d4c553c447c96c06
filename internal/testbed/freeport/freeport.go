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
)

const (
	lowest = 20_000
	end    = 32_000
	tries  = 100 // so many of 12,000 are not all taken
)

// Find returns a port at which nobody listens. It is random, so that two who look at the same time
// hardly find the same.
func Find() (port string, err error) {
	for range tries {
		port = strconv.Itoa(lowest + rand.IntN(end-lowest))
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			return port, l.Close()
		}
	}
	return "", err
}
