// What was lost, or counted twice, once: each of these failed before.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import test from "node:test";
import { CounterError, Counters, fromFunction, signedIn } from "./counter.js";
import { whose } from "./http.js";
import { Browser, MemoryStorage, told, until, Window } from "./wait.mjs";

/** A transport that notes what it is sent, and answers as it is told. */
function noting(answer = () => ({ counted: true }), more = {}) {
  const sent = [];
  return { sent, send: async (entry) => answer(sent.push({ ...entry }) - 1, entry), watch: () => () => {}, ...more };
}

function open(t, options) {
  const counters = new Counters({ source: told(34), storage: null, page: new Window(), ...options });
  t.after(() => counters.close());
  return counters;
}

const lost = { again: 0, trouble: "as told" };

test("1: a key belongs to a counter and a field, and another number under it is an error at once", async (t) => {
  const transport = noting();
  const counters = open(t, { transport });
  const [sold, today] = [counters.counter("sold"), counters.counter("sold-today")];
  const all = [sold.incrementOnce("order-1"), today.incrementOnce("order-1"), counters.counter("sold", "worth").incrementOnce("order-1", 500)];
  await assert.rejects(sold.incrementOnce("order-1", 500), (error) => error instanceof CounterError && /another number/.test(error.message));
  assert.deepEqual(await Promise.all(all), [true, true, true]);
  assert.deepEqual(transport.sent.map(({ counter, field, by }) => [counter, field, by]), [["sold", "total", 1], ["sold-today", "total", 1], ["sold", "worth", 500]]);
});

test("2: what one user has asked for is sent for no other, and waits for its user", async (t) => {
  const storage = new MemoryStorage();
  const before = noting(() => lost);
  const alice = open(t, { transport: before, storage, member: "alice" });
  alice.counter("a").add(1).catch(() => {});
  alice.counter("a", "likes").join();
  await until(() => before.sent.length === 2 && alice.trouble);
  alice.close();

  const transport = noting();
  const bob = open(t, { transport, storage, member: "bob" });
  assert.equal(bob.counter("a").pending, 0);
  await bob.counter("a").add(2);
  assert.deepEqual(transport.sent.map(({ by }) => by), [2]);
  bob.close();

  const again = open(t, { transport, storage, member: "alice" });
  await until(() => again.counter("a").pending === 0 && again.counter("a", "likes").pending === 0);
  assert.deepEqual(transport.sent.map(({ by, member }) => by ?? member), [2, 1, "alice"]);
});

test("2: users who come and go on one page have what is theirs", async (t) => {
  let user = "alice", online = false;
  const transport = noting(() => (online ? { counted: true } : lost));
  const counters = open(t, { transport, storage: new MemoryStorage(), member: () => user });
  const counter = counters.counter("a");
  counter.subscribe(() => {});
  const hers = counter.add(1);
  await until(() => counters.trouble);
  user = "bob";
  assert.deepEqual([counter.pending, counter.value], [0, 34]);
  online = true;
  assert.equal(await counter.join(), true);
  assert.deepEqual(transport.sent.slice(1).map(({ by, member }) => by ?? member), ["bob"], "hers was sent for him");
  user = "alice";
  assert.deepEqual([counter.pending, counter.value], [1, 35]);
  await hers;
  assert.equal(transport.sent.length, 3);
});

test("2: a user who signs in while a token is on its way gets nothing of the one before", async (t) => {
  let user = "alice", given;
  const transport = noting(undefined, { prepare: () => new Promise((go) => { given = go; }) });
  const counters = open(t, { transport, member: () => user });
  counters.counter("a").add(1);
  await until(() => given);
  user = "bob";
  given({ as: "" });
  await new Promise((later) => setTimeout(later, 20));
  assert.equal(transport.sent.length, 0);
});

