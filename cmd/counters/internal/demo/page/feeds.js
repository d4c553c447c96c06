// Where the page gets its data from: a Source for counter.js, which also hands over what a frontend need not know, the
// shards and the ledger.
import { documentOf, fromFirestore } from "./counter.js";

/**
 * The feed to use: Firestore through the Firebase SDK where that is to be had, else the gateway that serves this page.
 * `details` is called with (counts, ledger): shard id → count, and shard id → {count, asOf: ms}.
 */
export async function chooseFeed(config, details) {
  // Where the page comes over HTTPS, something in between has added that, and the SDK can't speak to an emulator there.
  if (location.protocol === "http:" && (await fetch("-/sdk").then((answer) => answer.json())).available) {
    return { name: "Firestore, through the Firebase SDK", source: await fromSDK(config, details) };
  }
  return { name: "the gateway: the Firebase SDK can't be loaded here", source: fromGateway(details) };
}

async function fromSDK(config, details) {
  const [{ initializeApp }, firestore] = await Promise.all([import("firebase/app"), import("firebase/firestore")]);
  const { collection, connectFirestoreEmulator, doc, getFirestore, onSnapshot } = firestore;
  const db = getFirestore(initializeApp({ projectId: config.project }), config.database);
  connectFirestoreEmulator(db, location.hostname, Number(location.port) || 80);
  const total = fromFirestore(db, { doc, onSnapshot }, config.counters);
  return (id, next, failed) => {
    const counter = doc(db, documentOf(config.counters, id));
    let counts = new Map();
    let ledger = new Map();
    const stops = [
      onSnapshot(collection(counter, config.shards), (shards) => {
        counts = new Map(shards.docs.map((shard) => [shard.id, shard.get(config.countField) ?? 0]));
        details(counts, ledger);
      }, failed),
      onSnapshot(doc(counter, "counter_rollup", "ledger"), (snapshot) => {
        ledger = new Map(Object.entries(snapshot.get("shards") ?? {}).map(
          ([id, { count, as_of }]) => [id, { count, asOf: as_of.toMillis() }]));
        details(counts, ledger);
      }, failed),
      total(id, next, failed),
    ];
    return () => stops.forEach((stop) => stop());
  };
}

const AGAIN = 1_000; // ms until the next attempt, where the browser makes none

function fromGateway(details) {
  return (id, next) => {
    let stream, timer, stopped = false;
    const open = () => {
      clearTimeout(timer);
      stream?.close();
      stream = undefined;
      // A browser has six connections to a place, for all of its tabs: those that nobody sees do without.
      if (stopped || document.hidden) return;
      stream = new EventSource(`-/events?counter=${encodeURIComponent(id)}`);
      stream.onmessage = ({ data }) => {
        const view = JSON.parse(data);
        details(new Map(Object.entries(view.shards)), new Map(Object.entries(view.ledger).map(
          ([id, { count, as_of }]) => [id, { count, asOf: as_of }])));
        next({ exists: view.exists, total: view.total, updatedAt: view.updated_at, live: true });
      };
      stream.onerror = () => {
        next(null);
        if (stream.readyState === EventSource.CLOSED) timer = setTimeout(open, AGAIN);
      };
    };
    document.addEventListener("visibilitychange", open);
    open();
    return () => {
      stopped = true;
      document.removeEventListener("visibilitychange", open);
      open();
    };
  };
}
