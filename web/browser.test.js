import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer } from "node:http";
import test from "node:test";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { compile } from "svelte/compiler";
import { compileScript, parse } from "vue/compiler-sfc";
import { openPage, startBrowser, startGateway, startLine } from "./system.mjs";

const html = (path) => ({ body: readFileSync(path), type: "text/html" });
const js = (path) => ({ body: readFileSync(path), type: "text/javascript" });
const modules = Object.fromEntries(["auth.js", "counter.js", "entry.js", "holds.js", "http.js", "pauses.js", "queue.js", "record.js", "sdk.js", "shown.js", "sources.js", "turn.js"].map((name) => [`/${name}`, js(name)]));

test("in Chromium, over a whole local system", async (t) => {
  const gateway = await startGateway(t);
  const line = await startLine(t, gateway);
  const browser = await startBrowser(t);
  const exact = async (counter) => (await (await fetch(`${gateway}/increment/${counter}?exact=true`)).json()).total;
  const unique = `${Date.now()}`;

  await t.test("offline, 20 clicks, reload, online: exactly 20", async () => {
    const counter = `offline-${unique}`;
    const example = readFileSync("examples/plain.html", "utf8").replace("post-123", counter);
    const { page, said } = await openPage(t, browser, line.url, { ...modules, "/examples/plain.html": { body: example, type: "text/html" } });
    await page.goto(`${line.url}/examples/plain.html`);
    await page.waitForFunction(() => document.getElementById("likes").textContent === "0");
    assert.deepEqual(said.splice(0), [], "there is no such counter yet, which is no error");

    line.cut = true;
    await page.context().setOffline(true);
    for (let i = 0; i < 20; i++) await page.click("#like");
    await page.waitForFunction(() => document.getElementById("likes").textContent === "20");
    await page.reload(); // The page itself comes from here.
    assert.equal(await page.evaluate(() => localStorage.length), 20);
    line.cut = false;
    await page.context().setOffline(false);
    await page.waitForFunction(() => document.getElementById("likes").textContent === "20" && localStorage.length === 0);
    assert.equal(await exact(counter), 20);
    await page.close();
  });

  await t.test("two users, one page, offline click, reload: exactly one like each", async () => {
    const counter = `liked-${unique}`;
    const example = readFileSync("examples/like.html", "utf8").replace("post-123", counter);
    await fetch(`${gateway}/increment/${counter}/total/earlier`, { method: "PUT" });
    const users = [];
    for (let i = 0; i < 2; i++) {
      const context = await browser.newContext();
      const { page } = await openPage(t, context, line.url, { ...modules, "/examples/like.html": { body: example, type: "text/html" } });
      await page.goto(`${line.url}/examples/like.html`);
      users.push({ context, page });
    }
    const shows = ({ page }, likes, liked) => page.waitForFunction(([likes, liked]) =>
      document.getElementById("likes").textContent === likes && document.getElementById("like").ariaPressed === liked, [likes, liked]);
    const answered = ({ page }) => page.waitForFunction(() => !Object.values(localStorage).some((kept) => kept.includes('"end":0')));
    for (const user of users) await shows(user, "1", "false");
    line.cut = true;
    for (const user of users) {
      await user.context.setOffline(true);
      for (const liked of ["true", "false", "true"]) {
        await user.page.click("#like");
        await shows(user, liked === "true" ? "2" : "1", liked);
      }
      await user.page.reload();
      assert.equal(await user.page.evaluate(() => localStorage.length), 2, "the member and the like");
    }
    assert.equal(await exact(counter), 1);
    line.cut = false;
    for (const { context } of users) await context.setOffline(false);
    for (const user of users) {
      await shows(user, "3", "true");
      await answered(user);
    }
    assert.equal(await exact(counter), 3);
    for (const user of users) {
      await user.page.reload();
      await shows(user, "3", "true");
    }
    await users[0].page.click("#like");
    await shows(users[0], "2", "false");
    await shows(users[1], "2", "true");
    assert.equal(await exact(counter), 2);
    for (const { context } of users) await context.close();
  });

  await t.test("what is settled offline is settled once the page is back: exactly what was used stays", async () => {
    const counter = `credits-${unique}`;
    const body = `<script type="module">
      import { Holds } from "/holds.js";
      globalThis.hold = new Holds({ url: "/increment" }).hold("${counter}", "total", "job-1");
    </script>`;
    const { page } = await openPage(t, browser, line.url, { ...modules, "/examples/hold.html": { body, type: "text/html" } });
    await page.goto(`${line.url}/examples/hold.html`);
    await page.waitForFunction(() => globalThis.hold);
    const held = await page.evaluate(() => globalThis.hold.reserve(40, "10m"));
    assert.deepEqual([held.state, held.held], ["held", 40]);
    assert.equal(await exact(counter), 40);
    line.cut = true;
    await page.context().setOffline(true);
    await page.evaluate(() => void globalThis.hold.settle(31).catch(() => {}));
    await page.waitForFunction(() => localStorage.length === 1);
    await page.reload();
    line.cut = false;
    await page.context().setOffline(false);
    await page.waitForFunction(() => globalThis.hold && localStorage.length === 0);
    const { state, by, returned } = await page.evaluate(() => globalThis.hold.look());
    assert.deepEqual([state, by, returned], ["settled", 31, 9]);
    assert.equal(await page.evaluate(() => globalThis.hold.giveBack().catch(({ reason, by }) => `${reason} ${by}`)), "settled 31");
    assert.equal(await exact(counter), 31);
    await page.close();
  });

  await t.test("npm pack installs into an empty project, has types and works in a bundler, with React, Vue and Svelte", async () => {
    const dir = mkdtempSync(join(tmpdir(), "project-"));
    t.after(() => rmSync(dir, { recursive: true }));
    const run = (program, args, cwd) => {
      try {
        return execFileSync(program, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
      } catch (error) {
        throw new Error(`${program} ${args.join(" ")}: ${error.stdout}${error.stderr}`);
      }
    };
    // with the types, which it makes
    const [{ filename, files }] = JSON.parse(run("npm", ["pack", "--json", "--foreground-scripts=false", "--pack-destination", dir], "."));
    const modules = ["auth", "counter", "entry", "holds", "http", "pauses", "queue", "react", "record", "sdk", "shown", "sources", "turn"];
    assert.deepEqual(files.map(({ path }) => path).sort(), ["LICENSE", "README.md", "package.json", ...modules.map((name) => `${name}.js`), ...modules.map((name) => `types/${name}.d.ts`)].sort());
    const project = join(dir, "project");
    mkdirSync(project);
    writeFileSync(join(project, "package.json"), "{}");
    run("npm", ["install", "--offline", "--no-audit", "--no-fund", join(dir, filename)], project);

    writeFileSync(join(project, "use.ts"), `
      import { Counters, CounterError, fromFirestore, fromFunction, type Source } from "@firestore-counters/web";
      const source: Source = fromFunction("https://example.com");
      const counters = new Counters({ url: "https://example.com", source, headers: async () => ({ Authorization: "x" }) });
      const value: number | null | undefined = counters.counter("a").value;
      const counted: Promise<boolean> = counters.counter("a").incrementOnce("key");
      counted.catch((error) => { if (error instanceof CounterError) console.log(error.status, error.reason, error.left, error.waited, error.unknown, value); });
      counters.counter("a").subscribe(({ limit, left }: { limit: number | undefined, left: number | undefined }) => console.log(limit, left));
      import { doc, getFirestore, increment, onSnapshot, runTransaction, serverTimestamp, Timestamp } from "firebase/firestore";
      import { overFirestore } from "@firestore-counters/web/sdk";
      const db = getFirestore();
      const transport = overFirestore(db, { doc, increment, onSnapshot, runTransaction, serverTimestamp, Timestamp }, { counters: "posts/{post}" });
      const likes = new Counters({ source: fromFirestore(db, { doc, onSnapshot }), transport, member: "ada" }).counter("a", "likes");
      const liked: boolean | undefined = likes.joined();
      const done: Promise<boolean> = liked ? likes.leave() : likes.join("grace");
      done.catch(() => {});
      // @ts-expect-error: a counter is added to by numbers
      counters.counter("a").add("1");`);
    symlinkSync(join(process.cwd(), "node_modules/firebase"), join(project, "node_modules/firebase"));
    writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions: {
      strict: true, noEmit: true, module: "esnext", moduleResolution: "bundler", target: "es2022", lib: ["es2023", "dom"], types: [], skipLibCheck: true }, files: ["use.ts"] }));
    run(join(process.cwd(), "node_modules/.bin/tsc"), ["-p", project], ".");

    // What a page gets of it.
    writeFileSync(join(project, "size.js"), `import { Counters } from "@firestore-counters/web"; globalThis.Counters = Counters;`);
    const { outputFiles: [{ contents }] } = await build({ entryPoints: [join(project, "size.js")], bundle: true, minify: true, format: "esm", target: "es2022", write: false });
    const size = gzipSync(contents).length;
    t.diagnostic(`${contents.length} bytes, ${size} in gzip`);
    assert.ok(size < 9_500, `${size} bytes in gzip`);
    assert.deepEqual(JSON.parse(readFileSync("package.json", "utf8")).dependencies, undefined);

    // Firebase Authentication that takes a second to find out that somebody has signed in.
    const slow = (uid) => `
      import { signedIn } from "@firestore-counters/web";
      const auth = { currentUser: null, authStateReady: () => known, onAuthStateChanged: (changed) => (known.then(changed), () => {}) };
      const known = new Promise((done) => setTimeout(() => done(auth.currentUser = { uid: "${uid}", getIdToken: async () => "token" }), 1_000));`;
    await renders("react", `${slow("react")}
      import { Counters } from "@firestore-counters/web";
      import { CountersProvider } from "@firestore-counters/web/react";
      import { Like } from "./like.jsx";
      import { Likes } from "./react.jsx";
      const counters = new Counters({ url: "/increment", ...signedIn(auth) });
      export const App = ({ post }) => <CountersProvider value={counters}><Likes post={post} /><Like post={post + "-liked"} /></CountersProvider>;`,
    `import { hydrateRoot } from "react-dom/client"; import { App } from "./app.jsx"; hydrateRoot(root, <App post={post} />);`,
    `import { renderToString } from "react-dom/server"; import { App } from "./app.jsx"; export const html = renderToString(<App post="p" />);`, project);
    await renders("vue", `${slow("vue")}
      import { Counters } from "@firestore-counters/web";
      import { createSSRApp, h } from "vue";
      import Like from "./Like.vue";
      const counters = new Counters({ url: "/increment", ...signedIn(auth) });
      export const app = (post) => createSSRApp(() => h(Like, { counter: counters.counter(post + "-liked") }));`,
    `import { app } from "./app.jsx"; app(post).mount(root);`,
    `import { renderToString } from "vue/server-renderer"; import { app } from "./app.jsx"; export const html = renderToString(app("p"));`, project);
    await renders("svelte", `
      import { Counters } from "@firestore-counters/web";
      export { default as Like } from "./Like.svelte";
      const counters = new Counters({ url: "/increment", member: "svelte" });
      export const counter = (post) => counters.counter(post + "-liked");`,
    `import { hydrate } from "svelte"; import { counter, Like } from "./app.jsx"; hydrate(Like, { target: root, props: { counter: counter(post) } });`,
    `import { render } from "svelte/server"; import { counter, Like } from "./app.jsx"; export const html = render(Like, { props: { counter: counter("p") } }).body;`, project);
  });

  /** Renders an app on a server, brings it to life in a page, and likes there. */
  async function renders(framework, app, client, server, project) {
    const counter = `${framework}-${unique}`;
    // The local system counts no field but one.
    for (const example of readdirSync("examples")) writeFileSync(join(project, example), readFileSync(join("examples", example), "utf8").replace('(post, "likes")', "(post)"));
    for (const [name, source] of Object.entries({ app, client: `const root = document.getElementById("root"), post = "${counter}";${client}`, server })) {
      writeFileSync(join(project, `${name}.jsx`), source);
    }
    const bundle = (entry, platform) => build({
      entryPoints: [join(project, entry)], bundle: true, format: "esm", jsx: "automatic", platform, nodePaths: ["node_modules"], logLevel: "error",
      define: { "process.env.NODE_ENV": '"production"', __VUE_OPTIONS_API__: "true", __VUE_PROD_DEVTOOLS__: "false", __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: "true" },
      conditions: platform === "node" ? ["node"] : ["browser"], outfile: join(project, `${platform}.mjs`), target: "es2022",
      banner: platform === "node" ? { js: `import { createRequire } from "node:module"; const require = createRequire(import.meta.url);` } : {},
      plugins: [{ name: "components", setup: (build) => {
        build.onLoad({ filter: /\.svelte$/ }, ({ path }) => ({
          contents: compile(readFileSync(path, "utf8"), { generate: platform === "node" ? "server" : "client", filename: path }).js.code, loader: "js",
        }));
        build.onLoad({ filter: /\.vue$/ }, ({ path }) => ({
          contents: compileScript(parse(readFileSync(path, "utf8"), { filename: path }).descriptor, {
            id: "like", inlineTemplate: true, templateOptions: { ssr: platform === "node", ssrCssVars: [] },
          }).content, loader: "js",
        }));
      } }],
    });
    await bundle("server.jsx", "node");
    const html = await (await import(`${join(project, "node.mjs")}?${framework}`)).html;
    assert.match(html.replaceAll(/<!--.*?-->/g, ""), /<button aria-pressed="false">♥ …<\/button>/, "what a server renders");
    await bundle("client.jsx", "browser");
    for (const id of [counter, `${counter}-liked`]) await fetch(`${gateway}/increment/${id}`, { method: "POST" });
    const body = `<!doctype html><html lang="en"><meta charset="utf-8"><title>${framework}</title><div id="root">${html}</div><script type="module" src="/bundle.js"></script></html>`;
    const { page, said } = await openPage(t, browser, gateway, { "/app.html": { body, type: "text/html" }, "/bundle.js": js(join(project, "browser.mjs")) });
    await page.goto(`${gateway}/app.html`);
    if (framework === "react") {
      const add = page.locator("button:not([aria-pressed])");
      await page.waitForFunction(() => document.querySelector("button").textContent === "♥ 1");
      await add.click();
      await page.waitForFunction(() => document.querySelector("button").textContent === "♥ 2" && localStorage.length === 0);
      assert.equal(await exact(counter), 2);
    }
    const like = page.locator("[aria-pressed]");
    // Of a user who isn't known yet, a click shows at once, and stays.
    await like.click();
    await page.waitForFunction(() => document.querySelector("[aria-pressed]").ariaPressed === "true");
    for (const [i, [text, pressed, want]] of [["♥ 2", "true", 2], ["♥ 1", "false", 1], ["♥ 2", "true", 2]].entries()) {
      if (i > 0) await like.click();
      await page.waitForFunction(([text, pressed]) => {
        const like = document.querySelector("[aria-pressed]");
        return like?.textContent === text && like.ariaPressed === pressed && localStorage.length === 0;
      }, [text, pressed]);
      assert.equal(await exact(`${counter}-liked`), want);
    }
    assert.deepEqual(said, [], framework);
    await page.close();
  }

  await t.test("a tab that has the turn and is silent loses it, and two Counters of a page send each their own", async () => {
    const counter = `silent-${unique}`;
    const context = await browser.newContext();
    const [silent, page] = await Promise.all([0, 1].map(async () => (await openPage(t, context, gateway, { ...modules, "/empty.html": { body: "<!doctype html>", type: "text/html" } })).page));
    for (const tab of [silent, page]) await tab.goto(`${gateway}/empty.html`);
    await silent.evaluate((url) => new Promise((held) => {
      navigator.locks.request(`counters-sender ${JSON.stringify([url, "me"])}`, () => new Promise(held)).catch(() => {});
    }), `${gateway}/increment`);
    await page.evaluate(async (counter) => {
      const { Counters } = await import("/counter.js");
      const [one, two] = [0, 1].map(() => new Counters({ url: "/increment" }).counter(counter));
      await Promise.all([one.add(1), two.add(2)]);
      await two.add(4);
    }, counter);
    assert.equal(await exact(counter), 7);
    await context.close();
  });

  await t.test("10: a function that doesn't name the page's origin is said to be that, and one that isn't there, too", async () => {
    // without a word about origins
    const server = createServer((request, response) => response.end("{}"));
    await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
    t.after(() => new Promise((closed) => { server.close(closed); server.closeAllConnections(); }));
    const { page } = await openPage(t, browser, gateway, modules);
    // From a server: Chromium lets no other page call this machine.
    await page.goto(`${gateway}/?counter=cors`);
    const trouble = (url) => page.evaluate(async (url) => {
      const { Counters } = await import("/counter.js");
      const counters = new Counters({ url, storage: null });
      counters.counter("a").add(1);
      counters.counter("a").subscribe(() => {});
      while (!counters.trouble || counters.counter("a").live) await new Promise((later) => setTimeout(later, 20));
      await new Promise((later) => setTimeout(later, 200)); // The one that is watched, too.
      const said = [counters.trouble, counters.counter("a").error?.message];
      counters.close();
      return said;
    }, url);
    const refused = await trouble(`http://127.0.0.1:${server.address().port}`);
    assert.deepEqual(refused, Array(2).fill(`The server's ALLOWED_ORIGINS doesn't name ${gateway}.`));
    assert.deepEqual(await trouble("http://127.0.0.1:1"), ["The server can't be reached.", undefined]);
    await page.close();
  });

  await t.test("3: two tabs of Chromium, clicked in turns, one of them reloaded and closed: each click counts once", async () => {
    const counter = `tabs-${unique}`;
    const context = await browser.newContext();
    const example = readFileSync("examples/plain.html", "utf8").replace("post-123", counter);
    const tabs = [];
    for (let i = 0; i < 2; i++) {
      const { page } = await openPage(t, context, gateway, { ...modules, "/examples/plain.html": { body: example, type: "text/html" } });
      await page.goto(`${gateway}/examples/plain.html`);
      tabs.push(page);
    }
    for (let i = 0; i < 20; i++) {
      await tabs[i % 2].click("#like");
      if (i === 9) await tabs[0].reload();
    }
    await tabs[0].close();
    await tabs[1].waitForFunction(() => document.getElementById("likes").textContent === "20" && localStorage.length === 0);
    assert.equal(await exact(counter), 20);
    await context.close();
  });
});
