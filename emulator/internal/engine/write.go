package engine

import (
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator/internal/document"
)

// operation is one checked write of a commit.
type operation struct {
	name       string
	remove     bool
	verify     bool // only check the precondition
	stamps     bool // a transform sets the server's time
	fields     map[string]*pb.Value
	mask       []document.Path // nil: replace the document; empty: touch no field
	transforms []transform
	need       precondition
}

type precondition struct {
	exists     *bool
	updateTime int64 // microseconds; 0 for none
}

// parseWrites checks all that can be checked of writes without looking at a document.
func parseWrites(database string, writes []*pb.Write) ([]operation, error) {
	ops := make([]operation, len(writes))
	for i, w := range writes {
		if err := parseWrite(database, w, &ops[i]); err != nil {
			return nil, err
		}
	}
	if err := checkVerifies(ops); err != nil {
		return nil, err
	}
	if err := checkSequence(ops); err != nil {
		return nil, err
	}
	return ops, checkTransformCount(ops)
}

func parseWrite(database string, w *pb.Write, op *operation) error {
	switch t := w.GetOperation().(type) {
	case *pb.Write_Update:
		op.name = t.Update.GetName()
		if err := parseUpdate(w, t.Update.GetFields(), op); err != nil {
			return err
		}
	case *pb.Write_Delete:
		op.name, op.remove = t.Delete, true
		if w.UpdateMask != nil || len(w.UpdateTransforms) > 0 {
			return invalid("A delete takes neither a mask nor transforms.")
		}
	case *pb.Write_Transform:
		op.name = t.Transform.GetDocument()
		op.mask = []document.Path{}
		if w.UpdateMask != nil || len(w.UpdateTransforms) > 0 {
			return invalid("A transform takes neither a mask nor further transforms.")
		}
		if len(t.Transform.GetFieldTransforms()) == 0 {
			return invalid("A transform has no field transforms.")
		}
		var err error
		if op.transforms, op.stamps, err = parseTransforms(t.Transform.GetFieldTransforms()); err != nil {
			return err
		}
	default:
		name, ok := verified(w)
		if !ok && len(w.ProtoReflect().GetUnknown()) == 0 {
			return invalid("A write has no operation.")
		}
		if !ok {
			return status.Error(codes.Unimplemented, "A write is an update, a delete, a transform or a verification; other operations aren't covered.")
		}
		op.name, op.verify = name, true
		if w.CurrentDocument == nil || w.UpdateMask != nil || len(w.UpdateTransforms) > 0 {
			return invalid("A verification takes a precondition, and nothing else.")
		}
	}
	if err := document.CheckName(database, op.name); err != nil {
		return err
	}
	return parsePrecondition(w.CurrentDocument, &op.need)
}

func parseUpdate(w *pb.Write, fields map[string]*pb.Value, op *operation) error {
	if err := document.CheckFields(fields, 0, 0); err != nil {
		return err
	}
	op.fields = fields
	var err error
	if op.mask, err = document.ParseMask(w.UpdateMask); err != nil {
		return err
	}
	for _, path := range op.mask {
		if err := document.CheckPath(path); err != nil {
			return err
		}
	}
	op.transforms, op.stamps, err = parseTransforms(w.UpdateTransforms)
	return err
}

func parsePrecondition(p *pb.Precondition, need *precondition) error {
	switch c := p.GetConditionType().(type) {
	case *pb.Precondition_Exists:
		need.exists = &c.Exists
	case *pb.Precondition_UpdateTime:
		if err := c.UpdateTime.CheckValid(); err != nil {
			return invalid("Invalid update_time of a precondition: %v.", err)
		}
		need.updateTime = micros(c.UpdateTime)
		if need.updateTime <= 0 || c.UpdateTime.Nanos%1000 != 0 {
			return invalid("The update_time of a precondition must be in whole microseconds after 1970.")
		}
	}
	return nil
}

// checkSequence refuses several writes of one document in a commit whose preconditions can't all
// hold: whether it exists is asked after the writes before, and its update time is that before the
// commit.
func checkSequence(ops []operation) error {
	if len(ops) < 2 {
		return nil
	}
	type document struct {
		removed    bool
		updateTime int64
	}
	written := make(map[string]document, len(ops))
	for i := range ops {
		op := &ops[i]
		if op.verify {
			continue
		}
		d, again := written[op.name]
		if again && op.need.exists != nil && *op.need.exists == d.removed {
			return invalid("The writes of %s contradict each other.", op.name)
		}
		if again && op.need.updateTime != 0 && d.removed && !op.remove {
			return invalid("A commit can't delete %s and then update it as of before.", op.name)
		}
		if again && op.need.updateTime != 0 && op.need.updateTime != d.updateTime {
			return invalid("The first write of %s must have the precondition of the others.", op.name)
		}
		if !again {
			d.updateTime = op.need.updateTime
		}
		d.removed = op.remove
		written[op.name] = d
	}
	return nil
}

func checkTransformCount(ops []operation) error {
	var counts map[string]int
	for i := range ops {
		n := len(ops[i].transforms)
		if n == 0 {
			continue
		}
		if len(ops) > 1 {
			if counts == nil {
				counts = make(map[string]int)
			}
			counts[ops[i].name] += n
			n = counts[ops[i].name]
		}
		if n > maxTransforms {
			return invalid("A commit takes at most %d field transforms of one document: %s.", maxTransforms, ops[i].name)
		}
	}
	return nil
}

// check reports whether a document satisfies the precondition. before is what the commit found, doc
// what it has made of it so far; nil: there is none.
func (p precondition) check(name string, before, doc *pb.Document) error {
	if p.exists != nil {
		switch {
		case *p.exists && doc == nil:
			return status.Errorf(codes.NotFound, "No document to update: %s", name)
		case !*p.exists && doc != nil:
			return status.Errorf(codes.AlreadyExists, "Document already exists: %s", name)
		}
	}
	if p.updateTime != 0 {
		stored := int64(0)
		if before != nil {
			stored = micros(before.UpdateTime)
		}
		switch {
		case stored == p.updateTime:
		case before != nil && stored < p.updateTime:
			return invalid("Invalid base version, it is greater than the stored version")
		default:
			return status.Errorf(codes.FailedPrecondition,
				"the stored version (%d) does not match the required base version (%d)", stored, p.updateTime)
		}
	}
	return nil
}

// apply computes the document's fields after the operation, from those before (nil where there is
// no document), and the results of its transforms. It changes neither its input nor the operation.
func (op *operation) apply(before map[string]*pb.Value, now *timestamppb.Timestamp) (after map[string]*pb.Value, results []*pb.Value) {
	var e document.Editor
	if op.mask == nil {
		e.Fields = op.fields // kept as it is unless a transform changes it
	} else {
		e.Fields = before
		for _, path := range op.mask {
			if v := document.Lookup(op.fields, path); v != nil {
				e.Set(path, v)
			} else {
				e.Remove(path)
			}
		}
	}
	if len(op.transforms) > 0 {
		results = make([]*pb.Value, len(op.transforms))
		for i := range op.transforms {
			results[i] = op.transforms[i].apply(&e, now)
		}
	}
	return e.Fields, results
}

// micros is a time in microseconds since 1970, the unit of versions.
func micros(t *timestamppb.Timestamp) int64 {
	return t.GetSeconds()*1e6 + int64(t.GetNanos())/1000
}

func timestamp(micros int64) *timestamppb.Timestamp {
	return &timestamppb.Timestamp{Seconds: micros / 1e6, Nanos: int32(micros%1e6) * 1000}
}
