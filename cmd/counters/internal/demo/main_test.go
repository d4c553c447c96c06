package demo

import (
	"testing"

	"go.uber.org/goleak"
)

// atEnd ends what the tests share.
var atEnd = func() {}

type tests struct{ *testing.M }

func (m tests) Run() int {
	defer func() { atEnd() }()
	return m.M.Run()
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(tests{m})
}
