package freeport_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/firestore-counters/counters/internal/testbed/freeport"
)

// A port that is found can be listened at, and is none that the system gives to whoever asks for
// any, or else it might be gone by then.
func TestFind(t *testing.T) {
	t.Parallel()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if n, err := strconv.Atoi(port); err != nil || n < 1024 || n >= 32_768 {
		t.Errorf("port %s, %v", port, err)
	}
}
