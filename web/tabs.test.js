// Live pages at random, in a time that the test makes: whatever becomes of requests, answers, tabs,
// users and the storage, nothing is lost and nothing counts twice.
import assert from "node:assert/strict";
import test from "node:test";
import { Counters } from "./counter.js";
import { Browser, dice } from "./wait.mjs";

const WALKS = Number(process.env.WALKS ?? 1_000);
// ms that a request may last in the function, with the longest REQUEST_TIMEOUT
const LONGEST = 160_000;

/**
 * What the function has counted: an increment once for each user and key, and each member once
 * until it leaves.
 */
class Server {
  counted = new Map(); // user and key → by
  members = new Set();
  moves = 0;

  apply(entry, user) {
    if (!("key" in entry)) {
      assert.equal(entry.member, user, "a like of another user came"); // The function answers 403.
      if (this.members.has(user) === entry.joined) return false;
      if (entry.joined) this.members.add(user);
      else this.members.delete(user);
      this.moves++;
      return true;
    }
    const key = `${user} ${entry.key}`;
    if (this.counted.has(key)) return false;
    this.counted.set(key, entry.by);
    return true;
  }

  get total() {
    return [...this.counted.values()].reduce((sum, by) => sum + by, this.members.size);
  }
}

/**
 * Walks two or three tabs of a browser. Requests are applied at once, or late, or never, and their
 * answers get lost; tabs are closed, opened, put aside and brought back; users sign in and out; the
 * storage is full for a while. In the end all goes well.
 */