test("2: without a member, users are told apart by their tokens", async (t) => {
  const token = (sub, n) => `Bearer x.${btoa(JSON.stringify({ sub, n }))}.y`;
  assert.equal(whose(token("alice", 1)), whose(token("alice", 2)));
  assert.notEqual(whose(token("alice", 1)), whose(token("bob", 1)));
  assert.notEqual(whose("Basic a"), whose("Basic b"));
  const storage = new MemoryStorage();
  const as = (user, answer) => noting(answer, { prepare: async () => ({ as: whose(token(user)) }) });
  const first = open(t, { transport: as("alice", () => lost), storage });
  first.counter("a").add(1).catch(() => {});
  await until(() => first.trouble);
  first.close();
  const his = as("bob");
  const bob = open(t, { transport: his, storage });
  await bob.counter("a").add(2);
  assert.deepEqual(his.sent.map(({ by }) => by), [2]);
  bob.close();
  const hers = as("alice");
  open(t, { transport: hers, storage });
  await until(() => hers.sent.length === 1);
  assert.deepEqual(hers.sent.map(({ by }) => by), [1]);
});

test("3: a page that was put aside sees what others have settled, and sends nothing of that", async (t) => {
  const browser = new Browser();
  const answers = [lost];
  const transport = noting((n) => answers[n] ?? { counted: true });
  const tabs = [browser.tab(), browser.tab()];
  const pages = tabs.map((tab) => open(t, { transport, storage: tab.storage, page: tab.page }));
  const done = pages[0].counter("a", "likes").join();
  await until(() => pages[0].trouble);
  tabs[0].freeze();
  // The other one joined for it,
  await until(() => transport.sent.length === 2 && browser.stored.size === 1);
  assert.equal(await pages[1].counter("a", "likes").leave(), true); // and its user has left since.
  await until(() => [...browser.stored.values()].every((record) => record.includes('"joined":0')));
  tabs[0].thaw();
  assert.equal(await done, false);
  assert.deepEqual([pages[0].counter("a", "likes").pending, pages[0].counter("a", "likes").joined()], [0, false]);
  pages[0].queue.go();
  await new Promise((later) => setTimeout(later, 20));
  assert.deepEqual(transport.sent.map(({ joined }) => joined), [true, true, false]);
});

for (const [what, away] of Object.entries({
  "a page that was put aside sends nothing until it is back, whoever the user is then": true,
  "what another tab settles of a user who isn't the one of now is not sent again for them": false,
})) {
  test(`3: ${what}`, async (t) => {
    const browser = new Browser();
    const tab = browser.tab();
    let user = "ada", given;
    const token = new Promise((give) => { given = give; });
    const transports = [noting(undefined, { prepare: () => token }), noting()];
    const page = open(t, { transport: transports[0], member: () => user, storage: tab.storage, page: tab.page });
    const done = page.counter("a", "likes").join();
    user = "bob";
    assert.equal(page.counter("a", "likes").pending, 0);
    given({ as: "" });
    await until(() => browser.stored.size === 1);
    if (away) {
      tab.freeze();
      user = "ada";
      assert.equal(page.counter("a", "likes").pending, 1); // The app may look once more.
    }
    const other = open(t, { transport: transports[1], member: "ada", ...browser.tab() });
    await until(() => transports[1].sent.length === 1); // The other one joined for her,
    await other.counter("a", "likes").leave(); // and she has left since.
    await until(() => browser.stored.size === 0);
    if (away) tab.thaw();
    user = "ada";
    page.queue.go();
    assert.equal(await done, !away, "whether its page knows how it ended");
    await new Promise((later) => setTimeout(later, 20));
    assert.deepEqual(transports.map(({ sent }) => sent.map(({ joined }) => joined)), [[], [true, false]]);
  });
}

test("3: of several tabs one sends, and all are told how it ended", async (t) => {
  const browser = new Browser();
  const answer = (n, { counter }) => (counter === "no" ? { error: new CounterError("refused", { status: 403 }) } : { counted: n % 2 === 0 });
  const transports = [noting(answer), noting(answer)];
  const pages = transports.map((transport) => open(t, { transport, ...browser.tab() }));
  await pages[0].counter("a").add(1);
  assert.equal(await pages[1].counter("a").incrementOnce("k"), false);
  assert.equal(await pages[1].counter("a", "likes").join(), true);
  await assert.rejects(pages[1].counter("no").add(1), { name: "CounterError", status: 403, message: "refused", unknown: false });
  assert.deepEqual(transports.map(({ sent }) => sent.length), [4, 0]);
  await until(() => browser.stored.size === 0);
  pages[0].close(); // Its turn is over.
  await pages[1].counter("a").add(1);
  assert.deepEqual(transports.map(({ sent }) => sent.length), [4, 1]);
});

