import { BEFORE, COUNTED, CounterError, errorOf, joinedOf, lateOf, latest, newKey, REFUSED, UNKNOWN } from "./entry.js";
import { LONGEST, Pauses } from "./pauses.js";
import { nameOf, Records } from "./record.js";
import { SETTLE, Turn } from "./turn.js";

// requests on their way at once; a browser sends 6 of them side by side over HTTP/1
const AT_ONCE = 32;
const SKEW = 60_000; // ms by which a clock may be set back without making an age unknown
// ms after which no request is carried out any more: 25 s until it is sent, up to 162 s in the function,
// and a minute by which a clock may be set forth meanwhile
const LATE = 260_000;
const NOTED = 2_000; // ms in which a page that is there has taken note of how its entry ended

/**
 * Queues of this page that are open, oldest first. Those over the same records are peers: a page gets
 * no `storage` event of its own, so they tell each other what they write, and share one turn. Each
 * sends by its own transport what was asked of it; what nobody here was asked for, the newest sends.
 * @type {Set<Queue>}
 */
const here = new Set();

/** @typedef {import("./entry.js").Entry} Entry */
/** @typedef {import("./entry.js").Like} Like */
/** @typedef {import("./entry.js").Outcome} Outcome */
/** @typedef {import("./entry.js").Transport} Transport */
/** @typedef {import("./record.js").Store} Store */
/** @typedef {import("./entry.js").Waiting} Waiting */

/**
 * A user's increments and likes on their way. Each is sent until it is answered: an increment under
 * one key, by which it is counted once however often it comes, and of a member's likes the last
 * that was asked for. Each is stored before it is sent. One page sends what all of them have
 * stored, so that nothing is on its way twice, and says in the storage how it ended; when that page
 * is gone or frozen, another one goes on.
 */
export class Queue {
  /** @type {Map<string, Waiting>} by name, oldest first */
  #entries = new Map();
  /** @type {Map<string, Waiting>} what is on its way, by name */
  #flying = new Map();
  /** @type {Map<string, Entry>} likes as they were answered last, by name: of one that was refused, an earlier attempt may still be carried out */
  #last = new Map();
  #pauses = new Pauses(() => this.#pump());
  /** @type {Set<ReturnType<typeof setTimeout>>} */
  #timers = new Set();
  #closed = new AbortController();
  #leads = false;
  #options;
  #records;
  #turn;

  /** @param {import("./entry.js").Options} options */
  constructor(options) {
    const { name, storage, locks } = options;
    this.#options = options;
    this.#records = new Records(storage, `counters-queue ${name} `);
    this.#turn = storage && new Turn(`counters-sender ${name}`, storage, () => this.#all.forEach((queue) => queue.#lead()), () => this.#all.forEach((queue) => queue.#follow()), locks);
    this.#closed.abort();
  }

