package simulation

import (
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator"
)

// The system reads the clock of its machine, and all of a world's processes are on one machine. So
// it is the rest of the world whose clock is moved for a process: by its link it is told times
// that are earlier by as much as its own clock is ahead, and the times that it sends are later by
// that much. Whatever it compares with its clock is as far off as on a machine that is ahead, what
// it writes of its own clock is too, and Firestore's times that it hands back come back unchanged.

// drawClocks draws how far the clocks of processes are apart from each other, from dice of its own.
func (p *Plan) drawClocks() {
	if r := dice(p.Seed, "clocks", 0); r.IntN(4) == 0 {
		p.Clocks = between(r, 10*time.Second, 10*time.Minute)
	}
}

// aheadOf is how far the clock of a process is ahead, in whole microseconds as Firestore's times
// are; below 0 it is behind.
func (p Plan) aheadOf(process string) time.Duration {
	if p.Clocks == 0 {
		return 0
	}
	off := time.Duration(dice(p.Seed, "clock of "+process, 0).Int64N(int64(p.Clocks))) - p.Clocks/2
	return off.Truncate(time.Microsecond)
}

// shift moves all times in a message.
func shift(m protoreflect.Message, by time.Duration) {
	if t, is := m.Interface().(*timestamppb.Timestamp); is {
		later := t.AsTime().Add(by)
		t.Seconds, t.Nanos = later.Unix(), int32(later.Nanosecond())
		return
	}
	if v, is := m.Interface().(*firestorepb.Value); is {
		shiftValue(v, by)
		return
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
			if field.MapValue().Message() != nil {
				value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { shift(v.Message(), by); return true })
			}
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				shift(value.List().Get(i).Message(), by)
			}
		default:
			shift(value.Message(), by)
		}
		return true
	})
}

// shiftValue moves all times in a value.
func shiftValue(v *firestorepb.Value, by time.Duration) {
	switch t := v.GetValueType().(type) {
	case *firestorepb.Value_MapValue:
		for _, v := range t.MapValue.GetFields() {
			shiftValue(v, by)
		}
	case *firestorepb.Value_ArrayValue:
		for _, v := range t.ArrayValue.GetValues() {
			shiftValue(v, by)
		}
	case *firestorepb.Value_TimestampValue:
		shift(t.TimestampValue.ProtoReflect(), by)
	case *firestorepb.Value_StringValue: // by which holds are found
		if text, is := strings.CutSuffix(t.StringValue, "Z"); is && len(text) > 33 && text[32] == ' ' {
			if at, err := time.Parse(inText, text[33:]); err == nil {
				t.StringValue = text[:33] + at.Add(by).Format(inText) + "Z"
			}
		}
	}
}

// inText is how times are written in texts whose order is that of the times.
const inText = "2006-01-02T15:04:05.000000"

// shifted is a copy of a message with all times moved.
func shifted[M proto.Message](m M, by time.Duration) M {
	if by == 0 || !m.ProtoReflect().IsValid() {
		return m
	}
	moved := proto.CloneOf(m)
	shift(moved.ProtoReflect(), by)
	return moved
}

// seen is a change as a process hears of it whose clock is ahead.
func seen(c emulator.Change, ahead time.Duration) emulator.Change {
	c.CommitTime = c.CommitTime.Add(-ahead)
	c.Old, c.New = shifted(c.Old, -ahead), shifted(c.New, -ahead)
	return c
}
