import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { build } from "esbuild";
import { openPage, startBrowser, startGateway } from "./system.mjs";

const html = (path) => ({ body: readFileSync(path), type: "text/html" });
const js = (path) => ({ body: readFileSync(path), type: "text/javascript" });
const modules = Object.fromEntries(["counter.js", "http.js", "queue.js", "sdk.js", "shown.js"].map((name) => [`/${name}`, js(name)]));

test("in Chromium, over a whole local system", async (t) => {
  const gateway = await startGateway(t);
  const browser = await startBrowser(t);
  const exact = async (counter) => (await (await fetch(`${gateway}/increment/${counter}?exact=true`)).json()).total;
  const unique = `${Date.now()}`;

  await t.test("offline, 20 clicks, reload, online: exactly 20", async () => {
    const counter = `offline-${unique}`;
    const example = readFileSync("examples/plain.html", "utf8").replace("post-123", counter);
    const { page, said } = await openPage(t, browser, gateway, { ...modules, "/examples/plain.html": { body: example, type: "text/html" } });
    await page.goto(`${gateway}/examples/plain.html`);
    await page.waitForFunction(() => document.getElementById("likes").textContent === "0");
    assert.deepEqual(said.splice(0).filter((line) => !line.includes("404")), []); // There is no such counter yet.

    await page.context().setOffline(true);
    for (let i = 0; i < 20; i++) await page.click("#like");
    await page.waitForFunction(() => document.getElementById("likes").textContent === "20");
    await page.reload();
    assert.equal(await page.evaluate(() => localStorage.length), 20);
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
      const { page } = await openPage(t, context, gateway, { ...modules, "/examples/like.html": { body: example, type: "text/html" } });
      await page.goto(`${gateway}/examples/like.html`);
      users.push({ context, page });
    }
    const shows = ({ page }, likes, liked) => page.waitForFunction(([likes, liked]) =>
      document.getElementById("likes").textContent === likes && document.getElementById("like").ariaPressed === liked, [likes, liked]);
    for (const user of users) await shows(user, "1", "false");
    // Chromium forgets that it is offline when a page is loaded, so requests are cut, too.
    const cut = (route) => route.abort("internetdisconnected");
    for (const user of users) {
      await user.context.route(/\/increment\//, cut);
      await user.context.setOffline(true);
      for (const liked of ["true", "false", "true"]) {
        await user.page.click("#like");
        await shows(user, liked === "true" ? "2" : "1", liked);
      }
      await user.page.reload(); // The page itself comes from here.
      assert.equal(await user.page.evaluate(() => localStorage.length), 2, "the member and the like");
    }
    assert.equal(await exact(counter), 1);
    for (const { context } of users) {
      await context.unroute(/\/increment\//, cut);
      await context.setOffline(false);
    }
    for (const user of users) await shows(user, "3", "true");
    for (const user of users) {
      await user.page.reload();
      await shows(user, "3", "true");
    }
    assert.equal(await exact(counter), 3);
    await users[0].page.click("#like");
    await shows(users[0], "2", "false");
    await shows(users[1], "2", "true");
    assert.equal(await exact(counter), 2);
    for (const { context } of users) await context.close();
  });

  await t.test("npm pack installs into an empty project, has types and works in a bundler, with React", async () => {
    const dir = mkdtempSync(join(tmpdir(), "project-"));
    t.after(() => rmSync(dir, { recursive: true }));
    const run = (program, args, cwd) => {
      try {
        return execFileSync(program, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
      } catch (error) {
        throw new Error(`${program} ${args.join(" ")}: ${error.stdout}${error.stderr}`);
      }
    };
    const [{ filename, files }] = JSON.parse(run("npm", ["pack", "--json", "--pack-destination", dir], "."));
    assert.deepEqual(files.map(({ path }) => path).sort(), ["README.md", "counter.d.ts", "counter.js", "http.d.ts", "http.js",
      "package.json", "queue.d.ts", "queue.js", "sdk.d.ts", "sdk.js", "shown.d.ts", "shown.js"]);
    const project = join(dir, "project");
    mkdirSync(project);
    writeFileSync(join(project, "package.json"), "{}");
    run("npm", ["install", "--offline", "--no-audit", "--no-fund", join(dir, filename)], project);

    writeFileSync(join(project, "use.ts"), `
      import { Counters, CounterError, fromFirestore, fromFunction, type Source } from "@firestore-counters/web";
      const source: Source = fromFunction("https://example.com");
      const counters = new Counters({ url: "https://example.com", source, headers: async () => ({ Authorization: "x" }) });
      const value: number | undefined = counters.counter("a").value;
      const counted: Promise<boolean> = counters.counter("a").incrementOnce("key");
      counted.catch((error) => { if (error instanceof CounterError) console.log(error.status, error.unknown, value); });
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

    const counter = `react-${unique}`;
    writeFileSync(join(project, "likes.jsx"), readFileSync("examples/react.jsx"));
    writeFileSync(join(project, "like.jsx"), readFileSync("examples/like.jsx"));
    writeFileSync(join(project, "main.jsx"), `
      import { createRoot } from "react-dom/client";
      import { Like } from "./like.jsx";
      import { Likes } from "./likes.jsx";
      createRoot(document.getElementById("root")).render(<><Likes post="${counter}" /><Like post="${counter}-liked" user="ada" /></>);`);
    await build({ entryPoints: [join(project, "main.jsx")], bundle: true, minify: true, format: "esm", jsx: "automatic",
      nodePaths: ["node_modules"], define: { "process.env.NODE_ENV": '"production"' }, outfile: join(project, "bundle.js"), logLevel: "error" });
    for (const id of [counter, `${counter}-liked`]) await fetch(`${gateway}/increment/${id}`, { method: "POST" });
    const body = `<!doctype html><html lang="en"><title>React</title><div id="root"></div><script type="module" src="/bundle.js"></script></html>`;
    const { page, said } = await openPage(t, browser, gateway, { "/react.html": { body, type: "text/html" }, "/bundle.js": js(join(project, "bundle.js")) });
    await page.goto(`${gateway}/react.html`);
    await page.waitForFunction(() => document.querySelector("button")?.textContent === "♥ 1");
    await page.click("button");
    await page.waitForFunction(() => document.querySelector("button").textContent === "♥ 2");
    await page.waitForFunction(() => localStorage.length === 0);
    assert.equal(await exact(counter), 2);
    const like = page.locator("[aria-pressed]");
    for (const [text, pressed, want] of [["♥ 1", "false"], ["♥ 2", "true", 2], ["♥ 1", "false", 1]]) {
      if (want !== undefined) await like.click();
      await page.waitForFunction(([text, pressed]) => {
        const like = document.querySelector("[aria-pressed]");
        return like?.textContent === text && like.ariaPressed === pressed && localStorage.length === 0;
      }, [text, pressed]);
      if (want !== undefined) assert.equal(await exact(`${counter}-liked`), want);
    }
    assert.deepEqual(said, []);
    await page.close();
  });
});
