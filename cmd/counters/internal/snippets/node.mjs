// A counter by the server's library for Node.js.
import { FieldValue } from "@google-cloud/firestore";

export async function createCounter(db, id, numShards) {
  const counter = db.collection("counters").doc(id);
  const batch = db.batch();
  batch.set(counter, { num_shards: numShards });
  for (let i = 0; i < numShards; i++) {
    batch.set(counter.collection("shards").doc(String(i)), { count: 0 });
  }
  await batch.commit();
}

export async function incrementCounter(db, id, numShards) {
  const shard = String(Math.floor(Math.random() * numShards));
  await db.collection("counters").doc(id).collection("shards").doc(shard).update({ count: FieldValue.increment(1) });
}

export async function getCount(db, id) {
  const shards = await db.collection("counters").doc(id).collection("shards").get();
  return shards.docs.reduce((sum, shard) => sum + shard.get("count"), 0);
}
