// The second view: a counter with a limit, and a crowd that wants more than there is.
import { Counters, fromFunction } from "./counter.js";
import { Faults } from "./faults.js";
import { Load } from "./load.js";

const HOLD = 6; // s
const AGAIN = 300; // ms until a request is sent again that got no answer, or is to be
const format = new Intl.NumberFormat("en").format;
const $ = (id) => document.getElementById(id);
const text = (id, value) => { if ($(id).textContent !== value) $(id).textContent = value; };
const pause = (ms) => new Promise((over) => setTimeout(over, ms));

const config = JSON.parse($("config").textContent);
// Each visit has a counter of its own: buyers of an earlier one are gone.
const id = `seats-${Date.now().toString(36)}`;
const tally = { buyers: 0, sold: 0, refused: 0, gone: 0, again: 0 };
const holds = new Map(); // seat → until when it is held, in ms since 1970
text("name", id);
text("hold", `${HOLD} seconds`);
if (config.faults) new Faults($("faults"), (n, one, many) => `${format(n)} ${n === 1 ? one : many}`);

const counter = new Counters({ url: "increment", source: fromFunction("increment", { every: 300 }), storage: null }).counter(id, config.first);
start().catch((error) => problem(`The page can't start: ${error.message}`));

async function start() {
  const made = await sent(`-/seats?counter=${id}`, "PUT");
  if (!made.ok) throw new Error(await made.text());
  counter.subscribe(draw);
  setInterval(draw, 250); // holds end
  const load = new Load(buyer);
  const rate = () => (load.rate = Number($("load").querySelector(":checked").value));
  $("load").addEventListener("change", rate);
  $("load").disabled = false;
  rate();
}

/** Wants a seat, thinks, and pays, or doesn't. */
async function buyer() {
  const seat = `increment/${id}/${encodeURIComponent(config.first)}/buyer-${++tally.buyers}`;
  const held = await sent(`${seat}?hold=${HOLD}s`, "PUT");
  if (!held.ok) return told(held);
  holds.set(seat, Date.parse((await held.json()).until));
  draw();
  // The load goes on meanwhile.
  void (async () => {
    await pause(HOLD * 500 * Math.random());
    if (Math.random() < 0.25) tally.gone++;
    else {
      const paid = await sent(`${seat}/confirm`, "POST");
      holds.delete(seat);
      if (paid.ok) tally.sold++;
      else await told(paid);
    }
    draw();
  })();
}

/** Sends a request until it is answered: what is repeated holds, or confirms, the same seat. */
async function sent(url, method) {
  for (;; tally.again++, await pause(AGAIN)) {
    const answer = await fetch(url, { method }).catch(() => undefined);
    if (answer && answer.status < 500 && answer.status !== 429) return answer;
  }
}

async function told(answer) {
  const { reason, detail } = await answer.json();
  if (reason === "limit-reached") tally.refused++;
  else if (reason === "hold-ended") tally.gone++; // it paid too late
  else problem(detail);
  draw();
}

function problem(message) {
  text("problem", message);
  $("problem").hidden = false;
}

let drawing;
function draw() {
  drawing ??= requestAnimationFrame(() => {
    drawing = undefined;
    show(counter.state);
  });
}

function show({ limit, exists, live }) {
  const { dataset } = $("counter");
  dataset.state = live ? "live" : exists === undefined ? "connecting" : "cut off";
  text("connection", live ? "Live" : exists === undefined ? "Connecting" : "Offline, and back by itself");
  for (const name of Object.keys(tally)) text(name, format(tally[name]));
  if (limit === undefined) return;
  // What buyers were told is ahead of the document, which is about a second old.
  const held = [...holds.values()].filter((until) => until > Date.now()).length;
  const taken = Math.max(counter.total, tally.sold + held);
  Object.assign(dataset, { sold: tally.sold, taken, limit, left: limit - taken });
  text("left", format(limit - taken));
  text("limit", format(limit));
  text("held", format(taken - tally.sold));
  const seats = $("seats");
  while (seats.children.length < Math.max(limit, taken)) seats.append(document.createElement("i"));
  [...seats.children].forEach((seat, i) => {
    const is = i < tally.sold ? "sold" : i < taken ? "held" : "";
    if (seat.className !== is) seat.className = is;
  });
  seats.ariaLabel = `${format(tally.sold)} sold, ${format(taken - tally.sold)} held, ${format(limit - taken)} left`;
}
