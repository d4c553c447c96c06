import assert from "node:assert/strict";
import { createServer } from "node:http";
import test from "node:test";
import { CounterError, Counters, documentOf, fromFirestore, fromFunction } from "./counter.js";
import { Browser, MemoryStorage, until, Window } from "./wait.mjs";

/**
 * A function that counts by key, as Increment does, and whose answers go as `fate` says: it is
 * called with the number of the request, from 0, and returns nothing, or {status, headers, body} to
 * answer instead, "lost" for an answer that gets lost, "refused" for a connection that breaks
 * before anything is counted.
 */
async function startFunction(t, fate = () => undefined) {
  const counted = new Map(); // key → {counter, by}
  const requests = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (data) => { body += data; });
    request.on("end", () => {
      const key = request.headers["idempotency-key"];
      const counter = new URL(request.url, "http://x").searchParams.get("counter");
      const what = fate(requests.push({ key, counter, body, headers: request.headers }) - 1, key);
      if (what === "refused") return request.socket.destroy();
      if (typeof what === "object") {
        response.writeHead(what.status, { "Content-Type": "application/problem+json", ...what.headers });
        return response.end(what.body ?? JSON.stringify({ status: what.status, detail: "as told" }));
      }
      const [by] = Object.values(JSON.parse(body).by);
      const replayed = counted.has(key);
      if (!replayed) counted.set(key, { counter, by });
      if (what === "lost") return request.socket.destroy();
      response.writeHead(200, { "Content-Type": "application/json" });
      response.end(JSON.stringify({ counter, by, ...(replayed && { replayed }) }));
    });
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => new Promise((closed) => { server.close(closed); server.closeAllConnections(); }));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    requests,
    sum: () => [...counted.values()].reduce((sum, { by }) => sum + by, 0),
  };
}

const never = () => () => {}; // A source that tells nothing: these tests are about what is sent.
const known = (total) => (id, next) => { next({ exists: true, total, live: true }); return () => {}; };

function open(t, url, options = {}) {
  const storage = new MemoryStorage();
  const counters = new Counters({ url, source: never, storage, page: new Window(), ...options });
  t.after(() => counters.close());
  return Object.assign(counters, { stored: storage });
}

test("an increment is counted once, whatever becomes of its answers", async (t) => {
  const fates = [["refused"], ["lost"], ["lost", "refused", "lost"], [{ status: 503, headers: { "Retry-After": "0" } }], [{ status: 504 }],
    [{ status: 502, body: "<html>" }], [{ status: 403, body: "<html>" }, { status: 404, body: "<html>" }, { status: 400, body: `{"message":"Bad Request"}` }], [{ status: 200, body: "<html>" }, { status: 200, body: "{}" }, { status: 200, body: "[]" }], [{ status: 408 }, { status: 425 }]];
  await Promise.all(fates.map(async (fates) => {
    const f = await startFunction(t, (n) => fates[n]);
    const counters = open(t, f.url);
    await counters.counter("a b/…").add(5);
    assert.equal(f.sum(), 5);
    assert.equal(f.requests.length, fates.length + 1);
    assert.equal(new Set(f.requests.map(({ key }) => key)).size, 1, "it came under more than one key");
    assert.deepEqual([f.requests[0].counter, f.requests[0].body], ["a b/…", `{"by":{"total":5}}`]);
    assert.equal(counters.trouble, undefined);
  }));
});

test("many increments are each counted once while every other answer is lost", async (t) => {
  const f = await startFunction(t, (n) => (n % 2 ? "lost" : undefined));
  const counter = open(t, f.url).counter("a");
  const all = Array.from({ length: 50 }, () => counter.add(2));
  assert.equal(counter.pending, 50);
  await Promise.all(all);
  assert.equal(f.sum(), 100);
  assert.equal(counter.pending, 0);
});

test("what waits outlives the page, and is counted once by the next one", async (t) => {
  let online = false;
  // Some are counted all the same.
  const f = await startFunction(t, (n) => (online ? undefined : n % 2 ? "lost" : "refused"));
  const storage = new MemoryStorage();
  const first = open(t, f.url, { storage });
  for (let i = 0; i < 20; i++) first.counter(i % 2 ? "a" : "b").add(1).catch(() => assert.fail("it was given up"));
  await until(() => f.requests.length >= 3 && first.trouble);
  assert.equal(first.trouble, "The server can't be reached.");
  first.close();
  assert.equal(storage.size, 20);

  online = true;
  const second = open(t, f.url, { storage });
  assert.equal(second.counter("a").pending, 10);
  await until(() => storage.size === 0 && second.counter("a").pending === 0 && second.counter("b").pending === 0);
  assert.equal(f.sum(), 20);
});

