// Holds of an amount: credits that a request may need, tickets in a basket. The page reserves, settles for what was
// used, or gives back, each once however often it is sent.
import { CounterError, newKey, want } from "./entry.js";
import { absolute, ask, whose } from "./http.js";
import { LONGEST, SHORTEST } from "./pauses.js";
import { storageOf } from "./record.js";

const FORGOTTEN = 23 * 3_600_000; // ms from which on the function may have forgotten a hold that has ended
/** @type {Record<string, number>} */
const UNITS = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };

/**
 * What a hold is.
 * @typedef {object} Held
 * @property {"held" | "settled" | "ended"} state `ended`: all of it came back. One whose time is over is held until
 *   somebody ends it
 * @property {number} held how much it has, or had
 * @property {number | undefined} until when its time is over, in ms since 1970
 * @property {number | undefined} by for how much it is settled
 * @property {number | undefined} returned how much came back
 * @property {number | undefined} left how much of the limit was left, where that is known
 */

/**
 * @typedef {object} Options
 * @property {string} url of the Increment function
 * @property {string | (() => string | null | undefined)} [member] who the user is, now: as of `Counters`. A hold is
 *   its user's, and what one has asked for is sent for nobody else
 * @property {(changed: () => void) => () => void} [onUser] as of `Counters`; see `signedIn`
 * @property {() => HeadersInit | Promise<HeadersInit>} [headers] to send with each request, such as Authorization
 * @property {Storage | null} [storage] where what is settled or given back is kept until it is answered; localStorage
 *   unless given, and null for nowhere
 * @property {(error: CounterError, hold: Hold) => void} [failed] called where what an earlier page has settled or given
 *   back is refused
 * @property {any} [page] the window; for tests
 */

/**
 * @typedef {object} Finish that a hold is settled or given back, until that is answered
 * @property {number | null} by for how much it is settled; null: all comes back
 * @property {number} at when it was asked for, in ms since 1970
 * @property {boolean} tried whether it was sent
 */

/** The holds behind one Increment function. */
export class Holds {
  /** @type {Map<string, { hold: Hold, by: number | null, done: Promise<Held> }>} what is settled or given back at the moment, by name */
  #finishes = new Map();
  /** @type {Map<string, { gone: AbortController, done: Promise<Held> }>} what is reserved at the moment, by name */
  #reserving = new Map();
  /** @type {Set<Finish>} what the storage doesn't take */
  #unkept = new Set();
  /** @type {Set<() => void>} */
  #sleepers = new Set();
  #ended = new AbortController();
  #away = false; // whether the page is put aside
  /** @type {() => string | null | undefined} */
  #member;
  #prefix;
  #options;
  /** @type {string | undefined} why nothing gets through, in words; undefined while it does */
  trouble;

