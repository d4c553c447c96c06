// Which of the pages of an origin is the one that sends.

// ms that a page has the turn for, where there are no Web Locks, unless it renews that
const LEASE = 6_000;
const RENEW = 2_000;
// ms after which this page sees what others had written by the time they gave the turn back, or
// took it
export const SETTLE = 100;
const ANSWER = 6_000; // ms in which a page that has the turn has said so, unless it is suspended

/**
 * A turn that one page at a time has, by a Web Lock, which the browser gives to the next when the
 * page is gone; or by a lease in the storage: on pages that came neither over HTTPS nor from this
 * machine and have no locks, and where each tab has a storage of its own. A page that is suspended
 * keeps its lock, and doesn't answer: then another takes it.
 */
export class Turn {
  #name;
  #storage;
  #taken;
  #lost;
  #locks;
  /** @type {AbortController | undefined} while it is wanted */
  #wanted;
  #given = false; // the lock
  #held = false;
  #until = Infinity;
  #awake = 0; // when this page, which has the lock, was seen to be awake
  /** @type {ReturnType<typeof setTimeout> | undefined} until the one that has the turn has to have answered */
  #asked;
  #id = String(Math.random());

  /**
   * @param {string} name
   * @param {import("./record.js").Store} storage
   * @param {() => void} taken called when this page has it, and once it is sure again that it has
   * @param {() => void} lost called when another page has taken it
   * @param {LockManager} [locks]
   */
  constructor(name, storage, taken, lost, locks) {
    this.#name = name;
    this.#storage = storage;
    this.#taken = taken;
    this.#lost = lost;
    this.#locks = locks;
  }

  /**
   * Whether this page has it. A page that slept through its lease doesn't. One that has a lock and may
   * have slept looks first whether it was taken away.
   */
  get held() {
    if (!this.#held) return false;
    if (this.#until !== Infinity) return Date.now() < this.#until && this.#lease()?.[0] === this.#id;
    if (this.#locks && Date.now() - this.#awake > LEASE) this.#settle();
    else this.#awake = Date.now();
    return this.#held;
  }

  /** Waits for it. @param {boolean} [steal] takes it from whoever has it */
  start(steal) {
    const wanted = (this.#wanted = new AbortController());
    if (!this.#locks) return this.#ask(wanted.signal);
    this.#given = false;
    this.#locks.request(this.#name, steal ? { steal } : { signal: wanted.signal }, () => new Promise((release) => {
      this.#given = true;
      wanted.signal.addEventListener("abort", () => release(undefined));
      if (wanted.signal.aborted) release(undefined);
      else this.#settle();
    })).catch(({ name }) => {
      if (wanted.signal.aborted) return;
      this.stop();
      if (name !== "AbortError") this.#locks = undefined; // The browser has locks, and forbids them here.
      this.start(); // or else another page has taken it
      this.#lost();
    });
  }

  /** Has the lock's turn once this page has heard all there is to hear. */
  #settle() {
    this.#held = false;
    const { signal } = /** @type {AbortController} */ (this.#wanted);
    const settled = setTimeout(() => {
      clearTimeout(this.#asked);
      [this.#asked, this.#held, this.#awake] = [undefined, true, Date.now()];
      this.#say("!"); // to who asked meanwhile
      this.#taken();
    }, SETTLE);
    signal.addEventListener("abort", () => clearTimeout(settled));
  }

  /** Gives it back. */
  stop() {
    this.#wanted?.abort();
    clearTimeout(this.#asked);
    this.#asked = undefined;
    if (this.#until !== Infinity && this.held) this.#write(0);
    this.#given = this.#held = false;
    this.#until = Infinity;
  }

  /** Has the page that has the turn say that it isn't suspended, or takes it. */
  hurry() {
    if (!this.#locks || this.#asked || this.#given || !this.#wanted || this.#wanted.signal.aborted) return;
    this.#say("?");
    this.#asked = setTimeout(() => {
      this.stop();
      this.start(true);
    }, ANSWER);
  }

  /** @param {string | null} key what another page has written */
  heard(key) {
    if (key === `${this.#name}?` && this.#held) this.#say("!");
    if (key !== `${this.#name}!`) return;
    clearTimeout(this.#asked);
    this.#asked = undefined;
  }

  /** Tells other pages, and leaves nothing behind. @param {string} what */
  #say(what) {
    try {
      this.#storage.setItem(this.#name + what, this.#id);
      this.#storage.removeItem(this.#name + what);
    } catch {
      // The storage is full.
    }
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
      const lost = this.#held && (free || !mine);
      this.#held &&= !lost;
      if (mine) this.#write(Date.now() + LEASE);
      const wait = mine && !this.#held;
      timer = setTimeout(wait ? settled : renew, wait ? SETTLE : RENEW);
      if (lost) this.#lost();
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
