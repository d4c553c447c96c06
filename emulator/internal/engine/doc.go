// Package engine is Firestore's behaviour without a transport: documents and their versions,
// writes, transactions with locks, queries, and listening. It takes the request messages of
// google.firestore.v1 and answers with its response messages; errors are gRPC status errors with
// Firestore's own codes. A gRPC service, a REST handler and a WebChannel can all stand on one
// Engine.
//
// What it stands on has rooms of its own, none of which knows of the engine: names and values
// (package document), queries (query), who may read and write what (locks), and documents with
// their past (versions).
//
// # Versions
//
// A document is a chain of immutable versions, newest first. A commit takes the next commit time,
// in microseconds and strictly increasing within its database, and puts a new version in front of
// every document that it changes. A read picks a time and walks each chain to the newest version
// that is not younger: it needs no lock while it evaluates, and all that it sees is of one moment.
// Superseded versions are kept for an hour, within bounds.
//
// # Isolation
//
// Transactions are pessimistic. A read in a read-write transaction takes shared locks, in a
// first-come-first-served queue for the documents, or the collection, that it reads, and holds them
// until the transaction ends. Plain reads never wait. A commit outside of a transaction waits while
// a transaction holds what it writes.
//
// # Ownership
//
// The engine keeps the values of a write request as they are, without a copy, and hands the same
// messages to readers. Callers must not change a request after handing it in, nor a response.
package engine
