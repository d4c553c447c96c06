// Holds of an amount: each is taken, settled and given back once, whatever becomes of requests, answers and pages.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import test from "node:test";
import { CounterError, signedIn } from "./counter.js";
import { Holds } from "./holds.js";
import { dice, MemoryStorage, until, Window } from "./wait.mjs";

/** A function with so many credits. `asked` says what becomes of the nth request: it may be lost, or its answer. */
async function startBank(t, credits, fate = () => "") {
  const bank = { left: credits, asked: [], fate, holds: new Map(), moves: 0 };
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const data of request) text += data;
    const body = text ? JSON.parse(text) : {};
    const [, counter, field, , id, settle] = request.url.split("/").map(decodeURIComponent);
    bank.asked.push(`${request.method} ${id}${settle ? ` ${body.by}` : ""}`);
    const fate = await bank.fate(bank.asked.length - 1, request);
    if (fate === "lost") return request.socket.destroy();
    const name = `${request.headers.authorization ?? ""} ${id}`;
    const [status, answer] = handle(bank, request.method, name, settle, body);
    if (fate === "answer lost") return request.socket.destroy();
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(status === 200 ? { counter, field, hold: id, ...answer } : { status, ...answer }));
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => new Promise((closed) => { server.close(closed); server.closeAllConnections(); }));
  return Object.assign(bank, { url: `http://127.0.0.1:${server.address().port}` });
}

/** What the function does, as docs/openapi.yaml has it. */
function handle(bank, method, name, settle, { by, for: lasts }) {
  let hold = bank.holds.get(name);
  if (method === "GET") return hold ? [200, hold] : [404, { detail: "there is no such hold" }];
  if (method === "PUT") {
    if (hold && hold.held === 0) return [409, { detail: "over", reason: "hold-ended" }];
    if (hold) return [200, { ...hold, replayed: true }];
    if (by > bank.left) return [409, { detail: "limit reached", reason: "limit-reached", left: bank.left }];
    bank.left -= by;
    bank.moves++;
    bank.holds.set(name, (hold = { state: "held", held: by, until: new Date(Date.now() + parseInt(lasts) * 1_000).toISOString() }));
    return [200, { ...hold, left: bank.left }];
  }
  if (!hold) bank.holds.set(name, (hold = { state: "ended", held: 0, returned: 0 }));
  if (hold.state === "held") {
    Object.assign(hold, settle ? { state: "settled", by, returned: hold.held - by } : { state: "ended", returned: hold.held });
    bank.left += hold.returned;
    bank.moves++;
  }
  if (settle && hold.state === "ended") return [409, { detail: "over", reason: "hold-ended" }];
  if (settle ? hold.by !== by : hold.state === "settled") return [409, { detail: "settled", reason: "settled", by: hold.by }];
  return [200, hold];
}

function open(t, options) {
  const holds = new Holds({ storage: null, page: new Window(), ...options });
  t.after(() => holds.close());
  return holds;
}

const refused = (reason, more = {}) => (error) => {
  assert.ok(error instanceof CounterError, error);
  assert.equal(error.reason, reason);
  for (const [name, value] of Object.entries(more)) assert.equal(error[name], value, name);
  return true;
};

test("an amount is held, looked at, settled for what was used, and given back", async (t) => {
  const bank = await startBank(t, 5_000);
  const credits = open(t, { url: `${bank.url}/` });
  const hold = credits.hold("alice", "credits", "job/1");
  await assert.rejects(hold.look(), refused(undefined, { status: 404 }));
  const held = await hold.reserve(4_000, "2m");
  assert.ok(held.state === "held" && held.held === 4_000 && held.left === 1_000 && held.until > Date.now(), JSON.stringify(held));
  assert.equal((await hold.look()).state, "held");
  const other = credits.hold("alice", "credits");
  await assert.rejects(other.reserve(1_001, "2m"), refused("limit-reached", { left: 1_000, status: 409 }));
  for (let i = 0; i < 2; i++) assert.deepEqual(await hold.settle(3_127), { state: "settled", held: 4_000, until: held.until, by: 3_127, returned: 873, left: undefined });
  await assert.rejects(hold.settle(3_128), refused("settled", { by: 3_127 }));
  await assert.rejects(hold.giveBack(), refused("settled", { by: 3_127 }));
  await assert.rejects(credits.hold("alice", "credits", "job/1").reserve(4_000, "2m"), refused("settled", { by: 3_127 }));
  await other.reserve(1_000, "1m");
  assert.equal((await other.giveBack()).returned, 1_000);
  await assert.rejects(other.settle(1), refused("hold-ended"));
  assert.equal(bank.left, 5_000 - 3_127);
  assert.notEqual(credits.hold("alice", "credits").id, credits.hold("alice", "credits").id);
});

