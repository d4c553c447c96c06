// Package functions holds the entry points of the deployment: Increment (HTTP), Rollup (Firestore
// events) and Reconcile (HTTP, called by Cloud Scheduler). Each decodes a request, calls package
// shards or rollup, and encodes the answer.
//
// [Register] makes the three known to the functions framework; importing the package has no effect.
// A process serves the one that FUNCTION_TARGET names, as on Cloud Functions. It opens nothing
// before the first request.
//
// The handlers take settings as this module parses them, so only this module can use them. To serve
// counters in another way, use packages shards and rollup.
//
// A handler returns an error, and one file (problem.go) says how each error is answered. Every
// request has a deadline, and its body is limited in size and time.
package functions

// The files in the order in which they are read: each uses what is declared below it.
//
//	serve.go      the functions are made known, begin and end; bodies arrive in time, or not at all
//	reconcile.go  Reconcile
//	rollup.go     Rollup, and its events
//	increment.go  Increment: what it is asked, by whom, and its answer
//	add.go        increments
//	read.go       reads
//	holds.go      amounts that are held
//	members.go    members
//	command.go    resets, and limits that are set
//	auth.go       who calls, and from which page
//	limit.go      how often
//	ceiling.go    what an instance may spend
//	route.go      what a request says: method, path and query
//	body.go       its body, as JSON
//	problem.go    which error is answered how
