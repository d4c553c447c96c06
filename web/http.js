// Increments and likes by the Increment function.
import { CounterError, microsOf } from "./entry.js";

const TIMEOUT = 25_000; // ms; the function answers within 20 s unless REQUEST_TIMEOUT says more
const AGAIN = 5_000; // ms until a question that got no answer is asked again
const LATER = 30_000; // ms until one that was refused is asked again
const AWAY = 3_600_000; // ms that an answer may ask to wait: a proxy says a month, and a timer takes that for none
export { LATER };

/**
 * Increments and likes by the Increment function. It is what `Counters` uses unless told otherwise.
 * @param {string} url of the function
 * @param {() => HeadersInit | Promise<HeadersInit>} [headers] to send along, such as Authorization
 * @returns {import("./entry.js").Transport}
 */
export function overHTTP(url, headers) {
  return {
    name: absolute(url),

    async prepare() {
      const own = new Headers(await headers?.());
      return { headers: own, as: whose(own.get("Authorization")) };
    },

    async send(entry, { credentials, signal }) {
      const { body, ...outcome } = await ask(url, ...requestOf(url, credentials.headers, entry), signal);
      return body ? { counted: "member" in entry ? body.counted !== false : body.replayed !== true, committed: microsOf(body.committed_at) } : outcome;
    },

    watch: (like, next, failed) => asking(memberURL(url, like), headers, (asked, _, answer, body) => {
      if (answer?.ok) return next(body.joined === true, asked);
      if (!answer || !refuses(answer, body)) return AGAIN;
      if (answer.status === 404) return next(false, asked);
      failed(refusal(answer, body));
      return LATER;
    }),
  };
}

/**
 * Sends a request to the function.
 * @param {string} url of the function
 * @param {string} target
 * @param {RequestInit} how
 * @param {AbortSignal} [stopped] cuts it
 * @returns {Promise<import("./entry.js").Outcome & { body?: any }>} the answer's body, if it is done
 */
export async function ask(url, target, how, stopped) {
  const late = AbortSignal.timeout(TIMEOUT);
  let answer, body;
  try {
    answer = await request(target, { ...how, signal: (stopped && AbortSignal.any?.([stopped, late])) ?? late });
    body = parse(await answer.text());
  } catch (/** @type {any} */ error) {
    const all = error.name !== "TimeoutError";
    if (stopped?.aborted) return { again: 0 };
    return { again: 0, trouble: all ? await unreachable(url) : "The server can't be reached.", all };
  }
  if (answer.ok && body.counter) return { body };
  if (refuses(answer, body)) return { error: refusal(answer, body) };
  const again = Math.min(Number(answer.headers.get("Retry-After")) * 1_000 || 0, AWAY);
  return { again, trouble: body.detail ?? notOurs(answer), all: answer.status === 429 };
}

/**
 * Whether the function has refused it. A network's page to sign in, a proxy's or the site's own may
 * have any status, and says nothing of what was asked.
 * @param {Response} answer @param {any} body
 */
export const refuses = ({ status }, body) => status > 399 && status < 500 && ![408, 425, 429].includes(status) && body.status === status;

/** @param {Response} answer */
export const notOurs = ({ status }) => (status < 500 && status !== 429 ? `Something else answers in the server's place (${status}).` : "The server is busy.");

/** @param {Response} answer @param {any} body */
export const refusal = ({ status, statusText }, { detail = statusText, reason, left, by }) => new CounterError(`The server refuses it: ${detail} (${status}).`, { status, reason, left, by });

/**
 * Fetches, unless the page is offline: that would be nothing but an error in its console. Without
 * HTTPS the server may be this machine, which is there all the same.
 * @param {string} url
 * @param {RequestInit} how
 */
async function request(url, how) {
  if (globalThis.navigator?.onLine === false && absolute(url).startsWith("https")) throw 0;
  return fetch(url, how);
}