test("two pages that send the same increments count them once", async (t) => {
  let online = false;
  const f = await startFunction(t, () => (online ? undefined : "lost"));
  const browser = new Browser();
  const pages = [open(t, f.url, browser.tab())];
  for (let i = 0; i < 10; i++) pages[0].counter("a").add(1);
  await until(() => browser.stored.size === 10);
  pages.push(open(t, f.url, browser.tab()), open(t, f.url, browser.tab()));
  online = true;
  for (const page of pages) page.queue.go();
  await until(() => pages.every((page) => page.counter("a").pending === 0) && browser.stored.size === 0);
  assert.equal(f.sum(), 10);
});

test("what is older than the function remembers keys is not sent again", async (t) => {
  const f = await startFunction(t, () => "lost");
  const storage = new MemoryStorage();
  const first = open(t, f.url, { storage });
  first.counter("a").add(1);
  await until(() => f.requests.length === 1);
  first.close();

  // A day later, and with a clock that has been set back.
  for (const shift of [-24 * 3_600_000, 3_600_000]) {
    const [[name, entry]] = storage;
    const aged = new MemoryStorage([[name, JSON.stringify({ ...JSON.parse(entry), at: JSON.parse(entry).at + shift })]]);
    const failures = [];
    open(t, f.url, { storage: aged, failed: (error, counter) => failures.push([error, counter.id]) });
    await until(() => failures.length === 1);
    assert.ok(failures[0][0] instanceof CounterError && failures[0][0].unknown);
    assert.equal(failures[0][1], "a");
    assert.equal(aged.size, 0);
  }
  assert.equal(f.requests.length, 1);
  assert.equal(f.sum(), 1);
});

test("what was clicked before the clock was set back, and was never sent, is counted", async (t) => {
  const f = await startFunction(t);
  const storage = new MemoryStorage();
  const first = open(t, f.url, { storage, headers: () => Promise.reject(new Error("signed out")) });
  first.counter("a").add(2);
  await until(() => first.trouble);
  first.close();
  const [[name, entry]] = storage;
  storage.set(name, JSON.stringify({ ...JSON.parse(entry), at: Date.now() + 3_600_000 }));
  const second = open(t, f.url, { storage, failed: (error) => assert.fail(error) });
  await until(() => storage.size === 0 && second.counter("a").pending === 0);
  assert.equal(f.sum(), 2);
});

test("another tab goes on with what was sent after the clock was set back", async (t) => {
  let online = false, signedIn = false;
  const f = await startFunction(t, () => (online ? undefined : "refused"));
  const browser = new Browser();
  const headers = () => (signedIn ? {} : Promise.reject(new Error("not yet")));
  const first = open(t, f.url, { ...browser.tab(), headers }), second = open(t, f.url, browser.tab());
  const now = Date.now;
  t.after(() => { Date.now = now; });
  Date.now = () => now() + 3_600_000;
  first.counter("a").add(2).catch(() => {});
  await until(() => second.counter("a").pending === 1 && first.trouble);
  Date.now = now;
  signedIn = true;
  first.queue.go();
  await until(() => f.requests.length > 0);
  first.close();
  online = true;
  await until(() => second.counter("a").pending === 0);
  assert.equal(f.sum(), 2);
});

test("a proxy that asks to wait for longer than a timer takes isn't asked again and again", async (t) => {
  const f = await startFunction(t, () => ({ status: 503, headers: { "Retry-After": "2678400" } }));
  const counters = open(t, f.url);
  counters.counter("a").add(1).catch(() => {});
  await until(() => counters.trouble);
  await new Promise((later) => setTimeout(later, 300));
  assert.equal(f.requests.length, 1);
});

