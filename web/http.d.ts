/**
 * Increments and likes by the Increment function. It is what `Counters` uses unless told otherwise.
 * @param {string} url of the function
 * @param {() => HeadersInit | Promise<HeadersInit>} [headers] to send along, such as Authorization
 * @returns {import("./queue.js").Transport}
 */
export declare function overHTTP(url: string, headers?: () => HeadersInit | Promise<HeadersInit>): import("./queue.js").Transport;
