// What the browser's tests need: the local system, and Chromium.
import { spawn } from "node:child_process";
import { createServer, request } from "node:http";
import { chromium } from "playwright-core";

/**
 * Returns the URL of a gateway: that of COUNTERS_GATEWAY, or of a system that is started for the
 * tests.
 */
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

/**
 * A line to the gateway that can be cut. A browser that is told to be offline forgets that when a
 * page is loaded, and lets through what a page sends at that moment.
 */
export async function startLine(t, gateway) {
  const line = { cut: false };
  const server = createServer((asked, answer) => {
    if (line.cut) return asked.socket.destroy();
    const onward = request(gateway + asked.url, { method: asked.method, headers: asked.headers }, (answered) => {
      answer.writeHead(answered.statusCode, answered.headers);
      answered.pipe(answer);
    });
    onward.on("error", () => asked.socket.destroy());
    asked.pipe(onward);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => new Promise((closed) => { server.close(closed); server.closeAllConnections(); }));
  line.url = `http://127.0.0.1:${server.address().port}`;
  return line;
}

export async function startBrowser(t) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update"],
  });
  t.after(() => browser.close());
  return browser;
}

/**
 * Opens a page whose console has to stay empty, and serves files, by their paths, from where the
 * gateway is.
 */
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
