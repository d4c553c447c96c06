package engine

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// A resume token is the time up to which a listener has seen everything, in the form that the
// official emulator uses: a message whose field 1 is a message whose field 1 is the time in
// microseconds.

func encodeToken(at int64) []byte {
	inner := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(at))
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inner)
}

// decodeToken reads a token; false for what encodeToken has not made.
func decodeToken(b []byte) (at int64, ok bool) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 || num != 1 || typ != protowire.BytesType {
		return 0, false
	}
	inner, m := protowire.ConsumeBytes(b[n:])
	if m < 0 || n+m != len(b) {
		return 0, false
	}
	num, typ, n = protowire.ConsumeTag(inner)
	if n < 0 || num != 1 || typ != protowire.VarintType {
		return 0, false
	}
	v, m := protowire.ConsumeVarint(inner[n:])
	if m < 0 || n+m != len(inner) || v > math.MaxInt64 {
		return 0, false
	}
	return int64(v), true
}
