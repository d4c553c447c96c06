// Where the page gets its data from: a Source for counter.js, which also hands over what a frontend
// need not know, the shards and the ledger.
import { documentOf } from "./counter.js";

/**
 * The feed to use: Firestore through the Firebase SDK where that is available, else the gateway
 * that serves this page. `details` is called with (counts, ledger): shard id → count, and shard id
 * → {count, asOf: ms}, which is undefined until it is known. `changed` is called with what the
 * counter's document has: {exists, title, totals: field → total}.
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
  const { collection, connectFirestoreEmulator, doc, FieldPath, getFirestore, onSnapshot } = firestore;
  const db = getFirestore(initializeApp({ projectId: config.project }), config.database);
  connectFirestoreEmulator(db, location.hostname, Number(location.port) || 80);
  // of an app's document, all but the totals is in one map
  const updatedAt = config.hosted ? "counter_rollup.updated_at" : "updated_at";
  return (id, next, failed) => {
    const counter = doc(db, documentOf(config.counters, id));
    let counts = new Map();
    let ledger;
    const stops = [
      ...(config.fields.length ? [onSnapshot(collection(counter, config.shards), (shards) => {
        counts = new Map(shards.docs.map((shard) => [shard.id, shard.get(config.countField) ?? 0]));
        details(counts, ledger);
      }, failed),
      onSnapshot(doc(counter, "counter_rollup", "ledger"), (snapshot) => {
        ledger = new Map(Object.entries(snapshot.get("states") ?? {}).map(
          ([id, { counts, as_of }]) => [id, { count: counts?.[config.countField] ?? 0, asOf: as_of.toMillis() }]));
        details(counts, ledger);
      }, failed)] : []),
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

const AGAIN = 1_000; // ms until the next attempt, where the browser makes none

function fromGateway(details, changed) {
  return (id, next) => {
    let stream, timer, stopped = false;
    const open = () => {
      clearTimeout(timer);
      stream?.close();
      stream = undefined;
      // A browser has six connections to a place, for all of its tabs: hidden tabs do without.
      if (stopped || document.hidden) return;
      if (!navigator.onLine) return next(null); // A stream that is open takes a while to notice.
      stream = new EventSource(`-/events?counter=${encodeURIComponent(id)}`);
      stream.onmessage = ({ data }) => {
        const view = JSON.parse(data);
        details(new Map(Object.entries(view.shards)), new Map(Object.entries(view.ledger).map(
          ([id, { count, as_of }]) => [id, { count, asOf: as_of }])));
        changed({ exists: view.exists, title: view.title, totals: view.totals ?? {} });
        next({ exists: view.exists, total: view.total, updatedAt: view.updated_at, live: true });
      };
      stream.onerror = () => {
        next(null);
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
  };
}