async function walk(t, seed) {
  t.mock.timers.reset(); // The same seed makes the same walk.
  t.mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1e12 });
  const random = dice(seed);
  Math.random = () => random(1_000) / 1_000; // Keys and pauses are the seed's, too.
  crypto.getRandomValues = (bytes) => bytes.map(() => random(256));
  const locks = seed % 10 ? undefined : null; // Every tenth browser has no Web Locks.
  const browser = new Browser({ delay: () => random(20), ...(locks === null && { locks }) });
  const server = new Server();
  const later = (ms) => new Promise((done) => setTimeout(done, ms));
  const added = new Map([["ada", 0], ["bob", 0]]);
  const wishes = new Map([["ada", false], ["bob", false]]);
  const tabs = [];
  const sources = new Set();
  let user = "ada", calm = false, clicks = 0;

  const transport = {
    prepare: async () => {
      await later(random(3) ? 0 : random(300));
      if (!calm && !random(10)) throw new Error("offline");
      return { as: "", user };
    },
    send: async (entry, { credentials: { user }, signal }) => {
      const fate = calm ? 0 : random(6);
      const apply = () => server.apply(entry, user);
      if (fate === 1) setTimeout(apply, random(LONGEST));
      if (fate === 2) apply();
      // It may come after the tab that has sent it is gone.
      if (fate === 3) setTimeout(apply, random(2_000));
      await Promise.race([later(random(random(4) ? 300 : 5_000)), new Promise((cut) => signal.addEventListener("abort", cut))]);
      if (signal.aborted || (fate > 0 && fate < 4)) return { again: 0, trouble: "as told", all: fate === 1 };
      return { counted: apply() };
    },
    watch: () => () => {},
  };
  const pass = async (ms, tick = 50) => {
    // A page without locks takes another look at its lease after 100 ms: what is written has to get
    // around meanwhile.
    for (const end = Date.now() + ms; Date.now() < end;) {
      t.mock.timers.tick(locks === null ? Math.min(tick, 40) : tick);
      await new Promise((rest) => setImmediate(rest));
    }
  };
  const open = () => {
    const tab = browser.tab();
    if (locks === null) tab.page.navigator = {};
    const source = (id, next) => {
      const tell = () => next({ exists: true, total: server.total, live: true });
      sources.add(tell);
      tell();
      return () => sources.delete(tell);
    };
    tab.counters = new Counters({ transport, source, member: () => user, storage: tab.storage, page: tab.page });
    tab.counter = tab.counters.counter("a");
    tab.counter.subscribe(() => {});
    tabs.push(tab);
  };
  const pick = () => {
    const awake = tabs.filter((tab) => !tab.frozen);
    return awake[random(awake.length)];
  };
  const shut = (tab) => {
    tab.counters.close();
    tab.close();
    tabs.splice(tabs.indexOf(tab), 1);
  };
  const steps = [
    (tab) => {
      const by = 1 + random(3);
      added.set(user, added.get(user) + by);
      clicks++;
      tab.counter.add(by).catch((error) => assert.fail(error));
    },
    (tab) => {
      // Other tabs know nothing of what isn't kept.
      tab = tabs.find(({ frozen, counters }) => !frozen && !counters.kept) ?? tab;
      if (tabs.some((other) => other !== tab && (other.others || !(other.frozen ? other.kept : other.counters.kept)))) return;
      const joined = random(2) === 1;
      wishes.set(user, joined);
      clicks++;
      (joined ? tab.counter.join() : tab.counter.leave()).catch((error) => assert.fail(error));
      assert.equal(tab.counter.joined(), joined, `seed ${seed}: a click doesn't show`);
    },
    (tab) => { // Put aside, as when the user goes to another page and may come back.
      tab.kept = tab.counters.kept;
      tab.frozen = true; // Nothing of it runs any more.
      tab.freeze();
      if (tabs.every(({ frozen }) => frozen)) open();
    },
    () => {
      for (const tab of tabs) {
        if (!tab.frozen || !random(2)) continue;
        tab.frozen = false;
        tab.thaw();
      }
    },
    (tab) => {
      if (!tab.counters.kept || tab.others) return; // The user is told that it would lose a click.
      shut(tab);
      if (!tabs.some(({ frozen }) => !frozen) || random(2)) open();
    },
    () => { if (tabs.length < 3) open(); },
    () => {
      // What isn't kept may be the other user's.
      for (const tab of tabs) if (!(tab.frozen ? tab.kept : tab.counters.kept)) tab.others = true;
      user = user === "ada" ? "bob" : "ada";
      // An app may show that, at once or later.
      for (const { counters, frozen } of tabs) if (!frozen && random(2)) void counters.trouble;
    },
    // Without locks and without room for the lease, each tab sends: then a like and its undo in two
    // tabs may pass each other.
    () => { browser.quota = random(2) || locks === null ? Infinity : [...browser.stored].reduce((sum, [name, value]) => sum + name.length + value.length, 0); },
    () => { for (const tell of sources) tell(); },
  ];
  open();
  open();
  for (let step = 0; step < 30; step++) {
    await pass(150, 25); // All tabs hear of a click before there is another.
    await (random(3) ? pass(random(500), 50) : pass(random(40_000), 500));
    steps[[0, 0, 0, 1, 1, 1, 1, 2, 3, 3, 4, 5, 6, 7, 8][random(15)]](pick());
    if (!tabs.some(({ frozen }) => !frozen)) open();
  }
  calm = true;
  browser.quota = Infinity;
  for (const tab of tabs.filter(({ frozen }) => frozen)) tab.thaw();
  for (let i = 0; i < 2; i++) { // Each user comes back.
    user = user === "ada" ? "bob" : "ada";
    for (const { counters } of tabs) counters.queue.go();
    await pass(450_000, 1_000);
  }
  for (const tell of sources) tell();
  await pass(20_000, 1_000);
  const sum = (user) => [...server.counted].reduce((sum, [key, by]) => sum + (key.startsWith(user) ? by : 0), 0);
  for (const one of ["ada", "bob"]) {
    assert.deepEqual([sum(one), server.members.has(one)], [added.get(one), wishes.get(one)], `seed ${seed}: of ${one}'s`);
  }
  for (const tab of tabs) {
    assert.deepEqual([tab.counter.pending, tab.counter.value, tab.counter.total, tab.counters.trouble], [0, server.total, server.total, undefined], `seed ${seed}: a tab`);
    tab.counters.close();
  }
  await pass(1_000);
  // Two pages may have the lease for a moment, or one a lock that was taken, and remember longer than they need to.
  const left = [...browser.stored].filter(([, value]) => (locks !== null && !browser.locks.stolen) || value.includes('"end":0'));
  assert.deepEqual(left, [], `seed ${seed}: what is stored`);
  return clicks;
}

test(`${WALKS} walks of live pages: nothing is lost, and nothing counts twice`, async (t) => {
  // Each test file runs in a process of its own. (A mock would remember every call.)
  performance.now = () => Date.now();
  let clicks = 0;
  const first = Number(process.env.SEED ?? 0);
  for (let seed = first; seed < first + WALKS; seed++) clicks += await walk(t, seed);
  assert.ok(clicks > 8 * WALKS, `only ${clicks} clicks`);
});
