// Increments and likes by the Increment function.
import { CounterError } from "./queue.js";

const TIMEOUT = 25_000; // ms; the function answers within 20 s unless REQUEST_TIMEOUT says more
const AGAIN = 5_000; // ms until a question that got no answer is asked again

/**
 * Increments and likes by the Increment function. It is what `Counters` uses unless told otherwise.
 * @param {string} url of the function
 * @param {() => HeadersInit | Promise<HeadersInit>} [headers] to send along, such as Authorization
 * @returns {import("./queue.js").Transport}
 */
export function overHTTP(url, headers) {
  return {
    async send(entry) {
      let answer, text;
      try {
        answer = await fetch(...await requestOf(url, headers, entry));
        text = await answer.text();
      } catch (error) {
        const late = error instanceof DOMException && error.name === "TimeoutError";
        return { again: 0, trouble: late ? "The server doesn't answer in time." : "The server can't be reached." };
      }
      const body = parse(text);
      if (answer.ok) return { counted: "member" in entry ? body.counted !== false : body.replayed !== true };
      const { status } = answer;
      if (status >= 500 || status === 408 || status === 425 || status === 429) {
        const seconds = Number(answer.headers.get("Retry-After"));
        return { again: seconds > 0 ? seconds * 1_000 : 0, trouble: status === 429 ? "There were too many requests." : "The server is too busy, or not well." };
      }
      return { error: new CounterError(`The server refuses it: ${body.detail ?? answer.statusText} (${status}).`, { status }) };
    },

    watch(like, next) {
      const ended = new AbortController();
      /** @type {ReturnType<typeof setTimeout> | undefined} */
      let timer;
      const ask = async () => {
        clearTimeout(timer);
        if (globalThis.document?.hidden) return;
        const asked = performance.now();
        try {
          const answer = await fetch(memberURL(url, like), { headers: await headers?.(), signal: AbortSignal.timeout(TIMEOUT) });
          const body = parse(await answer.text());
          if (ended.signal.aborted) return;
          if (answer.ok) return next(body.joined === true, asked);
          if (answer.status === 404) return next(false, asked);
          if (answer.status < 500 && answer.status !== 429) return; // It doesn't say.
        } catch {
          if (ended.signal.aborted) return;
        }
        timer = setTimeout(ask, AGAIN);
      };
      // The same user may be elsewhere meanwhile.
      globalThis.document?.addEventListener("visibilitychange", ask, { signal: ended.signal });
      globalThis.addEventListener?.("online", ask, { signal: ended.signal });
      void ask();
      return () => {
        clearTimeout(timer);
        ended.abort();
      };
    },
  };
}

/**
 * @param {string} url
 * @param {(() => HeadersInit | Promise<HeadersInit>) | undefined} own
 * @param {import("./queue.js").Entry} entry
 * @returns {Promise<[string, RequestInit]>}
 */
async function requestOf(url, own, entry) {
  const headers = new Headers(await own?.());
  const signal = AbortSignal.timeout(TIMEOUT);
  if ("member" in entry) return [memberURL(url, entry), { method: entry.joined ? "PUT" : "DELETE", headers, signal }];
  headers.set("Content-Type", "application/json");
  headers.set("Idempotency-Key", entry.key);
  const { by, field } = entry;
  return [`${url}/${encodeURIComponent(entry.counter)}`, { method: "POST", headers, body: JSON.stringify({ by: field === undefined ? by : { [field]: by } }), signal }];
}

/**
 * @param {string} url
 * @param {{ counter: string, field?: string, member: string }} like
 */
function memberURL(url, { counter, field = "total", member }) {
  return [url, ...[...counter.split("/"), field, member].map(encodeURIComponent)].join("/");
}

/** @param {string} text JSON, unless it comes from something in between */
function parse(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}
