// A distributed counter in a web page: watch its total, add to it, like it, and show at once what was done. It depends on
// nothing; totals come from the Firebase SDK where the page has it, else from the Increment function.
import { overHTTP } from "./http.js";
import { CounterError, Queue } from "./queue.js";
import { EXPIRES, Shown } from "./shown.js";

export { CounterError };
/** @typedef {import("./queue.js").Transport} Transport */

/**
 * What is known of a counter.
 * @typedef {object} Snapshot
 * @property {boolean} exists
 * @property {number} total 0 where it doesn't exist
 * @property {number} [updatedAt] when it was last rolled up, in ms since 1970
 * @property {boolean} live whether the server has it like this now; false for what a cache has
 */

/**
 * Where totals come from. It watches a counter: it calls `next` with what is known and whenever that changes, with null
 * when the connection is lost, and `failed` when it gives up. It returns a function that ends it. Without a field, the total
 * is that of the first field that is counted.
 * @typedef {(id: string, next: (snapshot: Snapshot | null) => void, failed: (error: Error) => void, field?: string) => () => void} Source
 */

/** The counters behind one Increment function. */
export class Counters {
  /** @type {Map<string, Counter>} by id and field */
  #counters = new Map();

  /**
   * @param {object} options
   * @param {string} [options.url] of the Increment function; not needed with a transport and a source
   * @param {Source} [options.source] of totals; the function itself unless given, see `fromFunction`
   * @param {Transport} [options.transport] how increments and likes are sent; by the function unless given, see `overFirestore`
   * @param {string} [options.member] whose likes these are: unless given `me`, the user whom the function knows by its token
   * @param {Storage | null} [options.storage] where increments and likes are kept until they are answered; localStorage unless
   *   given, and null for nowhere
   * @param {number} [options.keep] ms after which an increment that isn't answered is given up: 23 hours unless given, and less
   *   than the function's REQUEST_TTL in any case, because it counts a key it has forgotten once more
   * @param {() => HeadersInit | Promise<HeadersInit>} [options.headers] to send with each increment and like, such as Authorization
   * @param {(error: CounterError, counter: Counter) => void} [options.failed] called for increments and likes of an earlier page
   *   that are given up
   */
  constructor({ url = "", source, transport, member = "me", storage = localStorageOrNone(), keep = 23 * 3_600_000, headers, failed = () => {} }) {
    this.url = url.replace(/\/$/, "");
    this.source = source ?? fromFunction(this.url);
    this.transport = transport ?? overHTTP(this.url, headers);
    this.member = member;
    this.queue = new Queue({
      name: this.url, storage: storage ?? undefined, keep, transport: this.transport, user: member,
      changed: () => this.#counters.forEach((counter) => counter.changed()),
      liked: (like) => this.#counters.get(nameOf(like.counter, like.field))?.liked(like),
      failed: (error, { counter, field }) => failed(error, this.counter(counter, field)),
    });
  }

  /**
   * A counter; the same object for the same id and field.
   * @param {string} id
   * @param {string} [field] the first one that is counted unless given, which is `total` unless FIELDS says otherwise
   */
  counter(id, field) {
    const name = nameOf(id, field);
    let counter = this.#counters.get(name);
    if (!counter) this.#counters.set(name, (counter = new Counter(this, id, field)));
    return counter;
  }

  /** Why increments don't get through, in words; undefined while they do. They are sent again by themselves. */
  get trouble() {
    return this.queue.trouble;
  }

  /** Ends everything. Increments that aren't answered are sent by the next page. */
  close() {
    this.#counters.forEach((counter) => counter.close());
    this.queue.close();
  }
}

/**
 * @typedef {object} Member what is known of a member
 * @property {boolean | undefined} known whether it has joined, by the last that the server has said
 * @property {boolean} base the same, or what was taken for it when the first like was asked for
 * @property {number} since when that was said, as of performance.now()
 * @property {Wish[]} wishes likes that aren't answered yet, oldest first
 * @property {() => void} [stop]
 */

