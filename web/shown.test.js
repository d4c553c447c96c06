import assert from "node:assert/strict";
import test from "node:test";
import { Shown } from "./shown.js";
import { dice } from "./wait.mjs";

/**
 * Walks a counter at random. An increment is committed or refused after a while, ours are answered
 * after another while, and roll-ups count some of what is committed, and all that was committed two
 * seconds ago. One comes at least every four seconds while there is something to count. Calls
 * `check` with what is displayed and what is true, after every step, and at last when nothing is
 * under way and no roll-up comes any more.
 */
function walk(seed, { ours, theirs = [], refused = 0 }, check) {
  const random = dice(seed);
  const shown = new Shown();
  // {by, own: what shown.add returned, if it is ours, committed: when, answered: when, counted,
  // refused}
  const all = [];
  const timers = []; // {at, own}
  const find = (which) => all.find((i) => !i.refused && which(i) && random(2));
  const sum = (which) => all.filter(which).reduce((sum, i) => sum + i.by, 0);
  let [step, now, total] = [0, 0, 0];

  const checked = (what) => check({
    step, what: `seed ${seed}, at ${now}: ${what}`, value: shown.value, total,
    ours: sum((i) => i.own && !i.refused), theirs: sum((i) => !i.own),
    unsure: all.filter((i) => i.own && !i.refused && !(i.answered < now - 10_000)).map((i) => Math.abs(i.by)),
  });
  const steps = {
    add() {
      const by = ours[random(ours.length)];
      all.push({ by, own: shown.add(by) });
      return `add ${by}`;
    },
    addElsewhere() {
      if (theirs.length) all.push({ by: theirs[random(theirs.length)], committed: now });
      return "others add";
    },
    commit() {
      const i = find((i) => i.committed === undefined);
      if (i && random(100) < refused) {
        i.refused = true;
        shown.fail(i.own);
        return `refuse ${i.by}`;
      }
      if (i) i.committed = now;
      return `commit ${i?.by}`;
    },
    answer() {
      const i = find((i) => i.own && i.committed !== undefined && i.answered === undefined);
      if (!i) return "nothing";
      i.answered = i.own.answered = now;
      timers.push({ at: now + 10_000, own: i.own });
      return `answer ${i.by}`;
    },
    rollUp() {
      for (const i of all) {
        if (i.committed === undefined || i.counted || (now - i.committed < 2_000 && random(2))) continue;
        i.counted = true;
        total += i.by;
      }
      shown.snapshot(total, now);
      return `total ${total}`;
    },
  };
  const pass = (ms) => {
    now += ms;
    if (all.some((i) => !i.counted && i.committed < now - 4_000)) checked(steps.rollUp());
    while (timers[0]?.at <= now) shown.expire(timers.shift().own, now);
    checked("expire");
  };

  shown.snapshot(total, now);
  const underWay = () => all.some((i) => !i.refused && (!i.counted || (i.own && i.answered === undefined)));
  for (; step < 150 || underWay(); step++) {
    pass(random(300));
    const names = Object.keys(steps).slice(step < 150 ? 0 : 2);
    checked(steps[names[random(names.length)]]());
  }
  pass(10_000);
  checked("end");
}

function walks(how, check) {
  for (let seed = 1; seed <= 500; seed++) {
    walk(seed, how, (now) => {
      check(now);
      if (now.what.endsWith("end")) assert.equal(now.value, now.total, now.what);
    });
  }
}

test("while only we add, what we added shows, no more and no less, at any time", () => {
  walks({ ours: [1, -1, 2, -5], refused: 20 }, (now) => assert.equal(now.value, now.ours, now.what));
});

