// ms after its answer, an increment is in every roll-up, where nothing says so: events take less.
const ROLLED_UP = 3_000;
/**
 * ms after its answer, there was a roll-up with it, or the roll-up is broken: its interval is up to
 * 5 s.
 */
export const EXPIRES = 10_000;

/**
 * An increment of ours that a roll-up to come may bring.
 * @typedef {object} Own
 * @property {number} by
 * @property {number} answered when, in ms; Infinity until then
 * @property {number} [committed] when, in µs since 1970, if its answer says so
 */

/**
 * The number to display: the total, and what we added that it doesn't hold. A total that says as of
 * when it is holds what was committed by then, and nothing later. Of what has no answer yet, and
 * where one of the two doesn't say, nothing tells, so this goes by moves of the total: one uses up what we added in its direction. While we
 * alone add to a counter, this is exact. While it only grows, nothing shows twice or steps back,
 * but one of ours that fails; what others add may hide behind ours until the total holds both.
 * Where others move it against us, this may be off by what we added in the last 3 seconds, at most
 * 10. Once all is counted, it is the total.
 */
export class Shown {
  /**
   * The total of the last snapshot; undefined before the first, and null for the average of none.
   * @type {number | null | undefined}
   */
  total;
  /** @type {number | undefined} as of when that is, in µs since 1970 */
  #asOf;
  /** @type {Own[]} what was committed after that */
  #later = [];
  /** @type {Own[]} the others */
  #own = [];
  /** How much of it moves have used up, by direction. */
  #used = { [1]: 0, [-1]: 0 };

  /** The number to display; NaN before the first snapshot. */
  get value() {
    return (this.total ?? NaN) + this.#left(1) - this.#left(-1) + added(this.#later, 1) - added(this.#later, -1);
  }

  /**
   * Shows an increment of ours from now on.
   * @param {number} by
   * @returns {Own}
   */
  add(by) {
    const own = { by, answered: Infinity };
    this.#own.push(own);
    return own;
  }

  /**
   * Takes it that one is counted.
   * @param {Own} own
   * @param {number} now
   * @param {number} [committed] when, in µs since 1970
   */
  answer(own, now, committed) {
    [own.answered, own.committed] = [now, committed];
    this.#sort();
  }

  /** Takes out what is known to be in the total, or to come. */
  #sort() {
    const asOf = this.#asOf;
    if (asOf === undefined) {
      this.#own.push(...this.#later);
      this.#later = [];
      return;
    }
    for (const own of this.#own.filter(({ committed }) => committed)) {
      const there = /** @type {number} */ (own.committed) <= asOf;
      // A move that was its own uses up nothing else.
      if (there) for (const way of ways) this.#used[way] = Math.max(0, this.#used[way] - added([own], way));
      else this.#later.push(own);
      this.fail(own);
    }
    this.#later = this.#later.filter(({ committed }) => /** @type {number} */ (committed) > asOf);
  }

  /**
   * Gives up waiting for what was answered long ago.
   * @param {Own} own
   * @param {number} now
   */
  expire(own, now) {
    if (this.#own.includes(own)) this.#forget(now - ROLLED_UP);
  }

  /** Shows nothing any more of what was added here. */
  forget() {
    this.#later = [];
    this.#keep([]);
  }

  /** @param {Own[]} own */
  #keep(own) {
    this.#own = own;
    this.#used = { [1]: 0, [-1]: 0 };
  }

  /**
   * Takes an increment back. Moves that used it up were not its own: they use up another of ours,
   * if there is one.
   * @param {Own} own
   */
  fail(own) {
    this.#own = this.#own.filter((other) => other !== own);
    for (const way of ways) this.#used[way] += Math.min(0, this.#left(way));
  }

  /**
   * Takes a new total.
   * @param {number | null} total
   * @param {number} now
   * @param {number} [asOf] as of when it is, in µs since 1970
   */
  snapshot(total, now, asOf) {
    if (this.total === undefined) return this.reconnected(total, undefined, asOf); // There is no move to go by.
    // Another instance of the function may have an older one.
    if (this.#asOf !== undefined && asOf !== undefined && asOf < this.#asOf) return;
    const before = this.value;
    this.#asOf = asOf;
    this.#sort();
    this.#forget(now - ROLLED_UP);
    this.#move(total, (total ?? NaN) - (this.total ?? NaN) - (before - this.value));
  }

  /**
   * Takes the first total after the connection was lost. What was answered is in it, or comes
   * with the next one, or is gone: it is shown no more, so that nothing shows that isn't there.
   * What still waits stays, as far as the total hasn't moved so much. What is being sent may be
   * in a total that has moved the other way, as that of a database that was started again: then
   * it shows once the total rises, and not twice until then.
   * @param {number | null} total
   * @param {{ 1: number, "-1": number }} [sent] what is being sent, by direction
   * @param {number} [asOf] as of when it is
   */
  reconnected(total, sent = { [1]: 0, [-1]: 0 }, asOf) {
    this.#asOf = asOf;
    this.#sort();
    this.#keep(this.#own.filter((own) => own.answered === Infinity));
    const move = (total ?? NaN) - (this.total ?? total ?? NaN);
    this.#move(total, move);
    const other = against(move);
    if (move) this.#used[other] += Math.min(sent[other], this.#left(other));
  }

  /** @param {number | null} total @param {number} move NaN: it was no number, or is none */
  #move(total, move) {
    const other = against(move);
    const way = against(other);
    const used = Math.min(Math.abs(move) || 0, this.#left(way));
    this.#used[way] += used;
    // Beyond that, others moved it. What of ours cancelled out in moves before this one is not to
    // come any more.
    if (Math.abs(move) > used) this.#used[other] += Math.min(used, this.#left(other));
    this.total = total;
  }

  /** @param {Way} way */
  #left(way) {
    return added(this.#own, way) - this.#used[way];
  }

  /** @param {number} until forgets what was answered until then */
  #forget(until) {
    for (const way of ways) this.#used[way] = Math.max(0, this.#used[way] - added(this.#own.filter((own) => own.answered <= until), way));
    this.#own = this.#own.filter((own) => own.answered > until);
  }
}

/** @typedef {1 | -1} Way */
/** @type {Way[]} */
const ways = [1, -1];
/** The direction that a move doesn't go in. @param {number} move @returns {Way} */
const against = (move) => (move < 0 ? 1 : -1);
/** @param {Own[]} own @param {Way} way */
const added = (own, way) => own.reduce((sum, { by }) => sum + Math.max(0, by * way), 0);