/**
 * @typedef {object} Wish
 * @property {boolean} joined
 * @property {import("./shown.js").Own} [own] what it adds to the number shown; none if it changes nothing
 */

/** A counter. It is watched while there are subscribers. */
export class Counter {
  #shown = new Shown();
  #counters;
  /** @type {Map<string, Member>} by id */
  #members = new Map();
  /** @type {Set<() => void>} */
  #subscribers = new Set();
  /** @type {(() => void) | undefined} */
  #stop;

  /**
   * Use `Counters.counter`.
   * @param {Counters} counters
   * @param {string} id
   * @param {string} [field]
   */
  constructor(counters, id, field) {
    this.#counters = counters;
    this.id = id;
    this.field = field;
    /** Whether what is known is what the server has now. */
    this.live = false;
    /** @type {boolean | undefined} Whether there is such a counter; undefined until that is known. */
    this.exists = undefined;
    /** @type {number | undefined} When it was last rolled up, in ms since 1970. */
    this.updatedAt = undefined;
    /** @type {Error | undefined} Why it can't be watched. */
    this.error = undefined;
  }

  /** What the counter's document says; undefined until that is known. */
  get total() {
    return this.#shown.total;
  }

  /** The number to show: the total, and what was added here that it doesn't hold yet. Undefined until that is known. */
  get value() {
    return this.#shown.total === undefined ? undefined : this.#shown.value;
  }

  /** How many increments and likes wait for their answer, those of earlier pages included. */
  get pending() {
    let n = 0;
    for (const { counter, field } of this.#counters.queue.waiting) if (counter === this.id && field === this.field) n++;
    return n;
  }

  /**
   * Adds to the counter. It shows at once, is sent until it is answered, and outlives a reload.
   * @param {number} [by] a whole number, not 0
   * @returns {Promise<void>} once it is counted; rejects with a CounterError when it was given up, and shows no more
   */
  async add(by = 1) {
    await this.#add(by);
  }

  /**
   * Adds to the counter once, however often this is called with the same key, here or anywhere, for as long as the function
   * remembers keys (REQUEST_TTL, a day unless set). The same key with another number is an error.
   * @param {string} key up to 255 printable ASCII characters
   * @param {number} [by] a whole number, not 0
   * @returns {Promise<boolean>} as of `add`; false if it had been counted before
   */
  incrementOnce(key, by = 1) {
    return this.#add(by, key);
  }

  /** @param {number} by @param {string} [key] */
  async #add(by, key) {
    if (!Number.isSafeInteger(by) || by === 0) throw new TypeError(`want a whole number other than 0, not ${by}`);
    const { done, added } = this.#counters.queue.add(this.id, by, key, this.field);
    if (!added) return done; // It shows already.
    const own = this.#shown.add(by);
    this.changed();
    try {
      if (!(await done)) {
        this.#shown.fail(own); // The total holds it already.
        return false;
      }
      this.#answered(own);
      return true;
    } catch (error) {
      this.#shown.fail(own);
      throw error;
    } finally {
      this.changed();
    }
  }

