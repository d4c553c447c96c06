const LANES = 32; // requests on their way at once; a browser sends 6 of them side by side over HTTP/1
const TIMEOUT = 25_000; // ms; the function answers within 20 s unless REQUEST_TIMEOUT says more
const SHORTEST = 250, LONGEST = 15_000; // ms between attempts while nothing gets through
const SKEW = 60_000; // ms by which a clock may be set back without making an age unknown

/** An increment that was given up. Unless `unknown`, it was not counted. */
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
 * @typedef {object} Entry an increment until it is answered
 * @property {string} key its Idempotency-Key
 * @property {string} counter
 * @property {number} by
 * @property {number} at when it was added, in ms since 1970
 */

/**
 * @typedef {object} Waiting
 * @property {Entry} entry
 * @property {boolean} stored
 * @property {boolean} inherited whether it is an earlier page's
 * @property {number} attempts of this page
 * @property {Promise<boolean>} done
 * @property {(counted: boolean) => void} resolve
 * @property {(error: Error) => void} reject
 */

/**
 * Increments on their way to the function. Each is sent until it is answered, under one key, by which the function counts
 * it once however often it comes. Each is stored before it is sent, so that the next page goes on with what a reload or a
 * crash left. Pages that send the same one at the same time do no harm: the key is the same.
 */
export class Queue {
  /** @type {Map<string, Waiting>} by key, oldest first */
  #entries = new Map();
  /** @type {Set<string>} keys of requests on their way */
  #flying = new Set();
  #pause = 0; // ms; 0 while requests get through
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #closed = new AbortController();
  #prefix;

