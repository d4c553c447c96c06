/** An increment or a like that was given up. Unless `unknown`, it was not counted. */
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
export type Increment = {
    /**
     * its Idempotency-Key
     */
    key: string;
    counter: string;
    /**
     * the first one that is counted unless given
     */
    field?: string;
    by: number;
    /**
     * when it was added, in ms since 1970
     */
    at: number;
};
export type Like = {
    counter: string;
    /**
     * total unless given
     */
    field?: string;
    member: string;
    joined: boolean;
    /**
     * when it was asked for, in ms since 1970
     */
    at: number;
    /**
     * when no request whose answer was lost, for this or for the opposite, is carried out any more, in ms
     * since 1970; none unless given
     */
    until?: number;
    /**
     * whether one for the opposite is among them: this is sent once more then
     */
    turned?: boolean;
    /**
     * this is only kept for that
     */
    answered?: boolean;
};
export type Entry = Increment | Like;
export type Outcome = {
    /**
     * it is as asked for now; false if it had been before
     */
    counted?: boolean;
    /**
     * it is refused, and was not counted
     */
    error?: CounterError;
    /**
     * what became of it is unknown; to be sent again in this many ms at the soonest
     */
    again?: number;
    /**
     * why, in words
     */
    trouble?: string;
    /**
     * another page has it, or has asked for something else since
     */
    gone?: boolean;
};
export type Transport = {
    /**
     * the user is whom increments are of; `me` where only the function knows
     */
    send: (entry: Entry, user: string) => Promise<Outcome>;
    watch: Watch;
};
export type Watch = (like: {
    counter: string;
    field?: string;
    member: string;
}, next: (joined: boolean, asked: number) => void) => () => void;
export type Waiting = {
    /**
     * of the entry, here and in the storage
     */
    name: string;
    entry: Entry;
    /**
     * what the storage has of it
     */
    stored: string | null;
    /**
     * whether it is an earlier page's
     */
    inherited: boolean;
    /**
     * of this page
     */
    attempts: number;
    /**
     * whether it was answered, and is only to be sent once more
     */
    settled: boolean;
    /**
     * the opposite, asked for while this was on its way
     */
    next?: Waiting;
    done: Promise<boolean>;
    resolve: (counted: boolean) => void;
    reject: (error: Error) => void;
};
/**
 * @typedef {object} Increment until it is answered
 * @property {string} key its Idempotency-Key
 * @property {string} counter
 * @property {string} [field] the first one that is counted unless given
 * @property {number} by
 * @property {number} at when it was added, in ms since 1970
 */
/**
 * @typedef {object} Like whether a member shall be counted, until that is answered. It needs no key and grows never too old:
 *   however often it is sent, the member is counted once, or not at all.
 * @property {string} counter
 * @property {string} [field] total unless given
 * @property {string} member
 * @property {boolean} joined
 * @property {number} at when it was asked for, in ms since 1970
 * @property {number} [until] when no request whose answer was lost, for this or for the opposite, is carried out any more, in ms
 *   since 1970; none unless given
 * @property {boolean} [turned] whether one for the opposite is among them: this is sent once more then
 * @property {boolean} [answered] this is only kept for that
 */
/** @typedef {Increment | Like} Entry */
/**
 * @typedef {object} Outcome of sending an entry
 * @property {boolean} [counted] it is as asked for now; false if it had been before
 * @property {CounterError} [error] it is refused, and was not counted
 * @property {number} [again] what became of it is unknown; to be sent again in this many ms at the soonest
 * @property {string} [trouble] why, in words
 * @property {boolean} [gone] another page has it, or has asked for something else since
 */
/**
 * How increments and likes get to Firestore: `overHTTP` by the function, or `overFirestore` by the Firebase SDK.
 * @typedef {object} Transport
 * @property {(entry: Entry, user: string) => Promise<Outcome>} send the user is whom increments are of; `me` where only the function knows
 * @property {Watch} watch
 */
/**
 * Tells whether a member has joined: it calls `next` with that, and with when that was asked for (as of performance.now()), at
 * first and perhaps whenever it changes. It returns a function that ends it.
 * @typedef {(like: { counter: string, field?: string, member: string }, next: (joined: boolean, asked: number) => void) => () => void} Watch
 */
