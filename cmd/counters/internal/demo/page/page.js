// The demo page: what counter.js does, made visible.
import { CounterError, Counters, documentOf } from "./counter.js";
import { chooseFeed } from "./feeds.js";
import { Faults } from "./faults.js";
import { Flow } from "./flow.js";
import { Load } from "./load.js";
import { Plot } from "./plot.js";
import { DRAWN, Shards } from "./shards.js";

const SAMPLES = 4; // a second
const LIST_EVERY = 5_000; // ms
const number = new Intl.NumberFormat("en");
const format = (value) => value === null ? "–" : number.format(value).replace("-", "−"); // null: the average of none
const plural = (n, one, many) => `${format(n)} ${n === 1 ? one : many}`;
const $ = (id) => document.getElementById(id);
const text = (id, value) => { if ($(id).textContent !== value) $(id).textContent = value; };

const config = JSON.parse($("config").textContent);
const parts = config.only ? 1 : config.counters.split("/").length / 2; // of an id, one for each wildcard
const notAnID = config.only ? `There is one counter, ${config.only}.`
  : `An id of ${config.counters} has ${parts === 1 ? "no slash, and isn't" : `${parts} parts with a slash between, none of them`} ., .. or of the form __x__.`;
const id = new URLSearchParams(location.search).get("counter") || config.only || [...Array(parts - 1).fill("demo"), "post-123"].join("/"); // the README's
$("id").value = id;
text("name", config.fields.length === 1 ? id : `${id}: ${config.first}`);
$("id").addEventListener("input", () => {
  $("id").setCustomValidity(valid($("id").value) ? "" : notAnID);
});

const tally = { answered: 0, inFlight: 0, failed: 0, commits: 0 };
const shards = new Shards();
const flow = new Flow($("flow"), Math.min(config.numShards, DRAWN));
let counters, counter, feed, lag, updatedAt, known = false;
const faults = config.faults && config.fields.length ? new Faults($("faults"), plural, id) : undefined;
$("by-hand-switch").hidden = !config.byHand;
if (valid(id)) start().catch((error) => problem(`The page can't start: ${error.message}`));
else {
  $("counter").dataset.state = "stopped";
  text("connection", "Not connected");
  problem(`“${id}” can't be the id of a counter. ${notAnID}`);
}
list();
setInterval(() => document.hidden || list(), LIST_EVERY);

function valid(id) {
  const values = id.split("/");
  if (config.only) return id === config.only;
  return values.length === parts && values.every((value) => value && !/^\.\.?$|^__.*__$/.test(value) && new TextEncoder().encode(value).length <= 1_500);
}

async function start() {
  feed = await chooseFeed(config, (view) => {
    shards.set(view);
    lag = view.lag || undefined; // 0 before the first roll-up
    draw();
  }, shown);
  counters = new Counters({
    url: "/increment", source: feed.source, member: memberOfThisBrowser(),
    failed: (error) => problem(`An increment of an earlier visit failed. ${error.message}`),
  });
  counter = counters.counter(id, config.first);
  counter.subscribe(changed);

  text("feed", feed.name);
  for (const button of document.querySelectorAll("[data-by]")) {
    button.addEventListener("click", () => {
      problem("");
      add(Number(button.dataset.by));
    });
  }
  $("like").hidden = !config.members || !adds;
  $("like").addEventListener("click", like);
  const load = new Load(() => add(1));
  const rate = () => {
    problem("");
    load.rate = Number($("load").querySelector(":checked").value);
  };
  $("load").addEventListener("change", rate);
  rate(); // A browser may bring back what was set before a reload.

  setInterval(sample, 1_000 / SAMPLES);
  setInterval(speak, 5_000);
  draw();
}

async function add(by) {
  tally.inFlight++;
  const answered = faults?.asked(by);
  flow.click();
  draw();
  try {
    await counter.add(by);
    tally.answered++;
    answered?.(by);
  } catch (error) {
    tally.failed++;
    answered?.(0);
    problem(`An increment failed, and was taken back. ${error instanceof CounterError ? error.message : "This page has an error in it; its console says which."}`);
    if (!(error instanceof CounterError)) console.error(error);
  }
  tally.inFlight--;
  draw();
}

async function like() {
  problem("");
  faults?.unsure(); // whether this counts depends on what others have done with this member
  try {
    await (counter.joined() ? counter.leave() : counter.join());
  } catch (error) {
    problem(`A like failed, and was taken back. ${error.message}`);
  }
}

/**
 * Whose likes this page's are. An app takes the user's id, and lets the function hold it against
 * the token.
 */
function memberOfThisBrowser() {
  const random = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  try {
    return (localStorage["counters-member"] ??= random);
  } catch {
    return random; // The browser keeps nothing: the next visit is another's.
  }
}

