// The faults: switched on and off, counted, and what has become of the total.

const EVERY = 1_000; // ms between two looks at what they have done
const REST = 3_000; // ms in which everything was still: an event may come that much later
const LONG = 15_000; // ms after which nothing of what this page has added is still to come
const format = new Intl.NumberFormat("en").format;

/** The switches, and what this page has added beside what the total says. */
export class Faults {
  #section;
  #plural;
  #switched = 0; // how often a switch was moved, or its request ended
  #started; // when the system was
  #start; // what faults had done when the page came
  #base; // the total without what this page has added
  #answered = 0; // sum of the increments that were answered
  #up = 0; // and of those on their way, up
  #down = 0; // and down
  #asked = 0; // when this page last added anything
  #moved = 0; // when the total last changed, or something waited
  #total;
  #unsure = false; // whether the base is to be taken anew, once all is still
  #about = ""; // the counter that a trigger by hand is asked about

  constructor(section, plural, counter) {
    [this.#section, this.#plural] = [section, plural];
    section.hidden = false;
    const byHand = section.querySelector("[data-by-hand]");
    if (byHand) {
      this.#about = `?counter=${encodeURIComponent(counter)}`;
      byHand.addEventListener("change", () => this.#switch(`-/by-hand?on=${byHand.checked}`));
    }
    for (const box of section.querySelectorAll("[data-fault]")) {
      box.addEventListener("change", () => this.#switch(`-/faults/${box.dataset.fault}?on=${box.checked}`));
    }
    this.#look();
    setInterval(() => document.hidden || this.#look(), EVERY);
  }

  async #switch(url) {
    this.#switched++;
    await fetch(url, { method: "PUT" }).catch(() => {});
    this.#switched++;
    this.#look();
  }

  /** Something is added. What is returned is called with how much of it was, once that is known. */
  asked(by) {
    this.#asked = performance.now();
    by > 0 ? (this.#up += by) : (this.#down += by);
    return (counted) => {
      by > 0 ? (this.#up -= by) : (this.#down -= by);
      this.#answered += counted;
      this.#asked = performance.now();
    };
  }

  /** Something is added, and nobody says how much. */
  unsure() {
    this.#asked = performance.now();
    this.#unsure = true;
  }

  /** The counter as it is shown, and how much of its shards the total doesn't hold yet. */
  shown(counter, waiting) {
    const now = performance.now(), total = counter.total ?? 0;
    if (this.#base === undefined) {
      this.#base = counter.value - this.#answered - this.#up - this.#down;
      this.#unsure = counter.pending > 0; // of an earlier visit, and perhaps in the total already
    }
    if (total !== this.#total || waiting !== 0 || counter.pending !== 0) this.#moved = now;
    // Once this page has been still for long, what changes comes from elsewhere.
    if (this.#total !== undefined && total !== this.#total && now - this.#asked > LONG) this.#base += total - this.#total;
    this.#total = total;
  }

  /** How much more the total is than anything explains; under way, that is less than it could be. */
  #off() {
    if (this.#base === undefined) return 0;
    const still = performance.now() - Math.max(this.#moved, this.#asked) > REST;
    if (this.#unsure && still) [this.#base, this.#unsure] = [this.#total - this.#answered, false];
    if (this.#unsure) return 0;
    const sum = this.#base + this.#answered;
    if (this.#total > sum + this.#up) return this.#total - sum - this.#up;
    return still && this.#total < sum + this.#down ? this.#total - sum - this.#down : 0;
  }

  async #look() {
    let now;
    const switched = this.#switched;
    try {
      const answer = await fetch(`-/faults${this.#about}`);
      if (!answer.ok) return;
      now = await answer.json();
    } catch {
      return; // The connection is lost, which the page says elsewhere.
    }
    if (switched !== this.#switched) return; // it is of before
    for (const box of this.#section.querySelectorAll("[data-fault]")) {
      const fault = now.faults[box.dataset.fault];
      box.checked = fault.on;
      box.disabled = !fault.possible;
      box.title = fault.possible ? "" : "The embedded Firestore alone lets this happen.";
    }
    if (now.started !== this.#started) { // all that was counted in memory is gone
      [this.#started, this.#start, this.#base] = [now.started, now.befallen, undefined];
    }
    const since = (name) => now.befallen[name] - this.#start[name];
    const counts = ["duplicates", "kills", "lost_answers"].map(since);
    const on = Object.values(now.faults).some((fault) => fault.on);
    const $ = (id) => document.getElementById(id);
    if (this.#about) this.#compare($, now.by_hand);
    if (on || counts.some((n) => n > 0)) $("befallen").hidden = false;
    const [duplicates, kills, lost] = counts;
    $("befallen-what").textContent = [this.#plural(duplicates, "duplicate", "duplicates"), this.#plural(kills, "kill", "kills"), this.#plural(lost, "lost answer", "lost answers")].join(", ");
    const off = this.#off();
    // More than this page has added may be somebody else's, and who is to know?
    $("off").replaceChildren(off > 0 ? `${format(off)} more than this page has added: by somebody else, or twice` : "off by ",
      ...(off > 0 ? [] : [Object.assign(document.createElement("b"), { id: "off-by", textContent: format(off).replace("-", "−") })]));
  }

  /** Shows what a trigger by hand makes of the same increments, beside what they are here. */
  #compare($, byHand) {
    $("beside").hidden = !byHand;
    this.#section.querySelector("[data-by-hand]").checked = Boolean(byHand);
    if (!byHand) return;
    const { total, exact, waiting } = byHand;
    // While events are on their way, less is no error yet.
    const off = total > exact || !waiting ? total - exact : 0;
    const minus = (n) => format(n).replace("-", "−");
    $("here-total").textContent = minus(this.#total ?? 0);
    $("here-off").textContent = minus(this.#off());
    $("by-hand-total").textContent = minus(total);
    $("by-hand-off").textContent = minus(off);
    $("beside").dataset.off = off;
  }
}