test("what is refused is given up at once, in words, and is shown no more", async (t) => {
  const f = await startFunction(t, (n) => [{ status: 400, body: JSON.stringify({ status: 400, detail: "want at most 5" }) }, { status: 403, body: JSON.stringify({ status: 403 }) }][n]);
  const counters = open(t, f.url, { source: known(7) });
  const counter = counters.counter("a");
  counter.subscribe(() => {});
  const refused = counter.add(100);
  assert.equal(counter.value, 107);
  await assert.rejects(refused, (error) => error instanceof CounterError && error.status === 400 && !error.unknown && /want at most 5 \(400\)/.test(error.message));
  assert.equal(counter.value, 7);
  await assert.rejects(counter.add(), { status: 403, message: /Forbidden/ });
  assert.equal(counters.stored.size, 0);
  await counter.add();
  assert.equal(f.sum(), 1);
});

test("incrementOnce counts once per key, and says whether it did", async (t) => {
  let online = true;
  const f = await startFunction(t, () => (online ? undefined : "lost"));
  const counters = open(t, f.url, { source: known(0) });
  const counter = counters.counter("orders");
  counter.subscribe(() => {});
  assert.equal(await counter.incrementOnce("order-1", 3), true);
  assert.equal(await counter.incrementOnce("order-1", 3), false);
  assert.equal(counter.value, 3, "what had been counted before shows twice");
  online = false;
  const both = [counter.incrementOnce("order-2"), counter.incrementOnce("order-2")];
  assert.equal(counter.value, 4);
  await until(() => f.requests.length >= 3);
  online = true;
  // The answer was lost: this page's own request counted it.
  assert.deepEqual(await Promise.all(both), [true, true]);
  assert.equal(f.sum(), 4);
  const elsewhere = open(t, f.url).counter("orders");
  assert.equal(await elsewhere.incrementOnce("order-2"), false);
});

test("Retry-After is waited for, and what comes meanwhile, too", async (t) => {
  const f = await startFunction(t, (n) => (n === 0 ? { status: 429, headers: { "Retry-After": "1" } } : undefined));
  const counters = open(t, f.url);
  const began = performance.now();
  const first = counters.counter("a").add();
  await until(() => counters.trouble);
  assert.equal(counters.trouble, "as told");
  await Promise.all([first, counters.counter("b").add()]);
  assert.ok(performance.now() - began >= 990, "it was sent again before");
  assert.equal(f.sum(), 2);
});

test("headers are asked for before every attempt", async (t) => {
  const f = await startFunction(t, (n) => (n === 0 ? "lost" : undefined));
  let token = 0;
  await open(t, f.url, { headers: async () => ({ Authorization: `Bearer ${++token}` }), member: "ada" }).counter("a").add();
  assert.deepEqual(f.requests.map(({ headers }) => headers.authorization), ["Bearer 1", "Bearer 2"]);
});

test("a storage that is full, foreign or missing stops nothing", async (t) => {
  const f = await startFunction(t);
  const full = new MemoryStorage([["other", "1"], [`counters-queue ["${f.url}","me"] x`, "{broken"], [`counters-queue ["${f.url}","me"] ["a","total","k"]`, `{"key":"z"}`]]);
  full.setItem = () => { throw new DOMException("full", "QuotaExceededError"); };
  for (const storage of [full, null, undefined]) await open(t, f.url, { storage }).counter("a").add();
  assert.equal(f.sum(), 3);
});

test("what can't be an increment is refused before it is sent", async (t) => {
  const f = await startFunction(t);
  const counter = open(t, f.url).counter("a");
  for (const by of [0, 1.5, NaN, "1", null, 2 ** 53]) await assert.rejects(counter.add(by), TypeError);
  assert.equal(f.requests.length, 0);
});

test("a subscriber is told of the state, and of changes until it ends; the last one ends the watching", (t) => {
  let next, stopped = 0;
  const told = [];
  const counters = open(t, "http://127.0.0.1:1", { source: (id, n) => { next = n; return () => stopped++; } });
  const counter = counters.counter("a");
  assert.equal(counters.counter("a"), counter);
  const same = (state) => told.push(state.value);
  const stops = [counter.subscribe(same), counter.subscribe(same)];
  assert.equal(counter.value, undefined);
  assert.equal(counter.state, counter.state);
  next({ exists: true, total: 3, updatedAt: 5, live: true });
  assert.deepEqual([counter.value, counter.total, counter.exists, counter.updatedAt, counter.live], [3, 3, true, 5, true]);
  next(null);
  assert.deepEqual([counter.value, counter.live], [3, false]);
  stops[0]();
  next({ exists: false, total: 0, live: true });
  assert.deepEqual([counter.value, counter.exists, stopped], [0, false, 0]);
  assert.deepEqual(told, [undefined, undefined, 3, 3, 3, 3, 0]);
  stops[1]();
  assert.equal(stopped, 1);
});