// What the counter's document has, where that is the app's own or several fields are counted.
const totals = new Map([...config.fields, ...config.counted].map((name) => [name, $("fields").appendChild(field(name)).children[1]]));
$("document").hidden = !config.hosted && totals.size === 1;
$("document-own").hidden = $("edit").hidden = !config.hosted;
text("document-path", documentOf(config.counters, id));
text("document-title", id);
text("counted-field", config.first);
text("at-rest", config.numShards > DRAWN ? `${format(config.numShards)} shards, of which ${DRAWN} are drawn` : plural(config.numShards, "shard", "shards"));
// Where documents alone are counted, there is nothing to press, and no shard.
const adds = config.fields.length > 0;
for (const node of document.querySelectorAll(".of-shards")) node.hidden = !adds;
for (const node of document.querySelectorAll(".of-documents")) node.hidden = adds;
text("queries", config.queries);
$("edit").addEventListener("submit", async (event) => {
  event.preventDefault();
  problem("");
  try {
    const answer = await fetch(`-/title?counter=${encodeURIComponent(id)}`, { method: "PUT", body: $("title").value });
    if (!answer.ok) problem(`The title was not saved: ${await answer.text()}`);
  } catch {
    problem("The title was not saved: the server can't be reached.");
  }
});

/**
 * An item of the list of fields: its name, its total, and a button that adds to it, unless it
 * counts documents.
 */
function field(name) {
  const item = document.createElement("li");
  const counted = config.counted.includes(name);
  item.append(document.createElement("span"), document.createElement("b"), document.createElement(counted ? "small" : "button"));
  const [label, value, button] = item.children;
  [label.textContent, value.textContent, button.textContent] = [name, "–", counted ? "from documents" : "+1"];
  if (counted) {
    button.dataset.field = name;
    return item;
  }
  Object.assign(button, { type: "button", ariaLabel: `Add 1 to ${name}`, disabled: true });
  button.dataset.field = name;
  button.addEventListener("click", async () => {
    problem("");
    if (name === config.first) return void add(1);
    try {
      const answer = await fetch(`/increment/${id.split("/").map(encodeURIComponent).join("/")}`, { method: "POST", body: JSON.stringify({ by: { [name]: 1 } }) });
      if (!answer.ok) problem(`${name}: ${(await answer.json()).detail}`);
    } catch {
      problem(`Whether that was added to ${name} is unknown: the server can't be reached.`);
    }
  });
  return item;
}

let title;
function shown({ exists, title: now, totals: counts }) {
  for (const [name, node] of totals) {
    const value = exists ? format(counts[name] === undefined ? 0 : counts[name]) : "–";
    if (node.textContent !== value) node.textContent = value;
  }
  text("document-title", exists && now ? now : id);
  if (now !== title && document.activeElement !== $("title")) $("title").value = now ?? "";
  title = now;
}

function problem(message) {
  text("problem", message);
  $("problem").hidden = !message;
}

/** Lists the counters that there are, so that each is one click away. */
async function list() {
  let found;
  try {
    const answer = await fetch("-/counters");
    if (!answer.ok) return;
    found = await answer.json();
  } catch {
    return; // The connection is lost, which the page says elsewhere.
  }
  const others = $("counters");
  $("choose-counters").hidden = !found.counters.some((one) => one.id !== id);
  $("more").hidden = !found.more;
  while (others.children.length > found.counters.length) others.lastChild.remove();
  while (others.children.length < found.counters.length) {
    const li = others.appendChild(document.createElement("li"));
    li.append(document.createElement("a"));
    li.firstChild.append(document.createElement("span"), " ", document.createElement("b"));
  }
  found.counters.forEach((one, i) => {
    const a = others.children[i].firstChild;
    a.href = `?counter=${encodeURIComponent(one.id)}`;
    if (one.id === id) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
    a.children[0].textContent = one.id;
    a.children[1].textContent = format(one.id === id && counter?.exists ? counter.value : one.total);
  });
}

function changed() {
  if (counter.updatedAt !== updatedAt) {
    // The first of a new counter, too.
    if (known && counter.updatedAt !== undefined) tally.commits++;
    updatedAt = counter.updatedAt;
  }
  known = counter.exists !== undefined;
  if (counter.error && !counter.live) problem(`The counter can't be watched: ${counter.error.message} Reload the page to try again.`);
  draw();
}

