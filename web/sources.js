// Where totals come from.
import { CounterError } from "./entry.js";
import { asking, busy, refusal, unreachable } from "./http.js";

/**
 * What is known of a counter.
 * @typedef {object} Snapshot
 * @property {boolean} exists
 * @property {number | null} total 0 where it doesn't exist; a double where the field is one, and
 *   null for the average of none
 * @property {number} [limit] that the field never exceeds, if it has one
 * @property {number} [updatedAt] when it was last rolled up, in ms since 1970
 * @property {boolean} live whether the server has it like this now; false for what a cache has
 */

/**
 * Where totals come from. It watches a counter: it calls `next` with what is known and whenever
 * that changes, with null when the connection is lost, and `failed` with why it can't go on, or not
 * as it is. It returns a function that ends it.
 * @typedef {(id: string, next: (snapshot: Snapshot | null) => void, failed: (error: Error) => void,
 *   field: string) => () => void} Source
 */

/**
 * Totals from the Firebase SDK for the web (modular, version 9 or later), as they change.
 * @param {object} db what `getFirestore` returned
 * @param {object} firestore the functions `doc` and `onSnapshot` of "firebase/firestore"
 * @param {(db: any, path: string) => any} firestore.doc
 * @param {(...args: any[]) => () => void} firestore.onSnapshot
 * @param {string} [counters] path of the counters' documents, as of COUNTERS; counters/{counter}
 *   unless given
 * @returns {Source}
 */
export function fromFirestore(db, { doc, onSnapshot }, counters = "counters/{counter}") {
  return (id, next, failed, field) =>
    onSnapshot(doc(db, documentOf(counters, id)), { includeMetadataChanges: true }, (/** @type {any} */ snapshot) => {
      const data = snapshot.data() ?? {};
      const { [field]: total = 0 } = data; // null stays
      // A document of the app's own has these in a map.
      const { updated_at, limits } = data.counter_rollup ?? data;
      next({ exists: snapshot.exists(), total, limit: limits?.[field], updatedAt: updated_at?.toMillis(), live: !snapshot.metadata.fromCache });
    }, failed);
}

/**
 * The path of a counter's document: an id is the values of the path's wildcards, joined by slashes.
 * @param {string} counters as of COUNTERS, such as teams/{team}/posts/{post}
 * @param {string} id such as red/post-1
 */
export function documentOf(counters, id) {
  const values = id.split("/");
  return counters.replace(/{[^}]*}/g, () => values.shift() ?? "");
}

/**
 * Totals from the Increment function, asked for every so often while the page is visible.
 * @param {string} url of the Increment function
 * @param {object} [options]
 * @param {number} [options.every] ms from one answer to the next request
 * @param {() => HeadersInit | Promise<HeadersInit>} [options.headers] to send along, such as
 *   Authorization
 * @returns {Source}
 */
export function fromFunction(url, { every = 2_000, headers } = {}) {
  return (id, next, failed, field) => asking(`${url}/?${new URLSearchParams({ counter: id, field })}`, headers, async (_, ended, answer, body) => {
    if (answer?.ok) {
      const { [field]: total = body.total ?? 0 } = { ...body.totals, ...body.doubles };
      next({ exists: answer.status === 200, total, limit: body.limits?.[field], updatedAt: Date.parse(body.updated_at) || undefined, live: true });
    } else if (answer && !busy(answer)) return failed(refusal(answer, body));
    else {
      const why = answer ? "" : await unreachable(url);
      if (ended.aborted) return;
      next(null);
      if (why.includes("ALLOWED_ORIGINS")) failed(new CounterError(why));
    }
    return every;
  });
}
