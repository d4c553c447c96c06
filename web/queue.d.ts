import { CounterError } from "./entry.js";
export type Entry = import("./entry.js").Entry;
export type Like = import("./entry.js").Like;
export type Outcome = import("./entry.js").Outcome;
export type Transport = import("./entry.js").Transport;
export type Store = import("./record.js").Store;
export type Waiting = import("./entry.js").Waiting;
/** @typedef {import("./entry.js").Entry} Entry */
/** @typedef {import("./entry.js").Like} Like */
/** @typedef {import("./entry.js").Outcome} Outcome */
/** @typedef {import("./entry.js").Transport} Transport */
/** @typedef {import("./record.js").Store} Store */
/** @typedef {import("./entry.js").Waiting} Waiting */
/**
 * A user's increments and likes on their way. Each is sent until it is answered: an increment under
 * one key, by which it is counted once however often it comes, and of a member's likes the last
 * that was asked for. Each is stored before it is sent. One page sends what all of them have
 * stored, so that nothing is on its way twice, and says in the storage how it ended; when that page
 * is gone or frozen, another one goes on.
 */
export declare class Queue {
    #private;
    mine: () => boolean;
    user: string;
    transport: import("./entry.js").Transport;
    keep: number;
    changed: () => void;
    added: (waiting: import("./entry.js").Waiting) => void;
    liked: (like: import("./entry.js").Like) => void;
    failed: (error: CounterError, entry: import("./entry.js").Entry) => void;
    /** @param {import("./entry.js").Options} options */
    constructor({ name, mine, user, transport, storage, keep, locks, changed, added, liked, failed }: import("./entry.js").Options);
    /** Begins to send, or goes on after a `close`. */
    open(): void;
    /** Stops sending. What is stored is sent by another page, or by the next. */
    close(): void;
    /**
     * Why nothing gets through, in words; undefined while it does.
     * @returns {string | undefined}
     */
    get trouble(): string | undefined;
    /** Whether the storage has all that this page knows of. */
    get kept(): boolean;
    /** What is not answered yet, of this page, of earlier ones and of other tabs. */
    get waiting(): import("./entry.js").Waiting[];
    /**
     * What the increments and likes that are being sent at this moment add to a counter: up under
     * 1, down under -1.
     * @param {string} counter
     * @param {string} field
     */
    underWay(counter: string, field: string): {
        1: number;
        [-1]: number;
    };
    /**
     * What was asked for last, of a member's likes that wait.
     * @param {string} counter
     * @param {string} field
     * @param {string} member
     * @returns {boolean | undefined} undefined where none waits
     */
    wish(counter: string, field: string, member: string): boolean | undefined;
    /**
     * Adds an increment, and sends it. With a key that already waits, nothing is added.
     * @param {string} counter
     * @param {string} field
     * @param {number} by
     * @param {string} [key]
     * @returns {Promise<boolean>} fulfilled once it is counted, with false if it had been before;
     *   or rejected with a CounterError
     */
    add(counter: string, field: string, by: number, key?: string): Promise<boolean>;
    /**
     * Asks for a member to be counted, or not to be any more. It takes the place of what was asked
     * for before and not sent yet.
     * @param {string} counter
     * @param {string} field
     * @param {string} member
     * @param {boolean} joined
     * @returns {Promise<boolean>} fulfilled once it is as asked for, with false if it had been
     *   before, or if the opposite has taken its place; or rejected with a CounterError
     */
    like(counter: string, field: string, member: string, joined: boolean): Promise<boolean>;
    /** Ends all pauses: there is reason to believe that requests get through again. */
    go(): void;
    /**
     * Takes what another page has stored.
     * @param {string | null} key null: it has emptied the storage
     */
    heard(key: string | null): void;
    /** Takes all that the storage has. @param {boolean} [woken] whether this page was away */
    takeAll(woken?: boolean): void;
}
