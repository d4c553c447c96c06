// Increments and likes by the Firebase SDK alone, under the lines for clients in firestore.rules.
// It takes the SDK's functions as arguments, so that it goes with the version that the page has.
import { documentOf } from "./sources.js";
import { CounterError } from "./entry.js";

const KEPT = 30 * 86_400_000; // ms that a request's document stays; the rules allow 32 days
const AGAIN = 60_000; // ms until a counter's number of shards is read again
/** Errors after which it is unknown what became of it, or which pass. */
const passing = new Set(["aborted", "cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable", "unknown"]);

/**
 * Increments and likes by the Firebase SDK for the web (modular, version 9 or later), for
 * `Counters`. A like is a transaction that makes the membership and adds 1 to a shard, an increment
 * one that makes a request's document and adds 1: whatever is sent twice finds its document there.
 * Give `Counters` the signed-in user's uid as `member`.
 *
 * An increment is 1, as the rules have it. Its key is the user's own: the request's id ends with
 * the uid, and the rules let nobody else make or see it.
 * @param {{ toJSON: () => any }} db what `getFirestore` returned
 * @param {object} firestore functions and classes of "firebase/firestore"
 * @param {(...args: any[]) => any} firestore.doc
 * @param {(...args: any[]) => any} firestore.increment
 * @param {(...args: any[]) => any} firestore.onSnapshot
 * @param {(db: any, update: (transaction: any) => Promise<any>) => Promise<any>}
 *   firestore.runTransaction
 * @param {(...args: any[]) => any} firestore.serverTimestamp
 * @param {{ fromMillis: (ms: number) => any }} firestore.Timestamp
 * @param {object} [layout]
 * @param {string} [layout.counters] path of the counters' documents, as of COUNTERS;
 *   counters/{counter} unless given
 * @param {string} [layout.shards] as of SHARDS; shards unless given
 * @param {Record<string, string>} [layout.fields] names of fields in shards, by their names in the
 *   counter's document, where they differ, as of FIELDS; { total: "count" } unless given
 * @returns {import("./entry.js").Transport}
 */
export function overFirestore(db, { doc, increment, onSnapshot, runTransaction, serverTimestamp, Timestamp },
  { counters = "counters/{counter}", shards = "shards", fields = { total: "count" } } = {}) {
  /** @type {Map<string, { shards: number, read: number }>} */
  const known = new Map();

  /** @param {string} id */
  const shardOf = async (id) => {
    let counter = known.get(id);
    if (!counter || performance.now() - counter.read > AGAIN) {
      const snapshot = await runTransaction(db, (transaction) => transaction.get(doc(db, documentOf(counters, id))));
      const n = snapshot.get("counter_rollup")?.num_shards ?? snapshot.get("num_shards") ?? snapshot.get("numShards");
      if (!(n > 0)) throw new CounterError(`There is no counter ${id} that clients can add to.`, { status: 404 });
      known.set(id, (counter = { shards: n, read: performance.now() }));
    }
    return String(Math.floor(Math.random() * counter.shards));
  };
  /** @param {string} id @param {string} shard */
  const shardDoc = (id, shard) => doc(db, documentOf(counters, id), shards, shard);
  /** @param {string} field */
  const inShard = (field) => fields[field] ?? field;
  /** @param {{ counter: string, field: string, member: string }} like */
  const membershipOf = ({ counter, field, member }) => doc(db, documentOf(counters, counter), `${field}_members`, member);

  /**
   * @param {import("./entry.js").Like} like
   * @param {any} membership
   */
  const like = async (like, membership) => {
    const { counter, field, member, joined } = like;
    const shard = joined ? await shardOf(counter) : "";
    return runTransaction(db, async (transaction) => {
      const now = await transaction.get(membership);
      if (now.exists() === joined) return false;
      if (joined) transaction.set(membership, { member, at: serverTimestamp(), shard });
      else transaction.delete(membership);
      transaction.update(shardDoc(counter, joined ? shard : now.get("shard")), { [inShard(field)]: increment(joined ? 1 : -1) });
      return true;
    });
  };

  /**
   * @param {import("./entry.js").Increment} entry
   * @param {any} request
   */
  const add = async ({ counter, field, by, at }, request) => {
    if (by !== 1) throw new CounterError(`Clients add 1 at a time, and not ${by}.`);
    const shard = shardDoc(counter, await shardOf(counter));
    return runTransaction(db, async (transaction) => {
      if ((await transaction.get(request)).exists()) return false;
      transaction.set(request, { shard, expire_at: Timestamp.fromMillis(at + KEPT) });
      transaction.update(shard, { [inShard(field)]: increment(1), request: request.id });
      return true;
    });
  };

  return {
    name: JSON.stringify([db.toJSON().databaseId, counters, shards, fields]),

    async send(entry, { user }) {
      try {
        const document = "key" in entry
          ? doc(db, "counter_requests", await requestOf(user, [documentOf(counters, entry.counter), shards, entry.field, entry.key])) : membershipOf(entry);
        try {
          return { counted: await ("key" in entry ? add(entry, document) : like(entry, document)) };
        } catch (/** @type {any} */ error) {
          known.delete(entry.counter); // It may have been made again, with fewer shards.
          // What is sent twice is refused, though it was counted: the document tells. A transaction
          // asks the server for it.
          if (error.code !== "permission-denied") throw error;
          const now = await runTransaction(db, (transaction) => transaction.get(document));
          if (now.exists() === ("key" in entry || entry.joined)) return { counted: true };
          throw error;
        }
      } catch (/** @type {any} */ error) {
        if (error instanceof CounterError) return { error };
        if (passing.has(error.code)) return { again: 0, trouble: "Firestore can't be reached, or is too busy.", all: error.code === "unavailable" };
        return { error: new CounterError(`Firestore refuses it: ${error.message}`) };
      }
    },

    watch(like, next) {
      return onSnapshot(membershipOf(like), { includeMetadataChanges: true }, (/** @type {any} */ membership) => {
        // What a cache holds may be from before the last like.
        if (!membership.metadata.fromCache) next(membership.exists(), performance.now());
      }, () => {
        // The rules forbid it, or the user has signed out: whether they have joined stays unknown.
      });
    },
  };
}

/**
 * The id of a key's request, the same wherever it is made: the rules want a UUID and the user's
 * uid.
 * @param {string} user
 * @param {string[]} key
 */
async function requestOf(user, key) {
  if (!user || user === "me") throw new CounterError("Increments by the SDK are a user's: give Counters the signed-in user's uid as member.");
  if (!globalThis.crypto?.subtle) throw new CounterError("Increments by the SDK need a page that came over HTTPS.");
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(key))));
  const hex = Array.from(hash.subarray(0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")}:${user}`;
}