test("without the SDK, totals come from the function, and say when it can't be heard", async (t) => {
  const answers = [[200, { counter: "a&b/c", total: 5, limits: { likes: 9, others: 3 }, left: { likes: 4, others: 0 }, updated_at: "2026-11-21T09:30:12.345Z" }], [503, {}], [204], "broken", [200, {}], [200, null], [200, { counter: "a&b/c", total: 6 }], [503, null], [403, { status: 403, detail: "no" }]];
  const asked = [];
  const server = createServer((request, response) => {
    asked.push([request.url, request.headers.authorization]);
    const answer = answers[asked.length - 1] ?? assert.fail("it was asked again after it had refused");
    if (answer === "broken") return request.socket.destroy();
    response.writeHead(answer[0], { "Content-Type": "application/json" });
    response.end(JSON.stringify(answer[1]));
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => new Promise((closed) => { server.close(closed); server.closeAllConnections(); }));
  const url = `http://127.0.0.1:${server.address().port}`;
  const told = [];
  const stop = fromFunction(`${url}/`, { every: 1, headers: () => ({ Authorization: "Bearer x" }) })("a&b/c", (snapshot) => told.push(snapshot), (error) => told.push(error), "likes");
  await until(() => told.length === answers.length);
  stop();
  const failed = told.pop();
  assert.deepEqual(told, [
    { exists: true, total: 5, limit: 9, updatedAt: Date.parse("2026-11-21T09:30:12.345Z"), asOf: undefined, live: true }, null,
    { exists: false, total: 0, limit: undefined, updatedAt: undefined, asOf: undefined, live: true }, null, null, null, { exists: true, total: 6, limit: undefined, updatedAt: undefined, asOf: undefined, live: true }, null,
  ]);
  assert.ok(failed instanceof CounterError && failed.status === 403 && /no \(403\)/.test(failed.message));
  assert.ok(asked.every(([url, token]) => url === "/?counter=a%26b%2Fc&field=likes" && token === "Bearer x"));
});

test("a counter says that its number is older because of the ceiling, and no longer than it is", async (t) => {
  const answers = [{ total: 5 }, { total: 5, held_up: true }, { total: 6 }];
  let asked = 0;
  t.mock.method(globalThis, "fetch", async () => Response.json({ counter: "a", ...answers[Math.min(asked++, 2)] }));
  const counters = new Counters({ url: "http://f", source: fromFunction("http://f", { every: 1 }), storage: null });
  t.after(() => counters.close());
  const states = [];
  counters.counter("a").subscribe(({ value, heldUp, live }) => {
    const state = [value, heldUp, live];
    if (live && `${state}` !== `${states.at(-1)}`) states.push(state); // or something else of it is new
  });
  await until(() => states.at(-1)?.[0] === 6);
  assert.deepEqual(states, [[5, false, true], [5, true, true], [6, false, true]]);
});

test("a double and the average of none come as they are, from the function and from Firestore", async (t) => {
  const answers = [{ doubles: { rating: null } }, { doubles: { rating: 4.5 }, totals: { n: 2 } }, { totals: { n: 2 } }];
  let asked = 0;
  const server = createServer((_, response) => response.end(JSON.stringify({ counter: "a", total: 7, ...answers[Math.min(asked++, 2)] })));
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => new Promise((closed) => { server.close(closed); server.closeAllConnections(); }));
  const counters = new Counters({ url: `http://127.0.0.1:${server.address().port}`, source: fromFunction(`http://127.0.0.1:${server.address().port}`, { every: 1 }), storage: null });
  t.after(() => counters.close());
  const values = [];
  counters.counter("a", "rating").subscribe(({ value }) => value === values.at(-1) || values.push(value));
  await until(() => values.length === 3);
  assert.deepEqual(values, [null, 4.5, 7], "a field that the answer hasn't is the first");

  const told = [];
  let changed;
  const onSnapshot = (_, __, next) => ((changed = (data) => next({ exists: () => data !== undefined, data: () => data, metadata: { fromCache: false } })), () => {});
  fromFirestore({}, { doc: (_, path) => path, onSnapshot })("a", (snapshot) => told.push(snapshot), assert.fail, "rating");
  for (const data of [undefined, {}, { rating: null }, { rating: 4.5, num_shards: 10, rating_limit: 9, counter_rollup: { as_of: { rating_limit: 1 } }, updated_at: { toMillis: () => 3 } }, { rating: 1, rating_limit: 8, counter_rollup: { as_of: { rating_limit: 1 }, updated_at: { toMillis: () => 4 } }, updated_at: "the app's" }]) changed(data);
  assert.deepEqual(told.map(({ exists, total, limit, updatedAt }) => [exists, total, limit, updatedAt]),
    [[false, 0, undefined, undefined], [true, 0, undefined, undefined], [true, null, undefined, undefined], [true, 4.5, 9, 3], [true, 1, 8, 4]]);
});

