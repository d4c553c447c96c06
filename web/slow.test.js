// Clicks before the page knows its user, and pages and queues that don't hear of each other's clicks:
// each of these was lost, or waited for as long as the page was open.
import assert from "node:assert/strict";
import test from "node:test";
import { Counters, signedIn } from "./counter.js";
import { Browser, dice, MemoryStorage, told, until, Window } from "./wait.mjs";

/** Firebase Authentication that needs a while to find out who the user is. */
class Auth {
  currentUser = null;
  #changed = new Set();
  #known = new Promise((known) => { this.settle = known; });
  authStateReady() { return this.#known; }
  onAuthStateChanged(changed) {
    this.#changed.add(changed);
    void this.#known.then(() => changed(this.currentUser));
    return () => this.#changed.delete(changed);
  }
  enters(uid) {
    this.currentUser = uid && { uid, getIdToken: async () => `token of ${uid}` };
    this.settle();
    for (const changed of this.#changed) changed(this.currentUser);
  }
}

/** A function that knows its users, and refuses those who have not signed in. */
function serve(auth) {
  const server = { sent: [], counted: new Map(), members: new Set() };
  server.transport = (asked = auth) => ({
    prepare: async () => ({ as: "", ...(await signedIn(asked).headers()) }),
    send: async (entry, { credentials: { Authorization: user } }) => {
      server.sent.push(`${user} ${entry.member ?? entry.key}`);
      if (!user) return { error: new Error("Sign in.") };
      const name = `${user} ${entry.member ?? entry.key} ${entry.field}`;
      if ("key" in entry) {
        const counted = !server.counted.has(name);
        server.counted.set(name, entry.by);
        return { counted };
      }
      const counted = server.members.has(name) !== entry.joined;
      if (entry.joined) server.members.add(name);
      else server.members.delete(name);
      return { counted };
    },
    watch: () => () => {},
  });
  return server;
}

async function pass(t, ms) {
  for (const end = Date.now() + ms; Date.now() < end;) {
    t.mock.timers.tick(20);
    await new Promise((rest) => setImmediate(rest));
  }
}

function open(t, options) {
  const counters = new Counters({ source: told(34), storage: new MemoryStorage(), page: new Window(), ...options });
  t.after(() => counters.close());
  return counters;
}

test("a click before the sign-in is known belongs to the user that the page turns out to have", async (t) => {
  const auth = new Auth(), server = serve(auth), storage = new MemoryStorage();
  const counters = open(t, { transport: server.transport(), storage, ...signedIn(auth) });
  const [likes, views] = [counters.counter("a", "likes"), counters.counter("a", "views")];
  const seen = [];
  for (const counter of [likes, views]) counter.subscribe(({ value }) => seen.push(value));
  const done = [likes.join(), views.add(2), views.incrementOnce("view")];
  assert.deepEqual([likes.value, likes.joined(), views.value], [35, true, 37]);
  seen.length = 0;
  auth.enters("ada");
  assert.deepEqual(await Promise.all(done), [true, undefined, true]);
  assert.deepEqual([...new Set(seen)].sort(), [35, 37], "the number moves");
  assert.deepEqual([...server.members], ["Bearer token of ada ada likes"]);
  assert.deepEqual([...server.counted.values()], [2, 1]);
  assert.ok(server.sent.every((one) => one.startsWith("Bearer token of ada")), server.sent);
  await until(() => storage.size === 0);
});

test("the headers wait until the sign-in is known, with an SDK that can't be asked for that too", async () => {
  const auth = new Auth();
  auth.authStateReady = undefined;
  const headers = signedIn(auth).headers();
  assert.equal(await Promise.race([headers, new Promise((later) => setTimeout(later, 20))]), undefined);
  auth.enters("ada");
  assert.deepEqual(await headers, { Authorization: "Bearer token of ada" });
});

test("it belongs to them over a reload, and is refused in words where nobody has signed in", async (t) => {
  const storage = new MemoryStorage();
  const first = open(t, { transport: serve(new Auth()).transport(), storage, ...signedIn(new Auth()) });
  first.counter("a", "likes").join();
  first.counter("a", "views").add(1);
  first.close();
  const auth = new Auth(), server = serve(auth);
  const next = open(t, { transport: server.transport(), storage, ...signedIn(auth) });
  assert.equal(next.counter("a", "likes").joined(), true);
  auth.enters("ada");
  await until(() => storage.size === 0 && server.sent.length === 2);
  assert.deepEqual([[...server.members], [...server.counted.values()]], [["Bearer token of ada ada likes"], [1]]);

  const nobody = new Auth();
  const signedOut = open(t, { transport: serve(nobody).transport(), ...signedIn(nobody) }).counter("a", "likes");
  const refused = assert.rejects(signedOut.join(), /Sign in/);
  nobody.enters(null);
  await refused;
});

test("it belongs to them where they become known while the page is put aside", async (t) => {
  const auth = new Auth(), server = serve(auth), page = new Window();
  const counters = open(t, { transport: server.transport(), page, ...signedIn(auth) });
  const views = counters.counter("a", "views");
  views.subscribe(() => {});
  const done = views.add(2);
  page.dispatchEvent(new Event("pagehide"));
  auth.enters("ada");
  assert.equal(server.sent.length, 0);
  page.dispatchEvent(new Event("pageshow"));
  assert.equal(views.value, 36);
  await done;
  assert.deepEqual([[...server.counted.values()], views.value], [[2], 36]);
});

test("tabs and queues that learn of their user one after the other send each click once", async (t) => {
  t.mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1e12 });
  for (let seed = 0; seed < Number(process.env.WALKS ?? 50); seed++) {
    const random = dice(seed);
    const browser = new Browser({ delay: () => random(20) });
    const auths = [], all = [], clicks = [], server = serve();
    for (let i = 0; i < 3; i++) {
      const auth = new Auth();
      auths.push(auth);
      const tab = browser.tab();
      for (let j = 0; j <= i % 2; j++) {
        const counters = new Counters({ source: told(34), transport: server.transport(auth), ...tab, ...signedIn(auth) });
        all.push(counters);
        clicks.push(counters.counter("a", "views").add(1), counters.counter("a", "likes").join());
      }
    }
    for (const auth of auths) {
      auth.enters("ada");
      await pass(t, random(300));
    }
    await pass(t, 3_000);
    await Promise.all(clicks);
    for (const counters of all) counters.close();
    await pass(t, 40);
    assert.deepEqual([server.members.size, server.counted.size], [1, 4], `seed ${seed}: ${server.sent}`);
    assert.ok([...browser.stored.values()].every((record) => !record.includes('"end":0')), `seed ${seed}: something waits`);
  }
});

