/** An increment that was given up. Unless `unknown`, it was not counted. */
export declare class CounterError extends Error {
    /** The HTTP status with which the function refused it. */
    status: number | undefined;
    /** Whether it may have been counted all the same: it was sent, and grew too old to be sent again. */
    unknown: boolean;
    /**
     * @param {string} message
     * @param {{ status?: number, unknown?: boolean }} [how]
     */
    constructor(message: string, { status, unknown }?: {
        status?: number;
        unknown?: boolean;
    });
}
export type Entry = {
    /**
     * its Idempotency-Key
     */
    key: string;
    counter: string;
    by: number;
    /**
     * when it was added, in ms since 1970
     */
    at: number;
};
export type Waiting = {
    entry: Entry;
    stored: boolean;
    /**
     * whether it is an earlier page's
     */
    inherited: boolean;
    /**
     * of this page
     */
    attempts: number;
    done: Promise<boolean>;
    resolve: (counted: boolean) => void;
    reject: (error: Error) => void;
};
/**
 * @typedef {object} Entry an increment until it is answered
 * @property {string} key its Idempotency-Key
 * @property {string} counter
 * @property {number} by
 * @property {number} at when it was added, in ms since 1970
 */
/**
 * @typedef {object} Waiting
 * @property {Entry} entry
 * @property {boolean} stored
 * @property {boolean} inherited whether it is an earlier page's
 * @property {number} attempts of this page
 * @property {Promise<boolean>} done
 * @property {(counted: boolean) => void} resolve
 * @property {(error: Error) => void} reject
 */
/**
 * Increments on their way to the function. Each is sent until it is answered, under one key, by which the function counts
 * it once however often it comes. Each is stored before it is sent, so that the next page goes on with what a reload or a
 * crash left. Pages that send the same one at the same time do no harm: the key is the same.
 */
export declare class Queue {
    #private;
    url: string;
    storage: Pick<Storage, "getItem" | "key" | "length" | "removeItem" | "setItem"> | undefined;
    keep: number;
    headers: (() => HeadersInit | Promise<HeadersInit>) | undefined;
    changed: () => void;
    /** @type {string | undefined} Why nothing gets through, in words; undefined while it does. */
    trouble: string | undefined;
    /**
     * @param {object} options
     * @param {string} options.url of the Increment function
     * @param {Pick<Storage, "length" | "key" | "getItem" | "setItem" | "removeItem">} [options.storage] none: nothing outlives the page
     * @param {number} options.keep ms after which an increment is given up; less than the function's REQUEST_TTL
     * @param {() => HeadersInit | Promise<HeadersInit>} [options.headers] to send along, such as a token
     * @param {() => void} options.changed called when `trouble` or what waits has changed
     * @param {(error: CounterError, entry: Entry) => void} options.failed called for those of an earlier page, whose promises are gone
     */
    constructor({ url, storage, keep, headers, changed, failed }: {
        url: string;
        storage?: Pick<Storage, "length" | "key" | "getItem" | "setItem" | "removeItem">;
        keep: number;
        headers?: () => HeadersInit | Promise<HeadersInit>;
        changed: () => void;
        failed: (error: CounterError, entry: Entry) => void;
    });
    /** What is not answered yet, of this page and of earlier ones. @returns {Iterable<Entry>} */
    get waiting(): Iterable<Entry>;
    /**
     * Adds an increment, and sends it. With a key that already waits, nothing is added.
     * @param {string} counter
     * @param {number} by
     * @param {string} [key]
     * @returns {{ done: Promise<boolean>, added: boolean }} done: once it is counted, false if it had been before; or a CounterError
     */
    add(counter: string, by: number, key?: string): {
        done: Promise<boolean>;
        added: boolean;
    };
    /** Stops sending. What is stored is sent by the next page. */
    close(): void;
    /** Ends a pause: there is reason to believe that requests get through again. */
    go(): void;
}
