// Package book is the one owner of a counter's ledger and of its document: no other code reads or
// writes them, or knows the condition on which they were read.
//
// A [Book] is both as of one time, and what is changed in them since. Its methods change the ledger
// where one can see it: states and answers are merged into it, all shards correct it, a base is set.
// What the document is to show follows from that. [Books.Update], [Books.Command] and
// [Book.WriteTo] commit a book, on condition that nothing else has written its ledger meanwhile. One
// function emits the writes of both, and refuses to where the document would show another total than
// the ledger that is written adds up to.
//
// A counter that has no ledger gets one by [Books.Adopt], from its shards. One whose ledger can't be
// used is made again by [Books.Rebuild].
//
//	command.go   what must not be applied twice: a reset, a rebase, an import
//	life.go      a counter is made, and how its life ends
//	adopt.go     a ledger for a counter that has none, or none that can be used
//	write.go     how a book is written: both documents, in one commit, and how they are checked
//	shares.go    shares of a limit that don't add up, and how they are given out anew
//	book.go      a book: how it is read, and what changes it
//	limit.go     a field gets a limit, or loses it
//	held.go      what a shard holds of such a field
//	document.go  the counter's document
//	ledger.go    the ledger's document
package book
