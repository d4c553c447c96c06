// Package verify tries a whole deployment in a real project, and takes it away again. A trial deploys
// under a prefix of its own, counts by HTTP, compares what was acknowledged with what a reader of the
// totals sees, measures what the models of this project assume, and writes a report.
//
// It does what a user does: the program's own deploy, doctor, smoke and destroy, gcloud, HTTP, and
// the official client of Firestore. So a trial that passes says that these work as well.
package verify
