// Likes in a time that the tests make.
import assert from "node:assert/strict";
import test from "node:test";
import { Counters } from "./counter.js";
import { dice, MemoryStorage, told } from "./wait.mjs";

test("what may still be carried out late is followed by the last that was asked for, once more", async (t) => {
  t.mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1e12 });
  const sent = [];
  const transport = {
    send: async ({ joined }) => (sent.push(joined) === 1 ? { again: 0, trouble: "as told" } : { counted: false }),
    watch: () => () => {},
  };
  const storage = new MemoryStorage();
  const rest = () => new Promise((done) => setImmediate(done));
  const counters = new Counters({ transport, source: told(7), storage });
  const counter = counters.counter("a", "likes");
  const joined = counter.join();
  await rest();
  assert.equal(counters.trouble, "as told");
  const left = counter.leave();
  t.mock.timers.tick(1_000);
  assert.deepEqual(await Promise.all([joined, left]), [false, false]);
  assert.deepEqual([sent, counter.joined(), counter.pending, storage.size], [[true, false], false, 0, 1]);
  counters.close();

  const next = new Counters({ transport, source: told(7), storage }); // A page that is loaded meanwhile remembers it.
  await rest();
  assert.deepEqual([sent.length, next.counter("a", "likes").pending], [2, 0]);
  t.mock.timers.tick(30_000);
  await rest();
  assert.deepEqual([sent, storage.size], [[true, false, false], 0]);
  next.close();
});

/**
 * Walks one member through pages, one after the other, of which each asks for likes at random. Requests are applied at once or up
 * to 20 s later, or never, and their answers get lost; a reload leaves them under way. In the end all goes well.
 */
async function walk(t, seed) {
  const random = dice(seed);
  const storage = new MemoryStorage();
  let joined = false, moves = 0, calm = false;
  const soon = []; // {at, apply}
  const later = (ms) => new Promise((done) => setTimeout(done, ms));
  const apply = (entry) => {
    const counted = joined !== entry.joined;
    if (counted) [joined, moves] = [entry.joined, moves + 1];
    return counted;
  };
  const transport = {
    send: async (entry) => {
      const fate = calm ? 0 : random(5);
      if (fate === 1) soon.push({ at: Date.now() + random(20_000), entry: { ...entry } });
      await later(random(2_000));
      if (fate === 2) apply(entry); // and the answer is lost
      return fate === 0 || fate === 4 ? { counted: apply(entry) } : { again: 0, trouble: "as told" };
    },
    watch: () => () => {},
  };
  const pass = async (ms) => {
    for (const end = Date.now() + ms; Date.now() < end;) {
      t.mock.timers.tick(100);
      for (let i = soon.length - 1; i >= 0; i--) if (soon[i].at <= Date.now()) apply(soon.splice(i, 1)[0].entry);
      await new Promise((rest) => setImmediate(rest));
    }
  };
  const source = (id, next) => { source.tell = () => next({ exists: true, total: joined ? 1 : 0, live: true }); source.tell(); return () => {}; };
  const load = () => {
    const counters = new Counters({ transport, source, storage });
    counters.counter("a").subscribe(() => {});
    return counters;
  };
  let page = load(), last = false;
  for (let step = 0; step < 40; step++) {
    await pass(random(3) ? random(1_000) : random(40_000));
    if (random(4) === 0) {
      page.close();
      page = load();
    } else if (random(4)) {
      last = random(2) === 1;
      const outcome = last ? page.counter("a").join() : page.counter("a").leave();
      outcome.catch((error) => assert.fail(error));
      assert.equal(page.counter("a").joined(), last, `seed ${seed}: a click doesn't show`);
    } else {
      source.tell();
    }
  }
  calm = true;
  await pass(120_000);
  source.tell();
  await pass(20_000);
  page.close();
  assert.deepEqual({ joined, pending: page.counter("a").pending, stored: storage.size }, { joined: last, pending: 0, stored: 0 }, `seed ${seed}`);
  assert.equal(page.counter("a").value, joined ? 1 : 0, `seed ${seed}: the number shown`);
  return moves;
}

test("whatever becomes of requests, answers and pages, the last that was asked for is what is", async (t) => {
  t.mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1e12 });
  t.mock.method(performance, "now", () => Date.now());
  let moves = 0;
  for (let seed = 0; seed < 150; seed++) moves += await walk(t, seed);
  assert.ok(moves > 1_000, `only ${moves} moves`);
});
