// What applications rely on in the web SDK, run against a server:
//
//	node --import ./browser.mjs behaviour.mjs [long-polling]    as in a browser, by WebChannel and REST
//	node behaviour.mjs                                          by gRPC
import assert from "node:assert/strict";
import { connectLite, connectNode, connectWeb } from "./connect.mjs";
import {
  Bytes, GeoPoint, Timestamp, arrayRemove, arrayUnion, average, collection, count, deleteDoc, disableNetwork, doc,
  enableNetwork, getAggregateFromServer, getDoc, getDocs, increment, limit, onSnapshot, orderBy, query, runTransaction,
  serverTimestamp, setDoc, sum, updateDoc, where, writeBatch,
} from "firebase/firestore";

// How back channels are opened: CI=0 asks for a stream, CI=1 is a long poll. By gRPC there are none.
const backChannels = new Set();
const { fetch } = globalThis;
globalThis.fetch = (request, ...rest) => {
  const how = (request.url ?? request).match(/\/channel\?.*RID=rpc.*&(CI=\d)/);
  if (how) backChannels.add(how[1]);
  return fetch(request, ...rest);
};

const longPolling = process.argv[2] === "long-polling";
const { db, close } = await connectWeb(longPolling ? { experimentalForceLongPolling: true } : {});
const other = await connectNode(); // another client, whose changes the first one is to see

/** Watches a document or query. next() is the next snapshot that comes from the server. */
function watch(target) {
  const snapshots = [];
  let wake = () => {};
  const stop = onSnapshot(target, (s) => {
    if (s.metadata.fromCache || s.metadata.hasPendingWrites) return;
    snapshots.push(s);
    wake();
  });
  const next = async () => {
    while (snapshots.length === 0) await new Promise((resolve) => (wake = resolve));
    return snapshots.shift();
  };
  return { next, stop, waiting: () => snapshots.length };
}

