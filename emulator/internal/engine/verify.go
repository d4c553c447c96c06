package engine

import (
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/encoding/protowire"
)

// verifyField is the number of Write.verify, the name of a document of which only the precondition
// is to be checked. Transactions of web and mobile clients, which take no locks, send it for what
// they have read and don't write. The published protos don't have it, so it is found among the
// fields that they don't know.
const verifyField = 5

// verified is the document that a write verifies; false when it is not a verification.
func verified(w *pb.Write) (name string, ok bool) {
	for b := w.ProtoReflect().GetUnknown(); len(b) > 0; {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			break
		}
		size := protowire.ConsumeFieldValue(num, typ, b[n:])
		if size < 0 {
			break
		}
		if num == verifyField && typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b[n:])
			name, ok = string(value), true
		}
		b = b[n+size:]
	}
	return name, ok
}

// checkVerifies refuses a commit that verifies a document and writes it too: the write can have the
// precondition.
func checkVerifies(ops []operation) error {
	var verifies map[string]bool
	for i := range ops {
		if ops[i].verify {
			if verifies == nil {
				verifies = make(map[string]bool)
			}
			verifies[ops[i].name] = true
		}
	}
	if verifies == nil {
		return nil
	}
	for i := range ops {
		if !ops[i].verify && verifies[ops[i].name] {
			return invalid("A commit can't both verify and write one document: %s.", ops[i].name)
		}
	}
	return nil
}
