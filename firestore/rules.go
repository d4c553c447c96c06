package firestore

import _ "embed" // of the rules

// Rules are the security rules of a database with counters, as they are released.
//
//go:embed firestore.rules
var Rules string
