// The shards of a counter as bars, and how long what they hold had waited for the roll-up.
import { collection, doc, onSnapshot } from "firebase/firestore";

const MANY = 24; // From here on, bars have no room for numbers.
const number = new Intl.NumberFormat();
const short = new Intl.NumberFormat(undefined, { notation: "compact" });

/** Watches a counter's shards and its ledger, which says per shard what the total holds. */
export class Shards {
  #counts = new Map(); // shard id → count
  #ledger = new Map(); // shard id → {count, asOf: ms}

  constructor(db, path, { countField, changed, rolledUp, failed }) {
    onSnapshot(collection(db, path, "shards"), (shards) => {
      this.#counts = new Map(shards.docs.map((shard) => [shard.id, shard.get(countField) ?? 0]));
      changed();
    }, failed);
    onSnapshot(doc(db, path, "counter_rollup", "ledger"), (ledger) => {
      const before = this.#ledger;
      this.#ledger = new Map(Object.entries(ledger.get("shards") ?? {}).map(
        ([id, { count, as_of }]) => [id, { count, asOf: as_of.toMillis() }]));
      const counted = [...this.#ledger].filter(([id, { asOf }]) => before.has(id) && before.get(id).asOf !== asOf);
      if (counted.length) rolledUp(Math.min(...counted.map(([, { asOf }]) => asOf)));
      changed();
    }, failed);
  }

  /** What the shards hold and the total doesn't yet. */
  get waiting() {
    return [...this.#counts].reduce((sum, [id, count]) => sum + count - (this.#ledger.get(id)?.count ?? 0), 0);
  }

  /** Draws the bars into a list, one item a shard. */
  draw(list) {
    const shards = [...this.#counts].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
    const most = Math.max(1, ...shards.map(([, count]) => Math.abs(count)));
    list.classList.toggle("many", shards.length > MANY);
    while (list.children.length > shards.length) list.lastChild.remove();
    while (list.children.length < shards.length) list.append(item());
    shards.forEach(([id, count], i) => {
      const counted = this.#ledger.get(id)?.count ?? 0;
      const [bar, name, text] = list.children[i].children;
      bar.style.setProperty("--height", Math.abs(count) / most);
      bar.style.setProperty("--counted", Math.min(Math.abs(count), Math.abs(counted)) / most);
      list.children[i].title = `Shard ${id}: ${number.format(count)}, of which the total holds ${number.format(counted)}`;
      name.textContent = `Shard ${id}: `;
      text.textContent = short.format(count);
    });
  }
}

function item() {
  const li = document.createElement("li");
  for (const [tag, className] of [["div", "bar"], ["span", "unseen"], ["span", "count"]]) {
    li.append(Object.assign(document.createElement(tag), { className }));
  }
  return li;
}
