// A distributed counter in a web page: watch its total, add to it, like it, and show at once what
// was done. It depends on nothing; totals come from the Firebase SDK where the page has it, else
// from the Increment function.
import { CounterError, want } from "./entry.js";
import { overHTTP } from "./http.js";
import { Queue } from "./queue.js";
import { storageOf } from "./record.js";
import { EXPIRES, Shown } from "./shown.js";
import { fromFunction } from "./sources.js";

export { CounterError };
export { signedIn } from "./auth.js";
export { documentOf, fromFirestore, fromFunction } from "./sources.js";
/** @typedef {import("./sources.js").Snapshot} Snapshot */
/** @typedef {import("./sources.js").Source} Source */
/** @typedef {import("./entry.js").Transport} Transport */

/**
 * What to show of a counter. It is the same object as long as nothing of it has changed.
 * @typedef {object} State
 * @property {number | null | undefined} value the number to show; undefined until it is known, and
 *   null for the average of none
 * @property {number | undefined} limit that it never exceeds; undefined where it has none
 * @property {number | undefined} left how much is left of that
 * @property {boolean | undefined} liked whether the user has joined; undefined until that is known
 * @property {number} pending how many increments and likes wait for their answer
 * @property {boolean | undefined} exists
 * @property {boolean} live
 * @property {boolean} heldUp whether the number is older than usual, because the deployment's ceiling is reached
 * @property {Failure | undefined} error why the last increment or like was refused, or why it can't be
 *   watched
 */

/** @typedef {Error & import("./entry.js").Refused} Failure an error, with a `reason` where the function says one */

/**
 * @typedef {object} Options
 * @property {string} [url] of the Increment function; not needed with a transport and a source
 * @property {string} [field] that counters are of where none is named; total unless given
 * @property {Source} [source] of totals; the function itself unless given, see `fromFunction`
 * @property {Transport} [transport] how increments and likes are sent; by the function unless given, see
 *   `overFirestore`
 * @property {string | (() => string | null | undefined)} [member] who the user is, now: what one has asked
 *   for is sent for nobody else. Unless given, users are told apart by their `Authorization`, and only
 *   increments that were sent once; likes are those of `me`, the user whom the function knows by that. A
 *   function that returns null: nobody has signed in
 * @property {(changed: () => void) => () => void} [onUser] calls `changed` when another user has signed in,
 *   or out, until what it returns is called; see `signedIn`
 * @property {Storage | null} [storage] where increments and likes are kept until they are answered;
 *   localStorage unless given, and null for nowhere
 * @property {number} [keep] ms after which an increment that isn't answered is given up: 23 hours unless
 *   given, and less than the function's REQUEST_TTL in any case, because it counts a key it has forgotten
 *   once more
 * @property {() => HeadersInit | Promise<HeadersInit>} [headers] to send with each request, such as
 *   Authorization
 * @property {(error: CounterError, counter: Counter) => void} [failed] called for increments and likes of an
 *   earlier page that are given up
 * @property {any} [page] the window; for tests
 */

/** The counters behind one Increment function. */
export class Counters {
  /** @type {Map<string, Counter>} by id and field */
  #counters = new Map();
  /** @type {Map<string, Queue>} by user */
  #queues = new Map();
  /** @type {string | undefined} whose queue is open */
  #user;
  #switching = false; // to another user: what they have on the way is shown at once, and not one by one
  #away = false; // whether the page is put aside, or all this was closed
  #ended = new AbortController();
  /** @type {() => string | null | undefined} */
  #member;
  #options;