test("3: an app that empties the storage loses no click", async (t) => {
  let online = false;
  const transport = noting(() => (online ? { counted: true } : lost));
  const storage = new MemoryStorage();
  const counters = open(t, { transport, storage });
  const all = [counters.counter("a").add(1), counters.counter("a", "likes").join()];
  await until(() => counters.trouble);
  storage.clear();
  counters.queue.go();
  await until(() => transport.sent.length > 1);
  assert.ok(storage.size > 0, "it is not stored again");
  online = true;
  counters.queue.go();
  await Promise.all(all);
});

test("4: in a full storage, a leave takes the place of a join; what doesn't fit is said", async (t) => {
  const storage = new MemoryStorage();
  const counters = open(t, { transport: noting(() => lost), storage });
  const likes = counters.counter("a", "likes");
  likes.join();
  await until(() => counters.trouble);
  storage.quota = 1;
  likes.leave();
  await new Promise((later) => setTimeout(later, 600));
  assert.equal(counters.kept, true);
  counters.counter("b").add(1);
  assert.equal(counters.kept, false);
  counters.close();
  const transport = noting();
  const next = open(t, { transport, storage });
  await until(() => transport.sent.length === 1 && next.counter("a", "likes").pending === 0);
  assert.equal(transport.sent[0].joined, false);
});

test("5: a queue is named by what it sends to", async (t) => {
  const storage = new MemoryStorage();
  const one = open(t, { transport: noting(() => lost, { name: "posts/{post}" }), storage });
  one.counter("a").add(1);
  await until(() => one.trouble);
  one.close();
  const transport = noting(undefined, { name: "teams/{team}" });
  assert.equal(open(t, { transport, storage }).counter("a").pending, 0);
  await new Promise((later) => setTimeout(later, 20));
  assert.equal(transport.sent.length, 0);
});

test("6: a refusal after an attempt in doubt is unknown, also on the next page", async (t) => {
  const refused = { error: new CounterError("refused", { status: 403 }) };
  const counters = open(t, { transport: noting((n) => [lost, refused, refused, lost, refused][n]) });
  await assert.rejects(counters.counter("a").add(1), { unknown: true, status: 403, message: /may have been counted/ });
  await assert.rejects(counters.counter("a").add(1), { unknown: false, message: "refused" });
  await assert.rejects(counters.counter("a", "likes").join(), { unknown: true });

  // What was never sent, for want of credentials, was not counted.
  let asked = 0;
  const prepare = async () => { if (asked++ === 0) throw new Error("offline"); };
  const signedOut = open(t, { transport: noting(() => refused, { prepare }) });
  await assert.rejects(signedOut.counter("a", "likes").join(), { unknown: false });

  const storage = new MemoryStorage();
  const first = open(t, { transport: noting(() => lost), storage });
  first.counter("a").add(1);
  await until(() => first.trouble);
  first.close();
  const failures = [];
  open(t, { transport: noting(() => refused), storage, failed: (error) => failures.push(error) });
  await until(() => failures.length === 1);
  assert.ok(failures[0].unknown);
});

test("7: a counter that doesn't get through holds no other up", async (t) => {
  const transport = noting((n, { counter }) => (counter === "busy" ? lost : { counted: true }));
  const counters = open(t, { transport });
  counters.counter("busy").add(1);
  await until(() => counters.trouble);
  await Promise.all([counters.counter("fine").add(1), counters.counter("other", "likes").join()]);
  assert.equal(counters.trouble, "as told");
  assert.equal(transport.sent.filter(({ counter }) => counter === "busy").length, 1);
});

test("7: while the server can't be reached, one request finds out when it can", async (t) => {
  const transport = noting(() => ({ ...lost, all: true }));
  const counters = open(t, { transport });
  counters.counter("a").add(1);
  await until(() => counters.trouble);
  for (const id of "bcdefg") counters.counter(id).add(1);
  await until(() => transport.sent.length === 3);
  assert.deepEqual(transport.sent.map(({ counter }) => counter), ["a", "a", "a"]);
});