test("with the times of commits and totals, what is answered shows exactly, whatever others do and however old totals are", () => {
  for (let seed = 1; seed <= 500; seed++) {
    const random = dice(seed);
    const shown = new Shown();
    const all = []; // {by, own, committed}
    let now = 1, asOf = 0;
    const sum = (which) => all.filter(which).reduce((sum, { by }) => sum + by, 0);
    const snapshot = () => shown.snapshot(sum(({ committed }) => committed <= asOf), now / 1_000, asOf);
    snapshot();
    for (let step = 0; step < 150; step++) {
      now += 1 + random(2_000_000);
      const ours = all.filter(({ own }) => own), sent = ours.find(({ committed }) => !committed), done = ours.find(({ committed, own }) => committed && own.answered === Infinity);
      [
        () => { const by = [1, -1, 3][random(3)]; all.push({ by, own: shown.add(by) }); },
        () => all.push({ by: [1, -1, 4, -5][random(4)], committed: now }),
        () => { if (sent) sent.committed = now; },
        () => { if (done) shown.answer(done.own, now / 1_000, done.committed); },
        () => { asOf = Math.max(asOf, now - random(9_000_000)); snapshot(); },
        () => { for (const { own } of ours) if (own.answered < now / 1_000 - 10_000) shown.expire(own, now / 1_000); },
      ][random(6)]();
      const waits = ours.some(({ own }) => own.answered === Infinity) || all.at(-1)?.own?.answered === Infinity;
      if (!waits) assert.equal(shown.value, sum(({ committed, own }) => committed <= asOf || own), `seed ${seed}, step ${step}`);
    }
  }
});

test("doubles and the average of none are shown as they are, and nothing that they were stays", () => {
  const shown = new Shown();
  const seen = [null, 4.5, 4.25, null, null, NaN, 3, null, 0].map((total, i) => {
    if (i % 4 === 3) shown.reconnected(total);
    else shown.snapshot(total, 1_000 * i);
    return shown.total;
  });
  assert.deepEqual(seen, [null, 4.5, 4.25, null, null, NaN, 3, null, 0]);
  assert.equal(shown.value, 0);
  shown.snapshot(7, 10_000);
  const own = shown.add(1); // of an integer again: nothing of before is left in what moves use up
  assert.equal(shown.value, 8);
  own.answered = 11_000;
  shown.snapshot(8, 11_100);
  assert.equal(shown.value, 8);
});

test("while all only add, nothing shows twice, and only what is refused steps back", () => {
  let before = 0;
  walks({ ours: [1, 3], theirs: [1, 4, 10], refused: 10 }, (now) => {
    if (now.step === 0) before = 0;
    assert.ok(now.value >= now.total, `${now.what}: ${now.value} is less than the total ${now.total}`);
    assert.ok(now.value <= now.ours + now.theirs, `${now.what}: ${now.value}, and ${now.ours + now.theirs} were added`);
    assert.ok(now.value >= before || now.what.includes("refuse"), `${now.what}: ${now.value} after ${before}`);
    before = now.value;
  });
});

test("while all add and take, the display differs from the total by what is under way at most", () => {
  walks({ ours: [1, -1, 3, -3], theirs: [1, -2, 4, -5], refused: 10 }, (now) => {
    const unsure = now.unsure.reduce((sum, by) => sum + by, 0);
    assert.ok(Math.abs(now.value - now.total) <= unsure, `${now.what}: ${now.value}, total ${now.total}, unsure ${unsure}`);
  });
});

test("an increment shows before its answer, and once when a snapshot brings it before that", () => {
  const shown = new Shown();
  shown.snapshot(7, 0);
  const own = shown.add(1);
  assert.equal(shown.value, 8);
  shown.snapshot(8, 900);
  assert.equal(shown.value, 8);
  own.answered = 950;
  assert.equal(shown.value, 8);
  shown.expire(own, 10_950);
  assert.equal(shown.value, 8);
});

test("a refused increment is taken back, and only that", () => {
  const shown = new Shown();
  shown.snapshot(0, 0);
  const refused = shown.add(1);
  const counted = shown.add(1);
  shown.snapshot(1, 500); // It brings one of the two; which one, nobody knows yet.
  assert.equal(shown.value, 2);
  shown.fail(refused);
  assert.equal(shown.value, 1);
  counted.answered = 600;
  assert.equal(shown.value, 1);
});

