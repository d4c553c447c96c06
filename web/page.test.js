// docs/likes.md, typed from top to bottom: its commands, its files, and its clicks in a browser.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { startBrowser } from "./system.mjs";

const page = readFileSync("../docs/likes.md", "utf8");
const own = JSON.parse(readFileSync("package.json", "utf8"));

/** The page's parts: blocks of code, and what is to be done in the browser, in their order. */
const parts = [...page.matchAll(/^```(\w+)(?: (\S+))?\n(.*?)^```$|^<!-- in the browser: ([^\n]*) -->$/gms)]
  .map(([, kind, file, text, browser]) => ({ kind, file, text, browser }));

/** A port that is free. */
const free = () => new Promise((found) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => found(port));
  });
});

test("docs/likes.md, typed from top to bottom", async (t) => {
  const dir = mkdtempSync(join(tmpdir(), "likes-"));
  const app = join(dir, "app"), counters = join(dir, "counters");
  mkdirSync(app);
  execFileSync("go", ["build", "-o", counters, "./cmd/counters"], { cwd: "..", stdio: "inherit" });
  t.after(() => rmSync(dir, { recursive: true }));
  // What a page says runs beside other tests: every port is a free one.
  const ports = new Map(await Promise.all(["8000", "8080", "8081", "9099"].map(async (port) => [port, String(await free())])));
  const moved = (text) => text.replaceAll(/\b(8000|8080|8081|9099)\b/g, (port) => ports.get(port));
  const env = { ...process.env };
  for (const name of ["AUTH", "FIELDS", "FIREBASE_AUTH_EMULATOR_HOST", "FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT"]) delete env[name];
  const run = (program, args, cwd = app) => execFileSync(program, args, { cwd, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

  /** Starts what goes on until Ctrl-C, and waits until it says that it is ready. */
  const start = async (command, ready) => {
    const child = spawn("bash", ["-c", `exec ${command}`], { cwd: app, env, stdio: "pipe", detached: true });
    const ended = new Promise((resolve) => child.on("exit", resolve));
    t.after(() => {
      if (child.exitCode === null) process.kill(-child.pid, "SIGINT"); // and what it has started
      child.stdin.end();
      return ended;
    });
    let said = "";
    await new Promise((resolve, reject) => {
      for (const stream of [child.stdout, child.stderr]) {
        stream.on("data", (data) => {
          said += data;
          if (ready.test(said)) resolve();
        });
      }
      child.on("exit", (code) => reject(new Error(`${command} ended (${code}):\n${said}`)));
    });
    return () => said;
  };

  /** Types a command, and returns what it prints. */
  const type = async (command) => {
    const [program, ...words] = command.split(" ");
    switch (program) {
      case "npm": { // What is installed is what the tests have, and of this package what would be published.
        assert.equal(words.shift(), "install");
        const [{ filename }] = JSON.parse(execFileSync("npm", ["pack", "--json", "--foreground-scripts=false", "--pack-destination", dir], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }));
        writeFileSync(join(app, "package.json"), "{}");
        run("npm", ["install", "--offline", "--no-audit", "--no-fund", join(dir, filename)]);
        mkdirSync(join(app, "node_modules/.bin"), { recursive: true });
        for (const name of words.filter((name) => name !== own.name)) {
          assert.ok(own.devDependencies[name], `${name} is not among what the tests have`);
          symlinkSync(join(process.cwd(), "node_modules", name), join(app, "node_modules", name));
          const tool = join(process.cwd(), "node_modules/.bin", name);
          if (existsSync(tool)) symlinkSync(tool, join(app, "node_modules/.bin", name));
        }
        return "";
      }
      case "firebase": // Firebase's own emulator, or where it isn't installed what it says, as ours remembers it.
        if (spawnSync("firebase", ["--version"]).error) {
          return void await start(`${process.execPath} ${join(process.cwd(), "auth-emulator.mjs")} ${ports.get("9099")} ${words.at(-1)}`, /ready/);
        }
        return void await start(command, /All emulators ready/);
      case "npx":
        if (words[0] !== "@firestore-counters/cli") return void await start(moved(command), /Local:/);
        words[0] = counters; // this tree's
        if (words[1] === "dev") return void await start(`${words.join(" ")} --port ${ports.get("8081")} --firestore-port ${ports.get("8080")}`, /^ready$/m);
        return void run(counters, [...words.slice(1), "--dry-run"]); // Nothing is deployed from here.
      default:
        return run("bash", ["-c", moved(command)]);
    }
  };

  const browser = await startBrowser(t);
  const context = await browser.newContext();
  const tab = await context.newPage();
  const said = [], asked = [];
  tab.on("console", (message) => said.push(`${message.type()}: ${message.text()} ${message.location().url}`));
  tab.on("pageerror", (error) => said.push(String(error)));
  tab.on("request", (request) => asked.push(`${request.method()} ${request.url()}`));
  const url = () => `http://127.0.0.1:${ports.get("8000")}/`; // the first that esbuild says
  const shows = (likes, liked, error = "") => tab.waitForFunction(([likes, liked, error]) =>
    document.getElementById("likes").textContent === likes && document.getElementById("like").ariaPressed === liked && document.getElementById("error").textContent === error,
  [likes, liked, error]);

  const inTheBrowser = {
    "a click": async () => {
      await tab.goto(url());
      await shows("0", "false");
      await tab.click("#like");
      await shows("1", "true");
      await tab.reload();
      await shows("1", "true");
      await tab.click("#like");
      await shows("0", "false");
      await tab.click("#like");
      await shows("1", "true");
      await tab.waitForFunction(() => !Object.values(localStorage).some((kept) => kept.includes('"end":0')));
      assert.deepEqual(said, [], "a page that works says nothing in the console");
      // Two taps of a user whom the page needs a while to find, and nine of one it must sign in first.
      const slow = async (route) => {
        await new Promise((later) => setTimeout(later, 1_500));
        await route.continue();
      };
      await tab.route(/accounts:lookup/, slow);
      await tab.reload();
      for (let i = 0; i < 2; i++) await tab.click("#like");
      await shows("0", "false");
      await tab.click("#like");
      await shows("1", "true");
      const signUps = [];
      const newcomer = await (await browser.newContext()).newPage();
      await newcomer.route(/accounts:signUp/, slow);
      newcomer.on("request", (request) => request.url().includes("accounts:signUp") && request.method() === "POST" && signUps.push(request.url()));
      await newcomer.goto(url());
      await newcomer.waitForFunction(() => document.getElementById("likes").textContent === "1");
      for (const [taps, likes, liked] of [[9, "2", "true"], [1, "1", "false"]]) {
        for (let i = 0; i < taps; i++) await newcomer.click("#like");
        await newcomer.waitForFunction(([likes, liked]) => document.getElementById("like").ariaPressed === liked && document.getElementById("likes").textContent === likes &&
          !Object.values(localStorage).some((kept) => kept.includes('"end":0')), [likes, liked]);
      }
      assert.equal(signUps.length, 1, "users were made for nine taps");
      await newcomer.context().close();
      await tab.unroute(/accounts:lookup/);
      assert.deepEqual(asked.filter((request) => request.startsWith(`GET ${url()}`) && request.includes("counter=")), [], "the page's own site was asked");
    },
    "as it changes": async () => {
      // The lines before it take the place of one of counters.js.
      const { text } = parts[parts.findIndex(({ browser }) => browser === "as it changes") - 1];
      const lines = readFileSync(join(app, "counters.js"), "utf8").split("\n");
      lines.splice(lines.findIndex((line) => line.includes("new Counters")), 1, moved(text));
      writeFileSync(join(app, "counters.js"), lines.join("\n"));
      // What esbuild has built a moment ago it serves once more.
      const served = async () => (await (await fetch(`${url()}bundle/app.js`)).text()).includes("connectFirestoreEmulator(db");
      for (let tries = 0; !(await served()); tries++) {
        assert.ok(tries < 100, "the lines are not in what is served");
        await new Promise((later) => setTimeout(later, 100));
      }
      await tab.reload();
      await shows("1", "true");
      asked.length = 0;
      // Another user likes it, elsewhere.
      const other = await (await browser.newContext()).newPage();
      await other.goto(url());
      await other.waitForFunction(() => document.getElementById("likes").textContent === "1");
      await other.click("#like");
      await shows("2", "true");
      await other.context().close();
      assert.deepEqual(asked.filter((request) => request.includes("counter=")), [], "the function was asked for the total");
      assert.deepEqual(said, []);
    },
  };

  for (const { kind, file, text, browser: step } of parts) {
    if (step) {
      await inTheBrowser[step]();
      delete inTheBrowser[step];
    } else if (file) writeFileSync(join(app, file), moved(text));
    else if (kind === "console") {
      for (const [, command, prints] of text.matchAll(/^\$ (.*)\n((?:(?!\$ ).*\n)*)/gm)) {
        const printed = (await type(command)) ?? "";
        const plain = (text) => text.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME");
        assert.equal(plain(printed), plain(prints), command);
      }
    }
  }
  assert.deepEqual(Object.keys(inTheBrowser), [], "the page has it no more");

  // The page's components are those that other tests render.
  for (const [kind, example] of [["jsx", "examples/like.jsx"], ["vue", "examples/Like.vue"]]) {
    assert.equal(parts.find((part) => part.kind === kind).text, readFileSync(example, "utf8"), example);
  }
});
