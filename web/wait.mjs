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
