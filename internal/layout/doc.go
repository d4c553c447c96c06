// Package layout names the documents of a deployment's counters: paths, collections, fields, and the
// ids that Firestore allows. It also parses FIELDS and COUNTERS. Everything here is pure, without a
// client or a wire format. So a package that only needs names doesn't import gRPC.
//
// The files in the order in which they are read; most use what is declared below:
//
//	place.go        where the counters of a deployment are
//	names.go        names of documents, paths of fields, numbers of shards
//	counted.go      names of documents that a field counts
//	path.go         COUNTERS
//	field.go        FIELDS
//	aggregation.go  fields that count documents
//	limit.go        names of what a limit takes
package layout
