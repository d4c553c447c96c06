// Checks the types in the modules' comments and writes them beside the modules; with --check it
// only holds them against what is there. It works on a copy: beside a module, tsc would believe its
// old types.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const dir = mkdtempSync(join(tmpdir(), "types-"));
try {
  symlinkSync(join(process.cwd(), "node_modules"), join(dir, "node_modules"));
  for (const name of ["package.json", "tsconfig.json", "counter.js", "entry.js", "http.js", "pauses.js", "queue.js", "react.js", "record.js", "sdk.js", "shown.js", "sources.js", "turn.js"]) copyFileSync(name, join(dir, name));
  execFileSync("node_modules/.bin/tsc", ["-p", dir], { stdio: "inherit" });
  for (const name of readdirSync(dir).filter((name) => name.endsWith(".d.ts"))) {
    if (!process.argv.includes("--check")) copyFileSync(join(dir, name), name);
    else if (readFileSync(join(dir, name), "utf8") !== readFileSync(name, "utf8")) {
      console.error(`${name} is not what the comments say: npm run types`);
      process.exitCode = 1;
    }
  }
} catch (error) {
  if (error.status === undefined) throw error;
  process.exitCode = 1; // tsc has said why.
} finally {
  rmSync(dir, { recursive: true });
}