test("what an app's own document has at its top is the app's, and nothing of an odd type is an error", () => {
  const at = (ms) => ({ toMillis: () => ms });
  const documents = [
    [{ likes: 7, likes_limit: 5, updated_at: at(1) }, 7, undefined, undefined], // hosted, and never rolled up
    [{ likes: 7, likes_limit: 5, updated_at: "yesterday" }, 7, undefined, undefined],
    [{ likes: 7, updated_at: 1_700_000_000, likes_limit: "5", counter_rollup: { num_shards: 10, as_of: { likes_limit: at(1) } } }, 7, undefined, undefined],
    [{ likes: 7, updated_at: at(1), likes_limit: 5, counter_rollup: { updated_at: at(2) } }, 7, undefined, 2],
    [{ likes: 7, updated_at: at(1), likes_limit: 9, num_shards: 10, counter_rollup: { as_of: { likes_limit: at(1) } } }, 7, 9, 1], // ours
    [{ likes: 7, updated_at: at(1), likes_limit: 9, num_shards: 10, counter_rollup: { as_of: { likes: at(1), likes_limit: at(1) } } }, 7, 9, 1],
    [{ likes: 7, updated_at: at(1), counter_rollup: { as_of: { likes: at(1) } } }, 7, undefined, 1], // ours, of documents that are counted
    [{ likes: ["uid-1"], num_shards: 10, updated_at: null, likes_limit: null }, 0, undefined, undefined],
    [{ likes: "7", num_shards: 10, updated_at: 5, likes_limit: "9" }, 0, undefined, undefined],
    [{ likes: 7, counter_rollup: "mine" }, 7, undefined, undefined], [{ likes: 7, counter_rollup: null }, 7, undefined, undefined],
  ];
  for (const [data, ...want] of documents) {
    let told;
    const onSnapshot = (_, __, next) => (next({ exists: () => true, data: () => data, metadata: { fromCache: false } }), () => {});
    fromFirestore({}, { doc: (_, path) => path, onSnapshot })("a", (snapshot) => { told = snapshot; }, assert.fail, "likes");
    assert.deepEqual([told.total, told.limit, told.updatedAt], want, JSON.stringify(data));
  }
});

test("a click is in the total or it isn't, however old the total is, on every source and in another tab", async (t) => {
  const at = (micros) => `2026-11-21T09:30:12.${String(micros).padStart(6, "0").replace(/0+$/, "")}Z`.replace(".Z", "Z");
  const since = Date.parse("2026-11-21T09:30:12Z") * 1_000;
  const before = globalThis.fetch;
  t.after(() => { globalThis.fetch = before; });
  globalThis.fetch = async (url, { method }) => Response.json(method === "POST" ? { counter: "a", by: 1, committed_at: at(345_678) } : { counter: "a", counted: true, committed_at: at(345_679) });
  const browser = new Browser();
  let tell;
  const sources = [];
  const pages = [0, 1].map((i) => open(t, "http://f", { ...browser.tab(), source: (_, next) => { sources[i] = next; return () => {}; } }));
  tell = (total, asOf) => sources.forEach((next) => next({ exists: true, total, live: true, asOf: asOf && since + asOf }));
  const counters = pages.map((page) => page.counter("a"));
  for (const counter of counters) counter.subscribe(() => {});
  tell(10, 100);
  // The first page sends what the second was asked for.
  await counters[1].add(1);
  await counters[1].join();
  const seen = [];
  const step = (total, asOf) => {
    tell(total, asOf);
    seen.push(counters.map(({ value }) => value).join(" "));
  };
  step(10, 345_677); // rolled up a moment before
  step(13, 345_677); // somebody else's three
  step(14, 345_678); // the first of the two, in the same millisecond
  step(10, 100); // another instance's memory
  step(15, 345_679);
  step(14, 345_800); // somebody else takes one
  assert.deepEqual(seen, ["12 12", "15 15", "15 15", "15 15", "15 15", "14 14"]);

  const documents = [[{ likes: { seconds: 5, nanoseconds: 345_678_900 } }, 5_345_678], [{ likes: { seconds: 5, nanoseconds: 0 } }, 5_000_000], [{ likes: "5" }], [{ views: {} }], ["x"], [null], [undefined]];
  for (const [as_of, want] of documents) {
    for (const own of [{ num_shards: 10 }, {}]) {
      let told;
      const onSnapshot = (_, __, next) => (next({ exists: () => true, data: () => ({ likes: 7, ...own, counter_rollup: { as_of } }), metadata: { fromCache: false } }), () => {});
      fromFirestore({}, { doc: (_, path) => path, onSnapshot })("a", (snapshot) => { told = snapshot; }, assert.fail, "likes");
      assert.equal(told.asOf, want);
    }
  }
  globalThis.fetch = async () => Response.json({ counter: "a", total: 5, as_of: at(50) });
  let told;
  t.after(fromFunction("http://f")("a", (snapshot) => { told = snapshot; }, assert.fail, "total"));
  await until(() => told);
  assert.equal(told.asOf, since + 50);
});

