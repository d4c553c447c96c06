// What several tests need.
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { setMaxListeners } from "node:events";

/** Keeps what is stored, as localStorage does, for one page after another. */
export class MemoryStorage extends Map {
  quota = Infinity; // characters
  get length() { return this.size; }
  key(i) { return [...this.keys()][i] ?? null; }
  getItem(name) { return this.get(name) ?? null; }
  removeItem(name) { this.delete(name); }
  setItem(name, value) {
    const length = (text) => (text === undefined ? 0 : name.length + text.length);
    const grows = length(value) - length(this.get(name));
    if (grows > 0 && [...this].reduce((sum, [name, value]) => sum + name.length + value.length, grows) > this.quota) {
      throw new DOMException("full", "QuotaExceededError");
    }
    this.set(name, value);
  }
}

setMaxListeners(0); // A page may send a hundred requests at once.

/** Waits until something holds. */
export const until = async (holds) => {
  for (const deadline = Date.now() + 20_000; !holds(); await new Promise((later) => setTimeout(later, 5))) {
    assert.ok(Date.now() < deadline, `waited too long until ${holds}`);
  }
};

/** Returns a function that returns random integers below n; the same ones for the same seed. */
export function dice(seed) {
  let state = seed;
  return (n) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t ^= t + Math.imul(t ^ (t >>> 7), 61 | t);
    return ((t ^ (t >>> 14)) >>> 0) % n;
  };
}

/** A source whose total the test sets. */
export function told(total) {
  const source = (id, next) => {
    source.tell = (total) => next({ exists: true, total, live: true });
    source.tell(total);
    return () => {};
  };
  return source;
}

/**
 * Web Locks, as far as pages use them: who asks first has the lock until its promise is fulfilled.
 * Node.js 20 has none.
 */
export class Locks {
  #queues = new Map(); // name → those who wait, the holder first

  request(name, { signal, steal }, held) {
    const waiting = this.#queues.get(name) ?? [];
    this.#queues.set(name, waiting);
    return new Promise((resolve, reject) => {
      const one = {
        give() {
          one.held = true;
          queueMicrotask(async () => {
            try {
              resolve(await held());
            } finally {
              one.leave();
            }
          });
        },
        leave() { // Whose lock was stolen has left already.
          const i = waiting.indexOf(one);
          if (i < 0) return;
          waiting.splice(i, 1);
          if (i === 0) waiting[0]?.give();
        },
      };
      one.stolen = () => queueMicrotask(() => reject(new DOMException("stolen", "AbortError"))); // once it has been told that it has it
      if (steal) {
        this.stolen = true;
        if (waiting[0]?.held) waiting.shift().stolen();
        waiting.unshift(one);
        return one.give();
      }
      signal.addEventListener("abort", () => {
        if (one.held) return;
        one.leave();
        reject(signal.reason);
      });
      if (waiting.push(one) === 1) one.give();
    });
  }
}

/** Which tab it is whose program runs. */
const running = new AsyncLocalStorage();

/**
 * Has timers be those of the tab that sets them, from now on: while the browser suspends the tab, or
 * lets its timers go only now and then, they wait.
 */
export function timersOfTabs() {
  const { setTimeout: set, clearTimeout: clear } = globalThis;
  globalThis.setTimeout = (run, ms = 0) => {
    const tab = running.getStore();
    if (!tab) return set(run, ms);
    const timer = set(() => tab.does(() => timer.cleared || run()), Math.ceil(Math.max(ms, 1) / tab.tick) * tab.tick);
    return timer;
  };
  globalThis.clearTimeout = (timer) => {
    if (!timer) return;
    timer.cleared = true;
    clear(timer);
  };
}

/** A window of a browser with these locks. */
export class Window extends EventTarget {
  document = new EventTarget();

  constructor(locks = new Locks()) {
    super();
    this.navigator = { locks };
  }
}

/**
 * A browser whose tabs share what they store, as Chromium's do: each sees what it writes at once,
 * and what others write in the order in which that has come to the browser, `delay` ms later; but
 * nothing of others' while something of its own is under way.
 */
export class Browser {
  #tabs = new Set();
  stored = new MemoryStorage();

