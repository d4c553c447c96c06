// node --import ./browser.mjs loads the Firebase SDK as a browser does, where Node.js would take the build made for it.
// (--conditions=browser does not: that comes second, after "node", in the packages' lists.)
import { register } from "node:module";
import { isMainThread } from "node:worker_threads";

if (isMainThread) {
  register(import.meta.url);
  const { XMLHttpRequest } = (await import("xmlhttprequest-ssl")).default;
  globalThis.XMLHttpRequest = XMLHttpRequest;
}

export function resolve(specifier, context, next) {
  if (specifier.startsWith("firebase/") || specifier.startsWith("@firebase/")) {
    return next(specifier, { ...context, conditions: ["browser", "module", "import"] });
  }
  return next(specifier, context);
}
