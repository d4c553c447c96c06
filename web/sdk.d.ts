/**
 * Increments and likes by the Firebase SDK for the web (modular, version 9 or later), for
 * `Counters`. A like is a transaction that makes the membership and adds 1 to a shard, an increment
 * one that makes a request's document and adds 1: whatever is sent twice finds its document there.
 * Give `Counters` the signed-in user's uid as `member`.
 *
 * An increment is 1, as the rules have it. Its key is the user's own: the request's id ends with
 * the uid, and the rules let nobody else make or see it.
 * @param {{ toJSON: () => any }} db what `getFirestore` returned
 * @param {object} firestore functions and classes of "firebase/firestore"
 * @param {(...args: any[]) => any} firestore.doc
 * @param {(...args: any[]) => any} firestore.increment
 * @param {(...args: any[]) => any} firestore.onSnapshot
 * @param {(db: any, update: (transaction: any) => Promise<any>) => Promise<any>}
 *   firestore.runTransaction
 * @param {(...args: any[]) => any} firestore.serverTimestamp
 * @param {{ fromMillis: (ms: number) => any }} firestore.Timestamp
 * @param {object} [layout]
 * @param {string} [layout.counters] path of the counters' documents, as of COUNTERS;
 *   counters/{counter} unless given
 * @param {string} [layout.shards] as of SHARDS; shards unless given
 * @param {Record<string, string>} [layout.fields] names of fields in shards, by their names in the
 *   counter's document, where they differ, as of FIELDS; { total: "count" } unless given
 * @returns {import("./entry.js").Transport}
 */
export declare function overFirestore(db: {
    toJSON: () => any;
}, { doc, increment, onSnapshot, runTransaction, serverTimestamp, Timestamp }: {
    doc: (...args: any[]) => any;
    increment: (...args: any[]) => any;
    onSnapshot: (...args: any[]) => any;
    runTransaction: (db: any, update: (transaction: any) => Promise<any>) => Promise<any>;
    serverTimestamp: (...args: any[]) => any;
    Timestamp: {
        fromMillis: (ms: number) => any;
    };
}, { counters, shards, fields }?: {
    counters?: string;
    shards?: string;
    fields?: Record<string, string>;
}): import("./entry.js").Transport;
