// What the views of a counter with a limit share: each visit has a counter of its own, which goes with it.
import { Counters, fromFunction } from "./counter.js";
import { Faults } from "./faults.js";
import { Load } from "./load.js";

export const HOLD = 6; // s
export const format = new Intl.NumberFormat("en").format;
export const $ = (id) => document.getElementById(id);
export const text = (id, value) => { if ($(id).textContent !== value) $(id).textContent = value; };
export const pause = (ms) => new Promise((over) => setTimeout(over, ms));

export function problem(message) {
  text("problem", message);
  $("problem").hidden = false;
}

/** How long ago a time was, in words. */
export function ago(ms) {
  const seconds = Math.max(0, Date.now() - ms) / 1_000;
  return seconds < 1 ? "just now" : `${format(Math.round(seconds))} s ago`;
}

export class Visit {
  #show;
  #drawing;

  /** Has `show` draw what the state of the counter says of its limit. */
  constructor(name, show) {
    this.config = JSON.parse($("config").textContent);
    this.id = `${name}-${Date.now().toString(36)}`; // whoever came to an earlier one is gone
    this.counter = new Counters({ url: "increment", source: fromFunction("increment", { every: 300 }), storage: null }).counter(this.id, this.config.first);
    this.#show = show;
    text("name", this.id);
    text("hold", `${HOLD} seconds`);
    if (this.config.faults) new Faults($("faults"), (n, one, many) => `${format(n)} ${n === 1 ? one : many}`);
    addEventListener("pagehide", () => navigator.sendBeacon(`-/seats/over?counter=${this.id}`));
    addEventListener("pageshow", ({ persisted }) => persisted && location.reload());
  }

  /** Makes the counter with `put`, and returns the load of those who then `come`. */
  async begin(put, come) {
    const made = await put(`-/seats?counter=${this.id}`, "PUT");
    if (!made.ok) throw new Error(await made.text());
    this.counter.subscribe(() => this.draw());
    setInterval(() => this.draw(), 250); // holds end
    const load = new Load(come);
    const rate = () => (load.rate = Number($("load").querySelector(":checked").value));
    $("load").addEventListener("change", rate);
    $("load").disabled = false;
    rate();
    return load;
  }

  draw() {
    this.#drawing ??= requestAnimationFrame(() => {
      this.#drawing = undefined;
      const { limit, exists, live } = this.counter.state;
      $("counter").dataset.state = live ? "live" : exists === undefined ? "connecting" : "cut off";
      text("connection", live ? "Live" : exists === undefined ? "Connecting" : "Offline, and back by itself");
      this.#show(limit);
    });
  }
}

/** Draws a dot for each of a limit: of `all`, those that are used, and those that are taken. */
export function dots(node, all, used, taken, label) {
  while (node.children.length < all) node.append(document.createElement("i"));
  [...node.children].forEach((dot, i) => {
    const is = i < used ? "sold" : i < taken ? "held" : "";
    if (dot.className !== is) dot.className = is;
  });
  node.ariaLabel = label;
}
