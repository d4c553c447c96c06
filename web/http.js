// Increments and likes by the Increment function.
import { CounterError } from "./entry.js";

const TIMEOUT = 25_000; // ms; the function answers within 20 s unless REQUEST_TIMEOUT says more
const AGAIN = 5_000; // ms until a question that got no answer is asked again

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
      let answer, text;
      try {
        answer = await fetch(...requestOf(url, credentials.headers, entry, signal));
        text = await answer.text();
      } catch (/** @type {any} */ error) {
        const late = error.name === "TimeoutError";
        return { again: 0, trouble: late ? "The server doesn't answer in time." : await unreachable(url), all: !late };
      }
      const body = parse(text);
      if (answer.ok && body.counter) return { counted: "member" in entry ? body.counted !== false : body.replayed !== true };
      const { status } = answer;
      // A network's page to sign in, or the site's own page, says 200 too.
      if (answer.ok || status >= 500 || status === 408 || status === 425 || status === 429) {
        const seconds = Number(answer.headers.get("Retry-After"));
        const all = status === 429;
        return { again: seconds > 0 ? seconds * 1_000 : 0, trouble: all ? "There were too many requests." : "The server is too busy, or not well.", all };
      }
      return { error: new CounterError(`The server refuses it: ${body.detail ?? answer.statusText} (${status}).`, { status }) };
    },

    watch: (like, next) => asking(memberURL(url, like), headers, (asked, _, answer, body) => {
      if (answer?.ok || answer?.status === 404) return next(body.joined === true, asked);
      if (!answer || answer.status >= 500 || answer.status === 429) return AGAIN; // Others don't say.
    }),
  };
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
      const there = await fetch(url, { headers: own, signal: AbortSignal.timeout(TIMEOUT) });
      body = await there.json() ?? {};
      if (!there.ok || body.counter) answer = there; // Who answers a page to sign in says 200 too.
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
 * @param {AbortSignal} stopped
 * @returns {[string, RequestInit]}
 */
function requestOf(url, own, entry, stopped) {
  const headers = new Headers(own);
  const late = AbortSignal.timeout(TIMEOUT);
  const signal = AbortSignal.any?.([stopped, late]) ?? late;
  if (!("key" in entry)) return [memberURL(url, entry), { method: entry.joined ? "PUT" : "DELETE", headers, signal }];
  headers.set("Content-Type", "application/json");
  headers.set("Idempotency-Key", entry.key);
  return [`${url}/${encodeURIComponent(entry.counter)}`, { method: "POST", headers, body: JSON.stringify({ by: { [entry.field]: entry.by } }), signal }];
}

/**
 * @param {string} url
 * @param {{ counter: string, field: string, member: string }} like
 */
function memberURL(url, { counter, field, member }) {
  return [url, ...[...counter.split("/"), field, member].map(encodeURIComponent)].join("/");
}

/** @param {string} url */
function absolute(url) {
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
      await fetch(url, { mode: "no-cors", signal: AbortSignal.timeout(5_000) });
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
  for (const char of user) hash = Math.imul(hash ^ /** @type {number} */ (char.codePointAt(0)), 0x5bd1e995) ^ (hash >>> 15);
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
