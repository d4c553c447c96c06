// A counter by the Firebase SDK for the web: what a page would do that has no function to call.
import { collection, doc, getDocs, increment, updateDoc, writeBatch } from "firebase/firestore";

export async function createCounter(db, id, numShards) {
  const counter = doc(db, "counters", id);
  const batch = writeBatch(db);
  batch.set(counter, { num_shards: numShards });
  for (let i = 0; i < numShards; i++) {
    batch.set(doc(counter, "shards", String(i)), { count: 0 });
  }
  await batch.commit();
}

export async function incrementCounter(db, id, numShards) {
  const shard = String(Math.floor(Math.random() * numShards));
  await updateDoc(doc(db, "counters", id, "shards", shard), "count", increment(1));
}

export async function getCount(db, id) {
  const shards = await getDocs(collection(db, "counters", id, "shards"));
  return shards.docs.reduce((sum, shard) => sum + shard.data().count, 0);
}
