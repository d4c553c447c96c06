//go:build all

package firestore

import (
	"math"
	"slices"
	"strings"
	"time"
)

const (
	counter = "counters/c"
	post    = "posts/p"
	seats   = "counters/seats" // which has a limit
	tour    = "posts/tour"     // likes have one

	uuid  = "0f0f0f0f-1111-4222-8333-444444444444"
	fresh = uuid + ":" + alice                                   // a request of alice's that nobody has made
	spent = "5e5e5e5e-1111-4222-8333-444444444444" + ":" + alice // one that has moved shard 0 of the counter, and another one since
	views = "71717171-1111-4222-8333-444444444444" + ":" + alice // the same of the post
	other = "0d0d0d0d-1111-4222-8333-444444444444" + ":" + alice // the later one of both, which has expired and is gone
)

// marker is the id of a key's marker, as package shards makes it.
var marker = strings.Repeat("0123456789abcdef", 4)

// held is the record of a hold, as package hold makes it.
var held = "counter_rollup/" + marker + "/counter_requests/" + marker

// mine is a document of the app's, wherever it has a collection of that name: clients may write it.
// The tests add it to the rules.
const mine = "scratch/s"

const scratch = `
    match /{path=**}/scratch/{document} {
      allow read, write: if request.auth != null;
    }
`

// client makes documents and increments that are given a time when the test starts.
type client struct{ now time.Time }

func (c client) in(d time.Duration) time.Time { return c.now.Add(d) }

const day = 24 * time.Hour

// membership is what a client writes to join.
func membership(tree, field, user string, shard any) write {
	return set(tree+"/"+field+"_members/"+user, fields{"member": user, "shard": shard}).also(serverTime("at"))
}

// joining is the batch by which a user counts once, on this shard; by moves the shard's field.
func joining(tree, field, counted, user, shard string, by any) []write {
	return []write{membership(tree, field, user, shard), add(tree+"/shards/"+shard, counted, by)}
}

// leaving is the batch by which a user takes that back.
func leaving(tree, field, counted, user, shard string, by any) []write {
	return []write{remove(tree + "/" + field + "_members/" + user), add(tree+"/shards/"+shard, counted, by)}
}

// request is what makes an increment safe to repeat that belongs to no user.
func request(id, tree, shard string, expire any) write {
	return set("counter_requests/"+id, fields{"shard": ref(tree + "/shards/" + shard), "expire_at": expire})
}

// asked moves a shard's field for a request.
func asked(id, tree, shard, counted string, by any) write {
	return update(tree+"/shards/"+shard, fields{"request": id}).also(increment(counted, by))
}

// asking is the batch of both.
func (c client) asking(id, tree, shard, counted string, by any) []write {
	return []write{request(id, tree, shard, c.in(30*day)), asked(id, tree, shard, counted, by)}
}

// world are the documents that each case begins with.
func (c client) world() []write {
	long := c.in(-time.Hour)
	w := []write{
		set(counter, fields{"total": 12, "num_shards": 2}),
		set(counter+"/shards/0", fields{"count": 5, "request": other}),
		set(counter+"/shards/1", fields{"count": 7}),
		set(counter+"/shards/2", fields{"count": 5.0}),
		set(counter+"/shards/3", fields{}),
		set(counter+"/shards/4", fields{"count": "5"}),
		set(counter+"/shards/5", fields{"count": math.MaxInt64}),
		set(counter+"/shards/6", fields{"count": 5, "likes": 5}), // of other FIELDS
		set(counter+"/shards/0/"+mine, fields{"count": 5}),
		set(counter+"/counter_rollup/base", fields{"base": 0, "count": 5}),
		set(post, fields{"title": "A title", "author": alice, "likes": 8, "bookmarks": 7, "views": 6, "counter_rollup": fields{"counter": "l", "num_shards": 10}}),
		set(post+"/shards/0", fields{"likes": 5, "bookmarks": 5, "views": 5, "request": other}),
		set(post+"/shards/1", fields{"likes": 3, "bookmarks": 2, "views": 1}),
		set(post+"/shards/2", fields{}),
		set(post+"/shards/3", fields{"likes": 5, "bookmarks": 5, "views": 5, "stars": 5}),
		set(post+"/counter_rollup/base", fields{"base": 0}),
		set(seats, fields{"total": 2, "total_limit": 9, "num_shards": 1}),
		set(seats+"/shards/count~0", fields{"count": 2, "members(count)": 1, "share(count)": 9}),
		set(seats+"/shards/1", fields{"count": 1, "share(count)": 9}), // as no version makes it
		set(tour, fields{"title": "A title", "likes": 2}),
		set(tour+"/shards/likes~0", fields{"likes": 2, "members(likes)": 1, "share(likes)": 9, "views": 1}),
		set("posts/double", fields{"title": "A title", "likes": 8.0, "counter_rollup": fields{"num_shards": 10.0}}),
		set("posts/double/shards/0", fields{"likes": 5, "bookmarks": 5.0}),
		set("counter_requests/"+spent, fields{"shard": ref(counter + "/shards/0"), "expire_at": c.in(30 * day)}),
		set("counter_requests/"+views, fields{"shard": ref(post + "/shards/0"), "expire_at": c.in(30 * day)}),
		set("counter_requests/"+marker, fields{"batch": "b", "asked": "a", "expire_at": c.in(30 * day)}),
		set("counter_rollup/reconcile", fields{"count": 5}),
		set(held, fields{"counter": "a", "field": "count", "amount": 5, "state": "held", "until": c.in(day)}),
		set("users/u", fields{"count": 5}),
		set(mine, fields{"count": 5}),
	}
	for members, shard := range map[string]string{seats + "/total_members/": "count~0", tour + "/likes_members/": "likes~0"} {
		w = append(w, set(members+bob, fields{"member": bob, "at": long, "shard": shard, "batch": "b"}))
	}
	for _, members := range []string{counter + "/total_members/", post + "/likes_members/", post + "/bookmarks_members/"} {
		w = append(w,
			set(members+bob, fields{"member": bob, "at": long, "shard": "0"}),
			set(members+carol, fields{"member": carol, "at": long, "shard": "9"}),
			set(members+dave, fields{"member": dave, "at": long, "shard": "1", "batch": "b"}))
	}
	return w
}

