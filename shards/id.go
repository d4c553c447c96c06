package shards

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxShards is the largest number of shards of a counter. All of them fit into one commit, and one sum() over them is
// billed as one read.
const MaxShards = 1000

// maxIDBytes is Firestore's own limit on a document's id.
const maxIDBytes = 1500

// ValidateID reports, as [ErrInvalidID], why an id can't be a counter's: Firestore would not take it. Any other UTF-8
// text is one.
func ValidateID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidID)
	case len(id) > maxIDBytes:
		return fmt.Errorf("%w: it has %d bytes, and at most %d are allowed", ErrInvalidID, len(id), maxIDBytes)
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: it is not UTF-8", ErrInvalidID)
	case strings.Contains(id, "/"):
		return fmt.Errorf("%w: %q contains a slash", ErrInvalidID, id)
	case id == "." || id == "..":
		return fmt.Errorf("%w: %q is reserved", ErrInvalidID, id)
	case len(id) >= 4 && strings.HasPrefix(id, "__") && strings.HasSuffix(id, "__"):
		return fmt.Errorf("%w: %q is reserved, as everything of the form __x__", ErrInvalidID, id)
	}
	return nil
}

// shardID is the document id of the n-th shard.
func shardID(n int) string { return strconv.Itoa(n) }

// shardNumber is the inverse of shardID. It reports false for documents that somebody else keeps among the shards.
func shardNumber(id string) (int, bool) {
	n, err := strconv.Atoi(id)
	return n, err == nil && n >= 0 && shardID(n) == id
}

// validShards reports whether a counter can have n shards.
func validShards(n int) error {
	if n < 1 || n > MaxShards {
		return fmt.Errorf("%w: %d; a counter has 1 to %d", ErrInvalidShards, n, MaxShards)
	}
	return nil
}
