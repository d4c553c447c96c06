// Clients of the Firestore that FIRESTORE_EMULATOR_HOST names.
const [host, port] = process.env.FIRESTORE_EMULATOR_HOST.split(":");
const projectId = process.env.GOOGLE_CLOUD_PROJECT;
let apps = 0;

/** A client of the web SDK; with `node --import ./browser.mjs`, of the one that browsers load. The emulator's options say who it is. */
export async function connectWeb(settings = {}, emulator = {}) {
  const { initializeApp, deleteApp } = await import("firebase/app");
  const { initializeFirestore, connectFirestoreEmulator, setLogLevel } = await import("firebase/firestore");
  setLogLevel(process.env.SDK_LOG_LEVEL ?? "error");
  const app = initializeApp({ projectId, apiKey: "none-needed" }, `app-${apps++}`);
  const db = initializeFirestore(app, settings);
  connectFirestoreEmulator(db, host, Number(port), emulator);
  return { db, close: () => deleteApp(app) };
}

/** A client of the web SDK's smaller edition, which has no listeners and speaks REST alone. */
export async function connectLite() {
  const { initializeApp, deleteApp } = await import("firebase/app");
  const { connectFirestoreEmulator, getFirestore } = await import("firebase/firestore/lite");
  const app = initializeApp({ projectId, apiKey: "none-needed" }, `app-${apps++}`);
  const db = getFirestore(app);
  connectFirestoreEmulator(db, host, Number(port));
  return { db, close: () => deleteApp(app) };
}

/** A client of the server's library. */
export async function connectNode() {
  const { Firestore } = await import("@google-cloud/firestore");
  const db = new Firestore({ projectId });
  return { db, close: () => db.terminate() };
}
