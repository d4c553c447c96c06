// Where the page gets its data from: a Source for counter.js, which also hands over what a frontend
// need not know, the shards and what the total holds of each.
import { documentOf } from "./counter.js";

/**
 * The feed to use: Firestore through the Firebase SDK where that is available, else the gateway
 * that serves this page. `details` is called with {shards: id → {count, counted}, waiting, lag: ms}:
 * the gateway knows these, because it is told when each document was written, and the SDK isn't.
 * `changed` is called with what the counter's document has: {exists, title, totals: field → total}.
 */
export async function chooseFeed(config, details, changed) {
  // Where the page comes over HTTPS, something in between has added that, and the SDK can't speak
  // to an emulator there.
  if (location.protocol === "http:" && (await fetch("-/sdk").then((answer) => answer.json())).available) {
    return { name: "Firestore, through the Firebase SDK", source: await fromSDK(config, details, changed) };
  }
  return { name: "the gateway", source: fromGateway(details, changed) };
}

async function fromSDK(config, details, changed) {
  const [{ initializeApp }, firestore] = await Promise.all([import("firebase/app"), import("firebase/firestore")]);
  const { connectFirestoreEmulator, doc, FieldPath, getFirestore, onSnapshot } = firestore;
  const db = getFirestore(initializeApp({ projectId: config.project }), config.database);
  connectFirestoreEmulator(db, location.hostname, Number(location.port) || 80);
  // of an app's document, all but the totals is in one map
  const updatedAt = config.hosted ? "counter_rollup.updated_at" : "updated_at";
  return (id, next, failed) => {
    const counter = doc(db, documentOf(config.counters, id));
    const stops = [
      config.fields.length ? listen(id, (view) => view && details(view)) : () => {},
      onSnapshot(counter, { includeMetadataChanges: true }, (snapshot) => {
        const valueOf = (name) => {
          const value = snapshot.get(new FieldPath(name)); // null is the average of none
          return value === undefined ? 0 : value;
        };
        changed({
          exists: snapshot.exists(), title: snapshot.get("title"),
          totals: Object.fromEntries([...config.fields, ...config.counted].map((name) => [name, valueOf(name)])),
        });
        next({
          exists: snapshot.exists(), total: valueOf(config.first),
          updatedAt: snapshot.get(updatedAt)?.toMillis(), live: !snapshot.metadata.fromCache,
        });
      }, failed),
    ];
    return () => stops.forEach((stop) => stop());
  };
}

function fromGateway(details, changed) {
  return (id, next) => listen(id, (view) => {
    if (!view) return next(null);
    details(view);
    changed({ exists: view.exists, title: view.title, totals: view.totals ?? {} });
    next({ exists: view.exists, total: view.total, updatedAt: view.updated_at, live: true });
  });
}

const AGAIN = 1_000; // ms until the next attempt, where the browser makes none

/** Calls `seen` with each view of the gateway's, and with null where it can't be reached. Returns a function that ends it. */
function listen(id, seen) {
  let stream, timer, stopped = false;
  const open = () => {
    clearTimeout(timer);
    stream?.close();
    stream = undefined;
    // A browser has six connections to a place, for all of its tabs: hidden tabs do without.
    if (stopped || document.hidden) return;
    if (!navigator.onLine) return seen(null); // A stream that is open takes a while to notice.
    stream = new EventSource(`-/events?counter=${encodeURIComponent(id)}`);
    stream.onmessage = ({ data }) => seen(JSON.parse(data));
    stream.onerror = () => {
      seen(null);
      if (stream.readyState === EventSource.CLOSED) timer = setTimeout(open, AGAIN);
    };
  };
  const ended = new AbortController();
  document.addEventListener("visibilitychange", open, { signal: ended.signal });
  for (const event of ["online", "offline"]) addEventListener(event, open, { signal: ended.signal });
  open();
  return () => {
    stopped = true;
    ended.abort();
    open();
  };
}
