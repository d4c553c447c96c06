// What README.md and docs/likes.md show is TypeScript, too: strict, with the annotations that likes.md names.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";

const likes = readFileSync("../docs/likes.md", "utf8"), readme = readFileSync("README.md", "utf8");

/** The blocks of a page, by their files or numbers. Of HTML it is the module. */
const blocksOf = (page) => [...page.matchAll(/^```(jsx?|tsx?|html)(?: (\S+))?\n(.*?)^```$/gms)].flatMap(([, kind, file, text], i) => {
  const code = kind === "html" ? /<script type="module">\n(.*?)<\/script>/s.exec(text)?.[1] : text;
  return code ? [{ name: file?.replace(/\.js$/, "") ?? `block${i}`, jsx: kind.endsWith("x"), code }] : [];
});

/** What a block takes from the page around it: the first words that tell the block, and declarations. */
const around = [
  ["const state = shallowRef", `import { shallowRef, watchEffect } from "vue"; import type { Counter } from "@firestore-counters/web"; declare const likes: Counter;`],
  ["tickets.subscribe", `import type { Counter } from "@firestore-counters/web"; declare const tickets: Counter, buy: HTMLButtonElement, says: HTMLElement;`],
  [`import { Holds }`, `declare const job: { id: string, run: () => Promise<number> };`],
  [`import { doc, getFirestore`, `import type { FirebaseApp } from "firebase/app"; declare const app: FirebaseApp, url: string, user: { uid: string };`],
];

/** Compiles files as Vite's templates do, and returns what the compiler says. */
function compile(t, files) {
  const dir = mkdtempSync(join(tmpdir(), "types-"));
  t.after(() => rmSync(dir, { recursive: true }));
  mkdirSync(join(dir, "node_modules/@firestore-counters"), { recursive: true });
  for (const name of ["@types", "firebase", "react", "vue"]) symlinkSync(join(process.cwd(), "node_modules", name), join(dir, "node_modules", name));
  symlinkSync(process.cwd(), join(dir, "node_modules/@firestore-counters/web"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text);
  writeFileSync(join(dir, "tsconfig.json"), JSON.stringify({ files: Object.keys(files), compilerOptions: {
    strict: true, noEmit: true, target: "es2023", lib: ["es2023", "dom", "dom.iterable"], module: "esnext", moduleResolution: "bundler",
    types: [], verbatimModuleSyntax: true, moduleDetection: "force", jsx: "react-jsx", skipLibCheck: true } }));
  return spawnSync(join(process.cwd(), "node_modules/.bin/tsc"), ["-p", dir], { encoding: "utf8" }).stdout;
}

test("blocks of the pages compile, strict", (t) => {
  // Such as `(act)` as `(act: () => unknown)`.
  const annotations = [...likes.matchAll(/^\| `([^`]+)` \| `([^`]+)` \|$/gm)].map(([, js, ts]) => [js, ts]);
  assert.equal(annotations.length, 3, "likes.md says what TypeScript wants");
  const files = {};
  for (const [page, text] of [["likes", likes], ["readme", readme]]) {
    const blocks = blocksOf(text);
    assert.ok(blocks.length > 3, `${blocks.length} blocks in ${page}`);
    for (const { name, jsx, code } of blocks) {
      const named = name === "counters" || name === "app" ? name : `${page}-${name}`;
      const needs = page === "readme" ? around.find(([words]) => code.startsWith(words))?.[1] ?? "" : "";
      files[`${named}.${jsx ? "tsx" : "ts"}`] = `${needs}\n${annotations.reduce((text, [js, ts]) => text.replaceAll(js, ts), code.replaceAll(/getElementById\("\w+"\)/g, "$&!"))}`;
    }
  }
  // Lines that take the place of one of counters.js are compiled in that place.
  const [other] = Object.keys(files).filter((name) => files[name].includes("connectFirestoreEmulator"));
  files["live.ts"] = files["counters.ts"].replace(/^.*new Counters.*$/m, files[other]);
  delete files[other];
  assert.equal(compile(t, files), "");
});

test("types tell what is wrong before a page runs", (t) => {
  assert.equal(compile(t, { "wrong.ts": `
    import { type CounterError, Counters, fromFirestore, type State } from "@firestore-counters/web";
    import { Holds, type Hold } from "@firestore-counters/web/holds";
    export const says = ({ error }: State) => error?.reason === "limit-reached" && (error.waited ?? 0) > 10_000 ? error.left : error?.message;
    export const stands = (error: CounterError) => error.reason === "settled" && error.by;
    export const over = async (hold: Hold) => (await hold.look()).state === "ended" && ((await hold.settle(1)).until ?? 0) < Date.now();
    // @ts-expect-error: for how long?
    export const reserve = (hold: Hold) => hold.reserve(1);
    // @ts-expect-error: whose?
    new Holds({});
    // @ts-expect-error: requests would go to the page's own site
    new Counters({});
    // @ts-expect-error: no more than totals comes from there
    new Counters({ source: fromFirestore({}, { doc: () => 0, onSnapshot: () => () => {} }) });
    // @ts-expect-error: a variable that may not be set
    new Counters({ url: undefined as string | undefined });` }), "");
});
