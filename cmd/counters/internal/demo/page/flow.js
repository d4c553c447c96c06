// The drawing: a line from each shard to the total, and a drop on it whenever the total takes in
// what a shard holds.

const SVG = "http://www.w3.org/2000/svg";
const MOST = 40; // drops at once; more say nothing more

/** Draws into an SVG, above the list of the shards' bars. */
export class Flow {
  #counted = new Map(); // shard id → what the total holds of it
  #held = new Map(); // shard id → what it holds
  #paths = [];
  #calm = matchMedia("(prefers-reduced-motion: reduce)");

  /** @param atRest shards that are drawn of a counter that has none yet */
  constructor(svg, atRest) {
    this.svg = svg;
    this.atRest = atRest;
    new ResizeObserver(() => this.#place()).observe(svg);
  }

  /** Takes what each shard holds, and what the total holds of each: [{id, count, counted}]. */
  set(shards) {
    const n = shards.length || this.atRest;
    if (this.#paths.length !== n) {
      this.svg.replaceChildren();
      this.#paths = Array.from({ length: n }, () => this.svg.appendChild(document.createElementNS(SVG, "path")));
      this.#place();
    }
    this.svg.classList.toggle("rest", shards.length === 0);
    const known = this.#counted.size > 0 || this.#held.size > 0;
    shards.forEach(({ id, count, counted }, i) => {
      if (known && this.#counted.get(id) !== counted) this.#drop(i);
      else if (known && this.#held.get(id) !== count) this.#light(i);
    });
    this.#held = new Map(shards.map(({ id, count }) => [id, count]));
    this.#counted = new Map(shards.map(({ id, counted }) => [id, counted]));
  }

  /** A click is on its way: all lines move a little. */
  click() {
    this.#light(Math.floor(Math.random() * this.#paths.length));
  }

  #place() {
    const { clientWidth: width, clientHeight: height } = this.svg;
    this.#paths.forEach((path, i) => {
      const x = (width * (i + 0.5)) / this.#paths.length;
      path.setAttribute("d", `M${x.toFixed(1)} ${height}C${x.toFixed(1)} ${height * 0.45} ${width / 2} ${height * 0.6} ${width / 2} 0`);
    });
  }

  #light(i) {
    if (this.#calm.matches) return;
    this.#paths[i]?.animate([{ stroke: "var(--waiting)", strokeWidth: 2.5 }, {}], { duration: 700, easing: "ease-out" });
  }

  #drop(i) {
    if (this.#calm.matches || this.svg.querySelectorAll("circle").length >= MOST) return;
    const drop = document.createElementNS(SVG, "circle");
    drop.setAttribute("r", "4.5");
    drop.style.offsetPath = `path("${this.#paths[i].getAttribute("d")}")`;
    this.svg.append(drop);
    drop.animate([{ offsetDistance: "0%" }, { offsetDistance: "100%" }], { duration: 650, easing: "cubic-bezier(.5,0,.7,1)" }).onfinish = () => drop.remove();
  }
}
