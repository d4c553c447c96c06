export type Entry = import("./queue.js").Entry;
/** @typedef {import("./queue.js").Entry} Entry */
/** How an entry ended, in the order of what is worse; 0 while it waits. */
export declare const COUNTED = 1, BEFORE = 2, REFUSED = 3, UNKNOWN = 4;
/** The entries of a queue in the storage. */
export declare class Records {
    storage: import("./queue.js").Store | undefined;
    prefix: string;
    /**
     * @param {import("./queue.js").Store | undefined} storage none: nothing is kept
     * @param {string} prefix
     */
    constructor(storage: import("./queue.js").Store | undefined, prefix: string);
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
/** @param {{ counter: string, field: string, key: string } | { counter: string, field: string, member: string }} entry */
export declare function nameOf(entry: {
    counter: string;
    field: string;
    key: string;
} | {
    counter: string;
    field: string;
    member: string;
}): string;