  /**
   * @param {object} options
   * @param {string} options.url of the Increment function
   * @param {Pick<Storage, "length" | "key" | "getItem" | "setItem" | "removeItem">} [options.storage] none: nothing outlives the page
   * @param {number} options.keep ms after which an increment is given up; less than the function's REQUEST_TTL
   * @param {() => HeadersInit | Promise<HeadersInit>} [options.headers] to send along, such as a token
   * @param {() => void} options.changed called when `trouble` or what waits has changed
   * @param {(error: CounterError, entry: Entry) => void} options.failed called for those of an earlier page, whose promises are gone
   */
  constructor({ url, storage, keep, headers, changed, failed }) {
    this.url = url;
    this.storage = storage;
    this.keep = keep;
    this.headers = headers;
    this.changed = changed;
    /** @type {string | undefined} Why nothing gets through, in words; undefined while it does. */
    this.trouble = undefined;
    this.#prefix = `counters-queue ${url} `;
    for (const entry of this.#stored()) this.#wait(entry, true, true).done.catch((error) => failed(error, entry));
    const go = () => this.go();
    globalThis.addEventListener?.("online", go, { signal: this.#closed.signal });
    globalThis.document?.addEventListener("visibilitychange", go, { signal: this.#closed.signal });
    this.#pump();
  }

  /** What is not answered yet, of this page and of earlier ones. @returns {Iterable<Entry>} */
  get waiting() {
    return Array.from(this.#entries.values(), ({ entry }) => entry);
  }

  /**
   * Adds an increment, and sends it. With a key that already waits, nothing is added.
   * @param {string} counter
   * @param {number} by
   * @param {string} [key]
   * @returns {{ done: Promise<boolean>, added: boolean }} done: once it is counted, false if it had been before; or a CounterError
   */
  add(counter, by, key = uuid()) {
    const same = this.#entries.get(key);
    if (same) return { done: same.done, added: false };
    const entry = { key, counter, by, at: Date.now() };
    let stored = false;
    try {
      this.storage?.setItem(this.#prefix + key, JSON.stringify(entry));
      stored = this.storage !== undefined;
    } catch {
      // The storage is full or forbidden: this one doesn't outlive the page.
    }
    const { done } = this.#wait(entry, stored, false);
    this.#pump();
    return { done, added: true };
  }

  /** Stops sending. What is stored is sent by the next page. */
  close() {
    this.#closed.abort();
    clearTimeout(this.#timer);
  }

  /** @returns {Entry[]} */
  #stored() {
    const entries = [];
    for (let i = 0; i < (this.storage?.length ?? 0); i++) {
      const name = this.storage?.key(i);
      if (!name?.startsWith(this.#prefix)) continue;
      try {
        const { key, counter, by, at } = JSON.parse(this.storage?.getItem(name) ?? "");
        if (name === this.#prefix + key) entries.push({ key, counter, by, at });
      } catch {
        // Not one of ours.
      }
    }
    return entries.sort((a, b) => a.at - b.at);
  }

  /**
   * @param {Entry} entry
   * @param {boolean} stored
   * @param {boolean} inherited
   */
  #wait(entry, stored, inherited) {
    /** @type {(counted: boolean) => void} */
    let resolve = () => {};
    /** @type {(error: Error) => void} */
    let reject = () => {};
    /** @type {Promise<boolean>} */
    const done = new Promise((yes, no) => ([resolve, reject] = [yes, no]));
    const waiting = { entry, stored, inherited, attempts: 0, done, resolve, reject };
    this.#entries.set(entry.key, waiting);
    return waiting;
  }

  /** Ends a pause: there is reason to believe that requests get through again. */
  go() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#pump();
  }

  #pump() {
    if (this.#closed.signal.aborted || this.#timer !== undefined) return;
    // While nothing gets through, one request finds out when it does again.
    const lanes = this.#pause ? 1 : LANES;
    for (const waiting of this.#entries.values()) {
      if (this.#flying.size >= lanes) return;
      if (!this.#flying.has(waiting.entry.key)) void this.#send(waiting);
    }
  }

  /** @param {Waiting} waiting */
  async #send(waiting) {
    const { entry } = waiting;
    this.#flying.add(entry.key);
    const outcome = await this.#attempt(waiting);
    this.#flying.delete(entry.key);
    if (this.#closed.signal.aborted) return;
    if (outcome.again === undefined) {
      this.#entries.delete(entry.key);
      if (waiting.stored) this.storage?.removeItem(this.#prefix + entry.key);
      [this.#pause, this.trouble] = [0, undefined];
      if (outcome.error) waiting.reject(outcome.error);
      else waiting.resolve(!outcome.before);
    } else if (this.#timer === undefined) {
      this.trouble = outcome.trouble;
      this.#pause = Math.min(LONGEST, this.#pause ? 2 * this.#pause : SHORTEST);
      const pause = Math.max(outcome.again, this.#pause * (1 + Math.random()));
      this.#timer = setTimeout(() => this.go(), pause);
    }
    this.#pump();
    this.changed();
  }

  /**
   * @param {Waiting} waiting
   * @returns {Promise<{ before?: boolean, error?: CounterError, again?: number, trouble?: string }>} before: it had been counted
   *   before this page sent it; again: in how many ms at the soonest
   */
  async #attempt(waiting) {
    const { key, counter, by, at } = waiting.entry;
    // Another page that has it, too, may have had the answer.
    if (waiting.inherited && this.storage?.getItem(this.#prefix + key) === null) return { before: true };
    const age = Date.now() - at;
    if (!(age <= this.keep && age > -SKEW)) {
      return { error: new CounterError("An increment waited too long to be sent again. Whether it was counted is unknown.", { unknown: true }) };
    }
    const first = waiting.attempts++ === 0;
    let answer, text;
    try {
      const headers = new Headers(await this.headers?.());
      headers.set("Content-Type", "application/json");
      headers.set("Idempotency-Key", key);
      answer = await fetch(`${this.url}/${encodeURIComponent(counter)}`, {
        method: "POST", headers, body: JSON.stringify({ by }), signal: AbortSignal.timeout(TIMEOUT),
      });
      text = await answer.text();
    } catch (error) {
      const late = error instanceof DOMException && error.name === "TimeoutError";
      return { again: 0, trouble: late ? "The server doesn't answer in time." : "The server can't be reached." };
    }
    const body = parse(text);
    if (answer.ok) return { before: first && body.replayed === true };
    const { status } = answer;
    if (status >= 500 || status === 408 || status === 425 || status === 429) {
      const seconds = Number(answer.headers.get("Retry-After"));
      return { again: seconds > 0 ? seconds * 1_000 : 0, trouble: status === 429 ? "There were too many requests." : "The server is too busy, or not well." };
    }
    return { error: new CounterError(`The server refuses it: ${body.detail ?? answer.statusText} (${status}).`, { status }) };
  }
}

/** @param {string} text JSON, unless it comes from something in between */
function parse(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

/** A key. `crypto.randomUUID` is only there on pages that came over HTTPS or from this machine. */
function uuid() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
