// The second view: a counter with a limit, and a crowd that wants more than there is.
import { $, HOLD, ago, dots, format, pause, problem, text, Visit } from "./visit.js";

const AGAIN = 300; // ms until a request is sent again that got no answer, or is to be

const tally = { buyers: 0, sold: 0, refused: 0, gone: 0, again: 0 };
const holds = new Map(); // seat → until when it is held, in ms since 1970
let refusedAt; // when somebody last heard that there is none, in ms since 1970

const visit = new Visit("seats", show);
const { counter } = visit, draw = () => visit.draw();
visit.begin(sent, buyer).catch((error) => problem(`The page can't start: ${error.message}`));

/** Wants a seat, thinks, and pays, or doesn't. */
async function buyer() {
  const seat = `increment/${visit.id}/${encodeURIComponent(visit.config.first)}/buyer-${++tally.buyers}`;
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
  if (reason === "limit-reached") {
    tally.refused++;
    refusedAt = Date.now();
  }
  else if (reason === "hold-ended") tally.gone++; // it paid too late
  else problem(detail);
  draw();
}

function show(limit) {
  for (const name of Object.keys(tally)) text(name, format(tally[name]));
  if (limit === undefined) return;
  // What buyers were told is ahead of the document, which is about a second old.
  const held = [...holds.values()].filter((until) => until > Date.now()).length;
  // And what the last buyer heard who was sent away is newer still, until the next roll-up.
  const none = refusedAt > counter.updatedAt;
  const taken = none ? limit : Math.max(counter.total, tally.sold + held);
  Object.assign($("counter").dataset, { sold: tally.sold, taken, limit, left: limit - taken });
  text("left", format(limit - taken));
  text("when", counter.updatedAt ? `, as of ${ago(none ? refusedAt : counter.updatedAt)}` : "");
  text("last-refused", refusedAt ? `, last ${ago(refusedAt)}` : "");
  text("oversold", format(Math.max(0, tally.sold - limit, counter.total - limit)));
  text("limit", format(limit));
  text("held", format(taken - tally.sold));
  dots($("seats"), Math.max(limit, taken), tally.sold, taken, `${format(tally.sold)} sold, ${format(taken - tally.sold)} held, ${format(limit - taken)} left`);
}