test("a passing refusal ends no polling, nor does one end the listening to a document", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const rest = async () => { for (let i = 0; i < 5; i++) await new Promise((done) => setImmediate(done)); };
  const before = globalThis.fetch;
  t.after(() => { globalThis.fetch = before; });
  const answers = [[401, { status: 401, detail: "expired" }], [403, "<html>"], [404, { message: "Not Found" }], [200, { counter: "a", total: 5 }]];
  globalThis.fetch = async () => { const [status, body] = answers.shift(); return new Response(typeof body === "string" ? body : JSON.stringify(body), { status }); };
  const told = [];
  const stop = fromFunction("http://f", { every: 1 })("a", (snapshot) => told.push(snapshot?.total), ({ status }) => told.push(`refused ${status}`), "total");
  await rest();
  assert.deepEqual(told, ["refused 401"]);
  for (const ms of [30_000, 1, 1]) {
    t.mock.timers.tick(ms);
    await rest();
  }
  stop();
  assert.deepEqual(told, ["refused 401", undefined, "refused 403", undefined, "refused 404", 5]);

  // Who signs out, and in again, under rules that ask for that.
  let user = "ada", changed;
  const listening = new Set();
  const onSnapshot = (_, __, next, failed) => {
    const one = { next, failed };
    listening.add(one);
    return () => listening.delete(one);
  };
  const tell = () => {
    for (const one of listening) {
      if (user) one.next({ exists: () => true, data: () => ({ total: 7 }), metadata: { fromCache: false } });
      else if (listening.delete(one)) one.failed(new Error("Missing or insufficient permissions."));
    }
  };
  const transport = { send: async () => ({ counted: true }), watch: () => () => {} };
  const counters = new Counters({ source: fromFirestore({}, { doc: (_, path) => path, onSnapshot }), transport, member: () => user,
    onUser: (now) => ((changed = now), () => {}), storage: null, page: new Window() });
  t.after(() => counters.close());
  const counter = counters.counter("a");
  counter.subscribe(() => {});
  tell();
  assert.deepEqual([counter.value, counter.live, listening.size], [7, true, 1]);
  user = null;
  changed();
  tell();
  assert.deepEqual([counter.live, listening.size, counter.error?.message], [false, 0, "Missing or insufficient permissions."]);
  user = "ada";
  changed();
  assert.equal(listening.size, 1);
  tell();
  assert.deepEqual([counter.live, counter.error], [true, undefined]);
  // The refusal may come after the next user has signed in.
  const [late] = listening;
  listening.delete(late);
  late.failed(new Error("Missing or insufficient permissions."));
  t.mock.timers.tick(30_000);
  assert.equal(listening.size, 1);
  counter.close();
  assert.equal(listening.size, 0);
});

test("a counter's document is where COUNTERS says", () => {
  assert.equal(documentOf("counters/{counter}", "post-123"), "counters/post-123");
  assert.equal(documentOf("teams/{team}/posts/{post}", "red/$&"), "teams/red/posts/$&");
});