  /** @param {import("./shown.js").Own} own */
  #answered(own) {
    own.answered = performance.now();
    setTimeout(() => {
      this.#shown.expire(own, performance.now());
      this.changed();
    }, EXPIRES);
  }

  /**
   * Counts a member, once until it leaves: a like, a vote. It shows at once, is sent until it is answered, and outlives a
   * reload; of what is asked for before it can be sent, the last is.
   * @param {string} [member] `Counters.member` unless given
   * @returns {Promise<boolean>} once the member is counted: false if it had been before, or was taken off again before it was
   *   sent. Rejects with a CounterError when it was given up, and shows no more
   */
  join(member) {
    return this.#like(true, member);
  }

  /**
   * Takes a member off again.
   * @param {string} [member] `Counters.member` unless given
   * @returns {Promise<boolean>} as of `join`
   */
  leave(member) {
    return this.#like(false, member);
  }

  /**
   * Whether a member is counted, or will be once what was asked for here is answered; undefined until that is known. While
   * there are subscribers it is asked for.
   * @param {string} [member] `Counters.member` unless given
   * @returns {boolean | undefined}
   */
  joined(member = this.#counters.member) {
    const known = this.#member(member);
    this.#watch(member, known);
    return this.#counters.queue.wish(this.id, this.field, member) ?? (this.exists === false ? false : known.known);
  }

  /** @param {boolean} joined @param {string} [member] */
  async #like(joined, member = this.#counters.member) {
    if (typeof member !== "string" || member === "") throw new TypeError(`want a member's id, not ${member}`);
    const known = this.#member(member);
    if (known.wishes.length === 0) known.base = known.known ?? !joined;
    const { done, added } = this.#counters.queue.like(this.id, this.field, member, joined);
    if (!added) return done;
    /** @type {Wish} */
    const wish = { joined };
    known.wishes.push(wish);
    this.#fit(known);
    this.changed();
    const since = known.since;
    try {
      const counted = await done;
      if (wish.own && counted) this.#answered(wish.own);
      else if (wish.own) this.#shown.fail(wish.own); // The total holds it already, or never will.
      return counted;
    } catch (error) {
      if (wish.own) this.#shown.fail(wish.own);
      throw error;
    } finally {
      known.wishes = known.wishes.filter((other) => other !== wish);
      this.#fit(known);
      if (known.wishes.length === 0 && known.since === since) { // It was not liked, or not by this page.
        known.stop?.();
        known.stop = undefined;
        this.#watch(member, known);
      }
      this.changed();
    }
  }

  /**
   * Takes an answered like. For `Counters`.
   * @param {import("./queue.js").Like} like
   */
  liked({ member, joined }) {
    const known = this.#member(member);
    [known.known, known.base, known.since] = [joined, joined, performance.now()];
  }

  /** @param {string} id @returns {Member} */
  #member(id) {
    let member = this.#members.get(id);
    if (!member) this.#members.set(id, (member = { known: undefined, base: false, since: -1, wishes: [] }));
    return member;
  }

  /** Makes the likes that wait add to the number what each of them changes. @param {Member} member */
  #fit({ base, wishes }) {
    for (const wish of wishes) {
      if (wish.joined !== base) {
        wish.own ??= this.#shown.add(wish.joined ? 1 : -1);
      } else if (wish.own) {
        this.#shown.fail(wish.own);
        wish.own = undefined;
      }
      base = wish.joined;
    }
  }

  /** @param {string} member @param {Member} known */
  #watch(member, known) {
    if (!this.#stop || known.stop || !this.exists) return; // A counter that there isn't has no members.
    known.stop = this.#counters.transport.watch({ counter: this.id, field: this.field, member }, (joined, asked) => {
      // While likes are under way, whether this holds them is unknown; their answers will say.
      if (known.wishes.length > 0 || asked < known.since) return;
      [known.known, known.since] = [joined, asked];
      this.changed();
    });
  }

  /**
   * Calls `changed` whenever anything of the counter has changed, and watches it as long as there are subscribers. Made for
   * React's useSyncExternalStore, too.
   * @param {() => void} changed
   * @returns {() => void} ends it
   */
  subscribe = (changed) => {
    const subscriber = () => changed();
    this.#subscribers.add(subscriber);
    this.#stop ??= this.#counters.source(this.id, (snapshot) => this.#next(snapshot), (error) => {
      this.error = error;
      this.live = false;
      this.changed();
    }, this.field);
    this.#members.forEach((known, member) => this.#watch(member, known));
    return () => {
      this.#subscribers.delete(subscriber);
      if (this.#subscribers.size === 0) this.close();
    };
  };

  /** Tells the subscribers. */
  changed() {
    for (const subscriber of this.#subscribers) subscriber();
  }

  /** Ends watching, with all subscriptions. */
  close() {
    this.#subscribers.clear();
    this.#stop?.();
    this.#stop = undefined;
    this.live = false;
    for (const known of this.#members.values()) {
      known.stop?.();
      known.stop = undefined;
    }
  }

  /** @param {Snapshot | null} snapshot */
  #next(snapshot) {
    const cut = !this.live && this.total !== undefined;
    const sent = this.#counters.queue.underWay(this.id, this.field);
    this.error = undefined;
    if (snapshot?.live && !this.live) this.#counters.queue.go(); // What can be heard can be spoken to.
    this.live = snapshot?.live ?? false;
    if (snapshot && (snapshot.live || snapshot.exists)) { // A cache that holds nothing says nothing.
      this.exists = snapshot.exists;
      this.updatedAt = snapshot.updatedAt;
      if (cut && snapshot.live) this.#shown.reconnected(snapshot.total, sent);
      else this.#shown.snapshot(snapshot.total, performance.now());
    }
    this.#members.forEach((known, member) => this.#watch(member, known));
    this.changed();
  }
}

