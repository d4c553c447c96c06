// Runs a snippet: node run.mjs web|node COUNTER [create N] [increment N] [sum], in the order given. sum is printed.
import { connectNode, connectWeb } from "./connect.mjs";

const [sdk, counter, ...commands] = process.argv.slice(2);
const snippet = await import(`./${sdk}.mjs`);
const { db, close } = await (sdk === "web" ? connectWeb() : connectNode());
const numShards = 5;
const crowd = 25; // increments at a time

while (commands.length > 0) {
  switch (commands.shift()) {
    case "create":
      await snippet.createCounter(db, counter, Number(commands.shift()));
      break;
    case "increment":
      for (let n = Number(commands.shift()); n > 0; n -= crowd) {
        await Promise.all(Array.from({ length: Math.min(crowd, n) }, () => snippet.incrementCounter(db, counter, numShards)));
      }
      break;
    case "sum":
      console.log(await snippet.getCount(db, counter));
      break;
    default:
      throw new Error("commands are create N, increment N and sum");
  }
}
await close();
process.exit(); // a timer of the web SDK would hold it up for 45 s
