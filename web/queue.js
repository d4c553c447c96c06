const AT_ONCE = 32; // requests on their way at once; a browser sends 6 of them side by side over HTTP/1
const SHORTEST = 250, LONGEST = 15_000; // ms between attempts while nothing gets through
const SKEW = 60_000; // ms by which a clock may be set back without making an age unknown
const LATE = 30_000; // ms after which no request that has lost its client is carried out any more; the function takes 20 s unless REQUEST_TIMEOUT says more

/** An increment or a like that was given up. Unless `unknown`, it was not counted. */
export class CounterError extends Error {
  /**
   * @param {string} message
   * @param {{ status?: number, unknown?: boolean }} [how]
   */
  constructor(message, { status, unknown = false } = {}) {
    super(message);
    this.name = "CounterError";
    /** The HTTP status with which the function refused it. */
    this.status = status;
    /** Whether it may have been counted all the same: it was sent, and grew too old to be sent again. */
    this.unknown = unknown;
  }
}

/**
 * @typedef {object} Increment until it is answered
 * @property {string} key its Idempotency-Key
 * @property {string} counter
 * @property {string} [field] the first one that is counted unless given
 * @property {number} by
 * @property {number} at when it was added, in ms since 1970
 */

/**
 * @typedef {object} Like whether a member shall be counted, until that is answered. It needs no key and grows never too old:
 *   however often it is sent, the member is counted once, or not at all.
 * @property {string} counter
 * @property {string} [field] total unless given
 * @property {string} member
 * @property {boolean} joined
 * @property {number} at when it was asked for, in ms since 1970
 * @property {number} [until] when no request whose answer was lost, for this or for the opposite, is carried out any more, in ms
 *   since 1970; none unless given
 * @property {boolean} [turned] whether one for the opposite is among them: this is sent once more then
 * @property {boolean} [answered] this is only kept for that
 */

/** @typedef {Increment | Like} Entry */

/**
 * @typedef {object} Outcome of sending an entry
 * @property {boolean} [counted] it is as asked for now; false if it had been before
 * @property {CounterError} [error] it is refused, and was not counted
 * @property {number} [again] what became of it is unknown; to be sent again in this many ms at the soonest
 * @property {string} [trouble] why, in words
 * @property {boolean} [gone] another page has it, or has asked for something else since
 */

/**
 * How increments and likes get to Firestore: `overHTTP` by the function, or `overFirestore` by the Firebase SDK.
 * @typedef {object} Transport
 * @property {(entry: Entry, user: string) => Promise<Outcome>} send the user is whom increments are of; `me` where only the function knows
 * @property {Watch} watch
 */

/**
 * Tells whether a member has joined: it calls `next` with that, and with when that was asked for (as of performance.now()), at
 * first and perhaps whenever it changes. It returns a function that ends it.
 * @typedef {(like: { counter: string, field?: string, member: string }, next: (joined: boolean, asked: number) => void) => () => void} Watch
 */

/**
 * @typedef {object} Waiting
 * @property {string} name of the entry, here and in the storage
 * @property {Entry} entry
 * @property {string | null} stored what the storage has of it
 * @property {boolean} inherited whether it is an earlier page's
 * @property {number} attempts of this page
 * @property {boolean} settled whether it was answered, and is only to be sent once more
 * @property {Waiting} [next] the opposite, asked for while this was on its way
 * @property {Promise<boolean>} done
 * @property {(counted: boolean) => void} resolve
 * @property {(error: Error) => void} reject
 */

/**
 * Increments and likes on their way. Each is sent until it is answered: an increment under one key, by which it is counted
 * once however often it comes, and of a member's likes the last that was asked for. Each is stored before it is sent, so that
 * the next page goes on with what a reload or a crash left. Pages that send the same one at the same time do no harm.
 */
export class Queue {
  /** @type {Map<string, Waiting>} by name, oldest first */
  #entries = new Map();
  /** @type {Set<string>} names of what is on its way */
  #sending = new Set();
  #pause = 0; // ms; 0 while requests get through
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {Set<ReturnType<typeof setTimeout>>} */
  #later = new Set();
  #closed = new AbortController();
  #prefix;