/**
 * Totals from the Firebase SDK for the web (modular, version 9 or later), as they change.
 * @param {object} db what `getFirestore` returned
 * @param {object} firestore the functions `doc` and `onSnapshot` of "firebase/firestore"
 * @param {(db: any, path: string) => any} firestore.doc
 * @param {(...args: any[]) => () => void} firestore.onSnapshot
 * @param {string} [counters] path of the counters' documents, as of COUNTERS; counters/{counter} unless given
 * @returns {Source}
 */
export function fromFirestore(db, { doc, onSnapshot }, counters = "counters/{counter}") {
  return (id, next, failed, field = "total") =>
    onSnapshot(doc(db, documentOf(counters, id)), { includeMetadataChanges: true }, (/** @type {any} */ snapshot) => next({
      exists: snapshot.exists(),
      total: snapshot.get(field) ?? 0,
      updatedAt: (snapshot.get("counter_rollup") ?? snapshot.data() ?? {}).updated_at?.toMillis(), // A document of the app's own has it in a map.
      live: !snapshot.metadata.fromCache,
    }), failed);
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
 * @param {() => HeadersInit | Promise<HeadersInit>} [options.headers] to send along, such as Authorization
 * @returns {Source}
 */
export function fromFunction(url, { every = 2_000, headers } = {}) {
  return (id, next, failed, field) => {
    const ended = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const ask = async () => {
      clearTimeout(timer);
      try {
        const answer = await fetch(`${url}/?counter=${encodeURIComponent(id)}`, { headers: await headers?.(), signal: AbortSignal.timeout(20_000) });
        const body = await answer.json();
        if (ended.signal.aborted) return;
        if (answer.ok) next({ exists: true, total: body.totals?.[field ?? ""] ?? body.total, updatedAt: Date.parse(body.updated_at) || undefined, live: true });
        else if (answer.status === 404) next({ exists: false, total: 0, live: true });
        else if (answer.status < 500 && answer.status !== 429) return failed(new CounterError(`The server refuses to be read: ${body.detail} (${answer.status}).`, { status: answer.status }));
        else next(null);
      } catch {
        if (!ended.signal.aborted) next(null);
      }
      if (!ended.signal.aborted && !globalThis.document?.hidden) timer = setTimeout(ask, every);
    };
    globalThis.document?.addEventListener("visibilitychange", () => document.hidden || ask(), { signal: ended.signal });
    globalThis.addEventListener?.("online", ask, { signal: ended.signal });
    void ask();
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  };
}

/** @returns {Storage | null} the page's localStorage, unless the browser forbids it or there is none */
function localStorageOrNone() {
  try {
    return globalThis.localStorage ?? null;
  } catch {
    return null;
  }
}

/** @param {string} id @param {string} [field] */
function nameOf(id, field) {
  return JSON.stringify([id, field ?? null]);
}
