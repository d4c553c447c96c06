// What is on its way: increments and likes, what may become of them, and how they get to Firestore.

/**
 * @typedef {object} Refused how it was refused
 * @property {number} [status] the HTTP status with which the function refused it
 * @property {string} [reason] why, in a word: `limit-reached`, say
 * @property {number} [left] how much is left of the limit, where that is why
 * @property {number} [by] for how much a hold is settled, where that is why
 * @property {number} [waited] how many ms it had waited when it was sent: offline, say
 * @property {boolean} [unknown] whether it may have been counted all the same: an earlier attempt had
 *   no answer
 */

/** An increment or a like that was given up. Unless `unknown`, it was not counted. */
export class CounterError extends /** @type {new (message: string) => Error & Refused} */ (Error) {
  name = "CounterError";

  /** @param {string} message @param {Refused} [how] */
  constructor(message, how) {
    super(message);
    Object.assign(this, how);
  }
}

/**
 * @typedef {object} Increment until it is answered
 * @property {string} counter
 * @property {string} field
 * @property {string} key its Idempotency-Key
 * @property {number} by
 * @property {number} at when it was added, in ms since 1970
 * @property {boolean} tried whether it was sent, so that it may have been counted
 * @property {string} as whose credentials it was sent with; "" where there were none, and while it
 *   was not sent
 * @property {number} end
 * @property {number} [committed] when it was counted, in µs since 1970; 0 where that is not known
 * @property {[string, Refused?]} [error] why, and how, where it ended so
 */

/**
 * @typedef {object} Like whether a member shall be counted, until that is answered. It needs no key
 *   and grows never too old: however often it is sent, the member is counted once, or not at all.
 * @property {string} counter
 * @property {string} field
 * @property {string} member
 * @property {boolean} joined
 * @property {string} id of this click
 * @property {number} at when it was asked for, in ms since 1970; later than that of the click
 *   before
 * @property {[number, number]} late when no request to leave, or to join, that had no answer is
 *   carried out any more, in ms since 1970; 0 for none. Where that is for the opposite of what
 *   was asked for last, that is sent once more then.
 * @property {number} end
 * @property {number} [committed]
 * @property {[string, Refused?]} [error]
 */

/** @typedef {Increment | Like} Entry */

/** How an entry ended, in the order of what is worse; 0 while it waits. */
export const COUNTED = 1, BEFORE = 2, REFUSED = 3, UNKNOWN = 4;

/**
 * @typedef {object} Outcome of sending an entry
 * @property {boolean} [counted] it is as asked for now; false if it had been before
 * @property {number} [committed] when it was counted, in µs since 1970; where that is known
 * @property {CounterError} [error] it is refused, and was not counted
 * @property {number} [again] what became of it is unknown; to be sent again in this many ms at the
 *   soonest
 * @property {string} [trouble] why, in words
 * @property {boolean} [all] whether that holds for other counters as well: the server can't be
 *   reached
 */

/**
 * @typedef {object} Credentials
 * @property {string} as whose they are, in few characters that tell nobody more; "" for nobody's
 */

/**
 * How increments and likes get to Firestore: `overHTTP` by the function, or `overFirestore` by the
 * Firebase SDK.
 * @typedef {object} Transport
 * @property {string} [name] what it sends to: pages that send elsewhere have queues of their own
 * @property {() => Promise<Credentials>} [prepare] what to send the next entry with
 * @property {(entry: Entry, how: { user: string, credentials: any, signal: AbortSignal }) =>
 *   Promise<Outcome>} send the user is whom it is of; `me` where only the function knows. A request
 *   that the signal cuts has an unknown outcome
 * @property {Watch} watch
 */

/**
 * Tells whether a member has joined: it calls `next` with that, and with when that was asked for
 * (as of performance.now()), at first and perhaps whenever it changes, and `failed` with why it
 * can't tell. It returns a function that ends it.
 * @typedef {(like: { counter: string, field: string, member: string }, next: (joined: boolean,
 *   asked: number) => void, failed: (error: Error) => void) => () => void} Watch
 */