  /** @param {Options & ({ url: string } | { source: Source, transport: Transport })} options */
  constructor({ url = "", field = "total", source, transport, member, onUser, storage = storageOf("localStorage"), keep = 23 * 3_600_000, headers, failed = () => {}, page = globalThis }) {
    // Requests would go to the page's own site.
    if (!url && !(source && transport)) throw new TypeError("want the url of Increment");
    this.url = url.replace(/\/$/, "");
    this.field = field;
    this.source = source ?? fromFunction(this.url, { headers });
    this.transport = transport ?? overHTTP(this.url, headers);
    this.#member = typeof member === "function" ? member : () => member ?? "me";
    // Each tab has a sessionStorage of its own, and so a turn of its own.
    const locks = storage && storage === storageOf("sessionStorage", page) ? undefined : page.navigator?.locks;
    this.#options = { storage, keep, failed, locks };
    /** @type {(events: string, run: (event: any) => void) => void} */
    const on = (events, run) => {
      for (const target of [page, page.document]) {
        for (const event of events.split(" ")) target?.addEventListener?.(event, run, { signal: this.#ended.signal });
      }
    };
    // A page that the browser puts aside sends nothing until it is back, and another one does.
    on("pagehide freeze", () => this.#rest());
    on("pageshow resume", () => {
      if (!this.#away) return;
      this.#queues.forEach((queue) => queue.takeAll(true));
      this.#away = false;
      this.queue.open();
      if (this.#user) this.queue.adopt(this.#queueOf("")); // The user may have become known meanwhile.
      this.#changed();
    });
    on("online visibilitychange", () => this.queue.go());
    // Users other than the one of now, too, are told how what they have asked for ended.
    on("storage", ({ key }) => this.#queues.forEach((queue) => queue.heard(key)));
    this.queue.go();
    if (onUser) this.#ended.signal.onabort = onUser(() => this.#changed());
  }

  /** Who the user is; `me` where only the function knows. */
  get member() {
    return this.#member() || "me";
  }

  /** Whether nobody has signed in, or who has isn't known yet. For `Counter`. */
  get nobody() {
    return !this.#member();
  }

  /** What the user has on the way. */
  get queue() {
    const user = this.#member() || ""; // "" is nobody
    const there = this.#queues.get(user);
    if (there && (user === this.#user || this.#away)) return there;
    const before = this.#user;
    this.#user = user;
    this.#queues.get(/** @type {any} */ (before))?.close();
    const queue = this.#queueOf(user);
    this.#switching = true;
    if (!this.#away) queue.open();
    // What was clicked before the page knew its user is theirs.
    if (user && !this.#away) queue.adopt(this.#queueOf(""));
    this.#switching = false;
    if (before !== undefined) this.#counters.forEach((counter) => counter.switched());
    return queue;
  }

  /** @param {string} user */
  #queueOf(user) {
    let queue = this.#queues.get(user);
    if (queue) return queue;
    const { failed, ...options } = this.#options;
    const name = this.transport.name ?? this.url;
    /** @type {(like: { counter: string, field: string }) => Counter | undefined} */
    const shown = ({ counter, field }) => (this.#user === user && !this.#switching ? this.#counters.get(nameOf(counter, field)) : undefined);
    queue = new Queue({
      ...options, name: nameOf(name, user), transport: this.transport, nobody: !user, user: user || "me",
      mine: () => (this.#member() || "") === user,
      changed: () => this.#changed(),
      added: (waiting) => shown(waiting.entry)?.follow(waiting),
      liked: (like) => this.#counters.get(nameOf(like.counter, like.field))?.liked(like),
      failed: (error, { counter, field }) => failed(error, this.counter(counter, field)),
    });
    this.#queues.set(user, queue);
    return queue;
  }

  #changed() {
    void this.queue; // The user may be another one now.
    this.#counters.forEach((counter) => counter.changed());
  }

  /**
   * A counter; the same object for the same id and field.
   * @param {string} id
   * @param {string} [field] `Counters.field` unless given
   */
  counter(id, field = this.field) {
    want(id, field);
    const name = nameOf(id, field);
    let counter = this.#counters.get(name);
    if (!counter) {
      this.#counters.set(name, (counter = new Counter(this, id, field)));
      counter.switched();
    }
    return counter;
  }

  /** Why increments don't get through, in words; undefined while they do. */
  get trouble() {
    return this.queue.trouble;
  }

  /**
   * Whether what waits outlives the page, and other tabs know of it; false where the storage is
   * full or there is none: then a reload would lose a click, and a like that is taken back in
   * another tab, or by another `Counters`, may come out either way.
   */
  get kept() {
    return this.queue.kept;
  }

  /** Ends everything. Increments that aren't answered are sent by another page, or the next. */
  close() {
    this.#ended.abort();
    this.#counters.forEach((counter) => counter.close());
    this.#rest();
  }

  #rest() {
    this.#away = true;
    this.#queues.forEach((queue) => queue.close());
  }
}

/**
 * @typedef {object} Member what is known of a member
 * @property {boolean} [known] whether it has joined, by the last that the server has said
 * @property {boolean} [base] the same, or what was taken for it when the first like was asked for
 * @property {number} since when that was said, as of performance.now()
 * @property {Wish[]} wishes likes that aren't answered yet, oldest first
 * @property {() => void} [stop]
 * @property {Error} [failed] why the server doesn't say
 */

/**
 * @typedef {object} Wish
 * @property {boolean} joined
 * @property {import("./shown.js").Own} [own] what it adds to the number shown; none if it changes
 *   nothing
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
  /** @type {unknown[]} what the state is made of: nothing is NaN */
  #parts = [NaN];
  /** @type {any} a State, once it was asked for */
  #state;
  /** @type {Error | undefined} */
  #refused;
  /** @type {Error | undefined} */
  #failed;
  /** Whether what is known is what the server has now. */
  live = false;
  /** Whether what is known is older than usual, because the deployment's ceiling is reached. */
  heldUp = false;
  /** @type {boolean | undefined} Whether there is one; undefined until that is known. */
  exists;
  /** @type {number | undefined} When it was last rolled up, in ms since 1970. */
  updatedAt;
  /** @type {number | undefined} What `value` never exceeds, if it has a limit. */
  limit;

  /**
   * Use `Counters.counter`.
   * @param {Counters} counters
   * @param {string} id
   * @param {string} field
   */
  constructor(counters, id, field) {
    this.#counters = counters;
    this.id = id;
    this.field = field;
  }

  /**
   * Why the last increment or like was refused, or why it can't be watched.
   * @returns {Failure | undefined}
   */
  get error() {
    return this.#refused ?? this.#failed ?? this.#members.get(this.#counters.member)?.failed;
  }

  /** What the counter's document says; undefined until that is known. */
  get total() {
    return this.#shown.total;
  }

  /**
   * The number to show: the total, and what was added here that it doesn't hold yet. Undefined
   * until that is known, and null for the average of none.
   */
  get value() {
    const { total, value } = this.#shown;
    return total == null ? total : Math.min(value, this.limit ?? value);
  }

  /** How many increments and likes wait, those of earlier pages and of other tabs included. */
  get pending() {
    return this.#waiting.length;
  }

  get #waiting() {
    return this.#counters.queue.waiting.filter(({ entry }) => entry.counter === this.id && entry.field === this.field);
  }

  /** All that there is to show, as of now. @returns {State} */
  get state() {
    const { value, limit, pending, exists, live, heldUp, error } = this;
    const before = this.#parts;
    this.#parts = [value, limit, pending, exists, live, heldUp, error, this.#liked(this.#counters.member)];
    if (this.#parts.some((part, i) => part !== before[i])) {
      const counter = this;
      // Who has joined is asked for when somebody wants to know.
      this.#state = { value, limit, left: limit && limit - /** @type {number} */ (value), pending, exists, live, heldUp, error, get liked() { return counter.joined(); } };
    }
    return this.#state;
  }

  /**
   * Adds to the counter. It shows at once, is sent until it is answered, and outlives a reload.
   * @param {number} [by] a whole number, not 0
   * @returns {Promise<void>} once it is counted; rejects with a CounterError when it was given
   *   up, and shows no more
   */
  async add(by = 1) {
    await this.#add(by);
  }

  /**
   * Adds to the counter once, however often this is called with the same key, here or anywhere,
   * for as long as the function remembers keys (REQUEST_TTL, a day unless set). The same key with
   * another number is an error.
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
    if (key !== undefined && !/^[!-~]([ -~]{0,253}[!-~])?$/.test(key)) throw new TypeError(`want ASCII, not ${JSON.stringify(key)}`);
    return this.#counters.queue.add(this.id, this.field, by, key);
  }

  /**
   * Shows what waits. For `Counters`.
   * @param {import("./entry.js").Waiting} waiting
   */
  follow(waiting) {
    this.#refused = undefined;
    this.#follow(waiting);
    this.changed();
  }

  /** @param {import("./entry.js").Waiting} waiting */
  #follow(waiting) {
    const { entry } = waiting;
    if ("key" in entry) {
      const own = this.#shown.add(entry.by);
      waiting.ended = (counted, error, committed) => this.#end(own, counted, error, committed);
    } else this.#followLike(waiting, entry);
  }

  /**
   * Takes how it ended. That it was refused is shown until something else is asked for.
   * @param {import("./shown.js").Own | undefined} own
   * @param {boolean} counted
   * @param {Error} [error]
   * @param {number} [committed]
   */
  #end(own, counted, error, committed) {
    if (error) this.#refused = error;
    if (own && counted) this.#answered(own, committed);
    // It was refused; or the total holds it already, or never will.
    else if (own) this.#shown.fail(own);
    queueMicrotask(() => this.changed()); // once the queue is done with it
  }

  /** Takes it that the user is another one now. For `Counters`. */
  switched() {
    if (this.#stop && this.#failed) this.#listen(); // They may be one who is told.
    this.#refused = undefined;
    this.#shown.forget();
    this.#members.forEach(unwatch);
    this.#members.clear();
    this.#waiting.forEach((waiting) => this.#follow(waiting));
    this.changed();
  }

  /** @param {import("./shown.js").Own} own @param {number} [committed] */
  #answered(own, committed) {
    this.#shown.answer(own, performance.now(), committed);
    setTimeout(() => {
      this.#shown.expire(own, performance.now());
      this.changed();
    }, EXPIRES);
  }

  /**
   * Counts a member, once until it leaves: a like, a vote. It shows at once, is sent until it is
   * answered, and outlives a reload; of what is asked for before it can be sent, the last is.
   * @param {string} [member] `Counters.member` unless given
   * @returns {Promise<boolean>} once the member is counted: false if it had been before, or was
   *   taken off again before it was sent. Rejects with a CounterError when it was given up, and
   *   shows no more
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
   * Joins, or leaves: for a button. That it was refused, `error` says.
   * @param {string} [member] `Counters.member` unless given
   * @returns {Promise<boolean>} as of `join`, but false when it was given up
   */
  toggle(member) {
    return this.#like(!this.joined(member), member).catch(() => false);
  }

  /**
   * Whether a member is counted, or will be once what was asked for here is answered; undefined
   * until that is known. While there are subscribers it is asked for.
   * @param {string} [member] `Counters.member` unless given
   * @returns {boolean | undefined}
   */
  joined(member = this.#counters.member) {
    want(member);
    const known = this.#member(member);
    this.#watch(member, known);
    return this.#liked(member);
  }

  /** @param {string} member */
  #liked(member) {
    return this.#counters.queue.wish(this.id, this.field, member) ?? (this.exists !== false && this.#members.get(member)?.known);
  }

  /** @param {boolean} joined @param {string} [member] */
  async #like(joined, member = this.#counters.member) {
    want(member);
    return this.#counters.queue.like(this.id, this.field, member, joined);
  }

  /**
   * @param {import("./entry.js").Waiting} waiting
   * @param {import("./entry.js").Like} like
   */
  #followLike(waiting, { member, joined }) {
    const known = this.#member(member);
    if (!known.wishes.length) known.base = known.known ?? !joined;
    /** @type {Wish} */
    const wish = { joined };
    known.wishes.push(wish);
    this.#fit(known);
    const since = known.since;
    // At once, and not by its promise: what comes in the same task builds on how this one ended.
    waiting.ended = (counted, error, committed) => {
      known.wishes = known.wishes.filter((other) => other !== wish);
      this.#end(wish.own, counted, error, committed);
      if (this.#members.get(member) !== known) return;
      this.#fit(known);
      // A refusal says nothing of an earlier attempt; or it was not liked, or not by this page.
      if (!known.wishes.length && (error || known.since === since)) {
        unwatch(known);
        this.#watch(member, known);
      }
    };
  }

  /**
   * Takes an answered like. For `Counters`.
   * @param {import("./entry.js").Like} like
   */
  liked({ member, joined }) {
    const known = this.#member(member);
    [known.known, known.base, known.since] = [joined, joined, performance.now()];
    this.exists ||= joined; // it has a member, though its first total may come later
  }

  /** @param {string} id @returns {Member} */
  #member(id) {
    const member = this.#members.get(id) ?? { since: -1, wishes: [] };
    this.#members.set(id, member);
    return member;
  }

  /** Makes likes that wait add to the number what each of them changes. @param {Member} member */
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
    // A counter that there isn't has no members, and nobody is none.
    if (!this.#stop || known.stop || !this.exists || this.#counters.nobody) return;
    known.stop = this.#counters.transport.watch({ counter: this.id, field: this.field, member }, (joined, asked) => {
      // While likes are under way, whether this holds them is unknown; their answers will say.
      if (known.wishes.length || asked < known.since) return;
      [known.known, known.since, known.failed] = [joined, asked, undefined];
      this.changed();
    }, (error) => {
      known.failed = error;
      this.changed();
    });
  }

