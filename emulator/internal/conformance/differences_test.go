package conformance

// difference is a note that the embedded server gives otherwise than the official emulator, on
// purpose.
type difference struct {
	scenario, label string
	embedded        string // what the embedded server gives
	reason          string
}

var differences = []difference{
	// What production refuses, after its documentation, and the official emulator lets pass.
	{"counts", "501 transforms", "InvalidArgument", "production's limit is 500 for each document and commit"},
	{"counts", "501 transforms in two writes", "InvalidArgument", "production's limit is 500 for each document and commit"},
	{"ids", "a longer name", "InvalidArgument", "the documentation limits names to 6 KiB"},
	{"masks", "the name", "InvalidArgument", "__name__ is reserved, and no field of a document"},
	{"increments", "a reserved path", "InvalidArgument", "the official emulator stores a field __key__, which no client can write otherwise"},
	{"increments", "a reserved path, then", "{v=1}", "see above"},
	{"arrays", "union of an array", "InvalidArgument", "arrays can't hold arrays, whichever way they come"},
	{"arrays", "union of an array, then", "{v=[1]}", "see above"},
	{"depth", "a path of ||||||||||||||||||||||", "InvalidArgument", "a document that can't be written as a whole can't be made by a transform"},
	{"malformed-writes", "another project", "InvalidArgument", "a commit is of one database"},
	{"malformed-writes", "another database", "InvalidArgument", "a commit is of one database"},

	// What the protocol's comments say, and the official emulator does otherwise.
	{"windows", "select nothing", "{m=3 n=1}", "the protocol says that an empty projection returns all fields; clients ask for __name__"},
	{"update-times", "deleted and made in one commit", "committed @10 (never) (@10)", "the protocol says that update_time is not set after a delete"},
	{"contradictions", "deleted, then created", "committed @5 (never) (@5)", "the protocol says that update_time is not set after a delete"},
	{"contradictions", "deleted, then set", "committed @6 (never) (@6)", "the protocol says that update_time is not set after a delete"},
	{"contradictions", "deleted at its time, then set", "committed @11 (never) (@11)", "the protocol says that update_time is not set after a delete"},
	{"contradictions", "deleted at its time, then created", "committed @12 (never) (@12)", "the protocol says that update_time is not set after a delete"},
	{"contradictions", "deleted at its time, created, then set at its time", "committed @16 (never) (@16) (@16)", "the protocol says that update_time is not set after a delete"},
	{"contradictions", "deleted at its time, set, then set at its time", "committed @17 (never) (@17) (@17)", "the protocol says that update_time is not set after a delete"},
	{"sums-of-selected", "up to 0", "InvalidArgument", "the protocol says that up_to is greater than zero"},
	{"sums-of-selected", "up to 0 and a sum", "InvalidArgument", "the protocol says that up_to is greater than zero"},
	{"requests", "agg up to 0", "INVALID_ARGUMENT", "the protocol says that up_to is greater than zero"},
	{"update-times", "nothing is committed at a time", "true", "the protocol says that a commit has a time, and clients read it unchecked"},
	{"read-only", "is at a time", "true", "the protocol says that a commit has a time, and clients read it unchecked"},

	// What fails inside of the official emulator.
	{"listen-targets", "a negative target", "[InvalidArgument]", "the official emulator fails without a code"},
	{"listen-targets", "the smallest target", "[InvalidArgument]", "the official emulator fails without a code"},

	// What the official emulator can't do, or does in a way that is its own.
	{"lists", "in order of names, down", "[[c/z{} c/b{n=2} c/a{m=2 n=1}]]", "production does this with an index"},
	{"groups", "group c below by name down", "[d/1/e/2/c/4 d/1/c/3 c/1/c/2 c/1]", "production does this with an index"},
	{"groups", "group c below the last by name", "[d/1/e/2/c/4 d/1/c/3]", "production does this with an index"},
	{"windows", "by name down", "[c/g c/f c/e c/d c/c c/b c/a]", "production does this with an index"},
	{"order-of-names", "down", "[c/😀 c/ﬀ c/é c/~ c/b c/aa c/a- c/a c/__a c/A c/9 c/10 c/0 c/\tb c/__id10__ c/__id9__ c/__id-1__]", "production does this with an index"},
	{"sums-in-order", "sum of v v = 1 by name", "{s=1}", "production's index has what is compared for equality before the name, and the web SDK's suite expects the sum"},
	{"sums-in-order", "sum of v v = 1 by name, limit", "{s=1}", "production's index has what is compared for equality before the name, and the web SDK's suite expects the sum"},
	{"sums-in-order", "sum of v v = 1 by name at a", "{s=1}", "production's index has what is compared for equality before the name, and the web SDK's suite expects the sum"},
	{"sums-in-order", "sum of v w = 1 and v = 1 by name", "{s=0}", "production's index has what is compared for equality before the name, and the web SDK's suite expects the sum"},
	{"aggregation-requests", "six", "InvalidArgument", "the official emulator refuses it without a code"},
	{"lists", "a bad token", "InvalidArgument", "the official emulator refuses it without a code"},
	{"sizes", "a commit of about 10 MiB", "InvalidArgument", "the official emulator's transport ends at 4 MiB, production's limit is 10 MiB"},
	{"lists", "pages of one", "[[c/a{m=2 n=1}] [c/b{n=2}] [c/z{}]]", "the official emulator gives a token wherever a page is full, though nothing follows"},
	{"lists", "one full page", "[[c/a{m=2 n=1} c/b{n=2} c/z{}]]", "the official emulator gives a token wherever a page is full, though nothing follows"},
	{"large-lists", "documents on a page of 0", "300", "the server chooses; a client reads on by the token"},
	{"large-lists", "documents on a page of 350", "300", "the server chooses; a client reads on by the token"},
	{"large-lists", "documents on a page of 1000", "300", "the server chooses; a client reads on by the token"},

	// Requests over REST, one by one.
	{"requests", "query group root order name desc", `[{"document":{"createTime":"T","fields":{"arr":{"arrayValue":{"values":[{"integerValue":"1"},{"integerValue":"2"}]}},"d":{"doubleValue":8.2}},"name":"{db}/documents/q/e","updateTime":"T"},"readTime":"T"}]`, "production does this with an index"},
	{"requests", "query order name desc", `[{"document":{"createTime":"T","fields":{"arr":{"arrayValue":{"values":[{"integerValue":"1"},{"integerValue":"2"}]}},"d":{"doubleValue":8.2}},"name":"{db}/documents/q/e","updateTime":"T"},"readTime":"T"},{"document":{"createTime":"T","fields":{"d":{"doubleValue":7.1},"y":{"integerValue":"1"}},"name":"{db}/documents/q/d","updateTime":"T"},"readTime":"T"},{"document":{"createTime":"T","fields":{"d":{"doubleValue":6},"x":{"integerValue":"1"},"y":{"integerValue":"3"}},"name":"{db}/documents/q/c","updateTime":"T"},"readTime":"T"},{"document":{"createTime":"T","fields":{"d":{"doubleValue":5.9},"x":{"integerValue":"5"},"y":{"integerValue":"2"}},"name":"{db}/documents/q/b","updateTime":"T"},"readTime":"T"},{"document":{"createTime":"T","fields":{"d":{"doubleValue":4.8},"t":{"stringValue":"s"},"x":{"integerValue":"9"},"y":{"integerValue":"1"}},"name":"{db}/documents/q/a","updateTime":"T"},"readTime":"T"}]`, "production does this with an index"},
	{"requests", "agg six", "INVALID_ARGUMENT", "the official emulator refuses it without a code"},
	{"requests", "query select none", `[{"document":{"createTime":"T","fields":{"d":{"doubleValue":4.8},"t":{"stringValue":"s"},"x":{"integerValue":"9"},"y":{"integerValue":"1"}},"name":"{db}/documents/q/a","updateTime":"T"},"readTime":"T"},{"document":{"createTime":"T","fields":{"d":{"doubleValue":5.9},"x":{"integerValue":"5"},"y":{"integerValue":"2"}},"name":"{db}/documents/q/b","updateTime":"T"},"readTime":"T"},{"document":{"createTime":"T","fields":{"d":{"doubleValue":6},"x":{"integerValue":"1"},"y":{"integerValue":"3"}},"name":"{db}/documents/q/c","updateTime":"T"},"readTime":"T"},{"document":{"createTime":"T","fields":{"d":{"doubleValue":7.1},"y":{"integerValue":"1"}},"name":"{db}/documents/q/d","updateTime":"T"},"readTime":"T"},{"document":{"createTime":"T","fields":{"arr":{"arrayValue":{"values":[{"integerValue":"1"},{"integerValue":"2"}]}},"d":{"doubleValue":8.2}},"name":"{db}/documents/q/e","updateTime":"T"},"readTime":"T"}]`, "the protocol says that an empty projection returns all fields; clients ask for __name__"},
	{"requests", "query find nearest", "UNIMPLEMENTED", "vector search has no use for counters; the official emulator ignores the vector and finds nothing"},
	{"requests", "query explain", "UNIMPLEMENTED", "nothing to explain: there are no indexes here; the official emulator ignores the wish"},
	{"requests", "query explain plan", "UNIMPLEMENTED", "see above"},
	{"requests", "agg explain", "UNIMPLEMENTED", "see above"},
	{"requests", "partition", `{"partitions":[{"before":true,"values":[{"referenceValue":"{db}/documents/q/a/q/n"}]},{"before":true,"values":[{"referenceValue":"{db}/documents/q/c"}]},{"before":true,"values":[{"referenceValue":"{db}/documents/q/d"}]}]}`, "the official emulator has no PartitionQuery"},
	{"requests", "get old", "FAILED_PRECONDITION", "the official emulator misreads times in a URL"},
	{"requests", "patch -0", `{"createTime":"T","fields":{"a":{"doubleValue":-0}},"name":"{db}/documents/w/u","updateTime":"T"}`, "-0.0 is a double of its own"},
	{"requests", "patch updateTime later", "INVALID_ARGUMENT", "the official emulator misreads times in a URL"},
	{"requests", "patch updateTime missing doc", "FAILED_PRECONDITION", "see above"},
	{"requests", "patch mask name", "INVALID_ARGUMENT", "__name__ is reserved, and no field of a document"},
	{"requests", "commit empty", `{"commitTime":"T"}`, "the protocol says that a commit has a time, and clients read it unchecked"},
	{"requests", "commit no body", `{"commitTime":"T"}`, "see above"},
	{"requests", "commit other db", "INVALID_ARGUMENT", "a commit is of one database"},
	{"requests", "commit other project", "INVALID_ARGUMENT", "a commit is of one database"},
	{"requests", "commit transform name", "INVALID_ARGUMENT", "__name__ is reserved, and no field of a document"},
	{"requests", "commit union array", "INVALID_ARGUMENT", "arrays can't hold arrays, whichever way they come"},
	{"requests", "commit 1970 precond", "INVALID_ARGUMENT", "no version is of 1970"},
	{"requests", "commit empty tx", `{"commitTime":"T"}`, "the protocol says that a commit has a time, and clients read it unchecked"},
	{"requests", "batchGet other db", "INVALID_ARGUMENT", "a request is of one database"},
	{"requests", "list page", `{"documents":[{"createTime":"T","fields":{"n":{"integerValue":"1"}},"name":"{db}/documents/x/y/z/1","updateTime":"T"}]}`, "the official emulator gives a token wherever a page is full, though nothing follows"},
	{"requests", "list bad token", "INVALID_ARGUMENT", "the official emulator refuses it without a code"},
	{"requests", "ids bad token", "INVALID_ARGUMENT", "the official emulator refuses it without a code"},
	{"requests", "trailing slash", `{"createTime":"T","fields":{"n":{"integerValue":"2"}},"name":"{db}/documents/w/b","updateTime":"T"}`, "a slash at the end means nothing here; the official emulator lists a collection without a name"},
}
