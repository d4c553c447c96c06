// Package query is what Firestore's queries ask for: filters, orders, cursors and windows, checked,
// and tried on one document after the other; and the sums over what they find. It is pure: where
// documents come from does not matter here.
package query