  /**
   * Calls `changed` now, and whenever anything of the counter has changed, with its `state`, and
   * watches it as long as there are subscribers. It is what Svelte takes for a store, and React's
   * useSyncExternalStore for a subscription.
   * @param {(state: State) => void} changed
   * @returns {() => void} ends it
   */
  subscribe = (changed) => {
    const subscriber = () => changed(this.state);
    this.#subscribers.add(subscriber);
    if (!this.#stop) this.#listen();
    this.#members.forEach((known, member) => this.#watch(member, known));
    subscriber();
    return () => {
      this.#subscribers.delete(subscriber);
      if (this.#subscribers.size === 0) this.close();
    };
  };

  #listen() {
    this.#stop?.();
    this.#stop = () => {}; // of a source that tells at once
    this.#stop = this.#counters.source(this.id, (snapshot) => this.#next(snapshot), (error) => {
      this.#failed = error;
      this.live = false;
      this.changed();
    }, this.field);
  }

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
    this.#members.forEach(unwatch);
  }

  /** @param {Snapshot | null} snapshot */
  #next(snapshot) {
    const cut = !this.live && this.total !== undefined;
    const sent = this.#counters.queue.underWay(this.id, this.field);
    this.#failed = undefined;
    // What can be heard can be spoken to.
    if (snapshot?.live && !this.live) this.#counters.queue.go();
    this.live = snapshot?.live ?? false;
    this.heldUp = snapshot?.heldUp ?? false;
    // A cache that holds nothing says nothing.
    if (snapshot && (snapshot.live || snapshot.exists)) {
      this.exists = snapshot.exists;
      this.updatedAt = snapshot.updatedAt;
      this.limit = snapshot.limit;
      if (cut && snapshot.live) this.#shown.reconnected(snapshot.total, sent, snapshot.asOf);
      else this.#shown.snapshot(snapshot.total, performance.now(), snapshot.asOf);
    }
    this.#members.forEach((known, member) => this.#watch(member, known));
    this.changed();
  }
}

/** @param {string} id @param {string} field */
const nameOf = (id, field) => JSON.stringify([id, field]);
/** Ends asking whether one has joined. @param {Member} known */
function unwatch(known) {
  known.stop?.();
  known.stop = undefined;
}
