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
// Every commit creates a marker document beside the increment. If the commit's answer is lost, this
// package creates the marker alone. If that fails because the marker exists, the commit was
// applied. If it succeeds, the commit can never be applied, and the increment goes into another. If
// you repeat a request yourself, give it a [Key].
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
//	create.go     a counter is made
//	delete.go     its life ends, or what is left of it is removed
//	resize.go     it gets more shards, or fewer
//	reset.go      it is set to zero, or to a total
//	limit.go      a field of it gets a limit
//	audit.go      what its total is made of
//	sum.go        its exact total
//	read.go       its total as the roll-up has it
//	reserve.go    amounts of a field that are held, settled and given back
//	member.go     whom a field counts once each
//	add.go        call: an increment, whose counters are looked up
//	commit.go     commit: to a shard of each counter of a batch, until each request has its outcome
//	limited.go    the same of a counter that has a limit
//	decide.go     what is decided about its requests by what is known of shards
//	grow.go       a counter that meets contention gets more shards
//	make.go       shards and counters that are missing are made
//	documents.go  what transactions do to the documents of a counter
//	writes.go     what a commit writes
//	known.go      what the client knows of counters, and reads
//	client.go     the client, its configuration, and a counter of it
//	queue.go      line: where requests wait with others of their counter
//	gather.go     batch: what shares a commit
//	batch.go      outcome: what follows from a commit's error, as state and verdict
//	requests.go   request: what is to be added, and who is told the outcome
//	marker.go     documents beside: markers, and memberships
//	holdings.go   what is known of shards that have a limit
//	key.go        keys, and how they are named
//	cache.go      counters that were read lately
//	snapshot.go   a counter as it was read
//	lookup.go     counters that are looked up in one read
//	lately.go     what happened to counters lately
//	turns.go      turns of those who want the same
//	patience.go   how long calls wait that have no deadline
//	errors.go     what a call returns
//	log.go        messages that metrics look for
