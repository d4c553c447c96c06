export type Snapshot = {
    exists: boolean;
    /**
     * 0 where it doesn't exist; a double where the field is one, and
     * null for the average of none
     */
    total: number | null;
    /**
     * when it was last rolled up, in ms since 1970
     */
    updatedAt?: number;
    /**
     * whether the server has it like this now; false for what a cache has
     */
    live: boolean;
};
export type Source = (id: string, next: (snapshot: Snapshot | null) => void, failed: (error: Error) => void, field: string) => () => void;
/**
 * What is known of a counter.
 * @typedef {object} Snapshot
 * @property {boolean} exists
 * @property {number | null} total 0 where it doesn't exist; a double where the field is one, and
 *   null for the average of none
 * @property {number} [updatedAt] when it was last rolled up, in ms since 1970
 * @property {boolean} live whether the server has it like this now; false for what a cache has
 */
/**
 * Where totals come from. It watches a counter: it calls `next` with what is known and whenever
 * that changes, with null when the connection is lost, and `failed` with why it can't go on, or not
 * as it is. It returns a function that ends it.
 * @typedef {(id: string, next: (snapshot: Snapshot | null) => void, failed: (error: Error) => void,
 *   field: string) => () => void} Source
 */
/**
 * Totals from the Firebase SDK for the web (modular, version 9 or later), as they change.
 * @param {object} db what `getFirestore` returned
 * @param {object} firestore the functions `doc` and `onSnapshot` of "firebase/firestore"
 * @param {(db: any, path: string) => any} firestore.doc
 * @param {(...args: any[]) => () => void} firestore.onSnapshot
 * @param {string} [counters] path of the counters' documents, as of COUNTERS; counters/{counter}
 *   unless given
 * @returns {Source}
 */
export declare function fromFirestore(db: object, { doc, onSnapshot }: {
    doc: (db: any, path: string) => any;
    onSnapshot: (...args: any[]) => () => void;
}, counters?: string): Source;
/**
 * The path of a counter's document: an id is the values of the path's wildcards, joined by slashes.
 * @param {string} counters as of COUNTERS, such as teams/{team}/posts/{post}
 * @param {string} id such as red/post-1
 */
export declare function documentOf(counters: string, id: string): string;
/**
 * Totals from the Increment function, asked for every so often while the page is visible.
 * @param {string} url of the Increment function
 * @param {object} [options]
 * @param {number} [options.every] ms from one answer to the next request
 * @param {() => HeadersInit | Promise<HeadersInit>} [options.headers] to send along, such as
 *   Authorization
 * @returns {Source}
 */
export declare function fromFunction(url: string, { every, headers }?: {
    every?: number;
    headers?: () => HeadersInit | Promise<HeadersInit>;
}): Source;
