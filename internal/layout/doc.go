// Package layout names the documents of a deployment's counters: paths, collections, fields, and the
// ids that Firestore allows. It also parses FIELDS and COUNTERS. Everything here is pure, without a
// client or a wire format. So a package that only needs names doesn't import gRPC.
package layout
