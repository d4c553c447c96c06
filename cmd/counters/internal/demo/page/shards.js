// The shards of a counter as bars: what the total holds of each, and what is on its way there.

const MANY = 24; // From here on, bars have no room for numbers.
/** How many are drawn: on a phone, a line of two pixels each. */
export const DRAWN = 100;
const number = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact" });

/** What a counter's shards hold, and what its total holds of each. */
export class Shards {
  #shards = new Map(); // shard id → {count, counted}

  /** What the shards hold and the total doesn't yet. */
  waiting = 0;

  /** Takes what is known now. */
  set({ shards, waiting }) {
    this.#shards = new Map(Object.entries(shards));
    this.waiting = waiting;
  }

  get size() {
    return this.#shards.size;
  }

  /** The first shards in their order, each with what it holds and what the total holds of that. */
  get drawn() {
    return [...this.#shards].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true })).slice(0, DRAWN)
      .map(([id, { count, counted }]) => ({ id, count, counted }));
  }

  /**
   * Draws the bars into a list, one item a shard: upwards from the line at zero, and downwards
   * what is negative.
   */
  draw(list) {
    const shards = this.drawn;
    const values = shards.flatMap(({ count, counted }) => [count, counted]);
    const [least, most] = [Math.min(0, ...values), Math.max(0, ...values)];
    const range = Math.max(1, most - least);
    list.classList.toggle("many", shards.length > MANY);
    list.style.setProperty("--zero", -least / range);
    while (list.children.length > shards.length) list.lastChild.remove();
    while (list.children.length < shards.length) list.append(item());
    shards.forEach(({ id, count, counted }, i) => {
      const [bar, name, text] = list.children[i].children;
      place(bar.children[0], 0, count, range);
      // What the total holds of it, as far as that is the same way.
      place(bar.children[1], 0, counted * count > 0 ? Math.sign(count) * Math.min(Math.abs(count), Math.abs(counted)) : 0, range);
      list.children[i].title = `Shard ${id}: ${number.format(count)}, of which the total holds ${number.format(counted)}`;
      name.textContent = `Shard ${id}: `;
      text.textContent = short.format(count).replace("-", "−");
    });
  }
}

/**
 * Makes a bar reach from one value to another, as parts of the height, counted from the line at
 * zero.
 */
function place(bar, from, to, range) {
  bar.style.setProperty("--from", Math.min(from, to) / range);
  bar.style.setProperty("--height", Math.abs(to - from) / range);
  bar.classList.toggle("down", to < from);
}

function item() {
  const li = document.createElement("li");
  for (const [tag, className] of [["div", "bar"], ["span", "unseen"], ["span", "count"]]) {
    li.append(Object.assign(document.createElement(tag), { className }));
  }
  li.firstChild.append(Object.assign(document.createElement("i"), { className: "held" }), Object.assign(document.createElement("i"), { className: "counted" }));
  return li;
}
