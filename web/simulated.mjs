// Pages in the simulation (simulation/pages_test.go), which writes a line of JSON for each step and
// reads one. The time, what becomes of requests and of pages, and who does what is the simulation's;
// what the pages do then is the client's own code. Between two lines nothing happens here.
import { createInterface } from "node:readline";
import { Counters, fromFunction } from "./counter.js";
import { Browser, dice } from "./wait.mjs";

const turn = (() => { // before timers are the simulation's: until nothing is left to do at this time
  const { setImmediate } = globalThis;
  return () => new Promise((rest) => setImmediate(rest));
})();
const settle = async () => { for (let i = 0; i < 4; i++) await turn(); };

let now = 0, last = 0;
const timers = new Map(); // id → {at, run}
globalThis.setTimeout = (run, ms = 0, ...args) => {
  timers.set(++last, { at: now + Math.max(1, Math.trunc(ms) || 0), run: () => run(...args) });
  return last;
};
globalThis.clearTimeout = (id) => { timers.delete(id); };
globalThis.Date.now = () => now;
performance.now = () => now;
AbortSignal.timeout = (ms) => {
  const late = new AbortController();
  setTimeout(() => late.abort(new DOMException("late", "TimeoutError")), ms);
  return late.signal;
};
AbortSignal.any = (signals) => { // Node's own forgets signals that nothing else holds.
  const one = new AbortController();
  for (const signal of signals) {
    if (signal.aborted) one.abort(signal.reason);
    signal.addEventListener("abort", () => one.abort(signal.reason), { once: true });
  }
  return one.signal;
};

let said = { requests: [], ended: [] };
const pending = new Map(); // id of a request → what its answer goes to
let requests = 0;
globalThis.fetch = (url, { method = "GET", headers, body, signal } = {}) => new Promise((resolve, reject) => {
  if (signal?.aborted) return reject(signal.reason);
  const id = ++requests;
  const { pathname, search } = new URL(url);
  const own = new Headers(headers);
  said.requests.push({
    id, method, path: pathname + search, body: body ?? "", key: own.get("Idempotency-Key") ?? "",
    user: JSON.parse(atob(own.get("Authorization").split(".")[1])).sub,
  });
  pending.set(id, { resolve, reject });
  signal?.addEventListener("abort", () => { if (pending.delete(id)) reject(signal.reason); }, { once: true });
});

let random;
const browsers = [];
const tabs = new Map();

function open(browser, id) {
  const tab = browsers[browser].browser.tab();
  const user = () => browsers[browser].user;
  tab.at = browser;
  const url = "http://simulated";
  const headers = () => ({ Authorization: `Bearer .${btoa(JSON.stringify({ sub: user() }))}.` });
  tab.counters = new Counters({
    url, headers, member: user, storage: tab.storage, page: tab.page, source: fromFunction(url, { headers, every: 60_000 }),
    failed: (error) => said.ended.push({ error: String(error) }),
  });
  tab.shown = browsers[browser].shown.map((counter) => tab.counters.counter(counter));
  for (const counter of tab.shown) counter.subscribe(() => {});
  tabs.set(id, tab);
}

const ended = (what) => [() => said.ended.push({ ...what }), (error) => said.ended.push({ ...what, error: String(error) })];
const does = {
  begin({ seed, counters, users }) {
    random = dice(seed);
    Math.random = () => random(1_000_000) / 1_000_000;
    crypto.getRandomValues = (bytes) => bytes.map(() => random(256));
    users.forEach((user, n) => {
      const own = n % 3 ? {} : { locks: null }; // Some browsers have no Web Locks.
      browsers.push({ browser: new Browser({ delay: () => random(20), ...own }), user, shown: counters });
    });
  },
  open: ({ browser, tab }) => {
    open(browser, tab);
  },
  close({ tab }) {
    tabs.get(tab).counters.close();
    tabs.get(tab).close();
    tabs.delete(tab);
  },
  freeze({ tab }) {
    tabs.get(tab).frozen = true;
    tabs.get(tab).freeze();
  },
  thaw({ tab }) {
    tabs.get(tab).frozen = false;
    tabs.get(tab).thaw();
  },
  user({ browser, user }) {
    browsers[browser].user = user;
    for (const tab of tabs.values()) if (tab.at === browser && !tab.frozen) void tab.counters.queue;
  },
  click({ tab, counter, by, click }) { tabs.get(tab).counters.counter(counter).add(by).then(...ended({ click })); },
  like({ tab, counter, joined, click }) {
    const it = tabs.get(tab).counters.counter(counter);
    (joined ? it.join() : it.leave()).then(...ended({ click }));
  },
};

const write = process.stdout.write.bind(process.stdout);
for await (const line of createInterface({ input: process.stdin })) {
  const { at, answers, actions } = JSON.parse(line);
  for (;;) { // what is due before, one after the other
    const [id, due] = [...timers].reduce((least, one) => (one[1].at < (least[1]?.at ?? Infinity) ? one : least), []);
    if (!due || due.at > at) break;
    timers.delete(id);
    now = Math.max(now, due.at);
    due.run();
    await settle();
  }
  now = at;
  for (const { id, status, body, after } of answers ?? []) {
    const asked = pending.get(id);
    pending.delete(id);
    if (!asked) continue; // given up
    if (!status) asked.reject(new TypeError("fetch failed"));
    else asked.resolve(new Response(body, { status, headers: after ? { "Retry-After": after } : {} }));
    await settle();
  }
  for (const action of actions ?? []) {
    does[action.does](action);
    await settle();
  }
  await settle();
  const next = [...timers.values()].reduce((least, { at }) => Math.min(least, at), Infinity);
  write(`${JSON.stringify({
    ...said, next: next === Infinity ? 0 : next,
    tabs: [...tabs].map(([id, { at, counters, shown, frozen = false }]) => ({
      id, browser: at, frozen, kept: counters.kept, trouble: counters.trouble ?? "",
      pending: shown.reduce((sum, { pending }) => sum + pending, 0), values: shown.map(({ value }) => value ?? null), waiting: counters.queue.waiting.length,
    })),
  })}\n`);
  said = { requests: [], ended: [] };
}
