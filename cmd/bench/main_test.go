package main

import (
	"os"
	"testing"

	"github.com/firestore-counters/counters/cmd/bench/internal/bench"
	"github.com/firestore-counters/counters/cmd/internal/dev"
)

func TestMain(m *testing.M) {
	dev.ServeIfChild(bench.Register)
	os.Exit(m.Run())
}
