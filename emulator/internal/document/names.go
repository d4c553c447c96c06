package document

import (
	"cmp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Firestore's limits on names, in bytes.
const (
	maxIDBytes   = 1500
	maxNameBytes = 6 << 10
	maxDepth     = 100 // levels of collections
)

// CheckDatabase refuses what is not a database name: projects/{project}/databases/{database}.
func CheckDatabase(name string) error {
	p := strings.Split(name, "/")
	if len(p) != 4 || p[0] != "projects" || p[1] == "" || p[2] != "databases" || p[3] == "" {
		return invalid("Invalid database name %q: want projects/{project}/databases/{database}.", name)
	}
	return nil
}

// Relative cuts "database/documents" off a resource name, and what is left is "" or begins with a
// slash.
func Relative(database, name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, database)
	if !ok {
		return "", false
	}
	rest, ok = strings.CutPrefix(rest, "/documents")
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return rest, true
}

// DatabaseOf is the database that a resource name begins with.
func DatabaseOf(name string) (string, error) {
	i, slashes := 0, 0
	for ; i < len(name); i++ {
		if name[i] == '/' {
			if slashes++; slashes == 4 {
				break
			}
		}
	}
	if err := CheckDatabase(name[:i]); err != nil {
		return "", err
	}
	return name[:i], nil
}

// CheckName refuses what is not a name of a document in the database.
func CheckName(database, name string) error {
	rest, ok := Relative(database, name)
	if !ok {
		if err := CheckDatabase(database); err != nil {
			return err
		}
		return invalid("Document name %q is not in the database %q.", name, database)
	}
	n, err := CheckIDs(name, rest)
	if err != nil {
		return err
	}
	if n == 0 || n%2 != 0 {
		return invalid("Document name %q lacks a collection or document id.", name)
	}
	return nil
}

// CheckParent refuses what is neither a document nor the root of the database's documents.
func CheckParent(database, name string) error {
	if rest, ok := Relative(database, name); ok && rest == "" {
		return nil
	}
	return CheckName(database, name)
}

// CheckIDs checks the ids of a path that begins with a slash (or is empty), and counts them.
func CheckIDs(name, path string) (ids int, err error) {
	if len(path) > maxNameBytes {
		return 0, invalid("Name is longer than %d bytes: %.80q…", maxNameBytes, name)
	}
	for path != "" {
		path = path[1:]
		id := path
		if i := strings.IndexByte(path, '/'); i >= 0 {
			id = path[:i]
		}
		path = path[len(id):]
		check := CheckID
		if ids%2 == 0 {
			check = checkCollectionID
		}
		if err := check(name, id); err != nil {
			return 0, err
		}
		ids++
	}
	if ids > 2*maxDepth {
		return 0, invalid("Name is deeper than %d collections: %.80q…", maxDepth, name)
	}
	return ids, nil
}

// CheckID refuses what is not an id of a document, or reserved.
func CheckID(name, id string) error {
	switch {
	case id == "":
		return invalid("Name has an empty id: %q.", name)
	case len(id) > maxIDBytes:
		return invalid("An id in the name is longer than %d bytes: %.80q…", maxIDBytes, name)
	case !utf8.ValidString(id):
		return invalid("An id is not valid UTF-8: %q.", name)
	case id == "." || id == "..":
		return invalid("%q is not a valid id: %q.", id, name)
	case Reserved(id):
		if _, ok := NumericID(id); !ok {
			return invalid("Ids of the form __.*__ are reserved: %q.", name)
		}
	}
	return nil
}

// Reserved tells names that are Firestore's own. Four underscores are an ordinary name.
func Reserved(name string) bool {
	return len(name) > 4 && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__")
}

// checkCollectionID refuses what is not a collection's id. Only documents have numeric ids.
func checkCollectionID(name, id string) error {
	if _, numeric := NumericID(id); numeric {
		return invalid("Collection ids of the form __.*__ are reserved: %q.", name)
	}
	return CheckID(name, id)
}

// NumericID is the number of an id like __id7__, which Firestore keeps for data of its Datastore
// mode.
func NumericID(id string) (int64, bool) {
	s, ok := strings.CutPrefix(id, "__id")
	if !ok {
		return 0, false
	}
	if s, ok = strings.CutSuffix(s, "__"); !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s
}

// SplitParent cuts the last id off a name.
func SplitParent(name string) (parent, id string) {
	i := strings.LastIndexByte(name, '/')
	return name[:i], name[i+1:]
}

// CompareIDs orders numeric ids before the others, those by UTF-8 bytes.
func CompareIDs(a, b string) int {
	if strings.HasPrefix(a, "__id") || strings.HasPrefix(b, "__id") {
		x, aNumeric := NumericID(a)
		y, bNumeric := NumericID(b)
		switch {
		case aNumeric && bNumeric:
			return cmp.Compare(x, y)
		case aNumeric:
			return -1
		case bNumeric:
			return 1
		}
	}
	return strings.Compare(a, b)
}

// CompareNames orders resource names id by id.
func CompareNames(a, b string) int {
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	first := strings.LastIndexByte(a[:same], '/') + 1 // of the first id that may differ
	for a, b = a[first:], b[first:]; a != b; {
		x, restA, moreA := strings.Cut(a, "/")
		y, restB, moreB := strings.Cut(b, "/")
		if c := CompareIDs(x, y); c != 0 {
			return c
		}
		if !moreA || !moreB {
			return compareBool(moreA, moreB)
		}
		a, b = restA, restB
	}
	return 0
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