test("what can't be asked is said at once", async (t) => {
  const holds = open(t, { url: "http://127.0.0.1:1" });
  assert.throws(() => new Holds({ url: "" }), TypeError);
  for (const id of ["", ".", "..", "é", " a", "a ", "a\n"]) assert.throws(() => holds.hold("a", "credits", id), TypeError, id);
  assert.throws(() => holds.hold("a/../b", "credits"), TypeError);
  const hold = holds.hold("a", "credits");
  for (const [by, lasts] of [[0, "2m"], [1.5, "2m"], [1, "2"], [1, "999ms"], [1, "721h"], [1, "2m "], [1, ""]]) await assert.rejects(hold.reserve(by, lasts), TypeError, `${by} ${lasts}`);
  await assert.rejects(hold.settle(-1), TypeError);
  await assert.rejects(open(t, { url: "http://127.0.0.1:1", member: () => null }).hold("a", "credits").reserve(1, "1s"), /Nobody has signed in/);
});

test("requests and answers that are lost change nothing: each is sent until it is answered", async (t) => {
  const bank = await startBank(t, 10, (n) => ["lost", "answer lost", ""][n % 3]);
  const holds = open(t, { url: bank.url, storage: new MemoryStorage() });
  const hold = holds.hold("alice", "credits", "a");
  await hold.reserve(7, "2m");
  assert.equal(bank.left, 3);
  const [first, second] = await Promise.all([hold.settle(2), hold.settle(2)]);
  assert.deepEqual([first.returned, second, bank.left], [5, first, 8]);
  assert.equal(bank.moves, 2, "one move for each");
  assert.equal(holds.trouble, undefined);
});

test("what is settled and given back waits for its answer over a reload, and is said once more", async (t) => {
  const storage = new MemoryStorage();
  const bank = await startBank(t, 10);
  const first = open(t, { url: bank.url, storage });
  const [used, unused] = [first.hold("alice", "credits", "used"), first.hold("alice", "credits", "unused")];
  await used.reserve(4, "2m");
  await unused.reserve(3, "2m");
  bank.fate = () => "answer lost";
  used.settle(1).catch(() => {});
  unused.giveBack().catch(() => {});
  await until(() => bank.left === 9 && first.trouble);
  assert.equal(storage.size, 2);
  first.close();
  bank.fate = () => "";
  const failures = [];
  open(t, { url: bank.url, storage, failed: (error, hold) => failures.push([error.reason, hold.id]) });
  await until(() => storage.size === 0);
  assert.deepEqual([bank.left, bank.moves, failures], [9, 4, []]);
  // Another one of that user has ended it meanwhile.
  bank.fate = () => "lost";
  const second = open(t, { url: bank.url, storage });
  second.hold("alice", "credits", "gone").settle(5).catch(() => {});
  await until(() => second.trouble);
  second.close();
  bank.fate = () => "";
  open(t, { url: bank.url, storage, failed: (error, hold) => failures.push([error.reason, error.unknown, hold.id]) });
  await until(() => failures.length);
  assert.deepEqual(failures, [["hold-ended", undefined, "gone"]]);
  assert.equal(storage.size, 0);
});

test("a settlement that was sent a day ago may have been forgotten, and says so", async (t) => {
  const storage = new MemoryStorage(), failures = [];
  const bank = await startBank(t, 10);
  storage.set(`counters-holds ${bank.url} x`, JSON.stringify({ counter: "alice", field: "credits", id: "old", user: "me", as: "", by: 3, at: Date.now() - 24 * 3_600_000, tried: 1 }));
  storage.set(`counters-holds ${bank.url} y`, "what another program has put there");
  open(t, { url: bank.url, storage, failed: (error) => failures.push([error.reason, error.unknown]) });
  await until(() => failures.length);
  assert.deepEqual([failures, storage.size], [[["hold-ended", true]], 1]);
});

test("what is given back while it is reserved is held by nobody, also if it comes later", async (t) => {
  let go;
  const bank = await startBank(t, 10, (n) => (n === 0 ? new Promise((answer) => { go = answer; }) : ""));
  const hold = open(t, { url: bank.url }).hold("alice", "credits", "a");
  const reserved = assert.rejects(hold.reserve(10, "2m"), refused("hold-ended"));
  await until(() => go);
  assert.equal((await hold.giveBack()).returned, 0);
  await reserved;
  go(""); // The request that was on its way arrives.
  await until(() => bank.asked.length >= 2);
  await new Promise((later) => setTimeout(later, 20));
  assert.deepEqual([bank.left, bank.moves], [10, 0]);
});

test("what is settled while it is reserved waits for that", async (t) => {
  const bank = await startBank(t, 10, (n) => (n < 2 ? "answer lost" : ""));
  const holds = open(t, { url: bank.url });
  holds.hold("alice", "credits", "a").reserve(10, "2m").catch(() => {});
  assert.equal((await holds.hold("alice", "credits", "a").settle(4)).returned, 6);
  assert.equal(bank.left, 6);
});

