package main

import (
	"net"

	"github.com/firestore-counters/counters/emulator"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:9292")
	if err != nil {
		panic(err)
	}
	panic(emulator.New(emulator.Options{TTL: map[string]string{"counter_requests": "expire_at"}}).Serve(l))
}
