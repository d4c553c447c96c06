// Exact counting by the Firebase SDK alone, under the lines for clients in firestore.rules. docs/sdk.md shows this file.
import { doc, increment, runTransaction, serverTimestamp, Timestamp, writeBatch } from "firebase/firestore";

// Counts the user once. The batch that makes the membership moves the shard that it names, and can't be applied twice.
export async function join(counter, uid, numShards) {
  const membership = doc(counter, "total_members", uid);
  const shard = String(Math.floor(Math.random() * numShards));
  const batch = writeBatch(counter.firestore);
  batch.set(membership, { member: uid, at: serverTimestamp(), shard });
  batch.update(doc(counter, "shards", shard), { count: increment(1) });
  await settled(batch, membership, true);
}

// Takes it back, from the shard that it went to. A page has the membership from onSnapshot, by which it shows that the user
// has joined.
export async function leave(counter, membership) {
  const batch = writeBatch(counter.firestore);
  batch.delete(membership.ref);
  batch.update(doc(counter, "shards", membership.get("shard")), { count: increment(-1) });
  await settled(batch, membership.ref, false);
}

// Counts as often as the user likes, such as a view. The request's id ends with the uid: nobody else can make it, or see it.
export async function add(counter, uid, numShards) {
  const request = doc(counter.firestore, "counter_requests", `${crypto.randomUUID()}:${uid}`);
  const shard = doc(counter, "shards", String(Math.floor(Math.random() * numShards)));
  const batch = writeBatch(counter.firestore);
  batch.set(request, { shard, expire_at: Timestamp.fromMillis(Date.now() + 30 * 24 * 3600 * 1000) });
  batch.update(shard, { count: increment(1), request: request.id });
  await settled(batch, request, true);
}

// A batch whose answer was lost is sent again and refused, though it was applied: the document tells. It is read in a
// transaction, which asks the server. A listener's view, and so getDocFromServer, may still be that of before.
async function settled(batch, document, there) {
  try {
    await batch.commit();
  } catch (error) {
    if (error.code !== "permission-denied") throw error;
    const now = await runTransaction(document.firestore, (transaction) => transaction.get(document));
    if (now.exists() !== there) throw error;
  }
}
