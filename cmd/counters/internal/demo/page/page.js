// The demo page: what counter.js does, made visible.
import { connect, Counter } from "./counter.js";
import { Load } from "./load.js";
import { Plot } from "./plot.js";
import { Shards } from "./shards.js";

const SAMPLES = 4; // a second
const number = new Intl.NumberFormat();
const $ = (id) => document.getElementById(id);
const text = (id, value) => { if ($(id).textContent !== value) $(id).textContent = value; };

const config = JSON.parse($("config").textContent);
const id = new URLSearchParams(location.search).get("counter") || "demo";
$("id").value = id;
text("name", id);
$("id").addEventListener("input", () => {
  $("id").setCustomValidity(valid($("id").value) ? "" : "An id has no slash, is not . or .., nor of the form __id__.");
});

const tally = { answered: 0, flying: 0, failed: 0, commits: 0 };
let counter, shards, lag, updatedAt;
if (valid(id)) start();
else {
  text("connection", "Not connected.");
  problem(`“${id}” can't be the id of a counter: it is too long, has a slash in it, or is ., .. or of the form __id__.`);
}

function valid(id) {
  return !/\/|^\.\.?$|^__.*__$/.test(id) && new TextEncoder().encode(id).length <= 1_500;
}

function start() {
  const path = `${config.collection}/${id}`;
  const db = connect({ projectId: config.project }, { database: config.database, emulator: config.firestore });
  const failed = (error) => problem(`Firestore refuses to be listened to: ${error.message} Reload the page to try again.`);

  counter = new Counter(db, path, "/increment", changed, failed);
  shards = new Shards(db, path, {
    countField: config.countField,
    changed: draw,
    // The ledger and the total are written together, and their listeners are called one right after the other.
    rolledUp: (oldest) => setTimeout(() => { lag = Math.max(0, counter.updatedAt - oldest); }),
    failed,
  });

  for (const button of document.querySelectorAll("[data-by]")) {
    button.addEventListener("click", () => {
      problem("");
      add(Number(button.dataset.by));
    });
  }
  const load = new Load(() => add(1));
  const rate = () => {
    problem("");
    load.rate = Number($("rate").value);
    text("rate-text", load.rate ? `${load.rate} a second` : "none");
    $("rate").setAttribute("aria-valuetext", load.rate ? `${load.rate} increments a second` : "none");
  };
  $("rate").addEventListener("input", rate);
  rate(); // A browser may bring back what was set before a reload.

  setInterval(sample, 1_000 / SAMPLES);
  setInterval(speak, 5_000);
}

async function add(by) {
  tally.flying++;
  draw();
  try {
    await counter.add(by);
    tally.answered++;
  } catch (error) {
    tally.failed++;
    problem(`An increment failed, and was taken back: ${error.message}`);
  }
  tally.flying--;
  draw();
}

function problem(message) {
  text("problem", message);
  $("problem").hidden = !message;
}

function changed() {
  if (counter.updatedAt !== updatedAt) {
    if (updatedAt !== undefined) tally.commits++;
    updatedAt = counter.updatedAt;
  }
  draw();
}

let drawing;
function draw() {
  drawing ??= requestAnimationFrame(() => {
    drawing = undefined;
    const known = counter.exists !== undefined;
    const { dataset } = $("counter");
    dataset.state = counter.live ? "live" : known ? "cut off" : "connecting";
    if (known) {
      dataset.total = counter.exists ? counter.total : ""; // from the last snapshot of the roll-up document
      dataset.value = counter.value;
    }
    text("value", known ? number.format(counter.value) : "–");
    text("connection", counter.live ? "Live." : known
      ? "The connection to Firestore is lost; this page comes back to it by itself." : "Connecting to Firestore.");
    $("source").hidden = !counter.exists;
    text("total", number.format(counter.total ?? 0));
    $("missing").hidden = counter.exists !== false;
    age();
    shards.draw($("shards"));
    text("waiting", shards.waiting ? `(${number.format(shards.waiting)})` : "");
    for (const [name, count] of Object.entries(tally)) text(name, number.format(count));
  });
}

const ago = new Intl.RelativeTimeFormat("en", { numeric: "always" });
function age() {
  const seconds = Math.max(0, Math.round((Date.now() - counter.updatedAt) / 1_000));
  if (!counter.updatedAt) text("age", "at a time it doesn't say");
  else if (seconds < 1) text("age", "just now");
  else if (seconds < 60) text("age", ago.format(-seconds, "second"));
  else if (seconds < 3_600) text("age", ago.format(-Math.round(seconds / 60), "minute"));
  else text("age", ago.format(-Math.round(seconds / 3_600), "hour"));
}

const plots = {
  answered: new Plot($("plot-answered")),
  total: new Plot($("plot-total"), { lines: 2, floating: true }),
  commits: new Plot($("plot-commits")),
  lag: new Plot($("plot-lag")),
};
const past = []; // the tallies of the last second, oldest first
function sample() {
  past.push({ ...tally });
  if (past.length > SAMPLES + 1) past.shift();
  const rate = (name) => tally[name] - past[0][name]; // over a second, once there was one
  plots.answered.add([rate("answered")]);
  plots.commits.add([rate("commits")]);
  plots.total.add(counter.exists === undefined ? [] : [counter.value, counter.total]);
  plots.lag.add([rate("commits") ? lag : undefined], lag);
  if (counter.exists !== undefined) age();
}

let spoken;
function speak() {
  for (const plot of Object.values(plots)) plot.describe();
  if (counter.exists === undefined || spoken === counter.value) return;
  spoken = counter.value;
  text("spoken", `${id} is at ${number.format(spoken)}.`);
}
