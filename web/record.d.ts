export type Entry = import("./entry.js").Entry;
export type Store = Pick<Storage, "length" | "key" | "getItem" | "setItem" | "removeItem">;
/** @typedef {import("./entry.js").Entry} Entry */
/** @typedef {Pick<Storage, "length" | "key" | "getItem" | "setItem" | "removeItem">} Store */
/** How an entry ended, in the order of what is worse; 0 while it waits. */
export declare const COUNTED = 1, BEFORE = 2, REFUSED = 3, UNKNOWN = 4;
/** The entries of a queue in the storage. */
export declare class Records {
    storage: Store | undefined;
    prefix: string;
    /**
     * @param {Store | undefined} storage none: nothing is kept
     * @param {string} prefix
     */
    constructor(storage: Store | undefined, prefix: string);
    /** Names of what there is. */
    get names(): string[];
    /**
     * @param {string} name
     * @returns {Entry | undefined} undefined where there is none, or none of ours
     */
    read(name: string): Entry | undefined;
    /**
     * @param {Entry} entry
     * @returns {boolean} whether it is kept. What is not leaves nothing older of it behind either.
     */
    write(entry: Entry): boolean;
    /** @param {string} name */
    remove(name: string): void;
}
/**
 * @returns {Storage | null} the page's localStorage, unless the browser forbids it or there is none
 */
export declare function localStorageOrNone(): Storage | null;
/**
 * @param {{ counter: string, field: string, key: string } | { counter: string, field: string,
 *   member: string }} entry
 */
export declare function nameOf(entry: {
    counter: string;
    field: string;
    key: string;
} | {
    counter: string;
    field: string;
    member: string;
}): string;
