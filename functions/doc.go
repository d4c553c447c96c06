// Package functions holds the entry points of the deployment: Increment (HTTP), Rollup (Firestore events) and Reconcile
// (HTTP, called by Cloud Scheduler). Each decodes a request, calls package shards or rollup, and encodes the answer.
//
// Importing the package registers the three with the functions framework. A process serves the one that FUNCTION_TARGET
// names, as on Cloud Functions. Nothing is opened before the first request.
package functions
