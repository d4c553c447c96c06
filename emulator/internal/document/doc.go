// Package document is what Firestore's documents are made of: names, fields and their paths, values
// and their order, and the limits on all of them. It is pure: no state, no clock, no lock.
package document
