import assert from "node:assert/strict";
import { createServer } from "node:http";
import test from "node:test";
import { CounterError, Counters } from "./counter.js";
import { Browser, MemoryStorage, told, until, Window } from "./wait.mjs";

/**
 * A function that counts members, as Increment does, and whose answers go as `fate` says: it is
 * called with the number of the PUT or DELETE, from 0, and the method, and returns nothing, or
 * {status, headers, body} to answer instead, "lost" for an answer that gets lost, "refused" for a
 * connection that breaks before anything is counted; or a promise of that. Of the first `odd`
 * requests, those that ask who has joined are answered by something else.
 */
async function startFunction(t, fate = () => undefined, odd = 0) {
  const members = new Set(); // paths
  const requests = []; // of PUT and DELETE: "PUT /a/likes/me"
  const headers = [];
  let moves = 0;
  const server = createServer(async (request, response) => {
    const answer = (status, body) => {
      response.writeHead(status, { "Content-Type": "application/json" });
      response.end(JSON.stringify(body));
    };
    const path = request.url;
    headers.push(request.headers);
    if (request.method === "GET") return answer(200, headers.length > odd ? { counter: "a", joined: members.has(path) } : {});
    const what = await fate(requests.push(`${request.method} ${path}`) - 1, request.method);
    if (what === "refused") return request.socket.destroy();
    if (typeof what === "object") return answer(what.status, { ...(what.status > 399 && { status: what.status, detail: "as told" }), ...what.body });
    const counted = request.method === "PUT" ? !members.has(path) : members.has(path);
    if (request.method === "PUT") members.add(path);
    else members.delete(path);
    if (counted) moves++;
    if (what === "lost") return request.socket.destroy();
    return answer(200, { counter: "a", counted });
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => new Promise((closed) => { server.close(closed); server.closeAllConnections(); }));
  return { url: `http://127.0.0.1:${server.address().port}`, members, requests, headers, moves: () => moves };
}

function open(t, url, options = {}) {
  const storage = new MemoryStorage();
  const counters = new Counters({ url, source: told(7), storage, page: new Window(), ...options });
  t.after(() => counters.close());
  return Object.assign(counters, { stored: storage });
}

/** A counter that is watched, and of whose member is known whether it has joined. */
async function watched(t, counters, id = "a", field = "likes") {
  const counter = counters.counter(id, field);
  counter.subscribe(() => {});
  await until(() => counter.joined() !== undefined);
  return counter;
}

test("a like shows at once, and is counted once, whatever becomes of its answers", async (t) => {
  const fates = [[], ["refused"], ["lost"], ["lost", "refused", "lost"], [{ status: 503 }], [{ status: 504 }], [{ status: 200, body: {} }], [{ status: 408 }, { status: 429 }]];
  await Promise.all(fates.map(async (fates) => {
    const f = await startFunction(t, (n) => fates[n]);
    const counters = open(t, f.url);
    const counter = await watched(t, counters);
    assert.equal(counter.joined(), false);
    const done = counter.join();
    assert.deepEqual([counter.joined(), counter.value, counter.pending], [true, 8, 1]);
    assert.equal(await done, true);
    assert.deepEqual([counter.joined(), counter.value, counter.pending], [true, 8, 0]);
    assert.deepEqual([...f.members], ["/a/likes/me"]);
    assert.deepEqual(f.requests, Array(fates.length + 1).fill("PUT /a/likes/me"));
    // After an attempt whose end is unknown, it is remembered for half a minute that there was one.
    assert.equal(counters.stored.size, fates.length ? 1 : 0);
    counters.source.tell(8);
    assert.equal(counter.value, 8);
    const left = counter.leave();
    assert.deepEqual([counter.joined(), counter.value], [false, 7]);
    assert.equal(await left, true);
    counters.source.tell(7);
    assert.deepEqual([counter.joined(), counter.value, f.members.size, f.moves()], [false, 7, 0, 2]);
  }));
});

test("ids of several parts, fields and members are in the path, and headers with each request", async (t) => {
  const f = await startFunction(t);
  let token = 0;
  const counters = open(t, f.url, { headers: async () => ({ Authorization: `Bearer ${++token}` }), member: "ü/1" });
  await counters.counter("red/post 1", "likes").join();
  await counters.counter("post").join("other");
  assert.deepEqual(f.requests, ["PUT /red/post%201/likes/%C3%BC%2F1", "PUT /post/total/other"]);
  assert.deepEqual(f.headers.map(({ authorization }) => authorization), ["Bearer 1", "Bearer 2"]);
});

test("who hears of a like from something else than the function asks again", async (t) => {
  const f = await startFunction(t, undefined, 1);
  f.members.add("/a/likes/me");
  assert.equal((await watched(t, open(t, f.url))).joined(), true);
});

test("one who has joined already, elsewhere, shows once", async (t) => {
  const f = await startFunction(t);
  const counters = open(t, f.url);
  const counter = counters.counter("a", "likes");
  counter.subscribe(() => {});
  f.members.add("/a/likes/me");
  const done = counter.join(); // before it is known
  assert.deepEqual([counter.joined(), counter.value], [true, 8]);
  assert.equal(await done, false);
  assert.deepEqual([counter.joined(), counter.value], [true, 7]);
  assert.equal(await counter.join(), false);
  assert.deepEqual([counter.joined(), counter.value], [true, 7]);
});

test("a like and its undo that can't be sent are one request, for the last that was asked for", async (t) => {
  let online = false;
  const f = await startFunction(t, () => (online ? undefined : "refused"));
  const counters = open(t, f.url);
  const counter = await watched(t, counters);
  const outcomes = [];
  for (let i = 0; i < 7; i++) {
    outcomes.push(i % 2 ? counter.leave() : counter.join());
    assert.deepEqual([counter.joined(), counter.pending], [i % 2 === 0, 1]);
    assert.equal(counters.stored.size, 1);
    await new Promise((later) => setTimeout(later));
    assert.equal(counter.value, i % 2 ? 7 : 8);
  }
  online = true;
  counters.queue.go();
  assert.equal(await outcomes[6], true);
  for (const i of [1, 3, 5]) assert.equal(await outcomes[i], false, "it was taken back");
  await Promise.all(outcomes);
  assert.equal(f.requests.at(-1), "PUT /a/likes/me");
  assert.deepEqual([counter.joined(), counter.value, f.members.size, f.moves()], [true, 8, 1, 1]);
});

test("what is asked for while the opposite is on its way follows it, and shows at once", async (t) => {
  let answer;
  const f = await startFunction(t, (n) => (n % 2 ? undefined : new Promise((go) => { answer = go; })));
  const counter = await watched(t, open(t, f.url));
  const joined = counter.join();
  await until(() => f.requests.length === 1);
  const left = counter.leave();
  assert.deepEqual([counter.joined(), counter.value], [false, 7]);
  answer();
  assert.deepEqual(await Promise.all([joined, left]), [true, true]);
  assert.deepEqual(f.requests, ["PUT /a/likes/me", "DELETE /a/likes/me"]);
  assert.deepEqual([counter.joined(), counter.value, f.members.size], [false, 7, 0]);

  const again = counter.join();
  await until(() => f.requests.length === 3);
  const back = counter.leave();
  const same = counter.join(); // what is on its way already
  answer();
  assert.deepEqual(await Promise.all([again, back, same]), [true, false, true]);
  assert.deepEqual([counter.joined(), counter.value, f.members.size, f.requests.length], [true, 8, 1, 3]);
});

test("a like outlives the page, the last that was asked for is sent, and it never grows too old", async (t) => {
  let online = false;
  const f = await startFunction(t, (n) => (online ? undefined : n % 2 ? "lost" : "refused"));
  const storage = new MemoryStorage();
  const first = open(t, f.url, { storage });
  for (const id of ["a", "b", "b/c", "d"]) first.counter(id, "likes").join();
  first.counter("d", "likes").leave();
  await until(() => first.trouble && f.requests.length > 3);
  first.counter("a", "likes").leave();
  first.close();
  assert.equal(storage.size, 4);
  for (const [name, entry] of storage) storage.set(name, entry.replace(/"at":\d+/, `"at":${Date.now() - 90 * 86_400_000}`));

  online = true;
  const second = open(t, f.url, { storage });
  assert.deepEqual(["a", "b", "b/c", "d"].map((id) => second.counter(id, "likes").joined()), [false, true, true, false]);
  await until(() => ["a", "b", "b/c", "d"].every((id) => second.counter(id, "likes").pending === 0));
  assert.deepEqual([...f.members].sort(), ["/b/c/likes/me", "/b/likes/me"]);
  assert.deepEqual(["a", "b", "b/c", "d"].map((id) => second.counter(id, "likes").joined()), [false, true, true, false]);
});

test("of two pages, the last that was asked for is sent", async (t) => {
  let online = false;
  const f = await startFunction(t, (n, method) => (online && method === "DELETE" ? undefined : "refused"));
  const browser = new Browser();
  const pages = [open(t, f.url, browser.tab())];
  pages[0].counter("a", "likes").join();
  await until(() => f.requests.length === 1 && browser.stored.size === 1);
  pages.push(open(t, f.url, browser.tab()));
  assert.equal(pages[1].counter("a", "likes").joined(), true);
  pages[1].counter("a", "likes").leave();
  await until(() => f.requests.length > 2);
  online = true;
  for (const page of pages) page.queue.go();
  await until(() => pages.every((page) => page.counter("a", "likes").pending === 0));
  assert.equal(f.members.size, 0);
});

test("a like that is refused is taken back, in words, and so is what followed it", async (t) => {
  let answer;
  const f = await startFunction(t, (n) => [{ status: 403, body: { detail: "no" } }, { status: 404 },
    new Promise((go) => { answer = () => go({ status: 403 }); }), { status: 403 }][n]);
  const counters = open(t, f.url);
  const counter = await watched(t, counters);
  const refused = counter.join();
  assert.equal(counter.value, 8);
  await assert.rejects(refused, (error) => error instanceof CounterError && error.status === 403 && /no \(403\)/.test(error.message));
  assert.deepEqual([counter.joined(), counter.value], [false, 7]);
  await assert.rejects(counter.join(), { status: 404 });
  assert.deepEqual([counter.joined(), counter.value, counters.stored.size], [false, 7, 0]);

  const joined = counter.join();
  await until(() => f.requests.length === 3);
  const left = counter.leave();
  assert.equal(counter.value, 7);
  answer();
  await Promise.all([assert.rejects(joined, { status: 403 }), assert.rejects(left, { status: 403 })]);
  assert.deepEqual([counter.joined(), counter.value], [false, 7]);
});

test("an earlier page's like that is refused is told", async (t) => {
  let online = false;
  const f = await startFunction(t, () => (online ? { status: 403 } : "refused"));
  const storage = new MemoryStorage();
  const first = open(t, f.url, { storage });
  first.counter("a", "likes").join();
  await until(() => first.trouble);
  first.close();
  online = true;
  const failures = [];
  const second = open(t, f.url, { storage, failed: (error, counter) => failures.push([error.status, counter]) });
  await until(() => failures.length === 1);
  assert.deepEqual(failures, [[403, second.counter("a", "likes")]]);
  assert.equal(storage.size, 0);
});

test("an answer to an earlier question says nothing of a like that came after it", async (t) => {
  const asked = [];
  const transport = {
    send: async () => ({ counted: true }),
    watch: (like, next) => { asked.push(next); return () => {}; },
  };
  const counters = open(t, "http://127.0.0.1:1", { transport });
  const counter = counters.counter("a", "likes");
  counter.subscribe(() => {});
  assert.equal(counter.joined(), undefined);
  const before = performance.now();
  await counter.join();
  asked[0](false, before);
  assert.equal(counter.joined(), true);
  asked[0](false, performance.now());
  assert.equal(counter.joined(), false);
  counter.close();
});

test("an increment of a field names it", async (t) => {
  const bodies = [];
  const server = createServer((request, response) => {
    request.on("data", (data) => bodies.push(String(data)));
    request.on("end", () => response.end(`{"counter":"a","by":{"views":3}}`));
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => new Promise((closed) => { server.close(closed); server.closeAllConnections(); }));
  const counters = open(t, `http://127.0.0.1:${server.address().port}`);
  await counters.counter("a", "views").add(3);
  assert.deepEqual(bodies, [`{"by":{"views":3}}`]);
  assert.notEqual(counters.counter("a", "views"), counters.counter("a"));
});

test("the first like of a counter shows from its answer on, before there is a total", async (t) => {
  const f = await startFunction(t);
  const counter = open(t, f.url, { source: (id, next) => { next({ exists: false, total: 0, live: true }); return () => {}; } }).counter("a", "likes");
  counter.subscribe(() => {});
  assert.equal(counter.state.liked, false);
  await counter.join();
  assert.equal(counter.state.liked, true);
});

test("what can't be a member is refused before it is sent", async (t) => {
  const f = await startFunction(t);
  const counter = open(t, f.url).counter("a", "likes");
  for (const member of ["", null, 7]) await assert.rejects(counter.join(member), TypeError);
  assert.equal(f.requests.length, 0);
});

test("an id sends the user's token to its own path alone", async (t) => {
  const f = await startFunction(t);
  const headers = () => ({ Authorization: "Bearer t" });
  for (const url of [f.url, `${f.url}/increment`]) {
    const counters = open(t, url, { headers });
    for (const id of ["..", ".", "../..", "a/..", "./a", "a/../../b", "", "/", "/example.com", "a//b", "a/"]) {
      assert.throws(() => counters.counter(id), TypeError, id);
      assert.throws(() => counters.counter("a", id), TypeError, id);
      const counter = await watched(t, counters);
      assert.throws(() => counter.joined(id), TypeError, id);
      for (const refused of [counter.join(id), counter.leave(id)]) await assert.rejects(refused, TypeError, id);
    }
    counters.close();
    // What an earlier version has stored, or another program.
    for (const stored of [["../..", "likes", "me", "like"], ["a", "..", "me", "like"], ["a", "likes", "..", "like"], ["..", "likes", "key"]]) {
      const record = { at: Date.now(), end: 0, id: "1", joined: 0, late: ["0", "0"], by: 1, tried: 0, as: "" };
      counters.stored.setItem(`counters-queue ${JSON.stringify([url, "me"])} ${JSON.stringify(stored)}`, JSON.stringify(record));
    }
    const next = open(t, url, { headers, storage: counters.stored });
    for (const id of ["...", "..a", "%2e%2e", ".%2E", "a/.../b"]) await (await watched(t, next, id)).join();
    next.close();
  }
  const own = (id) => `${id.split("/").map(encodeURIComponent).join("/")}/likes/me`;
  assert.deepEqual(f.requests, ["", "/increment"].flatMap((at) => ["...", "..a", "%2e%2e", ".%2E", "a/.../b"].map((id) => `PUT ${at}/${own(id)}`)));
});
