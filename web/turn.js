// Which of the pages of an origin is the one that sends.

// ms that a page has the turn for, where there are no Web Locks, unless it renews that
const LEASE = 6_000;
const RENEW = 2_000;
// ms after which this page sees what others had written by the time they gave the turn back, or
// took it
const SETTLE = 100;

/**
 * A turn that one page at a time has, by a Web Lock, which the browser gives to the next when the
 * page is gone; or, on pages that came neither over HTTPS nor from this machine and have no locks,
 * by a lease in the storage.
 */
export class Turn {
  #name;
  #storage;
  #taken;
  #locks;
  /** @type {AbortController | undefined} while it is wanted */
  #wanted;
  #held = false;
  #until = Infinity;
  #id = String(Math.random());

  /**
   * @param {string} name
   * @param {import("./record.js").Store} storage
   * @param {() => void} taken called when this page has it
   * @param {LockManager} [locks]
   */
  constructor(name, storage, taken, locks) {
    this.#name = name;
    this.#storage = storage;
    this.#taken = taken;
    this.#locks = locks;
  }

  /** Whether this page has it. A page that slept through its lease doesn't. */
  get held() {
    return this.#held && (this.#until === Infinity || (Date.now() < this.#until && this.#lease()?.[0] === this.#id));
  }

  /** Waits for it. */
  start() {
    const wanted = (this.#wanted = new AbortController());
    if (!this.#locks) return this.#ask(wanted.signal);
    this.#locks.request(this.#name, { signal: wanted.signal }, () => new Promise((release) => {
      const settled = setTimeout(() => {
        this.#held = true;
        this.#taken();
      }, SETTLE);
      const end = () => {
        clearTimeout(settled);
        release(undefined);
      };
      wanted.signal.addEventListener("abort", end);
      if (wanted.signal.aborted) end();
    })).catch(() => {
      // The browser has locks, and forbids them here.
      if (!wanted.signal.aborted) this.#ask(wanted.signal);
    });
  }

  /** Gives it back. */
  stop() {
    this.#wanted?.abort();
    if (this.#until !== Infinity && this.held) this.#write(0);
    this.#held = false;
    this.#until = Infinity;
  }

  /** @param {AbortSignal} wanted */
  #ask(wanted) {
    /** @type {ReturnType<typeof setTimeout>} */
    let timer;
    wanted.addEventListener("abort", () => clearTimeout(timer));
    const renew = () => {
      const [holder, until] = this.#lease() ?? [];
      // A clock may have been set back.
      const left = Number(until) - Date.now();
      const free = !(left > 0 && left <= LEASE);
      const mine = free || holder === this.#id;
      this.#held &&= mine && !free;
      if (mine) this.#write(Date.now() + LEASE);
      const wait = mine && !this.#held;
      timer = setTimeout(wait ? settled : renew, wait ? SETTLE : RENEW);
    };
    const settled = () => {
      const [holder, until] = this.#lease() ?? [];
      timer = setTimeout(renew, RENEW);
      if (holder && holder !== this.#id) return;
      // The storage is full: nothing is handed over then, and each page sends its own.
      this.#until = Number(until ?? Infinity);
      this.#held = true;
      this.#taken();
    };
    renew();
  }

  #lease() {
    return this.#storage.getItem(this.#name)?.split(" ");
  }

  /** @param {number} until */
  #write(until) {
    try {
      if (until) this.#storage.setItem(this.#name, `${this.#id} ${until}`);
      else this.#storage.removeItem(this.#name);
      if (this.#held) this.#until = until;
    } catch {
      // As above.
    }
  }
}