const behaviours = {
  async "a document's listener sees it appear, change and go"() {
    const w = watch(doc(db, "watched/one"));
    assert.equal((await w.next()).exists(), false);
    const theirs = other.db.doc("watched/one");
    for (const n of [1, 2, 3]) {
      await theirs.set({ n });
      assert.deepEqual((await w.next()).data(), { n });
    }
    await theirs.set({ n: 3 }); // changes nothing
    await theirs.delete();
    assert.equal((await w.next()).exists(), false);
    w.stop();
    await theirs.set({ n: 4 });
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(w.waiting(), 0);
  },

  async "a query's listener gets changes, and each commit as a whole"() {
    for (const n of [1, 2, 3]) await other.db.doc(`ranked/${n}`).set({ n });
    const top = watch(query(collection(db, "ranked"), where("n", ">", 0), orderBy("n", "desc"), limit(2)));
    const all = watch(collection(db, "ranked"));
    const changes = (s) => s.docChanges().map((c) => `${c.type} ${c.doc.id}`).sort();
    assert.deepEqual(changes(await top.next()), ["added 2", "added 3"]);
    assert.equal((await all.next()).size, 3); // some of which the client has known
    const batch = other.db.batch();
    batch.set(other.db.doc("ranked/1"), { n: 10 });
    batch.delete(other.db.doc("ranked/3"));
    await batch.commit();
    assert.deepEqual(changes(await all.next()), ["modified 1", "removed 3"]);
    assert.deepEqual(changes(await top.next()), ["added 1", "removed 3"]);
    await other.db.doc("ranked/1").delete();
    assert.deepEqual(changes(await top.next()), ["removed 1"]);
    top.stop();
    all.stop();
  },

  async "a snapshot larger than what the server keeps for a client"() {
    const text = "ü😀x".repeat(200);
    for (let i = 0; i < 4; i++) {
      const batch = other.db.batch();
      for (let j = 0; j < 250; j++) batch.set(other.db.doc(`large/${i}-${j}`), { text, i, j });
      await batch.commit();
    }
    const w = watch(collection(db, "large"));
    const snapshot = await w.next();
    assert.equal(snapshot.size, 1000);
    assert.ok(snapshot.docs.every((d) => d.get("text") === text));
    w.stop();
  },

  async "a listener that was cut off sees what it missed"() {
    await other.db.doc("missed/one").set({ n: 1 });
    await other.db.doc("missed/gone").set({ n: 1 });
    const w = watch(collection(db, "missed"));
    assert.equal((await w.next()).size, 2);
    await disableNetwork(db);
    for (const n of [2, 3]) await other.db.doc("missed/one").set({ n });
    await other.db.doc("missed/gone").delete();
    await enableNetwork(db);
    const s = await w.next();
    assert.deepEqual(s.docs.map((d) => d.data()), [{ n: 3 }]);
    w.stop();
  },

  async "writes made offline arrive, in order and once"() {
    const ref = doc(db, "offline/one");
    await setDoc(ref, { n: 0 });
    await disableNetwork(db);
    const writes = [];
    for (let i = 0; i < 25; i++) writes.push(updateDoc(ref, { n: increment(1), last: i }));
    await enableNetwork(db);
    await Promise.all(writes);
    assert.deepEqual((await other.db.doc("offline/one").get()).data(), { n: 25, last: 24 });
  },

  async "a transaction runs again when what it has only read is changed"() {
    const [read, absent, written] = ["read", "absent", "written"].map((id) => doc(db, "transactions", id));
    await setDoc(read, { n: 1 });
    let attempts = 0;
    await runTransaction(db, async (tx) => {
      attempts++;
      const n = (await tx.get(read)).data().n;
      const there = (await tx.get(absent)).exists();
      if (attempts === 1) await other.db.doc("transactions/read").set({ n: 2 });
      if (attempts === 2) await other.db.doc("transactions/absent").set({});
      tx.set(written, { n, there });
    });
    assert.equal(attempts, 3);
    assert.deepEqual((await getDoc(written)).data(), { n: 2, there: true });
  },

  async "transactions that increment one field lose none"() {
    const ref = doc(db, "transactions/shared");
    await setDoc(ref, { n: 0 });
    const once = () => runTransaction(db, async (tx) => tx.update(ref, { n: (await tx.get(ref)).data().n + 1 }), { maxAttempts: 50 });
    await Promise.all(Array.from({ length: 5 }, once));
    assert.equal((await getDoc(ref)).data().n, 5);
  },

  async "values go to the server and back"() {
    const ref = doc(db, "values/one");
    const values = {
      int: 42, largest: Number.MAX_SAFE_INTEGER, double: 1.5, nan: NaN, infinite: -Infinity, zero: -0, yes: true, nothing: null,
      text: "ü😀\u0000\n", empty: "", bytes: Bytes.fromUint8Array(new Uint8Array([0, 255, 128])), place: new GeoPoint(-12.5, 170),
      time: new Timestamp(1_700_000_000, 123_456_000), list: [1, "two", { three: [3] }, {}], map: { "a.b": { "`": 1 } }, none: {}, ref,
    };
    await setDoc(ref, values);
    const snapshot = await getDoc(ref); // of a listener's
    const theirs = (await other.db.doc("values/one").get()).data();
    for (const [name, value] of Object.entries(values)) {
      const got = snapshot.get(name);
      const same = typeof value === "object" && value?.isEqual ? value.isEqual(got) : name === "ref" ? got.path === ref.path : undefined;
      if (same === undefined) assert.deepEqual(got, value, name);
      else assert.ok(same, name);
      assert.ok(name in theirs, name);
    }
    assert.ok(Object.is(snapshot.get("zero"), -0));
    assert.deepEqual([...theirs.bytes], [0, 255, 128]);
    assert.equal(theirs.text, values.text);
  },

  async "transforms"() {
    const ref = doc(db, "transforms/one");
    await setDoc(ref, { n: 1, list: [1, 2] });
    await updateDoc(ref, { n: increment(2.5), at: serverTimestamp(), list: arrayUnion(2, 3) });
    await updateDoc(ref, { list: arrayRemove(1) });
    const data = (await other.db.doc("transforms/one").get()).data();
    assert.equal(data.n, 3.5);
    assert.deepEqual(data.list, [2, 3]);
    assert.ok(Math.abs(data.at.toMillis() - Date.now()) < 60_000);
  },

  async "counts, sums and averages"() {
    const batch = writeBatch(db);
    for (const n of [1, 2, 6]) batch.set(doc(db, "summed", String(n)), { n });
    await batch.commit();
    const result = await getAggregateFromServer(collection(db, "summed"), { count: count(), sum: sum("n"), average: average("n") });
    assert.deepEqual(result.data(), { count: 3, sum: 9, average: 3 });
    assert.equal((await getDocs(query(collection(db, "summed"), where("n", ">", 1)))).size, 2);
  },

  async "a write that fails says why, and does no harm"() {
    await assert.rejects(updateDoc(doc(db, "none/such"), { n: 1 }), { code: "not-found" });
    await setDoc(doc(db, "none/other"), { n: 1 });
    await deleteDoc(doc(db, "none/other"));
    assert.equal((await other.db.doc("none/other").get()).exists, false);
  },

  async "the lite edition reads, queries, counts and runs transactions"() {
    const lite = await import("firebase/firestore/lite");
    const { db, close } = await connectLite();
    const one = lite.doc(db, "lite/one");
    await lite.setDoc(one, { n: 1 });
    await lite.runTransaction(db, async (tx) => tx.update(one, { n: (await tx.get(one)).data().n + 1 }));
    const added = await lite.addDoc(lite.collection(db, "lite"), { n: 5 });
    const all = lite.collection(db, "lite");
    assert.equal((await lite.getDoc(one)).data().n, 2);
    assert.deepEqual((await lite.getDocs(lite.query(all, lite.where("n", ">", 2)))).docs.map((d) => d.id), [added.id]);
    assert.equal((await lite.getCount(all)).data().count, 2);
    await lite.deleteDoc(one);
    assert.equal((await lite.getDoc(one)).exists(), false);
    await close();
  },

  async "listeners see a database being cleared"() {
    await other.db.doc("cleared/one").set({ n: 1 });
    const w = watch(doc(db, "cleared/one"));
    assert.equal((await w.next()).exists(), true);
    const path = `projects/${process.env.GOOGLE_CLOUD_PROJECT}/databases/(default)/documents`;
    const response = await fetch(`http://${process.env.FIRESTORE_EMULATOR_HOST}/emulator/v1/${path}`, { method: "DELETE" });
    assert.equal(response.status, 200);
    assert.equal((await w.next()).exists(), false);
    w.stop();
  },
};

for (const [name, behaves] of Object.entries(behaviours)) {
  const began = performance.now();
  const timer = setTimeout(() => {
    console.error(`${name}: took too long`);
    process.exit(1);
  }, 120_000); // on a machine that is busy with something else
  await behaves().catch((error) => {
    console.error(`${name}: ${error.stack}`);
    process.exit(1);
  });
  clearTimeout(timer);
  console.log(`ok: ${name}, ${Math.round(performance.now() - began)} ms`);
}
const inBrowser = process.execArgv.includes("./browser.mjs");
assert.equal(backChannels.size > 0, inBrowser, "the SDK was not loaded as intended");
// On a busy machine the SDK may take a stream for one that a proxy holds back, and go on with long polls.
if (inBrowser) assert.equal(backChannels.has("CI=0"), !longPolling);
await close();
await other.close();
process.exit(); // a timer of the web SDK would hold it up for 45 s
