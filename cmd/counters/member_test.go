package main

import (
	"testing"
)

// Members on the command line. Each row is a command, what it prints, and its error.
func TestMemberCommands(t *testing.T) {
	firestore := startFirestore(t)
	says(t, false, []row{
		{args: "create post --shards 4"},
		{args: "join post total alice", out: "alice joined, total of post\n"},
		{args: "join post total alice", out: "alice was there already, total of post\n"},
		{args: "join post total bob --json", out: `{"counted":true,"counter":"post","field":"total","member":"bob"}` + "\n"},
		{args: "join post total dora --hold 10m", out: "dora joined, total of post, held until 2"},
		{args: "members post total", out: ", held until 2"},
		{args: "join post total dora --hold 1h --json", out: `"field":"total","member":"dora","until":"2`},
		{args: "join post total dora", out: "dora was there already, total of post\n"}, // which confirms
		{args: "join post total dora --hold 1h", out: "dora was there already, total of post\n"},
		{args: "leave post total dora", out: "dora left, total of post\n"},
		{args: "join post total dora --hold 1ms", err: "want 1s to 720h0m0s"},
		{args: "join post total dora --hold -1s", err: "want 1s to 720h0m0s"},
		{args: "leave post total carol", out: "carol was not there, total of post\n"},
		{args: "join post total a/b", err: "slash"},
		{args: "join post likes alice", err: `"likes" is not counted; want one of total`},
		{args: "join unknown total alice", err: "not found"},
		{args: "join post alice", err: "2 arguments, want: counters join ID FIELD MEMBER"},
		{args: "members post total", out: "alice\t2"},
		{args: "members post total --json", out: `{"member":"alice","at":"2`},
		{args: "members post total --count", out: "2\n"},
		{args: "members post likes", err: "not counted"},
		{args: "members post likes --count", err: "is not counted"},
		{args: "inc post --by 3", out: "post +3\n"},
		{args: "audit post", out: "total: 5 = 2 members + 3 of other increments; the total shown is 0\n"},
		{args: "audit post --json", out: `{"counter":"post","fields":[{"field":"total","shards":5,"members":2,"otherwise":3,"base":0,"exact":5,"total":0}]}` + "\n"},
		{args: "audit post --otherwise 3", out: "3 of other increments"},
		{args: "audit post --otherwise 0", out: "3 of other increments", err: "total holds 2 members and 3 of other increments, want 0"},
		{args: "audit unknown", err: "not found"},
		{args: "leave post total alice", out: "alice left, total of post\n"},
		{args: "resize post --shards 1 --keep-shards", out: "post has 1 shard, 3 moved\n"},
		{args: "reset post --yes", err: "the counter has members; --members=remove takes them off first"},
		{args: "reset post --yes --members=keep", err: "--members=keep: want refuse or remove"},
		{args: "audit post --otherwise 3", out: "1 member + 3 of other increments"},
		{args: "reset post --yes --members=remove", out: "post is 0 in "},
		{args: "audit post --otherwise 0", out: "total: 0 = 0 members + 0 of other increments; the shards hold 4, and the base is -4; the total shown matches\n"},
		{args: "join post total bob", out: "bob joined"},
		{args: "delete post --yes", out: "deleted post"},
		{args: "create post --shards 4"},
		{args: "members post total --count", out: "0\n"},
	})
	if shards, err := firestore.Client(t, "demo-counters").Collection("counters/post/shards").Documents(t.Context()).GetAll(); err != nil || len(shards) != 4 {
		t.Errorf("%d shards, %v", len(shards), err)
	}
}