test("two Counters of one function in one page send each its own, a like and its unlike in their order", async (t) => {
  const sent = [];
  const transport = (name) => ({ name: "f", send: async (entry) => (sent.push(`${name} ${entry.field} ${entry.joined ?? entry.by}`), { counted: true }), watch: () => () => {} });
  const storage = new MemoryStorage(), page = new Window();
  const one = open(t, { transport: transport("one"), storage, page, field: "likes" });
  const two = open(t, { transport: transport("two"), storage, page, field: "views" });
  const likes = two.counter("a", "likes");
  await one.counter("a").add(1);
  await two.counter("a").add(2); // It waited for as long as the first was there.
  assert.deepEqual(sent, ["one likes 1", "two views 2"]);
  assert.equal(await one.counter("a").join(), true);
  assert.equal(likes.joined(), true);
  assert.equal(await likes.leave(), true);
  assert.deepEqual(sent.slice(2), ["one likes true", "two likes false"]);
  await until(() => one.counter("a").joined() === false && storage.size === 0);
  assert.deepEqual([one, two].map((counters) => [counters.counter("a", "likes").pending, counters.trouble]), [[0, undefined], [0, undefined]]);
  one.close();
  await two.counter("a").add(3);
  assert.equal(sent.at(-1), "two views 3");
});

test("one that is made anew for each token sends its clicks by its own, and what an earlier one left", async (t) => {
  const sent = [];
  const storage = new MemoryStorage(), page = new Window();
  let online = false;
  const make = (token) => open(t, { storage, page, transport: {
    name: "f", prepare: async () => ({ as: "" }), watch: () => () => {},
    send: async ({ by }) => (sent.push(`${token} ${by}`), online ? { counted: true } : { again: 0, trouble: "as told" }),
  } });
  const first = make("first");
  first.counter("a").add(1);
  await until(() => first.trouble);
  const second = make("second");
  second.counter("a").add(2);
  await until(() => second.trouble);
  assert.ok(sent.every((one) => one === "first 1" || one === "second 2"), sent);
  online = true;
  first.close();
  second.queue.go();
  await until(() => storage.size === 0);
  assert.deepEqual([sent.includes("second 1"), sent.includes("second 2"), second.counter("a").pending], [true, true, 0]);
});

