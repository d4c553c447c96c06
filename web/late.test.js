// What takes its time, in a time that the tests make.
import assert from "node:assert/strict";
import test from "node:test";
import { CounterError, Counters } from "./counter.js";
import { Browser, MemoryStorage, told, Window } from "./wait.mjs";

/** Lets so many ms pass, in so many ticks that what is stored gets around meanwhile. */
async function pass(t, ms) {
  for (const end = Date.now() + ms; Date.now() < end;) {
    t.mock.timers.tick(Math.max(20, ms / 100));
    await new Promise((rest) => setImmediate(rest));
  }
}

test("what may still be carried out late is followed by the last that was asked for, once more", async (t) => {
  t.mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1e12 });
  const sent = [];
  const transport = {
    send: async ({ joined }) => (sent.push(joined) === 1 ? { again: 0, trouble: "as told" } : { counted: false }),
    watch: () => () => {},
  };
  const storage = new MemoryStorage();
  const rest = () => new Promise((done) => setImmediate(done));
  const counters = new Counters({ transport, source: told(7), storage, page: new Window() });
  const counter = counters.counter("a", "likes");
  const joined = counter.join();
  await rest();
  t.mock.timers.tick(100); // This page is the only one.
  await rest();
  assert.equal(counters.trouble, "as told");
  const left = counter.leave();
  t.mock.timers.tick(1_000);
  assert.deepEqual(await Promise.all([joined, left]), [false, false]);
  assert.deepEqual([sent, counter.joined(), counter.pending, storage.size], [[true, false], false, 0, 1]);
  counters.close();

  // A page that is loaded meanwhile remembers it.
  const next = new Counters({ transport, source: told(7), storage, page: new Window() });
  await rest();
  t.mock.timers.tick(100);
  await rest();
  assert.deepEqual([sent.length, next.counter("a", "likes").pending], [2, 0]);
  t.mock.timers.tick(260_000);
  await rest();
  t.mock.timers.tick(100); // It has done nothing for a while: it looks first whether another has the turn.
  await rest();
  assert.deepEqual([sent, storage.size], [[true, false, false], 0]);
  next.close();
});

/** A counter of one page whose requests are answered one after the other as given, and by the last answer from then on. */
function answered(t, ...answers) {
  const sent = [];
  const transport = { send: async ({ joined }) => answers[Math.min(sent.push(joined), answers.length) - 1], watch: () => () => {} };
  const counters = new Counters({ transport, source: told(7), storage: new MemoryStorage(), page: new Window() });
  t.after(() => counters.close());
  return { counter: counters.counter("a", "likes"), sent };
}
const none = { again: 0, trouble: "as told" };
const soldOut = { error: new CounterError("sold out", { status: 409, reason: "limit-reached" }) };

test("a like that is sent once more, and refused, is done", async (t) => {
  t.mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1e12 });
  const { counter, sent } = answered(t, none, { counted: true }, soldOut);
  const left = counter.leave();
  await pass(t, 150);
  const joined = counter.join();
  await pass(t, 1_000);
  assert.deepEqual([await left, await joined, sent], [false, true, [false, true]]);
  await pass(t, 300_000);
  assert.deepEqual(sent, [false, true, true]);
});

test("who leaves after a refusal stays away, though an earlier attempt to join is carried out late", async (t) => {
  t.mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1e12 });
  const { counter, sent } = answered(t, none, soldOut, { counted: false });
  const refused = assert.rejects(counter.join(), { unknown: true });
  await pass(t, 1_000);
  await refused;
  const left = counter.leave();
  await pass(t, 1_000);
  assert.deepEqual([await left, sent], [false, [true, true, false]]);
  await pass(t, 300_000); // The first attempt may have been carried out now.
  assert.deepEqual(sent, [true, true, false, false]);
});

test("what was carried out late is followed, though its page comes back when it is too late and the user another one", async (t) => {
  t.mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1e12 });
  const sent = [];
  const transport = {
    send: async ({ joined }) => (sent.push(joined) === 1 ? { again: 0, trouble: "as told" } : { counted: false }),
    watch: () => () => {},
  };
  const browser = new Browser();
  const tabs = [browser.tab(), browser.tab()];
  let user = "ada";
  const [first, second] = tabs.map(({ page, storage }) => new Counters({ transport, source: told(7), member: () => user, storage, page }));
  first.counter("a", "likes").join();
  await pass(t, 150);
  assert.equal(first.trouble, "as told");
  const left = first.counter("a", "likes").leave();
  tabs[0].freeze();
  await pass(t, 150);
  second.close();
  assert.deepEqual(sent, [true, false]);
  user = "bob";
  await pass(t, 261_000); // The join may be carried out now,
  tabs[0].thaw();
  assert.equal(await left, false);
  await pass(t, 3_000);
  user = "ada"; // and here is who knows that it must not stay.
  first.queue.go();
  await pass(t, 3_000);
  assert.deepEqual([sent, browser.stored.size], [[true, false, false], 0]);
  first.close();
});

test("without Web Locks, one page at a time has a lease", async (t) => {
  t.mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1e12 });
  const browser = new Browser({ locks: null });
  const sent = [0, 0];
  const tabs = [browser.tab(), browser.tab()];
  const pages = tabs.map(({ page, storage }, i) => {
    page.navigator = {};
    const transport = { send: async () => (sent[i]++, { counted: true }), watch: () => () => {} };
    return new Counters({ transport, source: told(7), storage, page });
  });
  const done = pages.map((page) => page.counter("a").add(1));
  await pass(t, 1_000);
  await Promise.all(done);
  const first = sent[0] ? 0 : 1;
  assert.deepEqual([sent[first], sent[1 - first]], [2, 0]);
  tabs[first].freeze();
  const next = pages[1 - first].counter("a").add(1);
  await pass(t, 10_000);
  await next;
  assert.equal(sent[1 - first], 1);
  pages.forEach((page) => page.close());
});
