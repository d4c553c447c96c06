// A steady load: so many calls a second, as long as they are answered.

const TICK = 50; // ms
const LIMIT = 64; // calls on their way; a server that is slower than the rate asks for sees no more

/** Calls `send`, which returns a promise, `rate` times a second. */
export class Load {
  rate = 0;
  inFlight = 0;
  #owed = 0;

  constructor(send) {
    this.send = send;
    let before = performance.now();
    setInterval(() => {
      const now = performance.now();
      // What a busy or hidden page has missed is not made up for.
      this.#owed = Math.min(this.#owed + (this.rate * (now - before)) / 1_000, this.rate * 0.2);
      before = now;
      while (this.#owed >= 1 && this.inFlight < LIMIT) {
        this.#owed--;
        this.inFlight++;
        this.send().finally(() => this.inFlight--);
      }
    }, TICK);
  }
}
