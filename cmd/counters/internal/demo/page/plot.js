// A small line plot of the last minute, as SVG.

const SVG = "http://www.w3.org/2000/svg";
const SECONDS = 60, HEIGHT = 100; // of the plot's own coordinates
// seconds ago, and what the axis says there
const TICKS = [[60, "1 min ago"], [45], [30, "30 s"], [15], [0, "now"]];
const number = new Intl.NumberFormat("en"); // three digits of a fraction at most
const format = (value) => number.format(value).replace("-", "−");

/**
 * A plot within a figure, with one or two lines. Its scale begins at zero, or, if it floats, at the
 * least value.
 */
export class Plot {
  // samples, oldest first: an array of as many values as there are lines; a gap is undefined
  #rows = [];

  constructor(figure, { samples, lines = 1, floating = false }) {
    this.samples = samples; // a second
    this.floating = floating;
    this.current = figure.querySelector("b");
    this.svg = figure.querySelector("svg");
    this.name = this.svg.getAttribute("aria-label");
    const plot = element(this.svg, "svg", {
      viewBox: `0 0 ${SECONDS} ${HEIGHT}`, preserveAspectRatio: "none", width: "100%", height: "100%",
    });
    element(plot, "path", { class: "grid", d: `M0 0H${SECONDS}` + TICKS.map(([ago]) => `M${SECONDS - ago} 0V${HEIGHT}`).join("") });
    this.paths = Array.from({ length: lines }, (_, i) => element(plot, "path", i === lines - 1 ? {} : { class: "second" }));
    this.paths.reverse(); // The first line is drawn last, and so on top.
    this.most = element(this.svg, "text", { y: "-0.35em" });
    this.least = floating ? element(this.svg, "text", { x: "100%", y: "-0.35em", "text-anchor": "end" }) : undefined;
    for (const [ago, label] of TICKS) {
      if (!label) continue;
      const x = 100 * (1 - ago / SECONDS);
      element(this.svg, "text", { x: `${x}%`, y: "100%", dy: "1.2em", "text-anchor": x === 0 ? "start" : x === 100 ? "end" : "middle" }).textContent = label;
    }
  }

  /**
   * Adds a sample, and draws. Where the sample is a gap, the current value to show may be an
   * older one.
   */
  add(values, current = values[0]) {
    this.#rows.push(values);
    if (this.#rows.length > SECONDS * this.samples + 1) this.#rows.shift();
    const all = this.#rows.flat().filter((value) => value !== undefined);
    const least = this.floating && all.length ? Math.min(...all) : 0;
    const most = Math.max(least + 1, ...all);
    this.paths.forEach((path, line) => {
      let d = "";
      this.#rows.forEach((row, i) => {
        if (row[line] === undefined) return;
        const x = SECONDS - (this.#rows.length - 1 - i) / this.samples;
        const y = HEIGHT * (1 - (row[line] - least) / (most - least));
        d += `${d && this.#rows[i - 1][line] !== undefined ? "L" : "M"}${x} ${y.toFixed(1)}`;
      });
      path.setAttribute("d", d);
    });
    this.most.textContent = all.length ? format(most) : "";
    if (this.least) this.least.textContent = all.length ? `from ${format(least)}` : "";
    this.current.textContent = current === undefined ? "–" : format(current);
  }

  /** Says in words what the plot shows, for who doesn't see it. */
  describe() {
    const values = this.#rows.map((row) => row[0]).filter((value) => value !== undefined);
    if (values.length === 0) return;
    const [least, most] = [Math.min(...values), Math.max(...values)].map(format);
    this.svg.setAttribute("aria-label", `${this.name}: between ${least} and ${most}, now ${this.current.textContent}.`);
  }
}

function element(parent, name, attributes) {
  const e = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  return parent.appendChild(e);
}
