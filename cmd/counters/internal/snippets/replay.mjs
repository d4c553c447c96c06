// Runs one kind of increments four times: node replay.mjs plain|add|join|leave docs|module, by exact.mjs, which docs/sdk.md
// shows, or by the module for web pages. Before the third it prints "cut" and waits for a line, after which the connection
// loses the answer. It prints "done" at the end.
import { createInterface } from "node:readline";
import * as firestore from "firebase/firestore";
import { doc, increment, onSnapshot, updateDoc } from "firebase/firestore";
import { Counters } from "../../../../web/counter.js";
import { overFirestore } from "../../../../web/sdk.js";
import { connectWeb } from "./connect.mjs";
import { add, join, leave } from "./exact.mjs";

const [kind, by] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const plain = (counter) => updateDoc(doc(counter, "shards", "0"), { count: increment(1) });
const numShards = 2;
const cut = async () => {
  console.log("cut");
  await lines.next();
};

for (let i = 0; i < 4; i++) {
  const uid = `user-${i}`;
  const { db, close } = await connectWeb({}, { mockUserToken: { sub: uid } });
  const counter = doc(db, "counters", "counted");
  // The stream of writes is open from here on. Before that, a lost answer would be the stream's and not the batch's.
  await (kind === "plain" ? plain : (warm) => join(warm, uid, numShards))(doc(db, "counters", "warm"));
  // A page shows by this whether the user has joined, and lets it leave then.
  let stop = () => {};
  const joined = new Promise((resolve) => {
    if (kind !== "plain") stop = onSnapshot(doc(counter, "total_members", uid), (membership) => membership.exists() && resolve(membership));
  });
  if (kind === "leave") await join(counter, uid, numShards);
  const membership = kind === "leave" && (await joined);
  if (i === 2 && by !== "module") await cut();
  let whole = i !== 2;
  const sdk = { ...firestore, runTransaction: (db, run) => firestore.runTransaction(db, async (transaction) => {
    const counts = await run(transaction);
    if (counts === true && !whole) {
      whole = true;
      await cut(); // It has read what it needs, and the commit is all that is left.
    }
    return counts;
  }) };
  const counters = new Counters({ transport: overFirestore(db, sdk), source: () => () => {}, member: uid });
  const counted = counters.counter("counted");
  const kinds = by === "module" ? {
    add: () => counted.incrementOnce("seen"), // each user's own
    join: () => counted.join(),
    leave: () => counted.leave(),
  } : {
    plain: () => plain(counter),
    add: () => add(counter, uid, numShards),
    join: () => join(counter, uid, numShards),
    leave: () => leave(counter, membership),
  };
  await kinds[kind]();
  // Once more, as another page would that doesn't know of it.
  if (by === "module" && (await kinds[kind]())) throw new Error("it was counted twice");
  counters.close();
  stop();
  await close();
}
console.log("done");
process.exit(); // a timer of the web SDK would hold it up for 45 s
