/**
 * Increments and likes by the Increment function. It is what `Counters` uses unless told otherwise.
 * @param {string} url of the function
 * @param {() => HeadersInit | Promise<HeadersInit>} [headers] to send along, such as Authorization
 * @returns {import("./entry.js").Transport}
 */
export declare function overHTTP(url: string, headers?: () => HeadersInit | Promise<HeadersInit>): import("./entry.js").Transport;
/**
 * Asks now, whenever the page comes back into view or goes online, as the same user may be elsewhere
 * meanwhile, and in view as many ms later as `got` says.
 * @param {string} url
 * @param {(() => HeadersInit | Promise<HeadersInit>) | undefined} headers
 * @param {(asked: number, ended: AbortSignal, answer?: Response, body?: any) =>
 *   number | void | Promise<number | void>} got takes the answer; none where there was none
 * @returns {() => void} ends it
 */
export declare function asking(url: string, headers: (() => HeadersInit | Promise<HeadersInit>) | undefined, got: (asked: number, ended: AbortSignal, answer?: Response, body?: any) => number | void | Promise<number | void>): () => void;
/**
 * Why a request had no answer. A browser doesn't tell a page whether there was one that it may not
 * read: a request whose answer nobody wants to read does.
 * @param {string} url
 */
export declare function unreachable(url: string): Promise<string>;
/**
 * Tells users apart by their credentials: by the subject of a token, which stays when the token is
 * renewed.
 * @param {string | null} authorization
 * @returns {string} 11 characters at most; "" for nobody
 */
export declare function whose(authorization: string | null): string;
