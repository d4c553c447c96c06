// What the browser's tests need: the local system, and Chromium.
import { spawn } from "node:child_process";
import { chromium } from "playwright-core";

/** Returns the URL of a gateway: that of COUNTERS_GATEWAY, or of a system that is started for the tests. */
export async function startGateway(t) {
  if (process.env.COUNTERS_GATEWAY) return process.env.COUNTERS_GATEWAY;
  const system = spawn("go", ["run", "../cmd/counters", "dev", "--port=0", "--firestore-port=0"], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => system.kill());
  let printed = "";
  for await (const data of system.stdout) {
    printed += data;
    if (/^ready$/m.test(printed)) return /^Open (.*)$/m.exec(printed)[1];
  }
  throw new Error(`the local system did not start:\n${printed}`);
}

export async function startBrowser(t) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update"],
  });
  t.after(() => browser.close());
  return browser;
}

/** Opens a page whose console has to stay empty, and serves files, by their paths, from where the gateway is. */
export async function openPage(t, browser, gateway, files) {
  const page = await browser.newPage();
  const said = [];
  page.on("console", (message) => said.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => said.push(String(error)));
  await page.route((url) => url.href.startsWith(gateway) && url.pathname in files, (route) => {
    const { body, type } = files[new URL(route.request().url()).pathname];
    return route.fulfill({ body, contentType: type });
  });
  return { page, said };
}
