// A distributed counter in a web page: watch its total, add to it, and show at once what was added. Free to copy.
// It needs the Firebase JS SDK (modular, version 9 or later) and the URL of the Increment function.
import { initializeApp } from "firebase/app";
import { connectFirestoreEmulator, doc, getFirestore, onSnapshot } from "firebase/firestore";

/** Opens a database. `emulator` is the {host, port} of a local Firestore; leave it out in production. */
export function connect(options, { database = "(default)", emulator } = {}) {
  const db = getFirestore(initializeApp(options), database);
  if (emulator) connectFirestoreEmulator(db, emulator.host, emulator.port);
  return db;
}

/** A counter that is watched until `stop()`. Calls `changed` when its total, value, exists, updatedAt or live has. */
export class Counter {
  #shown = new Shown();
  constructor(db, path, functionURL, changed, failed) {
    this.url = `${functionURL}/${encodeURIComponent(path.split("/").at(-1))}`;
    this.changed = () => changed(this);
    this.stop = onSnapshot(doc(db, path), { includeMetadataChanges: true }, (snapshot) => {
      this.live = !snapshot.metadata.fromCache; // whether the server has it like this now
      if (this.live || snapshot.exists()) { // A cache that holds nothing says nothing.
        this.exists = snapshot.exists(); // undefined until known
        this.updatedAt = snapshot.get("updated_at")?.toMillis();
        this.#shown.snapshot(snapshot.get("total") ?? 0, performance.now());
      }
      this.changed();
    }, failed);
  }
  get total() { return this.#shown.total; } // what the roll-up document says
  get value() { return this.#shown.value; } // what to display: the total, and what we added that it doesn't hold yet

  /** Adds to the counter. It shows at once, and is taken back when it fails, which rejects the promise. */
  async add(by = 1) {
    const own = this.#shown.add(by);
    this.changed();
    try {
      await post(this.url, by);
      own.answered = performance.now();
      setTimeout(() => { this.#shown.expire(own, performance.now()); this.changed(); }, EXPIRES);
    } catch (error) {
      this.#shown.fail(own);
      throw error;
    } finally { this.changed(); }
  }
}

/** Sends an increment until it is answered. Its key makes the server count it once, however often it is sent. */
async function post(url, by) {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() };
  const request = { method: "POST", headers, body: JSON.stringify({ by }) };
  for (let pause = 250; ; pause *= 2) {
    const answer = await fetch(url, { ...request, signal: AbortSignal.timeout(25_000) }).catch((error) => error);
    if (answer.ok) return;
    const lasting = answer.status < 500 && answer.status !== 429; // It would be refused again.
    if (lasting || pause > 2_000) throw new Error(answer.status ? `${answer.status} ${await answer.text()}` : answer);
    await new Promise((resolve) => setTimeout(resolve, pause * (1 + Math.random())));
  }
}

const ROLLED_UP = 3_000; // ms after its answer, an increment is in every roll-up: events take less.
const EXPIRES = 10_000; // ms after its answer, there was one, or the roll-up is broken: its interval is up to 5 s.

/**
 * The number to display: the total, and what we added that it doesn't hold. Nothing says which that is, so this goes by
 * moves of the total: one uses up what we added in its direction. While we alone add to a counter, this is exact. While
 * it only grows, nothing shows twice or steps back, but one of ours that fails; what others add may hide behind ours
 * until the total holds both. Where others move it against us, this may be off by what we added in the last 3 seconds,
 * at most 10. Once all is counted, it is the total.
 */
export class Shown {
  total; // of the last snapshot
  #own = []; // what we added, {by, answered: when}, that a roll-up to come may bring
  #used = { 1: 0, [-1]: 0 }; // how much of it moves have used up, by direction
  get value() { return this.total + this.#left(1) - this.#left(-1); }
  add(by) { return this.#own[this.#own.push({ by, answered: Infinity }) - 1]; }
  expire(own, now) { if (this.#own.includes(own)) this.#forget(now - ROLLED_UP); }
  fail(own) { // Moves that used it up were not its own: they use up another of ours, if there is one.
    this.#own = this.#own.filter((other) => other !== own);
    for (const way of [1, -1]) this.#used[way] += Math.min(0, this.#left(way));
  }
  snapshot(total, now) {
    if (this.total === undefined) [this.total, this.#own] = [total, []]; // There is no move to go by.
    const before = this.value;
    this.#forget(now - ROLLED_UP);
    const move = total - this.total - (before - this.value), way = move < 0 ? -1 : 1;
    const used = Math.min(Math.abs(move), this.#left(way));
    this.#used[way] += used;
    // Beyond that, others moved it. What of ours cancelled out in moves before this one is not to come any more.
    if (Math.abs(move) > used) this.#used[-way] += Math.min(used, this.#left(-way));
    this.total = total;
  }
  #left(way) { return added(this.#own, way) - this.#used[way]; }
  #forget(until) { // what was answered until then
    const old = this.#own.filter((own) => own.answered <= until);
    this.#own = this.#own.filter((own) => own.answered > until);
    for (const way of [1, -1]) this.#used[way] = Math.max(0, this.#used[way] - added(old, way));
  }
}
const added = (own, way) => own.reduce((sum, { by }) => sum + Math.max(0, by * way), 0);
