// Package firestore holds firestore.rules to what it says. Its tests try the rules on Google's own
// evaluator, which is part of the official Firestore emulator: the file as it stands, the same with
// the lines for clients that count by themselves, and the latter with each condition taken out in
// turn.
package firestore