test("two tabs with sessionStorage send each their own", async (t) => {
  const locks = new Browser().locks, sent = [];
  for (const by of [1, 2]) {
    const storage = new MemoryStorage();
    const page = Object.assign(new Window(locks), { sessionStorage: storage });
    const transport = { name: "f", send: async (entry) => (sent.push(entry.by), { counted: true }), watch: () => () => {} };
    await open(t, { transport, storage, page }).counter("a").add(by);
  }
  assert.deepEqual(sent, [1, 2]);
});

test("a tab that the browser suspends without a word loses its turn, and sends nothing old when it is back", async (t) => {
  t.mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1e12 });
  const browser = new Browser();
  const sent = [];
  const tabs = ["first", "second"].map((name) => {
    const tab = browser.tab();
    const transport = { name: "f", watch: () => () => {}, send: async ({ joined }) => {
      sent.push(`${name} ${joined}`);
      return sent.length === 1 ? { again: 120_000, trouble: "as told" } : { counted: true };
    } };
    return Object.assign(tab, { counters: open(t, { transport, storage: tab.storage, page: tab.page }) });
  });
  const [first, second] = tabs;
  first.counters.counter("a", "likes").join();
  await pass(t, 500);
  assert.deepEqual(sent, ["first true"]);
  first.suspend();
  const left = second.counters.counter("a", "likes").leave();
  await pass(t, 7_000);
  await left;
  assert.deepEqual(sent, ["first true", "second false"]);
  await pass(t, 60_000);
  first.resume();
  first.counters.queue.go();
  await pass(t, 60_000);
  assert.deepEqual(sent, ["first true", "second false"]);
  await pass(t, 260_000); // The join, whose answer was lost, may have been carried out by now.
  assert.deepEqual([...new Set(sent.slice(2))], ["second false"]);
  assert.ok([...browser.stored.values()].every((record) => !record.includes('"end":0')), "something waits");
});

test("a tab that is asked for its turn after a while says that it is there, and keeps it", async (t) => {
  t.mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1e12 });
  const browser = new Browser(), sent = [];
  const tabs = ["first", "second", "third"].map((name) => {
    const { page, storage } = browser.tab();
    const transport = { name: "f", watch: () => () => {}, send: async ({ by }) => (sent.push(`${name} ${by}`), { counted: true }) };
    return open(t, { transport, storage, page }).counter("a");
  });
  for (const by of [1, 2]) {
    await pass(t, 60_000);
    await Promise.all([tabs[1].add(by), tabs[2].add(10 * by), pass(t, 20_000)]);
  }
  assert.deepEqual([sent, browser.locks.stolen], [["first 1", "first 10", "first 2", "first 20"], undefined]);
});

for (const hears of [true, false]) {
  test(`a like of a suspended tab that is carried out after its undo in another tab is undone once more, ${hears ? "though" : "also where"} that tab hears of the undo ${hears ? "first" : "later"}`, async (t) => {
    t.mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1e12 });
    const browser = new Browser();
    let liked = false, arrive, wake, awake = Promise.resolve();
    const tab = (name) => {
      const tab = browser.tab();
      const transport = { name: "f", watch: () => () => {}, send: async ({ joined }) => {
        if (name === "first" && !arrive) await new Promise((done) => { arrive = done; });
        const counted = liked !== joined;
        liked = joined;
        if (name === "first") await awake;
        return { counted };
      } };
      const counters = open(t, { transport, storage: tab.storage, page: tab.page });
      return Object.assign(tab, { counters, counter: counters.counter("a", "likes") });
    };
    const [first, second] = ["first", "second"].map(tab);
    first.counter.join();
    await pass(t, 500);
    first.suspend();
    const left = second.counter.leave();
    await pass(t, 10_000);
    assert.equal(await left, false); // There was nothing to undo yet.
    awake = new Promise((done) => { wake = done; });
    arrive();
    await pass(t, 1_000);
    assert.equal(liked, true);
    if (!hears) wake();
    await pass(t, hears ? 0 : 100);
    first.resume();
    await pass(t, 100);
    wake();
    await pass(t, 10_000);
    assert.deepEqual([first.counter.joined(), second.counter.joined()], [false, false]);
    for (const { counters, close } of [first, second]) {
      counters.close();
      close();
    }
    const next = tab("next");
    await pass(t, 250_000);
    assert.deepEqual([liked, next.counter.pending], [false, 0]);
    assert.ok([...browser.stored.values()].every((record) => !record.includes('"end":0')), "something waits");
  });
}