  /** Begins to send, or goes on after a `close`. */
  open() {
    if (!this.#closed.signal.aborted) return;
    this.#closed = new AbortController();
    const { signal } = this.#closed;
    this.takeAll();
    if (signal.aborted) return; // Who was told of it has found that the user is another one now.
    // What the storage doesn't take, each page sends by itself.
    for (const waiting of this.#entries.values()) if (waiting.settled && !waiting.kept) this.#keepLate(waiting);
    here.add(this);
    const [first] = this.#all;
    if (!this.#turn || first.#leads) this.#lead();
    else if (first === this) this.#turn.start();
    this.#pump();
  }

  /** Stops sending. What is stored is sent by another page, or by the next. */
  close() {
    const [first] = this.#all;
    here.delete(this);
    this.#closed.abort();
    this.#turn?.stop();
    this.#leads = false;
    const peers = this.#peers;
    if (first === this && peers.length) {
      for (const peer of peers) peer.#leads = false;
      peers[0].#turn?.start();
    }
    for (const peer of peers) peer.#heard(); // They do now what this one has kept.
    this.#pauses.clear();
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
  }

  /** The open queues of this page over the same records, oldest first. */
  get #all() {
    const { name, storage } = this.#options;
    return [...here].filter((queue) => queue === this || (storage && queue.#options.storage === storage && queue.#options.name === name));
  }

  get #peers() {
    return this.#all.filter((queue) => queue !== this);
  }

  /**
   * Why nothing gets through, in words; undefined while it does.
   * @returns {string | undefined}
   */
  get trouble() {
    return this.#pauses.trouble;
  }

  /** Whether the storage has all that this page knows of. */
  get kept() {
    return [...this.#entries.values()].every(({ kept }) => kept);
  }

  /** What is not answered yet, of this page, of earlier ones and of other tabs. */
  get waiting() {
    return [...this.#entries.values()].filter(({ settled }) => !settled);
  }

  /**
   * What the increments and likes that are being sent at this moment add to a counter: up under
   * 1, down under -1.
   * @param {string} counter
   * @param {string} field
   */
  underWay(counter, field) {
    const sum = { [1]: 0, [-1]: 0 };
    for (const { entry } of [this, ...this.#peers].flatMap((queue) => [...queue.#flying.values()])) {
      if (entry.counter !== counter || entry.field !== field) continue;
      const by = "key" in entry ? entry.by : entry.joined ? 1 : -1;
      sum[by < 0 ? -1 : 1] += Math.abs(by);
    }
    return sum;
  }

  /**
   * What was asked for last, of a member's likes that wait.
   * @param {string} counter
   * @param {string} field
   * @param {string} member
   * @returns {boolean | undefined} undefined where none waits
   */
  wish(counter, field, member) {
    const waiting = this.#entries.get(nameOf({ counter, field, member }));
    return waiting?.settled === false ? joinedOf(waiting) : undefined;
  }

  /**
   * Adds an increment, and sends it. With a key that already waits, nothing is added.
   * @param {string} counter
   * @param {string} field
   * @param {number} by
   * @param {string} [key]
   * @returns {Promise<boolean>} fulfilled once it is counted, with false if it had been before;
   *   or rejected with a CounterError
   */
  async add(counter, field, by, key = newKey()) {
    const same = this.#entries.get(nameOf({ counter, field, key }));
    if (same) {
      const { entry } = same;
      if ("key" in entry && entry.by === by) return same.done;
      throw new CounterError(`${key} waits, with another number.`);
    }
    return this.#add({ counter, field, key, by, at: Date.now(), tried: false, as: "", end: 0 }).done;
  }

  /**
   * Asks for a member to be counted, or not to be any more. It takes the place of what was asked
   * for before and not sent yet.
   * @param {string} counter
   * @param {string} field
   * @param {string} member
   * @param {boolean} joined
   * @returns {Promise<boolean>} fulfilled once it is as asked for, with false if it had been
   *   before, or if the opposite has taken its place; or rejected with a CounterError
   */
  async like(counter, field, member, joined) {
    const name = nameOf({ counter, field, member });
    this.#take(name); // Another tab may have asked for something just now.
    const last = this.#entries.get(name);
    const sent = this.#flying.get(name);
    if (last && !last.settled && joinedOf(last) === joined) return last.done;
    const then = last?.entry ?? this.#records.read(name) ?? this.#last.get(name); // That may be answered, and only kept.
    const at = Math.max(Date.now(), (then?.at ?? 0) + 1);
    // That is under way, and what was to follow is taken back.
    if (last && sent && sent !== last && joinedOf(sent) === joined) {
      Object.assign(sent.entry, { at, late: lateOf(then) });
      last.resolve(false);
      this.#entries.set(name, sent);
      this.#keep(sent);
      return sent.done;
    }
    const next = this.#add({ counter, field, member, joined, id: newKey(), at, late: lateOf(then), end: 0 });
    if (last && last !== sent) last.resolve(false);
    return next.done;
  }

  /** Ends all pauses: there is reason to believe that requests get through again. */
  go() {
    this.#pauses.end();
    this.#entries.forEach((waiting) => (waiting.parked = false));
    this.#pump();
  }

  /**
   * Takes what another page has stored.
   * @param {string | null} key null: it has emptied the storage
   */
  heard(key) {
    this.#turn?.heard(key);
    if (key === null) this.#heard();
    else if (key.startsWith(this.#records.prefix)) this.#heard(key.slice(this.#records.prefix.length));
  }

  /** @param {string} [name] all unless given */
  #heard(name) {
    // What nobody has asked for, and is gone, is a user's by now: see adopt.
    if (name) this.#take(name, this.#options.nobody);
    else this.takeAll();
    this.#pump();
    this.#options.changed();
  }

  /**
   * Takes over what was asked for before the page knew who its user is, and was never sent. What other
   * pages were asked for may be somebody's by now, and this page, that was suspended, not have heard of
   * it: it takes a look at that a bit later.
   * @param {Queue} nobody their queue
   */
  adopt(nobody, all = false) {
    nobody.takeAll();
    if (!all) this.#later(() => this.#options.mine() && this.adopt(nobody, true), SETTLE);
    for (const waiting of [...nobody.#entries.values()]) {
      const { entry, name, own, settled, resolve, reject } = waiting;
      if (settled || !(own || all) || ("key" in entry && entry.tried) || nobody.#isPeers(name)) continue;
      waiting.resolve = waiting.reject = () => {};
      const { counter, field } = entry;
      const { user, failed } = this.#options;
      const done = "key" in entry ? this.add(counter, field, entry.by, entry.key) : this.#likeAgain(entry, user);
      done.then(resolve, own ? reject : (error) => failed(error, entry));
      for (const queue of [nobody, ...nobody.#peers]) queue.#entries.delete(name);
      nobody.#records.remove(name);
    }
  }

  /** Whether this is the newest here, and no peer was asked for that. @param {string} name */
  #isMine(name) {
    return this.#all.at(-1) === this && !this.#isPeers(name);
  }

  /** Whether a peer was asked for that. @param {string} name */
  #isPeers(name) {
    return this.#peers.some((peer) => peer.#entries.get(name)?.own);
  }

  /** @param {Like} like of nobody @param {string} member who that was */
  async #likeAgain({ counter, field, joined, at }, member) {
    const name = nameOf({ counter, field, member });
    const then = this.#entries.get(name)?.entry ?? this.#records.read(name);
    return (then?.at ?? 0) > at ? false : this.like(counter, field, member, joined);
  }

  /** This page is the one that sends from now on. */
  #lead() {
    this.takeAll(); // What the one before has settled, this one doesn't send.
    if (this.#closed.signal.aborted) return;
    this.#leads = true;
    for (const waiting of this.#entries.values()) if (waiting.settled) this.#keepLate(waiting);
    this.takeAll();
    this.#pump();
  }

  /** Another page is the one that sends. */
  #follow() {
    this.#leads = false;
    this.takeAll();
    this.#options.changed();
  }

  /** @returns {boolean} */
  get #leading() {
    /** @type {Queue} */
    const first = this.#all[0] ?? this;
    return this.#leads && (first.#turn?.held ?? true);
  }

  /** @param {() => void} run @param {number} ms */
  #later(run, ms) {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      run();
    }, ms);
    this.#timers.add(timer);
  }

  /**
   * @param {Entry} entry
   * @param {boolean} own
   * @param {boolean} settled
   */
  #make(entry, own = false, settled = false) {
    let /** @type {any} */ yes, /** @type {any} */ no;
    /** @type {Promise<boolean>} */
    const done = new Promise((resolve, reject) => ([yes, no] = [resolve, reject]));
    done.catch(() => {}); // Who asked for it hears of it.
    /** @type {NonNullable<Waiting["ended"]>} */
    const end = (counted, error, committed) => {
      const { ended } = waiting;
      waiting.ended = undefined;
      ended?.(counted, error, committed);
      if (error) no(error);
      else yes(counted);
    };
    /** @type {Waiting} */
    const waiting = { name: nameOf(entry), entry, own, kept: !own, settled, done, resolve: (counted, committed) => end(counted, undefined, committed), reject: (error) => end(false, error) };
    this.#entries.set(waiting.name, waiting);
    return waiting;
  }

  /**
   * @param {Entry} entry
   * @param {boolean} own
   */
  #add(entry, own = true) {
    const waiting = this.#make(entry, own);
    if (own) this.#keep(waiting);
    this.#options.added(waiting);
    if (own) this.#pump();
    return waiting;
  }

  /** @param {Waiting} waiting */
  #keep(waiting) {
    waiting.kept = this.#records.write(waiting.entry);
    this.#share(waiting.name);
  }

  /** Has the peers take what this one has written. @param {string} name */
  #share(name) {
    queueMicrotask(() => this.#peers.forEach((peer) => peer.#heard(name)));
  }

  /**
   * Takes it that a peer's request has settled it.
   * @param {string} name
   * @param {Entry} entry
   */
  #settled(name, entry) {
    const waiting = this.#entries.get(name);
    if (!waiting || waiting.settled || (!("key" in entry) && entry.id !== /** @type {any} */ (waiting.entry).id)) return;
    this.#entries.delete(name);
    waiting.settled = true;
    this.#tell(waiting, entry);
    this.#options.changed();
  }