let drawing;
function draw() {
  drawing ??= requestAnimationFrame(() => {
    drawing = undefined;
    if (!counter) return;
    const { dataset } = $("counter");
    dataset.state = counter.live ? "live" : known ? "cut off" : "connecting";
    if (known) {
      // from the last snapshot of the roll-up document
      dataset.total = counter.exists ? counter.total : "";
      dataset.value = counter.value;
      document.title = `${format(counter.value)} · ${id}`;
      const chip = document.querySelector("#counters [aria-current] b"); // the list is seconds old
      if (chip && counter.exists) chip.textContent = format(counter.value);
    }
    dataset.pending = counter.pending;
    tick(known ? format(counter.value) : "–");
    text("connection", counter.live ? "Live" : known ? "Offline, and back by itself" : "Connecting");
    $("connection").title = `From ${feed.name}.`;
    // A post that there isn't has nothing to count.
    const can = known && (!config.hosted || counter.exists);
    for (const button of document.querySelectorAll("[data-by], #fields button, #load")) button.disabled = !can;
    $("source").hidden = !counter.exists;
    text("total", format(counter.total ?? 0));
    $("missing").hidden = config.hosted || !adds || counter.exists !== false;
    $("missing-made").hidden = config.hosted || adds || counter.exists !== false;
    text("make", `counters create ${id}`);
    $("missing-document").hidden = !config.hosted || counter.exists !== false;
    if (config.members && adds) {
      const liked = counter.joined();
      $("like").disabled = liked === undefined || !can;
      text("like", liked ? "Liked" : "Like");
      $("like").ariaPressed = String(liked ?? false);
    }
    $("trouble").hidden = !counters.trouble;
    if (counters.trouble) {
      text("trouble", `${counters.trouble} ${plural(counter.pending, "increment waits. It", "increments wait. They")} will be sent when the connection returns${counters.kept ? ", even if you reload" : ". Don't reload: this browser has no room to keep what waits"}.`);
    }
    age();
    $("no-shards").hidden = !known || shards.size > 0;
    $("shards").hidden = shards.size === 0;
    shards.draw($("shards"));
    flow.set(shards.drawn);
    text("shards-of", (config.fields.length > 1 ? `: ${config.first}` : "") + (shards.size > DRAWN ? `: ${DRAWN} of ${format(shards.size)}` : ""));
    $("plots").hidden &&= tally.answered === 0 && tally.commits === 0;
    text("waiting", shards.waiting ? `(${format(shards.waiting)})` : "");
    for (const [name, count] of Object.entries(tally)) text(name, format(count));
    $("failures").hidden = tally.failed === 0;
    if (known) faults?.shown(counter, shards.waiting);
    text("roll-ups", tally.commits === 1 ? "roll-up seen" : "roll-ups seen");
  });
}

/** Shows the number; digits that are others than before roll in, from below where it rises. */
let shownNow = "", ticked = 0;
function tick(value) {
  if (value === shownNow) return;
  // Under a load, digits would never come to rest.
  const rolls = shownNow !== "" && performance.now() - ticked > 150;
  ticked = performance.now();
  const node = $("value");
  const down = Number(value.replaceAll(",", "").replace("−", "-")) < Number(shownNow.replaceAll(",", "").replace("−", "-"));
  const digit = (text) => Object.assign(document.createElement("span"), { textContent: text, className: rolls ? (down ? "down" : "up") : "" });
  if (value.length !== node.children.length) node.replaceChildren(...[...value].map(digit));
  else [...value].forEach((text, i) => node.children[i].textContent === text || node.children[i].replaceWith(digit(text)));
  node.style.setProperty("--length", Math.max(3, value.length));
  shownNow = value;
}

const ago = new Intl.RelativeTimeFormat("en", { numeric: "always" });
function age() {
  const seconds = Math.max(0, Math.round((Date.now() - counter.updatedAt) / 1_000));
  if (!counter.updatedAt) text("age", "");
  else if (seconds < 1) text("age", "just now");
  else if (seconds < 60) text("age", ago.format(-seconds, "second"));
  else if (seconds < 3_600) text("age", ago.format(-Math.round(seconds / 60), "minute"));
  else text("age", ago.format(-Math.round(seconds / 3_600), "hour"));
}

const plots = {
  answered: new Plot($("plot-answered"), { samples: SAMPLES }),
  total: new Plot($("plot-total"), { samples: SAMPLES, lines: 2, floating: true }),
  commits: new Plot($("plot-commits"), { samples: SAMPLES }),
  lag: new Plot($("plot-lag"), { samples: SAMPLES }),
};
const past = []; // the tallies of the last second, oldest first
function sample() {
  past.push({ ...tally });
  if (past.length > SAMPLES + 1) past.shift();
  const rate = (name) => tally[name] - past[0][name]; // over a second, once there was one
  plots.answered.add([rate("answered")]);
  plots.commits.add([rate("commits")]);
  plots.total.add(counter.exists === undefined ? [] : [counter.value ?? undefined, counter.total ?? undefined]);
  plots.lag.add([rate("commits") ? lag : undefined], lag);
  if (counter.exists !== undefined) age();
}

let spoken;
function speak() {
  for (const plot of Object.values(plots)) plot.describe();
  if (counter.exists === undefined || spoken === counter.value) return;
  spoken = counter.value;
  text("spoken", `${id} is at ${format(spoken)}.`);
}
