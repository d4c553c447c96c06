// Any sequence of clicks, in one task or many, ends at what the server has, and shows nothing else on
// the way.
import assert from "node:assert/strict";
import test from "node:test";
import { CounterError, Counters } from "./counter.js";
import { dice, MemoryStorage, Window } from "./wait.mjs";

const WALKS = Number(process.env.WALKS ?? 300);

/**
 * One user's clicks on one counter, in tasks of up to nine of them. A request is carried out at once or
 * late, and refused or without an answer now and then; the total follows some time later.
 */
async function walk(t, seed) {
  t.mock.timers.reset();
  t.mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1e12 });
  const random = dice(seed);
  Math.random = () => random(1_000) / 1_000;
  const later = (ms) => new Promise((done) => setTimeout(done, ms));
  const start = 5 + random(2), known = seed % 2 === 0, calm = seed % 3 === 0;
  let joined = random(2) === 1, moves = 0, added = 0, tell = () => {}, quiet = false;
  const first = joined;
  const total = () => start + moves + added;
  const transport = {
    send: async (entry) => {
      await later(random(300));
      const fate = calm || quiet ? 0 : random(8);
      if (fate === 1) return { again: 0, trouble: "as told" };
      if (fate === 2 && !("key" in entry)) return { error: new CounterError("no", { status: 403 }) };
      const changes = "key" in entry || joined !== entry.joined;
      if ("key" in entry) added += entry.by;
      else if (changes) [joined, moves] = [entry.joined, moves + (entry.joined ? 1 : -1)];
      if (changes) setTimeout(tell, random(900));
      await later(random(300));
      return fate === 3 && !("key" in entry) ? { again: 0, trouble: "as told" } : { counted: changes };
    },
    watch: (like, next) => {
      const asked = setTimeout(() => next(joined, Date.now()), known ? 0 : 15_000);
      return () => clearTimeout(asked);
    },
  };
  const source = (_, next) => {
    tell = () => next({ exists: true, total: total(), live: true });
    tell();
    return () => {};
  };
  const counters = new Counters({ transport, source, storage: seed % 5 ? new MemoryStorage() : null, page: new Window() });
  const counter = counters.counter("a", "likes");
  let clicked = 0;
  const seen = new Set();
  counter.subscribe(({ value, liked }) => {
    seen.add(value);
    if (!known || !calm || liked === undefined) return;
    // A click shows at once, and nothing else moves the number.
    assert.equal(value, start + clicked + liked - first, `seed ${seed}: liked is ${liked}, and was ${first}`);
  });
  const pass = async (ms, tick = 20) => {
    for (const end = Date.now() + ms; Date.now() < end;) {
      t.mock.timers.tick(tick);
      await new Promise((rest) => setImmediate(rest));
    }
  };
  await pass(known ? 100 : random(2) * 150);
  for (let task = 0; task < 4; task++) {
    for (let taps = 1 + random(9); taps > 0; taps--) {
      const what = random(10);
      if (what === 0) {
        clicked++;
        counter.add(1).catch(() => {});
      } else if (what < 4) counter.join().catch(() => {});
      else if (what < 7) counter.leave().catch(() => {});
      else void counter.toggle();
      if (random(4) === 0) await undefined; // the same task, after what waits for promises
    }
    await pass(random(2) ? random(200) : random(1_500));
  }
  quiet = true;
  await pass(30_000, 200);
  await pass(420_000 * (calm ? 0 : 1), 1_000); // what may have been carried out late is sent once more
  tell();
  await pass(16_000, 500);
  assert.deepEqual([counter.value, counter.total, counter.pending], [total(), total(), 0], `seed ${seed}: ${[...seen]}`);
  assert.equal(counter.joined(), joined, `seed ${seed}`);
  if (calm) assert.ok([...seen].every((value) => value === undefined || value >= start - 1), `seed ${seed}: ${[...seen]}`);
  counters.close();
}

test(`${WALKS} sequences of clicks end at what the server has`, async (t) => {
  performance.now = () => Date.now(); // Each test file runs in a process of its own.
  const first = Number(process.env.SEED ?? Math.floor(Date.now() / 1_000)); // others each time; what fails says its seed
  await walk(t, 2312); // a page went on showing a like as refused that had been counted
  for (let seed = first; seed < first + WALKS; seed++) await walk(t, seed);
});

test("eight taps that wait for one sign-in end where they began, and five one further", async (t) => {
  for (const taps of [5, 8]) {
    let signIn, tell;
    const signedIn = new Promise((done) => { signIn = done; });
    const server = { joined: false, total: 0 };
    const transport = {
      send: async ({ joined }) => {
        const counted = server.joined !== joined;
        if (counted) [server.joined, server.total] = [joined, server.total + (joined ? 1 : -1)];
        return { counted };
      },
      watch: () => () => {},
    };
    const source = (_, next) => {
      tell = () => next({ exists: true, total: server.total, live: true });
      tell();
      return () => {};
    };
    const counters = new Counters({ transport, source, storage: null, page: new Window() });
    t.after(() => counters.close());
    const counter = counters.counter("a", "likes");
    const seen = new Set();
    counter.subscribe(({ value }) => seen.add(value));
    const all = Array.from({ length: taps }, () => signedIn.then(() => counter.toggle()));
    signIn();
    await Promise.all(all);
    tell();
    assert.deepEqual([counter.value, counter.joined(), server.joined], [server.total, taps % 2 === 1, taps % 2 === 1]);
    assert.ok([...seen].every((value) => value === 0 || value === 1), `${taps} taps show ${[...seen]}`);
  }
});
