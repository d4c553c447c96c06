// Package shards is the write side of distributed counters on Firestore: it makes counters, adds to
// them, and reads them.
//
// A document takes about one write a second, so a counter is spread over shards, as on Google's
// public "distributed counters" page, whose clients can share it.
//
// Increments that come at the same time share a commit, which goes to one random shard. A call
// returns after its commit. If no commit of the counter is in flight, the next begins at once. A
// busy or missing counter doesn't slow others down.
//
// Every commit also creates a marker document. If the commit's answer is lost, this package creates the marker alone.
// If that fails because the marker exists, the commit was applied. If it succeeds, the commit can never be applied, and
// the increment goes into another. If you repeat a request yourself, give it a [Key].
//
// [Counter.Join] counts a member once, until [Counter.Leave] takes that back. [Counter.Reserve] holds an amount until
// [Counter.Settle] says how much of it was used. You may repeat all of these.
//
// [Counter.Get] reads the total that package rollup keeps, in one document read; it is about a
// second old. [Counter.Cached] reads it from memory, for another second. [Counter.Sum] adds up the
// shards, and is exact.
package shards

// The files in the order in which they are read: each uses what is declared below it.
//
//	open.go       a client begins and ends
//	delete.go     a counter's life ends, or what is left of it is removed
//	commands.go   it is made, gets more shards or fewer, a total
//	reserve.go    amounts of a field that are held, settled and given back
//	member.go     whom a field counts once each
//	read.go       a counter's total: as the roll-up has it, exact, and what it is made of
//	add.go        an increment: its call, and its batch until each request has its outcome
//	make.go       shards and counters that are missing are made, and what transactions do to shards
//	limited.go    a field that has a limit: what a batch takes is planned, or refused, and the limit is set
//	known.go      counters are read, with what lies below them, and looked up together; what the client remembers
//	snapshot.go   what a counter's document says
//	costs.go      what calls take of the budget, and whether it has as much
//	client.go     the client, its configuration, a counter of it, and how its errors are said
//	queue.go      where requests wait with others of their counter, and what they pay
//	batch.go      what shares a commit, what that writes, and what follows from its error: the next step
//	plan.go       what the client remembers of the shards of fields with limits, and what a batch takes of these
//	increment.go  what is to be added, and the documents that are written with it: markers, keys, memberships
//	waits.go      turns, deadlines that are shared, what is done side by side, and what is remembered for a while
//	errors.go     what a call returns
