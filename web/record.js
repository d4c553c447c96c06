// What the storage has of the entries of a queue, each under its name. All values of one entry are
// as long as each other, but for an error's words: what is there can be replaced in a storage that
// is full.
import { want } from "./entry.js";

/** @typedef {import("./entry.js").Entry} Entry */
/** @typedef {Pick<Storage, "length" | "key" | "getItem" | "setItem" | "removeItem">} Store */

/** The entries of a queue in the storage. */
export class Records {
  #storage;

  /**
   * @param {Store | null | undefined} storage none: nothing is kept
   * @param {string} prefix
   */
  constructor(storage, prefix) {
    this.#storage = storage;
    this.prefix = prefix;
  }

  /** Names of what there is. */
  get names() {
    const names = [];
    for (let i = 0; i < (this.#storage?.length ?? 0); i++) {
      const name = this.#storage?.key(i);
      if (name?.startsWith(this.prefix)) names.push(name.slice(this.prefix.length));
    }
    return names;
  }

  /**
   * @param {string} name
   * @returns {Entry | undefined} undefined where there is none, or none of ours
   */
  read(name) {
    try {
      return decode(name, this.#storage?.getItem(this.prefix + name) ?? "");
    } catch {
      return undefined;
    }
  }

  /**
   * @param {Entry} entry
   * @returns {boolean} whether it is kept. What is not leaves nothing older of it behind either.
   */
  write(entry) {
    const key = this.prefix + nameOf(entry);
    for (const error of [entry.error, undefined]) {
      try {
        this.#storage?.setItem(key, encode({ ...entry, error }));
        return !!this.#storage;
      } catch {
        // The storage is full, or forbidden.
      }
    }
    this.remove(nameOf(entry));
    return false;
  }

  /** @param {string} name */
  remove(name) {
    try {
      this.#storage?.removeItem(this.prefix + name);
    } catch {
      // The storage is forbidden, and so there is nothing in it.
    }
  }
}

/**
 * @param {"localStorage" | "sessionStorage"} name
 * @param {any} [page] the window
 * @returns {Storage | undefined} undefined if the browser forbids it or there is none
 */
export function storageOf(name, page = globalThis) {
  try {
    return page[name];
  } catch {
    return undefined;
  }
}

/**
 * @param {{ counter: string, field: string, key: string } | { counter: string, field: string,
 *   member: string }} entry
 */
export function nameOf(entry) {
  return JSON.stringify([entry.counter, entry.field, ...("key" in entry ? [entry.key] : [entry.member, "like"])]);
}

/** @param {Entry} entry */
function encode(entry) {
  const { at, end, error } = entry;
  const committed = String(entry.committed ?? 0).padStart(16, "0");
  return JSON.stringify("key" in entry
    ? { at, end, committed, by: entry.by, tried: +entry.tried, as: entry.as.padEnd(13), error }
    : { at, end, committed, id: entry.id, joined: +entry.joined, late: entry.late.map((ms) => String(ms).padStart(13, "0")), error });
}

/**
 * @param {string} name
 * @param {string} text
 * @returns {Entry | undefined}
 */
function decode(name, text) {
  const [counter, field, of, like] = JSON.parse(name);
  const { late, ...record } = JSON.parse(text);
  /** @type {any} */
  const entry = { ...record, committed: Number(record.committed), counter, field };
  if (like) Object.assign(entry, { member: of, joined: record.joined === 1, late: late.map(Number) });
  else Object.assign(entry, { key: of, tried: record.tried === 1, as: record.as.trimEnd() });
  // What another program has put there is left alone.
  want(counter, field, like ? of : field);
  return nameOf(entry) === name && record.at > 0 && record.end >= 0 ? entry : undefined;
}
