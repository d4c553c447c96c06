// Runs the like button that README.md shows, without its page: node readme.mjs GATEWAY. It is pressed three
// times: liked, taken back, and liked again, which is one like.
import { readFile, rm, writeFile } from "node:fs/promises";

const readme = await readFile(new URL("../../../../README.md", import.meta.url), "utf8");
const shown = /```js\n([^]*?)```/.exec(readme)[1];
const code = shown.replace("http://localhost:8081", process.argv[2]).replace('"@firestore-counters/web"', JSON.stringify(new URL("../../../../web/counter.js", import.meta.url)));
if (!code.includes(process.argv[2])) throw new Error("README.md's button doesn't count on the local system");

const button = {};
globalThis.document = { addEventListener() {}, getElementById: (id) => (id === "like" ? button : null) };

const file = new URL(`node_modules/.readme-${process.pid}.mjs`, import.meta.url);
await writeFile(file, code);
await import(file);
await rm(file);
const says = async (text) => {
  while (button.textContent !== text) await new Promise((resolve) => setTimeout(resolve, 10));
};
await says("♡ 0");
for (const text of ["♥ 1", "♡ 0", "♥ 1"]) {
  if (!(await button.onclick())) throw new Error("nothing was counted");
  await says(text);
}
console.log(button.textContent);
process.exit();
