// Package simulation runs the real system in virtual time, breaks everything around it, and reads
// the whole history for anything that must not happen.
//
// A world is an embedded Firestore and several instances of each function, with their real clients
// and handlers, inside of a bubble of testing/synctest: an hour of waiting costs nothing, and a
// virtual day of traffic takes seconds. There are no sockets. Each instance has a link, a client
// connection whose interceptors carry every message to the server or don't: it comes late, or twice
// in the server's view because its answer was lost, or after its caller gave up. What becomes of a
// message is drawn from (seed, instance, method, its number), so that one message more doesn't
// shift the fate of all others. (A short run has its messages go over HTTP/2, on connections in
// memory: that this is no other world.) A crash is a dead link: what was under way still arrives,
// and no caller hears of it. Events are tried for a day, and in some worlds the roll-up can't be
// reached for longer.
//
// By go run ./simulation/simulate a seed is a history, byte for byte: it builds the tests over a
// runtime that draws from the seed whatever it draws (package exact), prints a hash of the history,
// and shrinks a seed that fails ([Less]). By go test alone, and with the race detector, the same
// seed has the same plan and the same fates, and another history each time.
//
// Nothing in a world decides whether it went well. Calls, commits, lost events and drift are
// recorded as a [History], and [Check], which is pure, says what in it breaks a promise. It reads what
// callers and other clients may read, and never what is kept beside a counter: what a counter holds
// beyond its shards it knows from the commands that were asked for, and from totals and reads, which
// tell its guesses from one another. These are the invariants of docs/exactness.md:
//
//   - Acknowledged is counted, once. Increments name themselves, each by a bit of its own, so that every
//     commit tells which calls it holds: none is applied twice, none that was acknowledged is
//     missing, none that was refused is there, and of a request to several counters all is applied
//     at once. Of commands as many are applied as were asked for and not refused, at most, and after each
//     the numbers are what it says.
//   - A total is what the shards held at one moment, and what the counter holds beyond them. It never goes
//     back, whoever writes it, in whichever order answers come. Where something else writes the total, or
//     makes the document again, it is right again after one more increment in fair weather.
//   - An acknowledged event of a field is counted: the total is as of the event or later, whatever became
//     of those before it. Only while a newer event of the field waits it may wait for that, and while its
//     counter is noted for that to end. So one event of a field, in whichever shard, makes right what was
//     lost before it, and where none is lost totals follow at all times, not only before a reconcile.
//   - Counts belong to the path. All of that holds whether the counter's document is there or not.
//     A life ends only where somebody has asked for it, or an app's document has been gone for as
//     long as is set, and then nothing of it stays.
//
// Beside these, reads:
//
//   - Every read returns what was true at some moment between its begin and its end; and what
//     Jepsen asks of counters that only grow: an exact read lies between what was acknowledged
//     before it began and what was attempted before it ended.
//   - After a reconcile by name the total is as of its begin, or later. A rebase makes the total what was
//     asked for, beside the shards as they were at a moment of it. Some worlds shrink counters, and lose
//     every event of it.
//   - Once faults are over, a total follows within minutes where no event was lost for good, and
//     after a reconcile everywhere. A reconcile finds drift only where something else wrote totals.
//
// A world may count two fields, with an older revision beside that knows one of them: each field
// has a history of its own, in which it is checked as if there were no other ([History.Of]). Its
// counters may be documents of an app that edits them, sets them without merging, writes back what
// it has read before, deletes them and makes them again. Then also:
//
//   - No field of the app's document changes but by the app, and none is there that is neither its
//     nor counted.
//
// In some worlds something else writes to shards what is no integer: it counts nothing, or the fraction that it is.
// Then also no commit of the system's makes a shard no integer.
//
// In a sixth of all worlds something else damages a base, and sets it right minutes later. Then also:
//
//   - No note outlasts a reconcile of all in fair weather, but that of a deletion which waits for a ceiling.
//
// The clocks of processes may be minutes apart, and Firestore's from theirs. Callers may be users
// who show tokens, with strangers among them, and users who name others as members:
//
//   - Who must not count is answered so, and nothing that a stranger asks for is in a commit.
//
// Counters are at ids and paths that few would choose: below teams, with names of 1,500 bytes, with
// what URLs escape, beside collections of ours. In a quarter of all worlds another deployment in
// the same database counts below them, beside them or above, and comes to what it has acknowledged.
// An older revision may have the same fields in another order or by another name, and a few worlds
// lose every event.
//
// In a quarter of all worlds Firestore is of Enterprise edition: transactions fail at their commit, and sums of nothing
// are null. In a quarter, queries scan over replaced entries of an index, so that the roll-up lists a busy counter's
// shards: that takes longer storms than 200 operations, such as -sim.rate=8 -sim.operations=2500.
//
// In about half of all worlds a few members come and go beside the increments: through the
// functions, asked for twice by callers who don't wait, and by batches of an SDK that obeys
// firestore.rules and sends them again, hours later too. Memberships are documents of the history,
// and increments leave a shard's lowest bits to them. Then also:
//
//   - Every commit moves a field's shards by exactly one for each membership of it that it makes or
//     deletes, and by increments. So the shards hold as many as there are members, and what was
//     incremented otherwise: at every moment, and through resizes, deletions and cleanups. A reset takes
//     members off beside its command, and leaves the shards as they are.
//   - Calls that were told that they have counted are matched with commits, one each; and no
//     membership is made or deleted that no call asked for. Who was told that it was so already was
//     told what was true at some moment of the call.
//   - Looks and audits tell what was true at one moment.
//
// And its counters may be taken over from Firebase's Distributed Counter extension, by an import
// into a counter beside it while clients and workers of the extension go on, or in place, where the
// document is the app's own and the extension is gone, but not its clients. What those add names
// itself, too:
//
//   - What an import adds to a counter is what its source held at one moment, less what the
//     counter has of it already: so it counts once per counter and source. In place it is what the
//     same commit takes off the extension's shards.
//   - What was acknowledged is in a commit, with the very numbers. What was refused is in none. No
//     flush, reset or reconcile forgets what was imported, and the next life has none of it.
//
// In half of all worlds whose documents are the app's own, the roll-up takes the extension's place, and what its
// clients add is taken over live:
//
//   - What a commit takes off a client's shard it shows: who reads both sees no number fall. Nothing is taken off that
//     isn't in the total then.
//   - An event of such a shard is acknowledged once what it held is taken off. In the end nothing waits.
//
// In about a third of all worlds fields count documents, or sum up a field of theirs, as an integer
// or a double, or have its average. Documents are below their counter, or name it from a collection
// of their own. An app makes, edits, moves and deletes such documents, also below counters that are
// not there, and an older revision may have another definition of the same field. Their commits say
// what a field should be at any time ([CheckAnswers]):
//
//   - Each value of such a field is what the collection really came to at some moment, and none goes back.
//     Nothing but the roll-up and the app changes it.
//   - Once all events of a collection are acknowledged, its fields are as new as its last change.
//     Where events were lost, they are right after a reconcile of the counter by name, or of all
//     once nothing has counted it for as long as is set.
//
// In about a third of all worlds fields get limits, which commands set, raise, lower and remove while
// the rest goes on, and increments give back, too. Then also:
//
//   - After every commit no shard counts more than its share of a limit, nor less than its members and
//     nothing, and the shares add up to the limit that the document shows.
//   - Who was refused had no room at some moment of the call, at which as much was left as the answer
//     says. Who leaves is not refused.
//   - A seat that is held is given back once its time is over, and not before; whoever keeps it in time has
//     it for good. Nobody is refused while a hold is over, and none outlasts a reconcile.
//   - An amount that is held ends once: what was settled and what came back is what was held. The shards
//     say of each moment what open holds have.
//   - A limit is what one call has set, once. What has one is not reset, rebased, resized or imported
//     into.
//
// Where there is Node.js, a test has pages in the world (TestPages): the web client as it is, in
// several live pages of browsers whose users take turns. It has the world's time and weather.
//
//   - Each click in a page is in exactly one commit in the end, and who asked last to be a member is
//     one, whatever became of requests, answers and pages.
//
// Sparse traffic finds more than heavy traffic does, because every later state of a shard covers
// for one that was missed: the plans drawn from seeds are mostly short, with 0.1 to 5 operations a
// second.
package simulation
