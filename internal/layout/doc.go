// Package layout says what the documents of a deployment's counters are called: paths, collections,
// fields, and the ids that Firestore takes. It also reads what FIELDS and COUNTERS say of them.
// Everything here is pure: it knows no client and no wire format, so that whoever only asks for
// names brings no gRPC along.
package layout