test("7: what no request can carry is refused when it is made", async (t) => {
  const transport = noting();
  const counters = open(t, { transport });
  const half = "👍".slice(0, 1);
  for (const make of [() => counters.counter(half), () => counters.counter(""), () => counters.counter("a", half)]) assert.throws(make, TypeError);
  const counter = counters.counter("a");
  for (const refused of [counter.join(half), counter.leave(`x${half}`), counter.incrementOnce("ключ"), counter.incrementOnce(" k"), counter.incrementOnce("")]) {
    await assert.rejects(refused, TypeError);
  }
  assert.equal(transport.sent.length, 0);
});

test("9: what waits counts in the number from the first frame, after a reload too", async (t) => {
  const storage = new MemoryStorage();
  const first = open(t, { transport: noting(() => lost), storage });
  for (let i = 0; i < 3; i++) first.counter("p").add(1);
  first.counter("p").join();
  await until(() => first.trouble);
  first.close();
  const next = open(t, { transport: noting(() => lost), storage });
  const counter = next.counter("p");
  const seen = [];
  counter.subscribe(({ value }) => value !== undefined && seen.push(value));
  await until(() => next.trouble);
  assert.deepEqual([...new Set(seen)], [38]);
  assert.equal(counter.pending, 4);
});

test("10: a counter is the same with its field named, and the default source sends headers", async (t) => {
  const counters = open(t, { transport: noting() });
  assert.equal(counters.counter("p"), counters.counter("p", "total"));
  assert.equal(open(t, { transport: noting(), field: "likes" }).counter("p").field, "likes");

  const asked = [];
  const server = createServer((request, response) => { asked.push(request.headers.authorization); response.end(`{"counter":"a","total":5}`); });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => new Promise((closed) => { server.close(closed); server.closeAllConnections(); }));
  const counter = open(t, { url: `http://127.0.0.1:${server.address().port}`, source: undefined, headers: () => ({ Authorization: "Bearer x" }) }).counter("p");
  counter.subscribe(() => {});
  await until(() => counter.value === 5);
  assert.equal(asked[0], "Bearer x");
});

test("11: without a url there would be requests to the page's own site: it is an error at once", (t) => {
  const page = new Window();
  for (const options of [{}, { url: undefined }, { url: "" }, { transport: noting() }, { source: told(1) }]) {
    assert.throws(() => new Counters({ page, storage: null, ...options }), /want the url of Increment/, JSON.stringify(options));
  }
  open(t, { transport: noting() }); // and a source
});

/** A function that counts the field total alone. */
async function startOther(t) {
  const asked = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.writeHead(400, { "Content-Type": "application/problem+json" });
    response.end(JSON.stringify({ status: 400, detail: `"likes" is not counted; want one of total; to count it too, set FIELDS=total=count,likes` }));
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => new Promise((closed) => { server.close(closed); server.closeAllConnections(); }));
  return { asked, url: `http://127.0.0.1:${server.address().port}` };
}

test("12: a field that isn't counted is said to be that, whatever the total comes from", async (t) => {
  const other = await startOther(t);
  for (const source of [told(34), undefined]) {
    const counter = open(t, { url: other.url, source }).counter("a", "likes");
    let state;
    counter.subscribe((now) => { state = now; void now.liked; });
    await until(() => state.error);
    assert.match(state.error.message, /set FIELDS=total=count,likes \(400\)/);
  }
  assert.deepEqual(other.asked, ["GET /a/likes/me", "GET /?counter=a&field=likes"], "it was asked again");
});

test("13: a like that is refused is in the state until something else is asked for, and a button's is no unhandled error", async (t) => {
  const fates = [{ error: new CounterError("The server refuses it: Sign in. (401).", { status: 401 }) }, { counted: true }];
  const counter = open(t, { transport: noting((n) => fates[n]) }).counter("a", "likes");
  const states = [];
  counter.subscribe((state) => states.push(state));
  assert.equal(await counter.toggle(), false);
  assert.deepEqual([counter.error.status, states.at(-1).error.message, counter.value], [401, "The server refuses it: Sign in. (401).", 34]);
  const done = counter.toggle();
  assert.deepEqual([counter.error, states.at(-1).error, counter.value], [undefined, undefined, 35]);
  assert.equal(await done, true);
  assert.equal(counter.joined(), true);
});

