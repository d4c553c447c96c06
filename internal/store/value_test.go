package store

import (
	"math"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

func TestInteger(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value *firestorepb.Value
		want  int64
		ok    bool
	}{
		{nil, 0, true}, // a field that is not there
		{&firestorepb.Value{}, 0, false},
		{Int(math.MinInt64), math.MinInt64, true},
		{Double(-3), -3, true},
		{Double(math.Copysign(0, -1)), 0, true},
		{Double(0.5), 0, false},
		{Double(1<<53 - 1), 1<<53 - 1, true},
		{Double(1 - 1<<53), 1 - 1<<53, true},
		{Double(1 << 53), 0, false}, // or 1<<53 + 1, which no double is
		{Double(-1 << 53), 0, false},
		{Double(math.NaN()), 0, false},
		{Double(math.Inf(1)), 0, false},
		{String("7"), 0, false},
		{&firestorepb.Value{ValueType: &firestorepb.Value_NullValue{}}, 0, false},
	} {
		if n, ok := Integer(tt.value); n != tt.want || ok != tt.ok {
			t.Errorf("Integer(%v) = %d, %v; want %d, %v", tt.value, n, ok, tt.want, tt.ok)
		}
	}
}