// attempt is a read or a batch of one user, and whether the rules let it pass.
type attempt struct {
	name, user string
	get        string  // a document or a collection that is read; a batch otherwise
	before     []write // a batch that the same user wrote before, with success
	writes     []write
	plain      bool // allowed by the file as it stands
	clients    bool // allowed by it with the lines for clients
}

func (c client) attempts() []attempt {
	const no, yes = false, true
	shard := counter + "/shards/"
	join := func(user, n string) []write { return joining(counter, "total", "count", user, n, 1) }
	leave := func(user, n string) []write { return leaving(counter, "total", "count", user, n, -1) }
	like := func(user, n string) []write { return joining(post, "likes", "likes", user, n, 1) }
	mark := func(user, n string) []write { return joining(post, "bookmarks", "bookmarks", user, n, 1) }
	ask := func(id, n string) []write { return c.asking(id, counter, n, "count", 1) }
	see := func(id, n string) []write { return c.asking(id, post, n, "views", 1) }
	both := slices.Concat[[]write]
	one := func(w write) []write { return []write{w} }

	// expiring is an increment by request whose expire_at is this.
	expiring := func(at any) []write {
		return []write{request(fresh, counter, "0", at), asked(fresh, counter, "0", "count", 1)}
	}
	// named is one whose request has this id.
	named := func(id string) []write { return ask(id, "0") }
	// written is a join whose membership is written like this.
	written := func(w write) []write { return []write{w, add(shard+"0", "count", 1)} }
	ofAlice := counter + "/total_members/" + alice

	return []attempt{
		// What stands without clients that count.
		{"get a counter", nobody, counter, nil, nil, yes, yes},
		{"get a counter, signed in", alice, counter, nil, nil, yes, yes},
		{"list counters", alice, "counters", nil, nil, no, no},
		{"get a shard", alice, shard + "0", nil, nil, no, no},
		{"list shards", alice, counter + "/shards", nil, nil, no, no},
		{"get the base", alice, counter + "/counter_rollup/base", nil, nil, no, no},
		{"get where Reconcile stopped", alice, "counter_rollup/reconcile", nil, nil, no, no},
		{"get something else", alice, "users/u", nil, nil, no, no},
		{"set a total", alice, "", nil, one(update(counter, fields{"total": 9})), no, no},
		{"increment a total", alice, "", nil, one(add(counter, "total", 1)), no, no},
		{"set the number of shards", alice, "", nil, one(update(counter, fields{"num_shards": 9})), no, no},
		{"create a counter", alice, "", nil, one(set("counters/new", fields{"total": 0, "num_shards": 1})), no, no},
		{"delete a counter", alice, "", nil, one(remove(counter)), no, no},
		{"write the base", alice, "", nil, one(update(counter+"/counter_rollup/base", fields{"base": 9})), no, no},
		{"increment the base", alice, "", nil, one(add(counter+"/counter_rollup/base", "count", 1)), no, no},
		{"write where Reconcile stopped", alice, "", nil, one(set("counter_rollup/reconcile", fields{"x": 1})), no, no},
		{"get a hold", alice, held, nil, nil, no, no},
		{"hold an amount", alice, "", nil, one(set(held+"0", fields{"counter": "a", "field": "count", "amount": 5, "state": "held", "until": c.in(day)})), no, no},
		{"settle a hold", alice, "", nil, one(update(held, fields{"state": "settled", "used": 0})), no, no},
		{"end a hold by its time", alice, "", nil, one(update(held, fields{"until": c.in(-day)})), no, no},
		{"delete a hold", alice, "", nil, one(remove(held)), no, no},

		// A shard, without anything that says who moved it.
		{"a bare +1", alice, "", nil, one(add(shard+"0", "count", 1)), no, no},
		{"a bare -1", alice, "", nil, one(add(shard+"0", "count", -1)), no, no},
		{"a bare +1, not signed in", nobody, "", nil, one(add(shard+"0", "count", 1)), no, no},
		{"a bare +1 of a member, on its membership's shard", bob, "", nil, one(add(shard+"0", "count", 1)), no, no},
		{"a bare -1 of a member, on its membership's shard", bob, "", nil, one(add(shard+"0", "count", -1)), no, no},
		{"a bare +2", alice, "", nil, one(add(shard+"0", "count", 2)), no, no},
		{"set a shard", alice, "", nil, one(update(shard+"0", fields{"count": 6})), no, no},
		{"replace a shard", alice, "", nil, one(set(shard+"0", fields{"count": 6, "by": "me"})), no, no},
		{"delete a shard", alice, "", nil, one(remove(shard + "1")), no, no},
		{"delete a shard of a membership, which sends the undo to 0", bob, "", nil, one(remove(shard + "0")), no, no},
		{"create a shard", alice, "", nil, one(set(shard+"10", fields{"count": 0})), no, no},
		{"create a shard at 1, with its membership", alice, "", nil, []write{membership(counter, "total", alice, "10"), set(shard+"10", fields{"count": 1})}, no, no},
		{"+1 on a shard that is not there, with its membership", alice, "", nil, join(alice, "10"), no, no},
		{"a shard's request alone", alice, "", nil, one(update(shard+"0", fields{"request": fresh})), no, no},

		// Once per user.
		{"join", alice, "", nil, join(alice, "0"), no, yes},
		{"join on another shard", alice, "", nil, join(alice, "1"), no, yes},
		{"join, the shard before the membership", alice, "", nil, reversed(join(alice, "1")), no, yes},
		{"join on a shard that holds nothing yet", alice, "", nil, join(alice, "3"), no, yes},
		{"join by setting the number", alice, "", nil, []write{membership(counter, "total", alice, "0"), update(shard+"0", fields{"count": 6})}, no, yes},
		{"join, not signed in", nobody, "", nil, join(alice, "0"), no, no},
		{"the same join twice", alice, "", join(alice, "0"), join(alice, "0"), no, no},
		{"join a second time, on another shard", alice, "", join(alice, "0"), join(alice, "1"), no, no},
		{"join where Increment has joined", dave, "", nil, join(dave, "0"), no, no},
		{"join, leave, and join again", alice, "", both(join(alice, "0")), join(alice, "1"), no, no},
		{"a membership without its shard", alice, "", nil, one(membership(counter, "total", alice, "0")), no, no},
		{"a membership whose shard another one moves", alice, "", nil, []write{membership(counter, "total", alice, "1"), add(shard+"0", "count", 1)}, no, no},
		{"a membership, and a second shard that moves", alice, "", nil, append(join(alice, "0"), add(shard+"1", "count", 1)), no, no},
		{"join with +2", alice, "", nil, joining(counter, "total", "count", alice, "0", 2), no, no},
		{"join with -1", alice, "", nil, joining(counter, "total", "count", alice, "0", -1), no, no},
		{"join with +0", alice, "", nil, joining(counter, "total", "count", alice, "0", 0), no, no},
		{"join with +1 twice, which is +2", alice, "", nil, append(join(alice, "0"), add(shard+"0", "count", 1)), no, no},
		{"join with +1.0, which makes the shard a double", alice, "", nil, joining(counter, "total", "count", alice, "0", 1.0), no, no},
		{"join on a shard that is a double", alice, "", nil, join(alice, "2"), no, no},
		{"join on a shard that holds a text", alice, "", nil, join(alice, "4"), no, no},
		{"join on a shard that is full", alice, "", nil, join(alice, "5"), no, no},
		{"join and another field of the shard", alice, "", nil, []write{membership(counter, "total", alice, "0"), add(shard+"0", "count", 1), update(shard+"0", fields{"by": "me"})}, no, no},
		{"join and make another field of the shard a double", alice, "", nil, append(join(alice, "6"), add(shard+"6", "likes", 0.0)), no, no},
		{"join on a shard with a field that the rules don't name", alice, "", nil, join(alice, "6"), no, no},
		{"by request, and make another field of the shard a double", alice, "", nil, append(ask(fresh, "6"), add(shard+"6", "likes", 0.0)), no, no},
		{"join and a second count of the shard", alice, "", nil, []write{membership(counter, "total", alice, "0"), add(shard+"0", "count", 1).also(increment("likes", 1))}, no, no},
		{"join and take a field from the shard", alice, "", nil, []write{membership(counter, "total", alice, "0"), set(shard+"0", fields{"count": 6})}, no, no},
		{"join for another", alice, "", nil, join(bob+"2", "0"), no, no},
		{"join for another, with one's own", alice, "", nil, append(join(alice, "0"), membership(counter, "total", "eve", "0")), no, no},
		{"join in another's name", alice, "", nil, written(set(ofAlice, fields{"member": bob, "shard": "0"}).also(serverTime("at"))), no, no},
		{"join without a name", alice, "", nil, written(set(ofAlice, fields{"shard": "0"}).also(serverTime("at"))), no, no},
		{"join without a shard's name", alice, "", nil, written(set(ofAlice, fields{"member": alice}).also(serverTime("at"))), no, no},
		{"join with a number for the shard's name", alice, "", nil, written(membership(counter, "total", alice, 0)), no, no},
		{"join without a time", alice, "", nil, written(set(ofAlice, fields{"member": alice, "shard": "0"})), no, no},
		{"join with the client's time", alice, "", nil, written(set(ofAlice, fields{"member": alice, "shard": "0", "at": c.now})), no, no},
		{"join with a batch, as Increment does", alice, "", nil, written(set(ofAlice, fields{"member": alice, "shard": "0", "batch": "b"}).also(serverTime("at"))), no, no},
		{"join on a document of one's own below a shard", alice, "", nil, []write{membership(counter, "total", alice, "0/"+mine), add(shard+"0/"+mine, "count", 1)}, no, no},
		{"join a field that nobody counts", alice, "", nil, joining(counter, "stars", "count", alice, "0", 1), no, no},
		{"join two fields with one +1", alice, "", nil, append(join(alice, "0"), membership(counter, "stars", alice, "0")), no, no},
		{"change one's membership", bob, "", nil, one(update(counter+"/total_members/"+bob, fields{"shard": "1"})), no, no},
		{"move one's membership to another shard", bob, "", nil, []write{update(counter+"/total_members/"+bob, fields{"shard": "1"}), add(shard+"0", "count", -1), add(shard+"1", "count", 1)}, no, no},
		{"leave and join in one batch", bob, "", nil, append([]write{remove(counter + "/total_members/" + bob), membership(counter, "total", bob, "0")}, add(shard+"0", "count", 1)), no, no},
		{"leave and join in one batch, on two shards", bob, "", nil, both(leave(bob, "0"), join(bob, "1")), no, no},
		{"join, leave and join in one batch", alice, "", nil, both(join(alice, "0"), leave(alice, "0"), join(alice, "1")), no, no},
		{"get one's membership", bob, counter + "/total_members/" + bob, nil, nil, no, yes},
		{"get another's membership", alice, counter + "/total_members/" + bob, nil, nil, no, no},
		{"get a membership, not signed in", nobody, counter + "/total_members/" + bob, nil, nil, no, no},
		{"list memberships", bob, counter + "/total_members", nil, nil, no, no},

		// And taken back.
		{"leave", bob, "", nil, leave(bob, "0"), no, yes},
		{"leave after a join", alice, "", join(alice, "1"), leave(alice, "1"), no, yes},
		{"leave where Increment has joined", dave, "", nil, leave(dave, "1"), no, yes},
		{"leave where the shard is gone", carol, "", nil, leave(carol, "0"), no, yes},
		{"leave where the shard is gone, on another one than 0", carol, "", nil, leave(carol, "1"), no, no},
		{"the same leave twice", bob, "", leave(bob, "0"), leave(bob, "0"), no, no},
		{"leave what one has not joined", alice, "", nil, leave(alice, "0"), no, no},
		{"leave on the wrong shard", bob, "", nil, leave(bob, "1"), no, no},
		{"leave on 0 while the shard is there", dave, "", nil, leave(dave, "0"), no, no},
		{"leave, and a second shard that moves", bob, "", nil, append(leave(bob, "0"), add(shard+"1", "count", -1)), no, no},
		{"leave without the shard", bob, "", nil, one(remove(counter + "/total_members/" + bob)), no, no},
		{"leave with -2", bob, "", nil, leaving(counter, "total", "count", bob, "0", -2), no, no},
		{"leave with +1", bob, "", nil, leaving(counter, "total", "count", bob, "0", 1), no, no},
		{"leave with -1.0", bob, "", nil, leaving(counter, "total", "count", bob, "0", -1.0), no, no},
		{"leave and another field of the shard", bob, "", nil, append(leave(bob, "0"), update(shard+"0", fields{"by": "me"})), no, no},
		{"leave for another", alice, "", nil, leave(bob, "0"), no, no},
		{"leave for another, with one's own", bob, "", nil, append(leave(bob, "0"), remove(counter+"/total_members/"+carol)), no, no},
		{"leave for another on the same shard, with one's own", carol, "", nil, append(leave(carol, "0"), remove(counter+"/total_members/"+bob)), no, no},
		{"leave, not signed in", nobody, "", nil, leave(bob, "0"), no, no},

		// By request, for what belongs to no user.
		{"an increment by request", alice, "", nil, ask(fresh, "0"), no, yes},
		{"the same, the shard before the request", alice, "", nil, reversed(ask(fresh, "0")), no, yes},
		{"the same on a shard that has had none", alice, "", nil, ask(fresh, "1"), no, yes},
		{"the same by a member", bob, "", nil, ask(uuid+":"+bob, "0"), no, yes},
		{"a request of another's", bob, "", nil, ask(fresh, "0"), no, no},
		{"a request of somebody whose uid begins with one's own", alice, "", nil, named(fresh + "2"), no, no},
		{"a request of somebody whose uid ends with one's own", alice, "", nil, named(uuid + ":2" + alice), no, no},
		{"the same that expires tomorrow", alice, "", nil, expiring(c.in(day)), no, yes},
		{"the same, not signed in", nobody, "", nil, ask(fresh, "0"), no, no},
		{"the same request twice", alice, "", ask(fresh, "0"), ask(fresh, "0"), no, no},
		{"the same request on another shard", alice, "", ask(fresh, "0"), ask(fresh, "1"), no, no},
		{"a request that is spent, made again", alice, "", nil, ask(spent, "0"), no, no},
		{"a request that is spent, by the shard alone", alice, "", nil, one(asked(spent, counter, "0", "count", 1)), no, no},
		{"a request without its shard", alice, "", nil, one(request(fresh, counter, "0", c.in(30*day))), no, no},
		{"a request that is gone, made again without its shard, which names it still", alice, "", nil, one(request(other, counter, "0", c.in(30*day))), no, no},
		{"a request that the shard does not name", alice, "", nil, []write{request(fresh, counter, "0", c.in(30*day)), add(shard+"0", "count", 1)}, no, no},
		{"a shard whose request is not made", alice, "", nil, one(asked(fresh, counter, "0", "count", 1)), no, no},
		{"one request for two shards", alice, "", nil, append(ask(fresh, "0"), asked(fresh, counter, "1", "count", 1)), no, no},
		{"one request for two documents", alice, "", nil, append(ask(fresh, "0"), asked(fresh, post, "0", "views", 1)), no, no},
		{"a request for another shard", alice, "", nil, []write{request(fresh, counter, "1", c.in(30*day)), asked(fresh, counter, "0", "count", 1)}, no, no},
		{"two requests for one +1", alice, "", nil, append(ask(fresh, "0"), request(other, counter, "0", c.in(30*day))), no, no},
		{"two requests, two shards", alice, "", nil, append(ask(fresh, "0"), ask(other, "1")...), no, yes},
		{"+2 by request", alice, "", nil, c.asking(fresh, counter, "0", "count", 2), no, no},
		{"-1 by request", alice, "", nil, c.asking(fresh, counter, "0", "count", -1), no, no},
		{"+0 by request", alice, "", nil, c.asking(fresh, counter, "0", "count", 0), no, no},
		{"+1.0 by request", alice, "", nil, c.asking(fresh, counter, "0", "count", 1.0), no, no},
		{"+1 twice by request", alice, "", nil, append(ask(fresh, "0"), add(shard+"0", "count", 1)), no, no},
		{"by request on a shard that is a double", alice, "", nil, ask(fresh, "2"), no, no},
		{"by request on a shard that is not there", alice, "", nil, ask(fresh, "10"), no, no},
		{"by request, and another field of the shard", alice, "", nil, append(ask(fresh, "0"), update(shard+"0", fields{"by": "me"})), no, no},
		{"a join and a request for one +1", alice, "", nil, append(join(alice, "0"), ask(fresh, "0")[0], update(shard+"0", fields{"request": fresh})), no, no},
		{"a request that never expires", alice, "", nil, []write{set("counter_requests/"+fresh, fields{"shard": ref(shard + "0")}), asked(fresh, counter, "0", "count", 1)}, no, no},
		{"a request that expires in 31 days", alice, "", nil, expiring(c.in(31 * day)), no, yes},
		{"a request that expires in 33 days", alice, "", nil, expiring(c.in(33 * day)), no, no},
		{"a request that has expired", alice, "", nil, expiring(c.in(-time.Minute)), no, no},
		{"a request that expires on a text's day", alice, "", nil, expiring("2099-01-01T00:00:00Z"), no, no},
		{"a request that expires by a number", alice, "", nil, expiring(int(c.in(day).Unix())), no, no},
		{"a request with another field", alice, "", nil, []write{set("counter_requests/"+fresh, fields{"shard": ref(shard + "0"), "expire_at": c.in(day), "batch": "b"}), asked(fresh, counter, "0", "count", 1)}, no, no},
		{"a request whose shard is a text", alice, "", nil, []write{set("counter_requests/"+fresh, fields{"shard": "0", "expire_at": c.in(day)}), asked(fresh, counter, "0", "count", 1)}, no, no},
		{"a request that is not a UUID", alice, "", nil, named("r"), no, no},
		{"a request that is one's uid", alice, "", nil, named(alice), no, no},
		{"a request of nobody", alice, "", nil, named(uuid), no, no},
		{"a request of nobody, not signed in", nobody, "", nil, named(uuid + ":"), no, no},
		{"a request like a marker of ours", alice, "", nil, named(strings.Replace(marker, "0123", "3210", 1)), no, no},
		{"a request in upper case", alice, "", nil, named(strings.ToUpper(uuid) + ":" + alice), no, no},
		{"a request that begins with a UUID", alice, "", nil, named(uuid + "0:" + alice), no, no},
		{"a request that ends with a UUID", alice, "", nil, named("0" + fresh), no, no},
		{"a request that is spent on a document of one's own: nothing is counted", alice, "", nil, []write{set("counter_requests/"+fresh, fields{"shard": ref(mine), "expire_at": c.in(day)}), update(mine, fields{"request": fresh})}, no, yes},
		{"prolong a request", alice, "", nil, one(update("counter_requests/"+spent, fields{"expire_at": c.in(31 * day)})), no, no},
		{"delete a request", alice, "", nil, one(remove("counter_requests/" + spent)), no, no},
		{"delete a request and make it again", alice, "", nil, both(one(remove("counter_requests/"+spent)), ask(spent, "0")), no, no},
		{"overwrite a marker of ours", alice, "", nil, named(marker), no, no},
		{"delete a marker of ours", alice, "", nil, one(remove("counter_requests/" + marker)), no, no},
		{"get a request", alice, "counter_requests/" + spent, nil, nil, no, yes},
		{"get another's request", bob, "counter_requests/" + spent, nil, nil, no, no},
		{"get a request, not signed in", nobody, "counter_requests/" + spent, nil, nil, no, no},
		{"get a marker of ours", alice, "counter_requests/" + marker, nil, nil, no, no},
		{"list requests", alice, "counter_requests", nil, nil, no, no},

		// Shards of a field with a limit are the functions' alone.
		{"take a seat", alice, "", nil, joining(seats, "total", "count", alice, "count~0", 1), no, no},
		{"take a seat, and say that a member did", alice, "", nil, append(joining(seats, "total", "count", alice, "count~0", 1), add(seats+"/shards/count~0", "`members(count)`", 1)), no, no},
		{"take a seat of a shard with a usual id", alice, "", nil, joining(seats, "total", "count", alice, "1", 1), no, no},
		{"take a seat beside the limit", alice, "", nil, []write{membership(seats, "total", alice, "0"), set(seats+"/shards/0", fields{"count": 1})}, no, no},
		{"take a seat by request", alice, "", nil, c.asking(fresh, seats, "count~0", "count", 1), no, no},
		{"take a seat by request, of a shard with a usual id", alice, "", nil, c.asking(fresh, seats, "1", "count", 1), no, no},
		{"take a seat and nothing else", alice, "", nil, one(add(seats+"/shards/count~0", "count", 1)), no, no},
		{"give a seat back that Increment gave", bob, "", nil, leaving(seats, "total", "count", bob, "count~0", -1), no, no},
		{"give a seat back and keep it", bob, "", nil, one(add(seats+"/shards/count~0", "count", -1)), no, no},
		{"raise a share", bob, "", nil, one(add(seats+"/shards/count~0", "`share(count)`", 1)), no, no},
		{"raise a share with a request", alice, "", nil, c.asking(fresh, seats, "count~0", "`share(count)`", 1), no, no},
		{"raise the limit that is shown", bob, "", nil, one(set(seats, fields{"total_limit": 99}, "total_limit")), no, no},
		{"delete a shard with a share", bob, "", nil, one(remove(seats + "/shards/count~0")), no, no},
		{"like what has a limit", alice, "", nil, joining(tour, "likes", "likes", alice, "likes~0", 1), no, no},
		{"take a like back of what has a limit", bob, "", nil, leaving(tour, "likes", "likes", bob, "likes~0", -1), no, no},
		{"a view by request, beside a share", alice, "", nil, c.asking(fresh, tour, "likes~0", "views", 1), no, no},

		// Documents of the app's own.
		{"get a post", nobody, post, nil, nil, no, yes},
		{"list posts", nobody, "posts", nil, nil, no, yes},
		{"make a post", alice, "", nil, one(set("posts/other", fields{"title": "t", "author": alice})), no, yes},
		{"make a post, not signed in", nobody, "", nil, one(set("posts/other", fields{"title": "t"})), no, no},
		{"make a post with likes", alice, "", nil, one(set("posts/other", fields{"title": "t", "likes": 1000})), no, no},
		{"make a post with no likes", alice, "", nil, one(set("posts/other", fields{"title": "t", "likes": 0})), no, no},
		{"make a post with views", alice, "", nil, one(set("posts/other", fields{"title": "t", "views": 1})), no, no},
		{"make a post with the roll-up's map", alice, "", nil, one(set("posts/other", fields{"title": "t", "counter_rollup": fields{}})), no, no},
		{"make a post and then give it likes", alice, "", nil, []write{set("posts/other", fields{"title": "t"}), update("posts/other", fields{"likes": 9})}, no, no},
		{"write a title", alice, "", nil, one(update(post, fields{"title": "b"})), no, yes},
		{"add a field", alice, "", nil, one(update(post, fields{"body": "b"})), no, yes},
		{"write a title, not signed in", nobody, "", nil, one(update(post, fields{"title": "b"})), no, no},
		{"write likes", alice, "", nil, one(update(post, fields{"likes": 1000})), no, no},
		{"write bookmarks", alice, "", nil, one(update(post, fields{"bookmarks": 1000})), no, no},
		{"increment views", alice, "", nil, one(add(post, "views", 1)), no, no},
		{"write a title and likes", alice, "", nil, one(update(post, fields{"title": "b", "likes": 1000})), no, no},
		{"write in the roll-up's map", alice, "", nil, one(set(post, fields{"counter_rollup": fields{"counter": "x"}}, "counter_rollup.counter")), no, no},
		{"make likes a double", alice, "", nil, one(update(post, fields{"likes": 8.0})), no, no},
		{"make bookmarks a double", alice, "", nil, one(add(post, "bookmarks", 0.0)), no, no},
		{"make views a double", alice, "", nil, one(update(post, fields{"title": "b", "views": 6.0})), no, no},
		{"make the number of shards a double", alice, "", nil, one(set(post, fields{"counter_rollup": fields{"num_shards": 10.0}}, "counter_rollup.num_shards")), no, no},
		{"make the number of shards a double, by an increment", alice, "", nil, one(update(post, fields{"title": "b"}).also(increment("counter_rollup.num_shards", 0.0))), no, no},
		{"write a title where likes are a double", alice, "", nil, one(update("posts/double", fields{"title": "b"})), no, yes},
		{"take likes away", alice, "", nil, one(set(post, fields{}, "likes")), no, no},
		{"replace a post without its counts", alice, "", nil, one(set(post, fields{"title": "b"})), no, no},
		{"replace a post with an old number", alice, "", nil, one(set(post, fields{"title": "b", "likes": 7, "bookmarks": 7, "views": 6, "counter_rollup": fields{"counter": "l"}})), no, no},
		{"replace a post with the numbers that it has", alice, "", nil, one(set(post, fields{"title": "b", "likes": 8, "bookmarks": 7, "views": 6, "counter_rollup": fields{"counter": "l", "num_shards": 10}})), no, yes},
		{"replace a post with a double for its number of shards", alice, "", nil, one(set(post, fields{"title": "b", "likes": 8, "bookmarks": 7, "views": 6, "counter_rollup": fields{"counter": "l", "num_shards": 10.0}})), no, no},
		{"delete a post", alice, "", nil, one(remove(post)), no, yes},
		{"delete a post, not signed in", nobody, "", nil, one(remove(post)), no, no},
		{"delete a post and make it with likes", alice, "", nil, []write{remove(post), set(post, fields{"title": "b", "likes": 1000})}, no, no},
		{"write a post's base", alice, "", nil, one(update(post+"/counter_rollup/base", fields{"base": 9})), no, no},
		{"get a post's shard", alice, post + "/shards/0", nil, nil, no, no},
		{"delete a post's shard", alice, "", nil, one(remove(post + "/shards/0")), no, no},
		{"create a post's shard", alice, "", nil, one(set(post+"/shards/9", fields{"likes": 0})), no, no},

		// Several fields, below those.
		{"like", alice, "", nil, like(alice, "0"), no, yes},
		{"like on a shard that holds nothing yet", alice, "", nil, like(alice, "2"), no, yes},
		{"like and a title in one batch", alice, "", nil, append(like(alice, "0"), update(post, fields{"title": "b"})), no, yes},
		{"like twice", alice, "", like(alice, "0"), like(alice, "0"), no, no},
		{"like and bookmark, on two shards", alice, "", nil, both(like(alice, "0"), mark(alice, "1")), no, yes},
		{"like and bookmark on one shard", alice, "", nil, both(like(alice, "0"), mark(alice, "0")), no, no},
		{"like and make bookmarks a double", alice, "", nil, append(like(alice, "0"), add(post+"/shards/0", "bookmarks", 0.0)), no, no},
		{"like and make bookmarks a double in two steps", alice, "", nil, append(like(alice, "0"), add(post+"/shards/0", "bookmarks", 1.0), add(post+"/shards/0", "bookmarks", -1)), no, no},
		{"bookmark and make likes a double", alice, "", nil, append(mark(alice, "0"), add(post+"/shards/0", "likes", 0.0)), no, no},
		{"a view that makes likes a double", alice, "", nil, append(see(fresh, "0"), add(post+"/shards/0", "likes", 0.0)), no, no},
		{"like and make a field a double that the rules don't name", alice, "", nil, append(like(alice, "3"), add(post+"/shards/3", "stars", 0.0)), no, no},
		{"bookmark and make a field a double that the rules don't name", alice, "", nil, append(mark(alice, "3"), add(post+"/shards/3", "stars", 0.0)), no, no},
		{"a view that makes a field a double that the rules don't name", alice, "", nil, append(see(fresh, "3"), add(post+"/shards/3", "stars", 0.0)), no, no},
		{"like and make views a double", alice, "", nil, append(like(alice, "0"), add(post+"/shards/0", "views", 0.0)), no, no},
		{"like where bookmarks are a double", alice, "", nil, joining("posts/double", "likes", "likes", alice, "0", 1), no, yes},
		{"bookmark where bookmarks are a double", alice, "", nil, joining("posts/double", "bookmarks", "bookmarks", alice, "0", 1), no, no},
		{"like that moves bookmarks", alice, "", nil, joining(post, "likes", "bookmarks", alice, "0", 1), no, no},
		{"like that moves views", alice, "", nil, joining(post, "likes", "views", alice, "0", 1), no, no},
		{"like that moves both", alice, "", nil, []write{membership(post, "likes", alice, "0"), add(post+"/shards/0", "likes", 1).also(increment("bookmarks", 1))}, no, no},
		{"like with +2", alice, "", nil, joining(post, "likes", "likes", alice, "0", 2), no, no},
		{"like without the shard", alice, "", nil, one(membership(post, "likes", alice, "0")), no, no},
		{"like for another, with one's own", alice, "", nil, append(like(alice, "0"), membership(post, "likes", "eve", "0")), no, no},
		{"like, and a second shard that moves", alice, "", nil, append(like(alice, "0"), add(post+"/shards/1", "likes", 1)), no, no},
		{"likes of a shard alone", alice, "", nil, one(add(post+"/shards/0", "likes", 1)), no, no},
		{"likes of a shard alone, by who likes it", bob, "", nil, one(add(post+"/shards/0", "likes", 1)), no, no},
		{"take a like back", bob, "", nil, leaving(post, "likes", "likes", bob, "0", -1), no, yes},
		{"take a like back where the shard is gone", carol, "", nil, leaving(post, "likes", "likes", carol, "0", -1), no, yes},
		{"take a like back that Increment made", dave, "", nil, leaving(post, "likes", "likes", dave, "1", -1), no, yes},
		{"take a like back, on the wrong shard", bob, "", nil, leaving(post, "likes", "likes", bob, "1", -1), no, no},
		{"take a like back, and a second shard that moves", bob, "", nil, append(leaving(post, "likes", "likes", bob, "0", -1), add(post+"/shards/1", "likes", -1)), no, no},
		{"take a like back without the shard", bob, "", nil, one(remove(post + "/likes_members/" + bob)), no, no},
		{"take a like back twice", bob, "", leaving(post, "likes", "likes", bob, "0", -1), leaving(post, "likes", "likes", bob, "0", -1), no, no},
		{"take back a bookmark for a like", bob, "", nil, leaving(post, "likes", "bookmarks", bob, "0", -1), no, no},
		{"take back another's like, with one's own", carol, "", nil, append(leaving(post, "likes", "likes", carol, "0", -1), remove(post+"/likes_members/"+bob)), no, no},
		{"lower likes alone, by who likes it", bob, "", nil, one(add(post+"/shards/0", "likes", -1)), no, no},
		{"get whether one likes it", bob, post + "/likes_members/" + bob, nil, nil, no, yes},
		{"get whether another likes it", alice, post + "/likes_members/" + bob, nil, nil, no, no},
		{"bookmark", alice, "", nil, mark(alice, "1"), no, yes},
		{"bookmark with +2", alice, "", nil, joining(post, "bookmarks", "bookmarks", alice, "0", 2), no, no},
		{"bookmark without the shard", alice, "", nil, one(membership(post, "bookmarks", alice, "0")), no, no},
		{"bookmark with a client's time", alice, "", nil, []write{set(post+"/bookmarks_members/"+alice, fields{"member": alice, "shard": "0", "at": c.now}), add(post+"/shards/0", "bookmarks", 1)}, no, no},
		{"bookmark, and a second shard that moves", alice, "", nil, append(mark(alice, "0"), add(post+"/shards/1", "bookmarks", 1)), no, no},
		{"take a bookmark back", bob, "", nil, leaving(post, "bookmarks", "bookmarks", bob, "0", -1), no, yes},
		{"take a bookmark back, and a second shard that moves", bob, "", nil, append(leaving(post, "bookmarks", "bookmarks", bob, "0", -1), add(post+"/shards/1", "bookmarks", -1)), no, no},
		{"take a bookmark back without the shard", bob, "", nil, one(remove(post + "/bookmarks_members/" + bob)), no, no},
		{"take back another's bookmark, with one's own", carol, "", nil, append(leaving(post, "bookmarks", "bookmarks", carol, "0", -1), remove(post+"/bookmarks_members/"+bob)), no, no},
		{"get whether one has bookmarked it", bob, post + "/bookmarks_members/" + bob, nil, nil, no, yes},
		{"get whether another has bookmarked it", alice, post + "/bookmarks_members/" + bob, nil, nil, no, no},
		{"views once per user", alice, "", nil, joining(post, "views", "views", alice, "0", 1), no, no},
		{"a view by request", alice, "", nil, see(fresh, "0"), no, yes},
		{"a view by request on a shard that holds nothing yet", alice, "", nil, see(fresh, "2"), no, yes},
		{"a view by request, twice", alice, "", see(fresh, "0"), see(fresh, "0"), no, no},
		{"a view by a request that is spent", alice, "", nil, one(asked(views, post, "0", "views", 1)), no, no},
		{"two views by request", alice, "", nil, c.asking(fresh, post, "0", "views", 2), no, no},
		{"one view on each of two shards, by one request", alice, "", nil, append(see(fresh, "0"), asked(fresh, post, "1", "views", 1)), no, no},
		{"a like by request", alice, "", nil, c.asking(fresh, post, "0", "likes", 1), no, no},
		{"a view and a like by one request", alice, "", nil, []write{request(fresh, post, "0", c.in(day)), asked(fresh, post, "0", "views", 1).also(increment("likes", 1))}, no, no},
		{"a view and a like, on two shards", alice, "", nil, both(see(fresh, "0"), like(alice, "1")), no, yes},
		{"a view and a like on one shard", alice, "", nil, both(see(fresh, "0"), like(alice, "0")), no, no},
		{"a view of a post alone", alice, "", nil, one(add(post+"/shards/0", "views", 1)), no, no},
	}
}

func reversed(writes []write) []write {
	writes = slices.Clone(writes)
	slices.Reverse(writes)
	return writes
}
