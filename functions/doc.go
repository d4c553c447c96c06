// Package functions holds the entry points of the deployment: Increment (HTTP), Rollup (Firestore
// events) and Reconcile (HTTP, called by Cloud Scheduler). Each decodes a request, calls package
// shards or rollup, and encodes the answer.
//
// [Register] makes the three known to the functions framework; importing the package has no effect.
// A process serves the one that FUNCTION_TARGET names, as on Cloud Functions. Nothing is opened
// before the first request.
//
// Its handlers take settings as this module parses them, and so are for this module alone. A program
// that serves in another way is made of packages shards and rollup.
//
// A handler returns an error, and one place (problem.go) says how each is answered. Bodies are
// bounded in size and in time before they are read, and every request has a deadline.
package functions
