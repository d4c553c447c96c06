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

// Who starts processes side by side has a port for each, though none of them listens yet: of 400 random ports among
// 12,000 some are the same.
func TestFindGivesNoPortTwice(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for range 400 {
		port, err := freeport.Find()
		if err != nil {
			t.Fatal(err)
		}
		if found[port] {
			t.Fatalf("port %s is found twice", port)
		}
		found[port] = true
	}
}
