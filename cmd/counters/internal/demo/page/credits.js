// The third view: credits that jobs hold, and settle for what they used.
import { Holds } from "./holds.js";
import { $, HOLD, ago, dots, format, pause, problem, text, Visit } from "./visit.js";

const MOST = 40; // credits that a job may need
const dice = (n) => Math.floor(n * Math.random());

const tally = { jobs: 0, used: 0, refused: 0, crashed: 0, retried: 0, twice: 0, late: 0 };
const open = new Map(); // job → what it holds, and until when, in ms since 1970
let running = 0; // jobs
let asked = 0, rested = 0, missing = 0; // see count: of how many jobs it was asked for, and has an answer; what wasn't there
let refusal; // what was left when a job last heard that too few are, and when

const visit = new Visit("credits", show);
const { counter } = visit, draw = () => visit.draw();
// Holds repeats each request until it is answered.
const holds = new Holds({ url: "increment", storage: null });
start().catch((error) => problem(`The page can't start: ${error.message}`));

async function start() {
  const load = await visit.begin((url, method) => fetch(url, { method }), job);
  setInterval(() => load.rate || count().catch((error) => problem(error.message)), 500);
}

/** Holds what it may need, works, and settles for what it used; or crashes. */
async function job() {
  const name = `job-${++tally.jobs}`;
  const by = 1 + dice(MOST), used = Math.min(by, dice(4));
  running++;
  if (!(await held(name, by))) return void running--;
  // The load goes on meanwhile.
  void work(name, by, used).finally(() => {
    running--;
    draw();
  });
}

async function work(name, by, used) {
  await pause(HOLD * 400 * Math.random());
  const fate = dice(5);
  if (fate === 0) return void tally.crashed++; // All of it comes back.
  if (fate === 1) {
    tally.retried++;
    if (!(await held(name, by))) return; // It was away for too long.
  }
  if (!(await settled(name, used)) || fate !== 2) return;
  tally.twice++;
  await hold(name).settle(used);
  await hold(name).settle(used + 1).then(() => problem(`${name} was settled for two amounts`), ({ reason, by, message }) => {
    if (reason !== "settled" || by !== used) problem(message);
  });
}

/** A process that crashed, and the one that goes on, know the same hold by its id. */
const hold = (name) => holds.hold(visit.id, visit.config.first, name);

async function held(name, by) {
  try {
    const { until } = await hold(name).reserve(by, `${HOLD}s`);
    open.set(name, { by, until });
    return true;
  } catch (error) {
    told(name, error);
    return false;
  } finally {
    draw();
  }
}

async function settled(name, used) {
  // From now on it may have only what was used.
  const { until = 0 } = open.get(name) ?? {};
  if (until) open.set(name, { by: used, until });
  try {
    await hold(name).settle(used);
    open.delete(name);
    tally.used += used;
    return true;
  } catch (error) {
    told(name, error);
    return false;
  } finally {
    draw();
  }
}

/** Once no job runs: all that wasn't used can be held, to the last credit, also what crashed jobs had. */
async function count() {
  const all = counter.limit - tally.used;
  if (running || asked === tally.jobs || !(all > 0) || [...open.values()].some(({ until }) => until > Date.now() - 500)) return;
  const jobs = (asked = tally.jobs);
  open.clear();
  const every = hold(`all-${jobs}`);
  try {
    await every.reserve(all, `${HOLD}s`);
    missing = 0;
    await every.giveBack();
  } catch (error) {
    if (tally.jobs !== jobs) return; // They go on.
    if (error.reason !== "limit-reached") return void (asked = 0); // It had no answer: once more.
    missing = all - error.left;
  }
  rested = jobs;
}

function told(name, error) {
  const { reason, left, status, message } = error;
  if (reason === "limit-reached") {
    tally.refused++;
    refusal = { left, at: Date.now() };
  } else if (reason === "hold-ended" || status === undefined) { // or it had no answer in its time
    tally.late++;
    open.delete(name);
  } else problem(message);
}

function show(limit) {
  for (const name of Object.keys(tally)) text(name, format(tally[name]));
  if (limit === undefined) return;
  const now = Date.now();
  const { used } = tally;
  // What jobs were told is ahead of the document, which is about a second old; and so is the last refusal.
  const known = [...open.values()].reduce((sum, { by, until }) => sum + (until > now ? by : 0), used);
  const newer = refusal?.at > counter.updatedAt;
  const taken = Math.max(newer ? limit - refusal.left : counter.total, known);
  const held = taken - used, left = limit - taken;
  const wrong = Math.max(missing, counter.total - limit, known - limit);
  Object.assign($("counter").dataset, { used, held, left, limit, rests: tally.jobs > 0 && rested === tally.jobs });
  text("left", format(left));
  text("held", format(held));
  text("limit", format(limit));
  text("sum", `${format(used)} used + ${format(held)} held + ${format(left)} left = ${format(used + held + left)}`);
  text("when", counter.updatedAt ? `, as of ${ago(newer ? refusal.at : counter.updatedAt)}` : "");
  text("wrong", format(wrong));
  dots($("credits"), Math.max(limit, taken), used, taken, `${format(used)} used, ${format(held)} held, ${format(left)} left`);
}
