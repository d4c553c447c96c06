// A counter with a limit: what a page shows of it, and when it is sold out.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import test from "node:test";
import { CounterError, Counters } from "./counter.js";
import { Browser, MemoryStorage, told, until, Window } from "./wait.mjs";

/** A function that has so many, answers when `open` is fulfilled, and may be out of reach. */
async function startShop(t, seats) {
  const shop = { left: seats, out: false, asked: 0, open: Promise.resolve() };
  const keys = new Set();
  const server = createServer(async (request, response) => {
    if (shop.out) return request.socket.destroy();
    let body = "";
    for await (const data of request) body += data;
    shop.asked++;
    await shop.open;
    if (request.method === "GET") return response.end(JSON.stringify({ counter: "tickets", joined: false }));
    const by = request.method === "POST" ? JSON.parse(body).by.total : 1;
    const key = request.headers["idempotency-key"] ?? request.url;
    const replayed = keys.has(key);
    const refused = !replayed && by > shop.left;
    response.writeHead(refused ? 409 : 200, { "Content-Type": "application/json" });
    if (refused) return response.end(JSON.stringify({ status: 409, detail: `limit reached: ${shop.left} are left`, reason: "limit-reached", counter: "tickets", field: "total", left: shop.left }));
    if (!replayed) shop.left -= by;
    keys.add(key);
    response.end(JSON.stringify({ counter: "tickets", by, replayed: replayed || undefined }));
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => new Promise((closed) => { server.close(closed); server.closeAllConnections(); }));
  return Object.assign(shop, { url: `http://127.0.0.1:${server.address().port}` });
}

/** A source of a counter with a limit. */
function limited(total, limit) {
  const source = told(total);
  return Object.assign((id, next) => source(id, (snapshot) => next({ ...snapshot, limit })), { tell: (total) => source.tell(total) });
}

const soldOut = (error) => error instanceof CounterError && error.reason === "limit-reached" && error.status === 409 && !error.unknown;

test("a page shows how many are left, never more than there are, and that it is sold out", async (t) => {
  const shop = await startShop(t, 2);
  const source = limited(498, 500);
  const counters = new Counters({ url: shop.url, source, storage: new MemoryStorage(), page: new Window() });
  t.after(() => counters.close());
  const tickets = counters.counter("tickets");
  const seen = [];
  tickets.subscribe(({ value, limit, left, error }) => seen.push([value, limit, left, error?.reason, error?.left]));
  assert.deepEqual(seen.at(-1), [498, 500, 2, undefined, undefined]);
  let answer;
  shop.open = new Promise((open) => (answer = open));
  const takes = [1, 1, 1].map((by) => tickets.add(by));
  await until(() => shop.asked === 3);
  assert.deepEqual(seen.at(-1), [500, 500, 0, undefined, undefined], "three wait for two seats");
  answer();
  const ended = await Promise.allSettled(takes);
  assert.deepEqual(ended.map(({ status }) => status).sort(), ["fulfilled", "fulfilled", "rejected"]);
  const { reason } = ended.find(({ status }) => status === "rejected");
  assert.ok(soldOut(reason) && reason.left === 0 && reason.waited < 9_999, reason);
  assert.doesNotMatch(reason.message, /waited/);
  assert.deepEqual(seen.at(-1), [500, 500, 0, "limit-reached", 0]);
  assert.ok(seen.every(([value, limit, left]) => value <= limit && left >= 0), JSON.stringify(seen));
  source.tell(499); // Somebody has given one back.
  shop.left = 1;
  await tickets.add(1); // What was refused is shown until then.
  assert.deepEqual(seen.at(-1).slice(3), [undefined, undefined]);
});

test("a limit that comes, changes and goes changes what is shown", async (t) => {
  let next;
  const counters = new Counters({ url: "http://127.0.0.1:1", source: (_, tell) => ((next = tell), () => {}), storage: null, page: new Window() });
  t.after(() => counters.close());
  const seen = [];
  counters.counter("tickets").subscribe(({ value, limit, left }) => seen.push([value, limit, left]));
  for (const limit of [undefined, 10, 7, 0, undefined]) next({ exists: true, total: limit === 0 ? 0 : 5, limit, live: true });
  assert.deepEqual(seen, [[undefined, undefined, undefined], [5, undefined, undefined], [5, 10, 5], [5, 7, 2], [0, 0, 0], [5, undefined, undefined]]);
});

test("a click that waited offline may come too late, and says so", async (t) => {
  const shop = await startShop(t, 0);
  const storage = new MemoryStorage();
  shop.out = true;
  const open = (options) => new Counters({ url: shop.url, source: limited(3, 3), storage, page: new Window(), ...options });
  const first = open({ member: "ada" });
  first.counter("tickets").add(1).catch(() => {});
  first.counter("tickets").join().catch(() => {});
  first.close();
  // An hour later, on another page
  for (const [name, text] of storage) {
    const entry = JSON.parse(text);
    if (entry.at) storage.set(name, JSON.stringify({ ...entry, at: entry.at - 3_600_000 }));
  }
  shop.out = false;
  const failures = [];
  const second = open({ member: "ada", failed: (error, counter) => failures.push([error, counter.id]) });
  t.after(() => second.close());
  const { error, left } = await new Promise((told) => second.counter("tickets").subscribe((state) => state.error && told(state)));
  assert.ok(soldOut(error) && error.waited >= 3_600_000 && left === 0, error);
  assert.match(error.message, /limit reached.* It had waited\.$/);
  await until(() => failures.length === 2);
  assert.ok(failures.every(([error, id]) => soldOut(error) && error.waited >= 3_600_000 && id === "tickets"), failures);
  assert.equal(second.counter("tickets").value, 3);
});

test("the tab that asked hears why from the tab that sends", async (t) => {
  const shop = await startShop(t, 0);
  const browser = new Browser();
  const open = () => {
    const { page, storage } = browser.tab();
    const counters = new Counters({ url: shop.url, source: limited(3, 3), storage, page });
    t.after(() => counters.close());
    return counters.counter("tickets");
  };
  open();
  await new Promise((later) => setTimeout(later, 300)); // by then the first tab has the turn
  await assert.rejects(open().add(1), (error) => soldOut(error) && error.left === 0);
});