  /**
   * @param {object} options
   * @param {string} options.name tells this queue from others in the storage
   * @param {Transport} options.transport
   * @param {string} options.user whom increments are of
   * @param {Pick<Storage, "length" | "key" | "getItem" | "setItem" | "removeItem">} [options.storage] none: nothing outlives the page
   * @param {number} options.keep ms after which an increment is given up; less than the function's REQUEST_TTL
   * @param {() => void} options.changed called when `trouble` or what waits has changed
   * @param {(like: Like) => void} options.liked called when a like is as asked for
   * @param {(error: CounterError, entry: Entry) => void} options.failed called for those of an earlier page, whose promises are gone
   */
  constructor({ name, transport, user, storage, keep, changed, liked, failed }) {
    this.transport = transport;
    this.user = user;
    this.storage = storage;
    this.keep = keep;
    this.changed = changed;
    this.liked = liked;
    /** @type {string | undefined} Why nothing gets through, in words; undefined while it does. */
    this.trouble = undefined;
    this.#prefix = `counters-queue ${name} `;
    for (const entry of this.#stored()) {
      const waiting = this.#waiting(entry);
      waiting.inherited = true;
      waiting.stored = this.storage?.getItem(this.#prefix + waiting.name) ?? null;
      this.#entries.set(waiting.name, waiting);
      waiting.done.catch((error) => failed(error, entry));
      if ("member" in entry && entry.answered) this.#keep(waiting);
      else if ("member" in entry) entry.until = Date.now() + LATE; // The earlier page may have sent it.
    }
    const go = () => this.go();
    globalThis.addEventListener?.("online", go, { signal: this.#closed.signal });
    globalThis.document?.addEventListener("visibilitychange", go, { signal: this.#closed.signal });
    this.#pump();
  }

  /** What is not answered yet, of this page and of earlier ones. @returns {Iterable<Entry>} */
  get waiting() {
    return Array.from(this.#entries.values()).filter(({ settled }) => !settled).map(({ entry, next }) => (next ?? { entry }).entry);
  }

  /**
   * What the increments and likes that are being sent at this moment add to a counter: up under 1, down under -1.
   * @param {string} counter
   * @param {string | undefined} field
   */
  underWay(counter, field) {
    const sum = { [1]: 0, [-1]: 0 };
    for (const name of this.#sending) {
      const entry = this.#entries.get(name)?.entry;
      if (!entry || entry.counter !== counter || entry.field !== field) continue;
      const by = "member" in entry ? (entry.joined ? 1 : -1) : entry.by;
      sum[by < 0 ? -1 : 1] += Math.abs(by);
    }
    return sum;
  }

  /**
   * What was asked for last, of a member's likes that wait.
   * @param {string} counter
   * @param {string | undefined} field
   * @param {string} member
   * @returns {boolean | undefined} undefined where none waits
   */
  wish(counter, field, member) {
    const waiting = this.#entries.get(nameOf({ counter, field, member }));
    const entry = waiting?.settled ? undefined : (waiting?.next ?? waiting)?.entry;
    return entry && "member" in entry ? entry.joined : undefined;
  }

  /**
   * Adds an increment, and sends it. With a key that already waits, nothing is added.
   * @param {string} counter
   * @param {number} by
   * @param {string} [key]
   * @param {string} [field]
   * @returns {{ done: Promise<boolean>, added: boolean }} done: once it is counted, false if it had been before; or a CounterError
   */
  add(counter, by, key = uuid(), field) {
    const same = this.#entries.get(key);
    if (same) return { done: same.done, added: false };
    const waiting = this.#waiting({ key, counter, field, by, at: Date.now() });
    this.#entries.set(key, waiting);
    this.#store(waiting);
    this.#pump();
    return { done: waiting.done, added: true };
  }

  /**
   * Asks for a member to be counted, or not to be any more. It takes the place of what was asked for before and not sent yet.
   * @param {string} counter
   * @param {string | undefined} field
   * @param {string} member
   * @param {boolean} joined
   * @returns {{ done: Promise<boolean>, added: boolean }} done: once it is as asked for, false if it had been before, or if the
   *   opposite has taken its place; or a CounterError
   */
  like(counter, field, member, joined) {
    const name = nameOf({ counter, field, member });
    const first = this.#entries.get(name);
    const sent = this.#sending.has(name);
    const last = first?.next ?? first;
    if (first && last && !last.settled && joinedOf(last) === joined) return { done: last.done, added: false };
    if (first?.next && !first.settled && joinedOf(first) === joined) { // That is under way, and what was to follow is taken back.
      first.next.resolve(false);
      first.next = undefined;
      this.#store(first);
      return { done: first.done, added: false };
    }
    const waiting = this.#waiting({ counter, field, member, joined, at: Date.now() });
    if (first) this.#follow(waiting, first, sent);
    if (first && sent) {
      first.next = waiting;
    } else {
      first?.resolve(false);
      this.#entries.set(name, waiting);
    }
    this.#store(waiting);
    this.#pump();
    return { done: waiting.done, added: true };
  }

  /** Stops sending. What is stored is sent by the next page. */
  close() {
    this.#closed.abort();
    clearTimeout(this.#timer);
    this.#later.forEach(clearTimeout);
  }

  /** Ends a pause: there is reason to believe that requests get through again. */
  go() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#pump();
  }

  /** @returns {Entry[]} */
  #stored() {
    /** @type {Entry[]} */
    const entries = [];
    for (let i = 0; i < (this.storage?.length ?? 0); i++) {
      const name = this.storage?.key(i);
      if (!name?.startsWith(this.#prefix)) continue;
      try {
        const entry = JSON.parse(this.storage?.getItem(name) ?? "");
        if (name === this.#prefix + nameOf(entry)) entries.push(entry);
      } catch {
        // Not one of ours.
      }
    }
    return entries.sort((a, b) => a.at - b.at);
  }

  /**
   * @param {Entry} entry
   * @returns {Waiting}
   */
  #waiting(entry) {
    /** @type {(counted: boolean) => void} */
    let resolve = () => {};
    /** @type {(error: Error) => void} */
    let reject = () => {};
    /** @type {Promise<boolean>} */
    const done = new Promise((yes, no) => ([resolve, reject] = [yes, no]));
    return { name: nameOf(entry), entry, stored: null, inherited: false, attempts: 0, settled: false, done, resolve, reject };
  }

  /** @param {Waiting} waiting */
  #store(waiting) {
    const stored = JSON.stringify(waiting.entry);
    try {
      this.storage?.setItem(this.#prefix + waiting.name, stored);
      waiting.stored = this.storage ? stored : null;
    } catch {
      // The storage is full or forbidden: this one doesn't outlive the page.
    }
  }

  /**
   * Takes what is answered out of the storage, unless another page has asked for something else since.
   * @param {Waiting} waiting
   */
  #discard(waiting) {
    const name = this.#prefix + waiting.name;
    if (waiting.stored !== null && this.storage?.getItem(name) === waiting.stored) this.storage.removeItem(name);
  }

  /**
   * Hands on what is unknown of earlier requests from a like to the next.
   * @param {Waiting} next
   * @param {Waiting} first
   * @param {boolean} unknown whether what becomes of the first is
   */
  #follow({ entry: next }, { entry: first }, unknown) {
    if (!("member" in next && "member" in first)) return;
    next.until = unknown ? Date.now() + LATE : first.until;
    next.turned = next.until !== undefined && (first.turned || first.joined !== next.joined);
  }

  #pump() {
    if (this.#closed.signal.aborted || this.#timer !== undefined) return;
    // While nothing gets through, one request finds out when it does again.
    const most = this.#pause ? 1 : AT_ONCE;
    for (const waiting of this.#entries.values()) {
      if (this.#sending.size >= most) return;
      if (!waiting.settled && !this.#sending.has(waiting.name)) void this.#send(waiting);
    }
  }

  /** @param {Waiting} waiting */
  async #send(waiting) {
    const { entry, name } = waiting;
    this.#sending.add(name);
    const outcome = await ("member" in entry ? inTurn(this.#prefix + name, this.#closed.signal, () => this.#attempt(waiting)) : this.#attempt(waiting));
    this.#sending.delete(name);
    if (this.#closed.signal.aborted) return;
    const { next } = waiting;
    waiting.next = undefined;
    if (outcome.again === undefined) {
      [this.#pause, this.trouble] = [0, undefined];
      if (!outcome.error && !outcome.gone && "member" in entry) this.liked(entry);
      if (next) {
        this.#follow(next, waiting, false);
        this.#entries.set(name, next);
        this.#store(next);
      } else if ("member" in entry && !outcome.error && !outcome.gone && until(entry) > 0) {
        entry.answered = true;
        this.#store(waiting);
        this.#keep(waiting);
      } else {
        this.#entries.delete(name);
        this.#discard(waiting);
      }
      if (outcome.error) waiting.reject(outcome.error);
      else waiting.resolve(outcome.counted ?? false);
    } else {
      if ("member" in entry) entry.until = Date.now() + LATE;
      if (next) {
        this.#follow(next, waiting, true);
        waiting.resolve(false);
        this.#entries.set(name, next);
      }
      if ("member" in entry) this.#store(next ?? waiting);
      if (this.#timer === undefined) {
        this.trouble = outcome.trouble;
        this.#pause = Math.min(LONGEST, this.#pause ? 2 * this.#pause : SHORTEST);
        const pause = Math.max(outcome.again, this.#pause * (1 + Math.random()));
        this.#timer = setTimeout(() => this.go(), pause);
      }
    }
    this.#pump();
    this.changed();
  }

  /**
   * Keeps an answered like until no earlier request is carried out any more, and sends it once more if it has to be.
   * @param {Waiting} waiting
   */
  #keep(waiting) {
    const entry = /** @type {Like} */ (waiting.entry);
    waiting.settled = true;
    const timer = setTimeout(() => {
      this.#later.delete(timer);
      if (this.#entries.get(waiting.name) !== waiting) return;
      if (entry.turned) {
        waiting.settled = entry.answered = false;
        this.#pump();
      } else {
        this.#entries.delete(waiting.name);
        this.#discard(waiting);
      }
    }, Math.max(0, until(entry)));
    this.#later.add(timer);
  }

  /**
   * @param {Waiting} waiting
   * @returns {Promise<Outcome>}
   */
  async #attempt(waiting) {
    const { entry, name } = waiting;
    // Another page that has it, too, may have had the answer, or asked for the opposite.
    const stored = waiting.stored === null ? null : this.storage?.getItem(this.#prefix + name) ?? null;
    if (stored !== waiting.stored && (waiting.inherited || ("member" in entry && stored !== null))) return { counted: false, gone: true };
    if (!("member" in entry)) {
      const age = Date.now() - entry.at;
      if (!(age <= this.keep && age > -SKEW)) {
        return { error: new CounterError("An increment waited too long to be sent again. Whether it was counted is unknown.", { unknown: true }) };
      }
    }
    const first = waiting.attempts++ === 0;
    const outcome = await this.transport.send(entry, this.user);
    // An earlier attempt of this page may have been counted, and its answer lost.
    return outcome.counted === false && !first ? { counted: true } : outcome;
  }
}

/**
 * Runs one at a time of what has the same name, in all pages of this origin, where the browser can do that: it can on pages
 * that came over HTTPS or from this machine.
 * @param {string} name
 * @param {AbortSignal} signal
 * @param {() => Promise<Outcome>} run
 * @returns {Promise<Outcome>}
 */
async function inTurn(name, signal, run) {
  if (!globalThis.navigator?.locks) return run();
  try {
    return await navigator.locks.request(name, { signal }, run);
  } catch (error) {
    if (signal.aborted) return { again: 0 };
    throw error;
  }
}

/** @param {{ key: string } | { counter: string, field?: string, member: string }} entry */
function nameOf(entry) {
  return "key" in entry ? entry.key : `member ${JSON.stringify([entry.counter, entry.field ?? null, entry.member])}`;
}

/** @param {Like} like ms until no earlier request is carried out any more */
function until({ until = 0 }) {
  return Math.min(LATE, until - Date.now()); // A clock may have been set back.
}

/** @param {Waiting} waiting */
function joinedOf({ entry }) {
  return "member" in entry ? entry.joined : undefined;
}

/** A key. `crypto.randomUUID` is only there on pages that came over HTTPS or from this machine. */
function uuid() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
