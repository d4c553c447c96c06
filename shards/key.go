package shards

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/firestore-counters/counters/internal/layout"
)

// Key makes a call safe to repeat: of all calls with the same key, one is counted. It belongs to its caller, to the
// path and the shards, and to the counters and fields that the call adds to: the same value from another caller, or
// for another counter or field, is another key.
type Key struct {
	Caller string // who asks, where that is known
	Value  string // 1 to 255 printable ASCII characters; "" means none
}

// Validate says why a key can't be one, as [ErrInvalidKey].
func (k Key) Validate() error {
	if len(k.Value) > 255 {
		return fmt.Errorf("%w: it has %d characters, and at most 255 are allowed", ErrInvalidKey, len(k.Value))
	}
	for i := range len(k.Value) {
		if k.Value[i] < ' ' || k.Value[i] > '~' {
			return fmt.Errorf("%w: character %d is not printable ASCII", ErrInvalidKey, i+1)
		}
	}
	return nil
}

// id is the id of the key's marker, of a call that adds to what is named. It is a hash, because a key may be any text.
func (k Key) id(names layout.Layout, named []string) string {
	return hash(append(named, k.Caller, names.Path.Canonical(), names.Shards, k.Value)...)
}

// newID is the id of a batch, or of a transaction, and of its marker.
func newID() string { return rand.Text() }

// hash tells any two lists of strings apart.
func hash(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}
