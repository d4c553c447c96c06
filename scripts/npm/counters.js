#!/usr/bin/env node
// Runs the program, which is in the package of this platform. No script runs at installation: npm takes, of the optional
// dependencies, those whose os and cpu are this machine's.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const { name, optionalDependencies } = require("./package.json");
const platform = `${process.platform}-${process.arch}`;

let program;
try {
  program = require.resolve(`${name}-${platform}/counters${process.platform === "win32" ? ".exe" : ""}`);
} catch {
  console.error(
    optionalDependencies[`${name}-${platform}`]
      ? `counters: ${name}-${platform} is not installed. Install ${name} again, with optional dependencies`
      : `counters: there is no program for ${platform}. With Go: go install github.com/firestore-counters/counters/cmd/counters@latest`,
  );
  process.exit(1);
}

// The program ends in its own way. Ctrl-C reaches it without this process, and a second one would end it at once.
let child;
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
// npm and npx end without a word to what they have started.
if (process.env.npm_lifecycle_event) {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid !== parent) {
      clearInterval(timer);
      child.kill();
    }
  }, 200);
}
child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`counters: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