  constructor({ delay = () => 0, locks = new Locks() } = {}) {
    this.delay = delay;
    this.locks = locks;
  }

  /** Opens a tab: what `Counters` takes as page and storage, and what may become of it. */
  tab() {
    const browser = this;
    let awake = Promise.resolve(), resume;
    const late = []; // what a suspended tab does once it is back
    const page = new Window(this.locks && { // What becomes of a lock a page hears once it is awake.
      request: (name, how, held) => this.locks.request(name, how, () => awake.then(() => tab.run(held))).then((got) => awake.then(() => got), (error) => awake.then(() => { throw error; })),
    });
    const unheard = new Map(); // name → how many of this tab's writes the browser hasn't had
    let heard = Promise.resolve(), said = Promise.resolve(), frozen = false;
    class Storage extends MemoryStorage {
      setItem(name, value) {
        super.setItem(name, value);
        this.send(name, value);
      }
      removeItem(name) {
        if (!this.has(name)) return;
        super.removeItem(name);
        this.send(name);
      }
      send(name, value) {
        unheard.set(name, (unheard.get(name) ?? 0) + 1);
        const arrives = browser.soon();
        said = said.then(() => arrives).then(() => browser.#write(tab, name, value));
      }
    }
    const tab = {
      page, storage: new Storage(this.stored),
      hear(name, value, own) { // in their order
        const arrives = browser.soon();
        heard = heard.then(() => arrives).then(() => awake).then(() => {
          if (own) unheard.set(name, unheard.get(name) - 1);
          if (own || frozen) return;
          if (!unheard.get(name)) {
            if (value === undefined) tab.storage.delete(name);
            else tab.storage.set(name, value);
          }
          tab.run(() => page.dispatchEvent(Object.assign(new Event("storage"), { key: name })));
        });
      },
      emptied() {
        const arrives = browser.soon();
        heard = heard.then(() => arrives).then(() => awake).then(() => {
          if (frozen) return;
          for (const name of [...tab.storage.keys()]) if (!unheard.get(name)) tab.storage.delete(name);
          tab.run(() => page.dispatchEvent(Object.assign(new Event("storage"), { key: null })));
        });
      },
      tick: 1, // ms to whose multiples its timers' are rounded up
      run: (act) => running.run(tab, act),
      does(act) {
        if (tab.suspended) late.push(act);
        else tab.run(act);
      },
      get awake() { return awake; },
      suspend() { // without a word
        tab.suspended = true;
        awake = new Promise((go) => { resume = go; });
      },
      resume() {
        tab.suspended = false;
        resume();
        for (const act of late.splice(0)) tab.run(act);
      },
      freeze() {
        tab.run(() => page.dispatchEvent(new Event("pagehide")));
        frozen = tab.suspended = true;
      },
      thaw() {
        frozen = false;
        for (const name of new Set([...tab.storage.keys(), ...browser.stored.keys()])) {
          if (unheard.get(name)) continue;
          if (browser.stored.has(name)) tab.storage.set(name, browser.stored.get(name));
          else tab.storage.delete(name);
        }
        tab.suspended = false;
        tab.run(() => page.dispatchEvent(new Event("pageshow")));
        for (const act of late.splice(0)) tab.run(act);
      },
      close() {
        tab.suspended = true;
        browser.#tabs.delete(tab);
      },
    };
    this.#tabs.add(tab);
    tab.storage.quota = this.stored.quota;
    return tab;
  }

  #write(from, name, value) {
    if (value === undefined) this.stored.delete(name);
    else this.stored.set(name, value);
    for (const tab of this.#tabs) tab.hear(name, value, tab === from);
  }

  /** What happens elsewhere than in a tab. */
  later(run, ms) { running.exit(() => setTimeout(run, ms)); }

  /** Until what a tab has written, or another has, is there. */
  soon() { return new Promise((there) => this.later(there, this.delay())); }

  /** Empties the storage, as the user can. */
  clear() {
    for (const tab of this.#tabs) tab.emptied();
    this.stored.clear();
  }

  /** Lets no tab store more than that. */
  set quota(characters) {
    this.stored.quota = characters;
    for (const tab of this.#tabs) tab.storage.quota = characters;
  }
}