/**
 * @typedef {object} Waiting
 * @property {string} name of the entry, here and in the storage
 * @property {Entry} entry
 * @property {string | null} stored what the storage has of it
 * @property {boolean} inherited whether it is an earlier page's
 * @property {number} attempts of this page
 * @property {boolean} settled whether it was answered, and is only to be sent once more
 * @property {Waiting} [next] the opposite, asked for while this was on its way
 * @property {Promise<boolean>} done
 * @property {(counted: boolean) => void} resolve
 * @property {(error: Error) => void} reject
 */
/**
 * Increments and likes on their way. Each is sent until it is answered: an increment under one key, by which it is counted
 * once however often it comes, and of a member's likes the last that was asked for. Each is stored before it is sent, so that
 * the next page goes on with what a reload or a crash left. Pages that send the same one at the same time do no harm.
 */
export declare class Queue {
    #private;
    transport: Transport;
    user: string;
    storage: Pick<Storage, "getItem" | "key" | "length" | "removeItem" | "setItem"> | undefined;
    keep: number;
    changed: () => void;
    liked: (like: Like) => void;
    /** @type {string | undefined} Why nothing gets through, in words; undefined while it does. */
    trouble: string | undefined;
    /**
     * @param {object} options
     * @param {string} options.name tells this queue from others in the storage
     * @param {Transport} options.transport
     * @param {string} options.user whom increments are of
     * @param {Pick<Storage, "length" | "key" | "getItem" | "setItem" | "removeItem">} [options.storage] none: nothing outlives the page
     * @param {number} options.keep ms after which an increment is given up; less than the function's REQUEST_TTL
     * @param {() => void} options.changed called when `trouble` or what waits has changed
     * @param {(like: Like) => void} options.liked called when a like is as asked for
     * @param {(error: CounterError, entry: Entry) => void} options.failed called for those of an earlier page, whose promises are gone
     */
    constructor({ name, transport, user, storage, keep, changed, liked, failed }: {
        name: string;
        transport: Transport;
        user: string;
        storage?: Pick<Storage, "length" | "key" | "getItem" | "setItem" | "removeItem">;
        keep: number;
        changed: () => void;
        liked: (like: Like) => void;
        failed: (error: CounterError, entry: Entry) => void;
    });
    /** What is not answered yet, of this page and of earlier ones. @returns {Iterable<Entry>} */
    get waiting(): Iterable<Entry>;
    /**
     * What the increments and likes that are being sent at this moment add to a counter: up under 1, down under -1.
     * @param {string} counter
     * @param {string | undefined} field
     */
    underWay(counter: string, field: string | undefined): {
        1: number;
        [-1]: number;
    };
    /**
     * What was asked for last, of a member's likes that wait.
     * @param {string} counter
     * @param {string | undefined} field
     * @param {string} member
     * @returns {boolean | undefined} undefined where none waits
     */
    wish(counter: string, field: string | undefined, member: string): boolean | undefined;
    /**
     * Adds an increment, and sends it. With a key that already waits, nothing is added.
     * @param {string} counter
     * @param {number} by
     * @param {string} [key]
     * @param {string} [field]
     * @returns {{ done: Promise<boolean>, added: boolean }} done: once it is counted, false if it had been before; or a CounterError
     */
    add(counter: string, by: number, key?: string, field?: string): {
        done: Promise<boolean>;
        added: boolean;
    };
    /**
     * Asks for a member to be counted, or not to be any more. It takes the place of what was asked for before and not sent yet.
     * @param {string} counter
     * @param {string | undefined} field
     * @param {string} member
     * @param {boolean} joined
     * @returns {{ done: Promise<boolean>, added: boolean }} done: once it is as asked for, false if it had been before, or if the
     *   opposite has taken its place; or a CounterError
     */
    like(counter: string, field: string | undefined, member: string, joined: boolean): {
        done: Promise<boolean>;
        added: boolean;
    };
    /** Stops sending. What is stored is sent by the next page. */
    close(): void;
    /** Ends a pause: there is reason to believe that requests get through again. */
    go(): void;
}