test("an increment that others hide the arrival of is given up in time", () => {
  const shown = new Shown();
  shown.snapshot(10, 0);
  const own = shown.add(1);
  own.answered = 100;
  shown.snapshot(10, 1_000); // Ours, and one of somebody else's the other way.
  assert.equal(shown.value, 11);
  shown.snapshot(12, 3_200);
  assert.equal(shown.value, 12);
});

test("what others add shows at once, also when ours cancelled out before", () => {
  const shown = new Shown();
  shown.snapshot(0, 0);
  for (const by of [1, 1, -1]) shown.add(by).answered = 100;
  shown.snapshot(1, 1_000); // All three, or just one of the first two.
  assert.equal(shown.value, 1);
  shown.snapshot(41, 2_000);
  assert.equal(shown.value, 41);
});

test("without a roll-up, the display ends as the total", () => {
  const shown = new Shown();
  shown.snapshot(10, 0);
  const own = shown.add(1);
  own.answered = 100;
  shown.expire(own, 10_100);
  assert.equal(shown.value, 10);
});

test("what waits when the first snapshot comes shows on top of it, and what is answered shows once", () => {
  const shown = new Shown();
  const answered = shown.add(1);
  answered.answered = 50;
  const waits = shown.add(3);
  shown.snapshot(34, 100);
  assert.equal(shown.value, 37);
  waits.answered = 200;
  shown.snapshot(37, 1_000);
  assert.equal(shown.value, 37);
});

test("after a lost connection, nothing shows that isn't there", () => {
  // Some of what was answered is gone, as with a database in memory that was started again, and the
  // rest goes on. What was gone showed on top of the total for as long as there were other
  // increments to use up in its place.
  const shown = new Shown();
  shown.snapshot(500, 0);
  for (let i = 0; i < 78; i++) shown.add(1).answered = 100;
  assert.equal(shown.value, 578);
  shown.reconnected(0);
  assert.equal(shown.value, 0);
  let now = 2_000;
  for (let total = 0; total < 249; total++, now += 40) {
    shown.add(1).answered = now;
    shown.snapshot(total + 1, now + 20);
    assert.equal(shown.value, total + 1);
  }
});

test("after a lost connection, what waits to be sent still shows", () => {
  const shown = new Shown();
  shown.snapshot(10, 0);
  const waiting = [shown.add(1), shown.add(1)];
  assert.equal(shown.value, 12);
  shown.reconnected(10);
  assert.equal(shown.value, 12);
  shown.snapshot(12, 1_000);
  for (const own of waiting) own.answered = 1_100;
  assert.equal(shown.value, 12);
});

test("after a lost connection, what is being sent doesn't show twice in a total that fell", () => {
  // A database in memory was started again, and the first total from it may hold what has no answer
  // yet.
  const shown = new Shown();
  shown.snapshot(45, 0);
  const waiting = Array.from({ length: 14 }, () => shown.add(1));
  shown.reconnected(7 + 4, { 1: 6, [-1]: 0 }); // Six are being sent, and four of them are counted.
  assert.equal(shown.value, 7 + 4 + 8);
  let now = 0;
  let last = shown.value;
  for (let total = 12; total <= 7 + 14; total++) {
    shown.snapshot(total, ++now);
    assert.ok(shown.value >= last && shown.value <= 7 + 14, `${shown.value} after ${last}`);
    last = shown.value;
  }
  assert.equal(last, 7 + 14);
  for (const own of waiting) own.answered = now;
  shown.snapshot(7 + 14, now + 4_000);
  assert.equal(shown.value, 7 + 14);
});

test("after a lost connection, what was counted meanwhile doesn't show twice", () => {
  const shown = new Shown();
  shown.snapshot(10, 0);
  const lost = shown.add(1); // It was counted, and its answer lost.
  shown.reconnected(11);
  assert.equal(shown.value, 11);
  lost.answered = 5_000;
  assert.equal(shown.value, 11);
});