/**
 * Asks now, whenever the page comes back into view or goes online, as the same user may be elsewhere
 * meanwhile, and in view as many ms later as `got` says.
 * @param {string} url
 * @param {(() => HeadersInit | Promise<HeadersInit>) | undefined} headers
 * @param {(asked: number, ended: AbortSignal, answer?: Response, body?: any) =>
 *   number | void | Promise<number | void>} got takes the answer; none where there was none
 * @returns {() => void} ends it
 */
export function asking(url, headers, got) {
  const ended = new AbortController();
  const { signal } = ended;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const ask = async () => {
    clearTimeout(timer);
    const asked = performance.now();
    let answer, body;
    try {
      const own = await headers?.();
      if (signal.aborted) return; // On a server, nobody watches for longer than that.
      const there = await request(url, { headers: own, signal: AbortSignal.timeout(TIMEOUT) });
      const none = there.status === 204; // There is no such counter.
      body = none ? {} : parse(await there.text());
      // Who answers a page to sign in says 200 too.
      if (none || body.counter || !there.ok) answer = there;
    } catch {
      // There was none, or one of something in between.
    }
    if (signal.aborted) return;
    /** @type {number | void} */
    let again = AGAIN; // where who is told fails
    try {
      again = await got(asked, signal, answer, body);
    } finally {
      clearTimeout(timer); // of a question that was asked meanwhile
      if (again && !signal.aborted) timer = setTimeout(seen, again);
    }
  };
  const seen = () => globalThis.document?.hidden || ask();
  globalThis.document?.addEventListener("visibilitychange", seen, { signal });
  globalThis.addEventListener?.("online", seen, { signal });
  void ask();
  return () => {
    clearTimeout(timer);
    ended.abort();
  };
}

/**
 * @param {string} url
 * @param {Headers} own
 * @param {import("./entry.js").Entry} entry
 * @returns {[string, RequestInit]}
 */
function requestOf(url, own, entry) {
  const headers = new Headers(own);
  if (!("key" in entry)) return [memberURL(url, entry), { method: entry.joined ? "PUT" : "DELETE", headers }];
  headers.set("Content-Type", "application/json");
  headers.set("Idempotency-Key", entry.key);
  // Cloud Run keeps some paths to itself, such as /healthz: see docs/http.md.
  return [`${url}/?${new URLSearchParams({ counter: entry.counter })}`, { method: "POST", headers, body: JSON.stringify({ by: { [entry.field]: entry.by } }) }];
}

/**
 * @param {string} url
 * @param {{ counter: string, field: string, member: string }} like
 */
function memberURL(url, { counter, field, member }) {
  return [url, ...[...counter.split("/"), field, member].map(encodeURIComponent)].join("/");
}

/** @param {string} url */
export function absolute(url) {
  return globalThis.location ? new URL(url, location.href).href : url;
}

/**
 * Why a request had no answer. A browser doesn't tell a page whether there was one that it may not
 * read: a request whose answer nobody wants to read does.
 * @param {string} url
 */
export async function unreachable(url) {
  if (globalThis.location && new URL(absolute(url)).origin !== location.origin) {
    try {
      await request(url, { mode: "no-cors", signal: AbortSignal.timeout(5_000) });
      return `The server's ALLOWED_ORIGINS doesn't name ${location.origin}.`;
    } catch {
      // It can't be reached.
    }
  }
  return "The server can't be reached.";
}

/**
 * Tells users apart by their credentials: by the subject of a token, which stays when the token is
 * renewed.
 * @param {string | null} authorization
 * @returns {string} 11 characters at most; "" for nobody
 */
export function whose(authorization) {
  if (!authorization) return "";
  let user = authorization;
  try {
    user = JSON.parse(atob(authorization.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"))).sub ?? user;
  } catch {
    // It is not such a token.
  }
  let hash = 0;
  for (const char of user) hash = (Math.imul(hash, 31) + /** @type {number} */ (char.codePointAt(0))) | 0;
  return (hash >>> 0).toString(36);
}

/** @param {string} text JSON, unless it comes from something in between */
function parse(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}