test("14: a page that is offline asks nothing, and goes on once it is online", async (t) => {
  const asked = [];
  const browser = { onLine: false };
  const before = { fetch: globalThis.fetch, navigator: Object.getOwnPropertyDescriptor(globalThis, "navigator") };
  Object.defineProperty(globalThis, "navigator", { value: browser, configurable: true });
  globalThis.fetch = async (url, { method = "GET" } = {}) => {
    asked.push(`${method} ${url}`);
    return Response.json(method === "PUT" ? { counter: "a", counted: true } : { counter: "a", total: 5, joined: false });
  };
  t.after(() => {
    globalThis.fetch = before.fetch;
    if (before.navigator) Object.defineProperty(globalThis, "navigator", before.navigator);
    else delete globalThis.navigator;
  });
  const page = new Window();
  const url = "https://counters.example";
  const counter = open(t, { url, source: fromFunction(url, { every: 5 }), page }).counter("a", "likes");
  counter.subscribe(() => {});
  await until(() => counter.error === undefined && counter.live === false);
  const done = counter.join();
  await new Promise((later) => setTimeout(later, 50));
  assert.deepEqual([asked, counter.pending, counter.error], [[], 1, undefined]);
  browser.onLine = true;
  page.dispatchEvent(new Event("online"));
  assert.equal(await done, true);
  await until(() => counter.live);
  assert.ok(asked.includes("PUT https://counters.example/a/likes/me") && asked.includes("GET https://counters.example/?counter=a&field=likes"));

  // Without HTTPS the server may be this machine.
  browser.onLine = false;
  asked.length = 0;
  await open(t, { url: "http://localhost:8081/increment", page }).counter("a", "likes").join();
  assert.deepEqual(asked, ["PUT http://localhost:8081/increment/a/likes/me"]);
});

test("15: users of Firebase Authentication come and go, and who has not signed in is asked nothing about", async (t) => {
  const auth = { currentUser: null, changed: [], onAuthStateChanged(changed) { this.changed.push(changed); return () => {}; }, authStateReady: async () => {} };
  const asked = [];
  const transport = noting(undefined, { watch: ({ member }, next) => { asked.push(member); queueMicrotask(() => next(member === "ada", performance.now() + 1)); return () => {}; } });
  const users = signedIn(auth);
  const counter = open(t, { transport, ...users }).counter("a", "likes");
  const seen = [];
  counter.subscribe(({ liked }) => liked === seen.at(-1) || seen.push(liked));
  assert.deepEqual([asked, await users.headers()], [[], {}]);
  const enters = (uid) => {
    auth.currentUser = uid && { uid, getIdToken: async () => `token of ${uid}` };
    auth.changed.forEach((changed) => changed());
  };
  enters("ada");
  assert.deepEqual([asked, await users.headers(), counter.joined()], [["ada"], { Authorization: "Bearer token of ada" }, true]);
  enters("bob");
  await until(() => counter.joined() === false);
  assert.deepEqual(asked, ["ada", "bob"]);
  enters(null);
  assert.deepEqual([asked, counter.joined()], [["ada", "bob"], undefined]);
});

test("16: an increment that grows too old while its credentials are awaited is not sent: its key is forgotten by then", async (t) => {
  t.mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1e12 });
  const rest = async () => { for (let i = 0; i < 5; i++) await new Promise((done) => setImmediate(done)); };
  let signIn;
  const prepares = [() => ({ as: "" }), () => new Promise((done) => (signIn = () => done({ as: "" })))];
  const transport = noting((n) => (n ? { counted: true } : lost), { prepare: async () => prepares.shift()?.() });
  const answer = assert.rejects(open(t, { transport, storage: new MemoryStorage() }).counter("a").add(1), { unknown: true });
  await rest();
  t.mock.timers.tick(100); // this page has the turn
  await rest();
  t.mock.timers.tick(1_000); // the pause is over
  await rest();
  t.mock.timers.setTime(1e12 + 3 * 86_400_000); // the machine has slept
  signIn();
  await rest();
  t.mock.timers.tick(100); // nobody has taken the turn meanwhile
  await answer;
  assert.equal(transport.sent.length, 1);
});
