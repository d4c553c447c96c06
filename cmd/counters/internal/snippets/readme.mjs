// Runs the like button that README.md shows, without its page: node readme.mjs GATEWAY. It presses it
// until it says that there are two likes.
import { readFile, rm, writeFile } from "node:fs/promises";
import { deleteApp, initializeApp } from "firebase/app";
import { connectFirestoreEmulator, getFirestore } from "firebase/firestore";

const readme = await readFile(new URL("../../../../README.md", import.meta.url), "utf8");
const shown = /```js\n([^]*?)```/.exec(readme)[1];
const code = shown.replace('"https://…/', `"${process.argv[2]}/increment/`);
if (code === shown) throw new Error("README.md shows no URL of a function");

const [host, port] = process.env.FIRESTORE_EMULATOR_HOST.split(":");
const app = initializeApp({ projectId: process.env.GOOGLE_CLOUD_PROJECT, apiKey: "none-needed" });
connectFirestoreEmulator(getFirestore(), host, Number(port));
const button = {};
globalThis.document = { getElementById: (id) => (id === "like" ? button : null) };

const file = new URL(`node_modules/.readme-${process.pid}.mjs`, import.meta.url); // where it finds firebase
await writeFile(file, code);
await import(file);
await rm(file);
for (const likes of [1, 2]) {
  const answer = await button.onclick();
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  while (button.textContent !== `♥ ${likes}`) await new Promise((resolve) => setTimeout(resolve, 10));
}
console.log(button.textContent);
await deleteApp(app);
process.exit();
