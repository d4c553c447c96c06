// Package eventarc turns changes of Firestore documents into the CloudEvents that Eventarc sends to
// a function, and delivers them the way Eventarc does: beside the write and never before its
// acknowledgement, at least once, in no particular order, again and again until the function
// answers 2xx.
//
// It takes its changes from the embedded Firestore, or from whoever else sees them. In production
// its place is taken by Eventarc itself; nothing that is deployed imports it.
package eventarc
