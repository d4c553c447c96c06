// Pauses while requests don't get through.

const SHORTEST = 250, LONGEST = 15_000; // ms between attempts
export { LONGEST, SHORTEST };

/**
 * @typedef {object} Pause
 * @property {number} ms
 * @property {ReturnType<typeof setTimeout>} [timer] until the next attempt
 * @property {string} [trouble]
 */

/** Pauses of counters, each by itself, and under "" of all: while the server can't be reached. */
export class Pauses {
  /** @type {Map<string, Pause>} */
  #pauses = new Map();
  #over;

  /** @param {() => void} over called when one is over */
  constructor(over) {
    this.#over = over;
  }

  /**
   * Why nothing gets through, in words; undefined while it does.
   * @returns {string | undefined}
   */
  get trouble() {
    return [this.get(""), ...this.#pauses.values()].find((pause) => pause?.trouble)?.trouble;
  }

  /** @param {string} counter */
  get(counter) {
    return this.#pauses.get(counter);
  }

  /** What goes to a counter gets through. @param {string} counter */
  through(counter) {
    clearTimeout(this.get(counter)?.timer);
    this.#pauses.delete(counter);
  }

  /**
   * Something didn't. The next pause is twice as long.
   * @param {string} counter
   * @param {number} least ms
   * @param {string} [trouble]
   */
  begin(counter, least, trouble) {
    const pause = this.get(counter) ?? { ms: 0 };
    if (pause.timer) return;
    Object.assign(pause, { ms: Math.min(LONGEST, 2 * pause.ms || SHORTEST), trouble });
    pause.timer = setTimeout(() => {
      pause.timer = undefined;
      this.#over();
    }, Math.max(least, pause.ms * (1 + Math.random())));
    this.#pauses.set(counter, pause);
  }

  /** Ends them; how long the next are stays. */
  end() {
    for (const pause of this.#pauses.values()) {
      clearTimeout(pause.timer);
      pause.timer = undefined;
    }
  }

  /** Forgets them. */
  clear() {
    this.end();
    this.#pauses.clear();
  }
}