  /** Takes all that the storage has. @param {boolean} [woken] whether this page was away */
  takeAll(woken) {
    const names = new Set([...this.#records.names, ...this.#entries.keys()]);
    /** @type {(name: string) => number} */
    const age = (name) => this.#records.read(name)?.at ?? 0;
    for (const name of [...names].sort((a, b) => age(a) - age(b))) this.#take(name, woken);
  }

  /**
   * Takes what the storage has under a name: another page may have written that.
   * @param {string} name
   * @param {boolean} [woken]
   */
  #take(name, woken) {
    const now = this.#entries.get(name);
    const then = this.#records.read(name);
    if (!then) {
      if (!now?.kept) return;
      // The app has emptied the storage, or what another tab wrote at the same moment is all that
      // is left; a page that was away may have missed how it ended. An increment's key makes sure
      // that it isn't counted again, and a like may have been taken back since.
      const { entry, own, settled } = now;
      const like = !("key" in entry);
      const { nobody } = this.#options;
      const asked = nobody && own && Date.now() - entry.at < 2 * SETTLE; // just now: who took what was there didn't know
      const taken = woken && nobody && !asked; // as a user's
      // What is answered is done, unless the opposite may be carried out late.
      const open = settled ? like && entry.late[+!entry.joined] > Date.now() : own;
      if (asked || (!taken && (this.#leading || (open && !(woken && like))))) this.#keep(now);
      else if (taken || !this.#leads) { // else it isn't sure yet that it leads
        this.#entries.delete(name);
        now.resolve(false);
      }
    } else if (!now) {
      if (!then.end) this.#add(then, false);
      else if (then.end <= BEFORE && then.at > (this.#last.get(name)?.at ?? Infinity)) this.#options.liked(/** @type {Like} */ (then));
      if (then.end && this.#leads && this.#isMine(name)) this.#keepLate(this.#make(then, false, true));
    } else if ("key" in now.entry || "key" in then) {
      if ("key" in now.entry && "key" in then) Object.assign(now.entry, { tried: now.entry.tried || then.tried, as: now.entry.as || then.as, at: Math.min(now.entry.at, then.at) });
      if (then.end) this.#ended(now, then);
    } else {
      const late = latest(now.entry.late, then.late);
      if (then.id === now.entry.id) {
        // A page that had the turn before may have a request on its way, too.
        const other = then.late[+now.entry.joined];
        if (other !== now.until) now.before = Math.max(now.before ?? 0, other);
        now.entry.late = late;
        if (then.end) this.#ended(now, then);
      } else if (then.at > now.entry.at || (then.at === now.entry.at && then.id > now.entry.id)) {
        // Another tab has asked for something since.
        const next = this.#add({ ...then, late, end: 0 }, false);
        if (now !== this.#flying.get(name)) now.resolve(false);
        // Who sends it has to know of that.
        if (late.some((ms, i) => ms !== then.late[i]) && this.#records.write({ ...then, late })) this.#share(name);
        if (then.end) this.#ended(next, then);
      } else { // What was asked for here came later, and the other tab didn't know.
        now.entry.late = late;
        this.#keep(now);
      }
    }
  }

  /**
   * Takes note of how an entry ended on the page that sends.
   * @param {Waiting} waiting
   * @param {Entry} then
   */
  #ended(waiting, then) {
    if (waiting.settled) return;
    this.#tell(waiting, then);
    // Where a request may have been carried out late, whoever sends next has to know of it, however
    // long ago that was.
    const late = !("key" in then) && then.end <= BEFORE && then.late.some(Boolean);
    if (!this.#leads && waiting.own && !late) this.#records.remove(waiting.name);
    waiting.settled = true;
    waiting.entry.end = then.end;
    if (this.#leads) this.#keepLate(waiting);
    else this.#entries.delete(waiting.name);
  }

  /** Settles its promise. @param {Waiting} waiting @param {Entry} entry */
  #tell({ name, resolve, reject }, entry) {
    if (entry.end > BEFORE) return reject(errorOf(entry));
    if (!("key" in entry) && this.#isLast(name, entry)) this.#options.liked(entry);
    resolve(entry.end === COUNTED, entry.committed || undefined);
  }

  /**
   * Takes a like that was answered, unless one is known that was asked for later.
   * @param {string} name
   * @param {Like} like
   */
  #isLast(name, like) {
    const is = like.at >= (this.#last.get(name)?.at ?? 0);
    if (is) this.#last.set(name, like);
    return is;
  }

  /** Whether this page is to send it. @param {Waiting} waiting */
  #wanted({ name, settled, again, kept, own }) {
    if (settled && !again) return false;
    return !kept || (this.#leading && (own || this.#isMine(name)));
  }

  #pump() {
    const all = this.#pauses.get("");
    if (this.#closed.signal.aborted || all?.timer || !this.#options.mine()) return;
    if (this.waiting.length && !this.#leading) this.#all[0].#turn?.hurry();
    for (const waiting of this.#entries.values()) {
      // While nothing gets through, one request finds out when it does again.
      if (this.#flying.size >= (all ? 1 : AT_ONCE)) return;
      const { name, entry: { counter }, parked } = waiting;
      if (!this.#wanted(waiting) || parked || this.#all.some((queue) => queue.#flying.has(name))) continue;
      const pause = this.#pauses.get(counter);
      if (pause && (pause.timer || [...this.#flying.values()].some(({ entry }) => entry.counter === counter))) continue;
      void this.#send(waiting);
    }
  }

  /** @param {Waiting} waiting */
  async #send(waiting) {
    const { name } = waiting;
    const { signal } = this.#closed;
    this.#flying.set(name, waiting);
    const sent = Date.now();
    const outcome = await this.#attempt(waiting, signal);
    this.#flying.delete(name);
    if (outcome && !signal.aborted) this.#answered(waiting, outcome, sent);
    else if (this.#entries.get(name) !== waiting) waiting.resolve(false); // another has taken its place meanwhile
    for (const queue of [this, ...this.#peers]) queue.#pump();
    this.#options.changed();
  }

  /**
   * @param {Waiting} waiting
   * @param {AbortSignal} signal
   * @returns {Promise<Outcome | undefined>} undefined if it was not sent, and may not be now
   */
  async #attempt(waiting, signal) {
    const { entry, name } = waiting;
    let credentials, failed;
    try {
      credentials = await this.#options.transport.prepare?.();
    } catch (/** @type {any} */ error) {
      failed = { again: 0, trouble: `No credentials: ${error}`, all: true };
    }
    if (signal.aborted || this.#entries.get(name) !== waiting || !this.#wanted(waiting) || !this.#options.mine()) return undefined;
    if ("key" in entry) {
      // A clock was set back, by that of the network, say. What nobody has sent is as good as new.
      if (!entry.tried && entry.at - Date.now() > SKEW) entry.at = Date.now();
      const age = Date.now() - entry.at; // by now: credentials may take days, on a machine that sleeps
      if (!(age <= this.#options.keep && age > -SKEW)) {
        return { error: new CounterError("It waited too long.", { unknown: entry.tried }) };
      }
    }
    if (failed) return failed;
    if ("key" in entry) {
      // Other users are known by their ids.
      const as = (this.#options.user === "me" && credentials?.as) || "";
      // Under another's name its key would be another, and it would count again.
      if (entry.tried && entry.as !== as) {
        waiting.parked = true;
        this.#later(() => this.go(), LONGEST);
        return undefined;
      }
      waiting.inDoubt = entry.tried;
      Object.assign(entry, { tried: true, as });
    } else {
      waiting.before = entry.late[+entry.joined];
      waiting.inDoubt = waiting.before > Date.now();
      waiting.until = entry.late[+entry.joined] = Date.now() + LATE;
    }
    this.#keep(waiting);
    return this.#options.transport.send({ ...entry }, { user: this.#options.user, credentials, signal });
  }

  /**
   * @param {Waiting} waiting
   * @param {Outcome} outcome
   * @param {number} sent when this attempt was
   */
  #answered(waiting, outcome, sent) {
    const { entry, name, before = 0, inDoubt = "key" in entry && entry.tried } = waiting;
    const now = this.#entries.get(name);
    if (!outcome.all) this.#pauses.through("");
    if (outcome.again !== undefined) {
      this.#pauses.begin(outcome.all ? "" : entry.counter, outcome.again, outcome.trouble);
      if ("key" in entry) return;
      const until = Date.now() + LATE;
      for (const one of [waiting, now]) {
        if (!one || "key" in one.entry) continue;
        one.entry.late[+entry.joined] &&= until; // 0: without credentials, it was not sent.
        if (one === now) this.#keep(one);
        else waiting.resolve(false);
      }
      return;
    }
    this.#pauses.through(entry.counter);
    // An earlier attempt of this page may have been counted, and its answer lost.
    const counted = outcome.counted || (inDoubt && waiting.own);
    const { error } = outcome;
    const end = !error ? (counted ? COUNTED : BEFORE) : inDoubt || error.unknown ? UNKNOWN : REFUSED;
    const ended = { end, committed: outcome.committed ?? 0, error: error && /** @type {Entry["error"]} */ ([error.message, { ...error, waited: sent - entry.at }]) };
    const settled = waiting.settled;
    if (!("key" in entry)) {
      this.#isLast(name, entry);
      // This request is done; of earlier ones, what is old enough is, too. What has taken its place may
      // have been sent before that, by a page that took the turn from this one: then it is sent again.
      for (const one of [waiting, now]) {
        if (!one || "key" in one.entry) continue;
        const { late } = one.entry;
        if (late[+entry.joined] === waiting.until) late[+entry.joined] = before > Date.now() ? before : one === waiting ? 0 : Date.now();
        if ((!error || settled) && late[+!entry.joined] <= sent) late[+!entry.joined] = 0;
      }
    }
    if (!settled) {
      this.#tell(waiting, { ...entry, ...ended });
      for (const peer of this.#peers) peer.#settled(name, { ...entry, ...ended });
    }
    if (now !== waiting) {
      if (now) this.#keep(now);
      return;
    }
    waiting.settled = true;
    waiting.again = false;
    if (!settled) Object.assign(entry, ended);
    this.#keepLate(waiting, settled || waiting.own, true);
  }

  /**
   * Keeps what is answered until no earlier request is carried out any more, and sends it once
   * more if it has to be; and until its own page has taken note.
   * @param {Waiting} waiting
   */
  #keepLate(waiting, noted = waiting.own, write = false) {
    const { entry, name } = waiting;
    if (!("key" in entry) && entry.end <= BEFORE) {
      const opposite = entry.late[+!entry.joined];
      const until = Math.max(...entry.late);
      if (opposite || until > Date.now()) {
        if (write || !waiting.kept) this.#keep(waiting);
        const late = lateOf(entry);
        // A clock may have been set back.
        this.#later(() => {
          if (this.#entries.get(name) !== waiting) return;
          if (late.some((ms, i) => ms !== entry.late[i])) return this.#keepLate(waiting, true); // it was sent once more
          if (!opposite) return this.#forget(waiting);
          waiting.again = true;
          this.#pump();
        }, Math.max(0, Math.min(LATE, (opposite || until) - Date.now())));
        return;
      }
    }
    if (noted || !waiting.kept) return this.#forget(waiting);
    if (write) this.#keep(waiting);
    this.#entries.delete(name);
    this.#clear(entry);
  }

  /** @param {Waiting} waiting */
  #forget(waiting) {
    const { name, entry } = waiting;
    this.#entries.delete(name);
    for (const peer of this.#peers) {
      const other = peer.#entries.get(name);
      if (other?.settled && other.entry.at === entry.at) peer.#entries.delete(name);
    }
    this.#records.remove(name);
  }

  /**
   * Takes out of the storage how an entry of another page ended, once that has taken note; or is
   * gone.
   * @param {Entry} entry
   */
  #clear(entry) {
    const name = nameOf(entry);
    this.#later(() => {
      if (this.#entries.has(name) || !this.#records.read(name)?.end) return;
      this.#records.remove(name);
      if (entry.end > BEFORE) this.#options.failed(errorOf(entry), entry);
    }, NOTED);
  }
}
