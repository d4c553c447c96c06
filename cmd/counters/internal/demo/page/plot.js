// A small line plot of the last minute, as SVG.

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [240, 100]; // of the plot's own coordinates; WIDTH is how many samples it shows
const number = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });

/** A plot within a figure, with one or two lines. Its scale begins at zero, or, if it floats, at the least value. */
export class Plot {
  #rows = []; // samples, oldest first: an array of as many values as there are lines; a gap is undefined

  constructor(figure, { lines = 1, floating = false } = {}) {
    this.floating = floating;
    this.current = figure.querySelector("b");
    this.svg = figure.querySelector("svg");
    this.name = this.svg.getAttribute("aria-label");
    const plot = element(this.svg, "svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", width: "100%", height: "100%",
    });
    element(plot, "path", { class: "top", d: `M0 0H${WIDTH}` });
    this.paths = Array.from({ length: lines }, (_, i) => element(plot, "path", i === lines - 1 ? {} : { class: "second" }));
    this.paths.reverse(); // The first line is drawn last, and so on top.
    this.label = element(this.svg, "text", { y: "-0.35em" });
  }

  /** Adds a sample, and draws. Where the sample is a gap, the current value to show may be an older one. */
  add(values, current = values[0]) {
    this.#rows.push(values);
    if (this.#rows.length > WIDTH) this.#rows.shift();
    const all = this.#rows.flat().filter((value) => value !== undefined);
    const least = this.floating && all.length ? Math.min(...all) : 0;
    const most = Math.max(least + 1, ...all);
    const from = WIDTH - this.#rows.length;
    this.paths.forEach((path, line) => {
      let d = "";
      this.#rows.forEach((row, i) => {
        if (row[line] === undefined) return;
        const [x, y] = [from + i + 1, HEIGHT * (1 - (row[line] - least) / (most - least))];
        d += `${d && this.#rows[i - 1][line] !== undefined ? "L" : "M"}${x} ${y.toFixed(1)}`;
      });
      path.setAttribute("d", d);
    });
    this.label.textContent = all.length ? number.format(most) : "";
    this.current.textContent = current === undefined ? "–" : number.format(current);
  }

  /** Says in words what the plot shows, for who doesn't see it. */
  describe() {
    const values = this.#rows.map((row) => row[0]).filter((value) => value !== undefined);
    if (values.length === 0) return;
    const [least, most] = [Math.min(...values), Math.max(...values)].map((value) => number.format(value));
    this.svg.setAttribute("aria-label", `${this.name}: between ${least} and ${most}, now ${this.current.textContent}.`);
  }
}

function element(parent, name, attributes) {
  const e = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  return parent.appendChild(e);
}
