// What several tests need.
import assert from "node:assert/strict";

/** Keeps what is stored, as localStorage does, for one page after another. */
export class MemoryStorage extends Map {
  get length() { return this.size; }
  key(i) { return [...this.keys()][i] ?? null; }
  getItem(name) { return this.get(name) ?? null; }
  setItem(name, value) { this.set(name, value); }
  removeItem(name) { this.delete(name); }
}

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