/**
 * @typedef {object} Waiting
 * @property {string} name of the entry, here and in the storage
 * @property {Entry} entry
 * @property {boolean} own whether it was asked for here, and not on an earlier page or in another
 *   tab
 * @property {boolean} kept whether the storage has it
 * @property {boolean} settled whether it was answered, and is only kept for what may be carried out
 *   late
 * @property {number} [until] when the last request for a like is carried out no more
 * @property {number} [before] when earlier ones are not, and those of other pages
 * @property {boolean} [inDoubt] whether one of them may have been carried out, or still be
 * @property {boolean} [again] whether it is sent once more, though it was answered
 * @property {boolean} [parked] whether it was sent with credentials that are not those of now
 * @property {Promise<boolean>} done
 * @property {(counted: boolean, error?: Error, committed?: number) => void} [ended] called once when
 *   it ends, before anything else happens
 * @property {(counted: boolean, committed?: number) => void} resolve
 * @property {(error: Error) => void} reject
 */

/**
 * @typedef {object} Options of a queue
 * @property {string} name tells this queue from others in the storage
 * @property {() => boolean} mine whether the user is still the one whose queue this is
 * @property {string} user whose queue it is
 * @property {boolean} nobody whether it is nobody's, as the page doesn't know its user yet
 * @property {Transport} transport
 * @property {import("./record.js").Store | null} [storage] none: nothing outlives the page
 * @property {number} keep ms after which an increment is given up; less than the function's
 *   REQUEST_TTL
 * @property {LockManager} [locks] of the window
 * @property {() => void} changed called when `trouble` or what waits has changed
 * @property {(waiting: Waiting) => void} added called for each that waits, of this page, earlier
 *   ones and other tabs
 * @property {(like: Like) => void} liked called when a like is as asked for
 * @property {(error: CounterError, entry: Entry) => void} failed called for those whose page and
 *   promise are gone
 */

/** @param {Entry} entry */
export function errorOf({ end, error }) {
  let [message, how] = error ?? ["It was given up."];
  const unknown = end === UNKNOWN;
  if (/** @type {any} */ (how)?.waited > 9_999) message += " It had waited.";
  if (unknown) message += " It may have been counted.";
  return new CounterError(message, { ...how, unknown });
}

/** @param {Entry | undefined} entry @returns {[number, number]} */
export function lateOf(entry) {
  return /** @type {[number, number]} */ ([.../** @type {any} */ (entry)?.late ?? [0, 0]]);
}

/** @param {[number, number]} a @param {[number, number]} b @returns {[number, number]} */
export function latest(a, b) {
  return /** @type {[number, number]} */ (a.map((ms, i) => Math.max(ms, b[i])));
}

/**
 * @param {unknown} text a time, as in an answer
 * @returns {number | undefined} in µs since 1970, which Date doesn't tell apart
 */
export function microsOf(text) {
  const [, seconds, fraction = ""] = /^([^.Z]*)(?:\.(\d+))?Z$/.exec(String(text)) ?? [];
  return Date.parse(`${seconds}Z`) * 1_000 + Number(fraction.padEnd(6, "0").slice(0, 6)) || undefined;
}

/**
 * A key, as long as any other, so that one can take another's place in a storage that is full.
 * `crypto.randomUUID` is only there on pages that came over HTTPS or from this machine.
 */
export function newKey() {
  return btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(16))));
}

/**
 * Wants ids that a request can carry: text, of whole characters. As a part of a URL's path, "." and
 * ".." would be steps to another one, whatever is escaped, and an empty part before the first one
 * would name another host.
 * @param {unknown[]} ids of counters, fields or members
 */
export function want(...ids) {
  for (const id of ids) {
    // Cs is half of a character, such as of an emoji that was cut in two.
    if (typeof id !== "string" || /\/\.?\.?\/|\p{Cs}/u.test(`/${id}/`)) throw new TypeError(`want an id, not ${JSON.stringify(id)}`);
  }
}

/** @param {Waiting} waiting */
export const joinedOf = ({ entry }) => /** @type {Like} */ (entry).joined; // undefined for an increment
