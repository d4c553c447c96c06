// Where totals come from.
import { CounterError, microsOf } from "./entry.js";
import { asking, LATER, notOurs, refusal, refuses, unreachable } from "./http.js";

/**
 * What is known of a counter.
 * @typedef {object} Snapshot
 * @property {boolean} exists
 * @property {number | null} total 0 where it doesn't exist; a double where the field is one, and
 *   null for the average of none
 * @property {number} [limit] that the field never exceeds, if it has one
 * @property {number} [updatedAt] when it was last rolled up, in ms since 1970
 * @property {number} [asOf] as of when the total is, in µs since 1970: it holds what was committed by
 *   then, and nothing later
 * @property {boolean} live whether the server has it like this now; false for what a cache has
 * @property {boolean} [heldUp] whether it is older than usual, because the deployment's ceiling is reached
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
  return (id, next, failed, field) => {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let again;
    let stop = () => {};
    const listen = () => {
      stop = onSnapshot(doc(db, documentOf(counters, id)), { includeMetadataChanges: true }, (/** @type {any} */ snapshot) => {
        next({ exists: snapshot.exists(), ...shownIn(snapshot.data() ?? {}, field), live: !snapshot.metadata.fromCache });
      }, (/** @type {Error} */ error) => {
        again = setTimeout(listen, LATER); // The SDK listens no more: the rules may let another user, or the next ones may.
        failed(error);
      });
    };
    listen();
    return () => {
      clearTimeout(again);
      stop();
    };
  };
}

/**
 * What a counter's document says of a field. In an app's own document a map has what is ours beside
 * the totals, and what is at the top is the app's. A document of ours has all at the top, and
 * num_shards, or a map without that and without updated_at. What is of another type is nothing of ours.
 * @param {any} data
 * @param {string} field
 */
function shownIn(data, field) {
  const { [field]: total, [`${field}_limit`]: limit, counter_rollup: map, num_shards = data.numShards } = data;
  const hosted = map ? map.num_shards ?? map.updated_at : !Number.isInteger(num_shards);
  const { updated_at } = (hosted ? map : data) ?? {};
  const { seconds, nanoseconds } = map?.as_of?.[field] ?? {};
  return {
    total: typeof total === "number" || total === null ? total : 0,
    limit: typeof limit === "number" && map?.as_of?.[`${field}_limit`] ? limit : undefined,
    updatedAt: typeof updated_at?.toMillis === "function" ? updated_at.toMillis() : undefined,
    asOf: Number.isInteger(seconds) && Number.isInteger(nanoseconds) ? seconds * 1_000_000 + Math.floor(nanoseconds / 1_000) : undefined,
  };
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
  return (id, next, failed, field) => asking(`${url.replace(/\/$/, "")}/?${new URLSearchParams({ counter: id, field })}`, headers, async (_, ended, answer, body) => {
    if (answer?.ok) {
      const { [field]: total = body.total ?? 0 } = { ...body.totals, ...body.doubles };
      next({ exists: answer.status === 200, total, limit: body.limits?.[field], updatedAt: Date.parse(body.updated_at) || undefined, asOf: microsOf(body.as_of), live: true, ...(body.held_up && { heldUp: true }) });
    } else if (answer && refuses(answer, body)) {
      failed(refusal(answer, body));
      return LATER;
    } else {
      const why = answer ? "" : await unreachable(url);
      if (ended.aborted) return;
      next(null);
      if (why.includes("ALLOWED_ORIGINS")) failed(new CounterError(why));
      else if (answer && answer.status < 500 && body.status !== answer.status) failed(new CounterError(notOurs(answer), { status: answer.status }));
    }
    return every;
  });
}
