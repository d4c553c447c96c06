// Package book is the one owner of a counter's document and of its base: no other code knows the versions on
// which the two are written.
//
// A total is an answer: what its source held at a time, as Firestore's own sum() or count() says, and the base.
// The document shows, beside each field, as of when its number is, in the map counter_rollup. [Book.Show] writes
// a newer answer, on condition that the document is still the version that was read. Who meets another version
// reads again. So whatever comes twice, late or in another order, the document shows one answer after another,
// each whole.
//
// The base is a small document beside the counter: what each field holds beyond its source, because of a start
// value, a rebase or an import. [Books.Edit] changes it together with the document, on condition of both
// versions, and leaves a marker by which it knows its own commit.
//
//	edit.go  what must not be applied twice: a reset, a rebase, an import
//	life.go  a counter is made, and how its life ends
//	show.go  answers, the numbers that they replace, and the commit that shows them
//	book.go  a book: document and base as they were read; whose the document is, and what of it is ours
package book