  /** @param {Options} options */
  constructor({ url, member, onUser, headers, storage = storageOf("localStorage"), failed = () => {}, page = globalThis }) {
    if (!url) throw new TypeError("want the url of Increment"); // Requests would go to the page's own site.
    this.url = url.replace(/\/$/, "");
    this.#options = { headers, storage, failed };
    this.#member = typeof member === "function" ? member : () => member ?? "me";
    this.#prefix = `counters-holds ${absolute(this.url)} `;
    const { signal } = this.#ended;
    for (const target of [page, page.document]) {
      /** @type {(events: string, run: () => void) => void} */
      const on = (events, run) => events.split(" ").forEach((event) => target?.addEventListener?.(event, run, { signal }));
      on("pagehide freeze", () => (this.#away = true));
      on("pageshow resume online visibilitychange", () => this.#wake());
    }
    if (onUser) signal.onabort = onUser(() => this.#wake());
    for (const key of this.#keys) this.#goOn(key);
  }

  /** Who the user is; undefined while nobody has signed in. For `Hold`. */
  get user() {
    return this.#member() ?? undefined;
  }

  /** Whether what is settled or given back outlives the page; false where the storage is full or there is none. */
  get kept() {
    return this.#unkept.size === 0;
  }

  /**
   * A hold of the user of now. The same id is the same hold, also on the next page.
   * @param {string} counter
   * @param {string} field
   * @param {string} [id] up to 255 printable ASCII characters, such as a job's or an order's; one that nobody else has
   *   unless given
   */
  hold(counter, field, id = newKey().replaceAll("/", "_")) {
    want(counter, field);
    if (!/^(?!\.\.?$)[!-~]([ -~]{0,253}[!-~])?$/.test(id)) throw new TypeError(`want an id in ASCII, not ${JSON.stringify(id)}`);
    return new Hold(this, counter, field, id);
  }

  /** Ends everything. What is settled or given back and has no answer yet is sent by the next page. */
  close() {
    this.#ended.abort();
    this.#wake();
  }

  #wake() {
    this.#away = false;
    for (const go of this.#sleepers) go();
  }

  /** Where the storage has something of ours. */
  get #keys() {
    const { storage } = this.#options;
    const keys = [];
    for (let i = 0; i < (storage?.length ?? 0); i++) {
      const key = storage?.key(i);
      if (key?.startsWith(this.#prefix)) keys.push(key);
    }
    return keys;
  }

  /** Sends what an earlier page, or another tab, has asked for: to say it twice changes nothing. @param {string} key */
  #goOn(key) {
    let hold, /** @type {Finish} */ finish;
    try {
      const { counter, field, id, user, as, by, at, tried } = JSON.parse(this.#options.storage?.getItem(key) ?? "");
      if (!(at > 0) || (by !== null && !(by >= 0))) return; // It is none of ours.
      hold = Object.assign(this.hold(counter, field, id), { user, as: as.trimEnd() || (tried ? "" : undefined) });
      finish = { by, at, tried: tried === 1 };
    } catch {
      return;
    }
    const of = hold;
    this.#finish(of, finish, key).catch((error) => this.#options.failed(error, of));
  }

  /** For `Hold`. @param {Hold} hold @param {number} by @param {string} lasts */
  reserve(hold, by, lasts) {
    const ms = msOf(lasts);
    const { name } = hold;
    const gone = new AbortController();
    const late = setTimeout(() => gone.abort(new CounterError("No answer came within the time of the hold.")), ms);
    const done = this.#send(hold, "PUT", "", { by, for: lasts }, gone.signal).then((held) => {
      if (held.state === "held") return held;
      throw new CounterError(held.state === "settled" ? "The hold is settled." : "The hold is over.", { status: 409, reason: held.state === "settled" ? "settled" : "hold-ended", by: held.by });
    }).finally(() => {
      clearTimeout(late);
      if (this.#reserving.get(name)?.done === done) this.#reserving.delete(name);
    });
    this.#reserving.set(name, { gone, done });
    // It may be held all the same, and nobody would settle it.
    done.catch((error) => {
      if (error === gone.signal.reason) this.finish(hold, null).catch(() => {});
    });
    return done;
  }

  /**
   * For `Hold`: settles it, or gives it back.
   * @param {Hold} hold
   * @param {number | null} by
   * @returns {Promise<Held>}
   */
  finish(hold, by) {
    const before = this.#finishes.get(hold.name);
    if (before?.by === by && before.hold.as === hold.as) return before.done;
    // What was asked for first stands, and the function says so.
    if (before) return before.done.catch(() => {}).then(() => this.finish(hold, by));
    return this.#finish(hold, { by, at: Date.now(), tried: false });
  }

  /** @param {Hold} hold @param {Finish} finish @param {string} [key] where it is kept */
  #finish(hold, finish, key = this.#prefix + newKey()) {
    const { name } = hold;
    const { by } = finish;
    this.#keep(key, hold, finish);
    const done = this.#finished(hold, finish, key).finally(() => {
      if (this.#finishes.get(name)?.done === done) this.#finishes.delete(name);
      this.#unkept.delete(finish);
      try {
        this.#options.storage?.removeItem(key);
      } catch {
        // The storage is forbidden, and so there is nothing in it.
      }
    });
    this.#finishes.set(name, { hold, by, done });
    return done;
  }

  /** @param {Hold} hold @param {Finish} finish @param {string} key */
  async #finished(hold, finish, key) {
    const { by, tried } = finish;
    const reserving = this.#reserving.get(hold.name);
    // A hold that comes after its end is refused.
    if (by === null) reserving?.gone.abort(new CounterError("It was given back.", { reason: "hold-ended" }));
    else await reserving?.done.catch(() => {});
    const sent = () => {
      finish.tried = true;
      this.#keep(key, hold, finish);
    };
    try {
      return await (by === null ? this.#send(hold, "DELETE", "", undefined, undefined, sent) : this.#send(hold, "POST", "/settle", { by }, undefined, sent));
    } catch (/** @type {any} */ error) {
      // The function may have settled it, and forgotten that since.
      if (error.reason === "hold-ended" && tried && Date.now() - finish.at > FORGOTTEN) error.unknown = true;
      throw error;
    }
  }

  /** @param {string} key @param {Hold} hold @param {Finish} finish */
  #keep(key, { counter, field, id, user, as }, finish) {
    try {
      const { storage } = this.#options;
      // It is always as long: what is there can be replaced in a storage that is full.
      storage?.setItem(key, JSON.stringify({ counter, field, id, user, as: (as ?? "").padEnd(13), ...finish, tried: +finish.tried }));
      if (storage) return void this.#unkept.delete(finish);
    } catch {
      // The storage is full, or forbidden.
    }
    this.#unkept.add(finish);
  }

  /** For `Hold`. @param {Hold} hold */
  look(hold) {
    return this.#send(hold, "GET", "");
  }

  /**
   * Sends a request until it is answered.
   * @param {Hold} hold
   * @param {string} method
   * @param {string} path what follows the hold's
   * @param {object} [body]
   * @param {AbortSignal} [gone] ends it, with its reason
   * @param {() => void} [sent] called before it is sent
   * @returns {Promise<Held>} rejects with a CounterError if it is refused
   */
  async #send(hold, method, path, body, gone, sent) {
    for (let pause = SHORTEST; ; pause = Math.min(LONGEST, 2 * pause)) {
      const wait = await this.#attempt(hold, method, path, body, gone, sent);
      if (typeof wait !== "number") return wait;
      await this.#pause(Math.max(wait, pause * (1 + Math.random())), gone);
      if (gone?.aborted) throw gone.reason;
    }
  }

  /**
   * @param {Hold} hold
   * @param {string} method
   * @param {string} path
   * @param {object | undefined} body
   * @param {AbortSignal | undefined} gone
   * @param {(() => void) | undefined} sent
   * @returns {Promise<Held | number>} ms to wait, if it was not sent, or has no answer
   */
  async #attempt(hold, method, path, body, gone, sent) {
    const mine = () => !this.#away && this.user === hold.user;
    if (!mine()) return LONGEST;
    let headers;
    try {
      headers = new Headers(await this.#options.headers?.());
    } catch (error) {
      this.trouble = `No credentials: ${error}`;
      return 0;
    }
    if (this.#ended.signal.aborted) return LONGEST;
    if (gone?.aborted) throw gone.reason;
    // Other users are known by their ids. Under another's name it would be another hold.
    const as = hold.user === "me" ? whose(headers.get("Authorization")) : "";
    if (!mine() || (hold.as ?? as) !== as) return LONGEST;
    if (hold.as === undefined) hold.as = as;
    sent?.();
    if (body) headers.set("Content-Type", "application/json");
    const url = [this.url, ...[...hold.counter.split("/"), hold.field, "holds", hold.id].map(encodeURIComponent)].join("/") + path;
    const outcome = await ask(this.url, url, { method, headers, body: body && JSON.stringify(body) }, gone);
    if (gone?.aborted && !outcome.body) throw gone.reason;
    this.trouble = outcome.trouble;
    if (outcome.error) throw outcome.error;
    return outcome.body ? heldOf(outcome.body) : outcome.again ?? 0;
  }

  /** @param {number} ms @param {AbortSignal} [gone] */
  #pause(ms, gone) {
    return /** @type {Promise<void>} */ (new Promise((resolve) => {
      if (this.#ended.signal.aborted) return; // for good: the next page sends it
      const go = () => {
        clearTimeout(timer);
        this.#sleepers.delete(go);
        gone?.removeEventListener("abort", go);
        if (!this.#ended.signal.aborted) resolve();
      };
      const timer = setTimeout(go, ms);
      this.#sleepers.add(go);
      gone?.addEventListener("abort", go);
      if (gone?.aborted) go();
    }));
  }
}

/** An amount that is held for a time. Use `Holds.hold`. */
export class Hold {
  #holds;
  /** @type {string | undefined} whose credentials it was sent with; for `Holds` */
  as;

  /**
   * @param {Holds} holds
   * @param {string} counter
   * @param {string} field
   * @param {string} id
   */
  constructor(holds, counter, field, id) {
    this.#holds = holds;
    this.counter = counter;
    this.field = field;
    this.id = id;
    this.user = holds.user;
  }

  /** Which hold it is. For `Holds`. */
  get name() {
    return JSON.stringify([this.counter, this.field, this.id, this.user]);
  }

  /**
   * Takes an amount for a time. It is sent until it is answered, for that time at most: then, and if the page is
   * gone, all comes back. Repeated, it answers what the first one did, and takes nothing more.
   * @param {number} by a whole number of 1 or more
   * @param {string} lasts from 1s to 720h, such as 2m or 1h30m
   * @returns {Promise<Held>} once it is held; rejects with a CounterError where it isn't: its `reason` is
   *   `limit-reached`, and `left` how much there was; `hold-ended` or `settled` where this id's is over
   */
  async reserve(by, lasts) {
    amount(by, 1);
    return this.#signedIn().reserve(this, by, lasts);
  }

  /**
   * Says how much was used: that stays counted, and the rest comes back. It is stored, sent until it is answered, and
   * outlives a reload.
   * @param {number} by a whole number of 0 or more. More than is held is taken if there is room, or else nothing
   *   changes, and it is refused
   * @returns {Promise<Held>} the same however often it is called; rejects with a CounterError: its `reason` is
   *   `hold-ended`; or `settled`, for the amount `by`; or `limit-reached`
   */
  async settle(by) {
    amount(by, 0);
    return this.#signedIn().finish(this, by);
  }

  /**
   * Gives all of it back, also of a hold that is on its way. It is stored, sent and repeated as `settle`.
   * @returns {Promise<Held>} rejects with a CounterError where it is `settled`
   */
  async giveBack() {
    return this.#signedIn().finish(this, null);
  }

  /**
   * Asks what it is now, for one read.
   * @returns {Promise<Held>} rejects with a CounterError with the `status` 404 where there is none, or none any more
   */
  async look() {
    return this.#signedIn().look(this);
  }

  #signedIn() {
    this.user ??= this.#holds.user;
    if (this.user === undefined) throw new CounterError("Nobody has signed in.");
    return this.#holds;
  }
}

/** @param {number} by @param {number} least */
function amount(by, least) {
  if (!Number.isSafeInteger(by) || by < least) throw new TypeError(`want a whole number of ${least} or more, not ${by}`);
}

/** @param {string} lasts such as 1h30m */
function msOf(lasts) {
  const parts = /^(\d+(\.\d+)?(h|ms|m|s))+$/.test(lasts) ? lasts.match(/[\d.]+\D+/g) : null;
  const ms = parts?.reduce((sum, part) => sum + parseFloat(part) * UNITS[part.replace(/[\d.]+/, "")], 0) ?? 0;
  if (!(ms >= 1_000 && ms <= 720 * UNITS.h)) throw new TypeError(`want a time from 1s to 720h, such as 2m, not ${JSON.stringify(lasts)}`);
  return Math.min(ms, 2 ** 31 - 1); // what setTimeout takes
}

/** @param {any} body @returns {Held} */
function heldOf({ state, held, until, by, returned, left }) {
  return { state, held, until: until && Date.parse(until), by, returned, left };
}