test("a hold that has no answer within its time is given back, and never taken for one", async (t) => {
  let out = true;
  const bank = await startBank(t, 10, (n) => (out ? (n === 0 ? "answer lost" : "lost") : ""));
  const holds = open(t, { url: bank.url, storage: new MemoryStorage() });
  await assert.rejects(holds.hold("alice", "credits", "a").reserve(10, "1s"), /No answer came/);
  assert.equal(bank.left, 0, "its answer was lost");
  out = false;
  await until(() => bank.left === 10);
  // Where somebody has ended it, a repetition says so, and is no hold.
  await assert.rejects(holds.hold("alice", "credits", "a").reserve(10, "1s"), refused("hold-ended"));
});

test("a hold is its user's: nothing is sent for another one", async (t) => {
  const bank = await startBank(t, 10);
  let user = { uid: "alice", getIdToken: async () => "alice" }, told;
  const auth = { get currentUser() { return user; }, authStateReady: async () => {}, onAuthStateChanged: (changed) => ((told = changed), () => {}) };
  const storage = new MemoryStorage();
  const holds = open(t, { url: bank.url, storage, ...signedIn(auth) });
  const hold = holds.hold("alice", "credits", "a");
  await hold.reserve(4, "2m");
  bank.fate = () => "lost";
  const settled = hold.settle(1);
  await until(() => holds.trouble);
  user = { uid: "bob", getIdToken: async () => "bob" };
  bank.fate = (_, request) => assert.equal(request.headers.authorization, "Bearer bob");
  told();
  await holds.hold("alice", "credits", "b").reserve(1, "2m");
  assert.equal(bank.left, 5);
  user = { uid: "alice", getIdToken: async () => "alice" };
  bank.fate = () => "";
  told();
  assert.equal((await settled).returned, 3);
  assert.equal(bank.left, 8);
});

test("without a member, what a token's user has asked for waits for that user", async (t) => {
  const token = (sub) => `Bearer x.${btoa(JSON.stringify({ sub }))}.y`;
  const bank = await startBank(t, 10);
  const storage = new MemoryStorage();
  const as = (user) => open(t, { url: bank.url, storage, headers: () => ({ Authorization: token(user) }) });
  const first = as("alice");
  const hold = first.hold("alice", "credits", "a");
  await hold.reserve(4, "2m");
  bank.fate = () => "lost";
  hold.settle(1).catch(() => {});
  await until(() => first.trouble);
  first.close();
  bank.fate = () => "";
  const asked = bank.asked.length;
  const bobs = as("bob");
  await new Promise((later) => setTimeout(later, 100));
  assert.equal(bank.asked.length, asked, "hers was sent for him");
  bobs.close();
  as("alice");
  await until(() => bank.left === 9 && storage.size === 0);
});

test("a storage that is full keeps nothing, and says so", async (t) => {
  const bank = await startBank(t, 10);
  const storage = new MemoryStorage();
  storage.quota = 10;
  const holds = open(t, { url: bank.url, storage });
  const hold = holds.hold("alice", "credits", "a");
  await hold.reserve(4, "2m");
  bank.fate = () => "lost";
  const settled = hold.settle(1);
  assert.equal(holds.kept, false);
  bank.fate = () => "";
  await settled;
  assert.equal(holds.kept, true);
});

test("a page that is put aside sends nothing until it is back", async (t) => {
  const bank = await startBank(t, 10);
  const page = new Window();
  const holds = open(t, { url: bank.url, page });
  const hold = holds.hold("alice", "credits", "a");
  await hold.reserve(4, "2m");
  page.dispatchEvent(new Event("pagehide"));
  const settled = hold.settle(1);
  await new Promise((later) => setTimeout(later, 50));
  assert.equal(bank.asked.length, 1);
  page.dispatchEvent(new Event("pageshow"));
  await settled;
});

test("pages, lost requests and lost answers at random: nothing is lost, nothing is settled twice", async (t) => {
  const seed = Number(process.env.SEED ?? 1);
  const roll = dice(seed);
  const bank = await startBank(t, 500, () => ["", "", "lost", "answer lost"][roll(4)]);
  const storage = new MemoryStorage();
  const window = new Window();
  const online = setInterval(() => window.dispatchEvent(new Event("online")), 10); // which ends pauses
  t.after(() => clearInterval(online));
  let used = 0;
  const page = async (n) => {
    const holds = open(t, { url: bank.url, storage, page: window });
    await Promise.all(Array.from({ length: 8 }, async (_, i) => {
      const hold = holds.hold("alice", "credits", `${n}-${i}`);
      const by = 1 + roll(20), uses = roll(by + 1);
      await hold.reserve(by, "2m");
      const settled = uses ? hold.settle(uses) : hold.giveBack();
      used += uses;
      if (roll(2)) await settled; // or the page goes before that is answered
      else settled.catch(() => {});
    }));
    holds.close();
  };
  for (let n = 0; n < 4; n++) await page(n);
  open(t, { url: bank.url, storage, page: window, failed: (error) => assert.fail(error) });
  await until(() => storage.size === 0);
  assert.equal(bank.left, 500 - used, `SEED=${seed}`);
  assert.equal(bank.moves, 2 * 4 * 8);
});
