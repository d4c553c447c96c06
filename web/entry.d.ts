/** An increment or a like that was given up. Unless `unknown`, it was not counted. */
export declare class CounterError extends Error {
    /** The HTTP status with which the function refused it. */
    status: number | undefined;
    /** Whether it may have been counted all the same: an earlier attempt had no answer. */
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
    counter: string;
    field: string;
    /**
     * its Idempotency-Key
     */
    key: string;
    by: number;
    /**
     * when it was added, in ms since 1970
     */
    at: number;
    /**
     * whether it was sent, so that it may have been counted
     */
    tried: boolean;
    /**
     * whose credentials it was sent with; "" where there were none, and while it
     * was not sent
     */
    as: string;
    end: number;
    /**
     * why, and with what status, where it ended so
     */
    error?: [string, number?];
};
export type Like = {
    counter: string;
    field: string;
    member: string;
    joined: boolean;
    /**
     * of this click
     */
    id: string;
    /**
     * when it was asked for, in ms since 1970; later than that of the click
     * before
     */
    at: number;
    /**
     * when no request to leave, or to join, that had no answer is
     * carried out any more, in ms since 1970; 0 for none. Where that is for the opposite of what
     * was asked for last, that is sent once more then.
     */
    late: [number, number];
    end: number;
    error?: [string, number?];
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
     * what became of it is unknown; to be sent again in this many ms at the
     * soonest
     */
    again?: number;
    /**
     * why, in words
     */
    trouble?: string;
    /**
     * whether that holds for other counters as well: the server can't be
     * reached
     */
    all?: boolean;
};
export type Credentials = {
    /**
     * whose they are, in few characters that tell nobody more; "" for nobody's
     */
    as: string;
};
export type Transport = {
    /**
     * what it sends to: pages that send elsewhere have queues of their own
     */
    name?: string;
    /**
     * what to send the next entry with
     */
    prepare?: () => Promise<Credentials>;
    /**
     * the user is whom it is of; `me` where only the function knows. A request
     * that the signal cuts has an unknown outcome
     */
    send: (entry: Entry, how: {
        user: string;
        credentials: any;
        signal: AbortSignal;
    }) => Promise<Outcome>;
    watch: Watch;
};
export type Watch = (like: {
    counter: string;
    field: string;
    member: string;
}, next: (joined: boolean, asked: number) => void) => () => void;
export type Waiting = {
    /**
     * of the entry, here and in the storage
     */
    name: string;
    entry: Entry;
    /**
     * whether it was asked for here, and not on an earlier page or in another
     * tab
     */
    own: boolean;
    /**
     * whether the storage has it
     */
    kept: boolean;
    /**
     * whether it was answered, and is only kept for what may be carried out
     * late
     */
    settled: boolean;
    /**
     * whether it is sent once more, though it was answered
     */
    again: boolean;
    /**
     * whether it was sent with credentials that are not those of now
     */
    parked: boolean;
    done: Promise<boolean>;
    resolve: (counted: boolean) => void;
    reject: (error: Error) => void;
};
export type Options = {
    /**
     * tells this queue from others in the storage
     */
    name: string;
    /**
     * whether the user is still the one whose queue this is
     */
    mine: () => boolean;
    /**
     * whose queue it is
     */
    user: string;
    transport: Transport;
    /**
     * none: nothing outlives the page
     */
    storage?: import("./record.js").Store;
    /**
     * ms after which an increment is given up; less than the function's
     * REQUEST_TTL
     */
    keep: number;
    /**
     * of the window
     */
    locks?: LockManager;
    /**
     * called when `trouble` or what waits has changed
     */
    changed: () => void;
    /**
     * called for each that waits, of this page, earlier
     * ones and other tabs
     */
    added: (waiting: Waiting) => void;
    /**
     * called when a like is as asked for
     */
    liked: (like: Like) => void;
    /**
     * called for those whose page and
     * promise are gone
     */
    failed: (error: CounterError, entry: Entry) => void;
};
/**
 * @typedef {object} Increment until it is answered
 * @property {string} counter
 * @property {string} field
 * @property {string} key its Idempotency-Key
 * @property {number} by
 * @property {number} at when it was added, in ms since 1970
 * @property {boolean} tried whether it was sent, so that it may have been counted
 * @property {string} as whose credentials it was sent with; "" where there were none, and while it
 *   was not sent
 * @property {number} end
 * @property {[string, number?]} [error] why, and with what status, where it ended so
 */
/**
 * @typedef {object} Like whether a member shall be counted, until that is answered. It needs no key
 *   and grows never too old: however often it is sent, the member is counted once, or not at all.
 * @property {string} counter
 * @property {string} field
 * @property {string} member
 * @property {boolean} joined
 * @property {string} id of this click
 * @property {number} at when it was asked for, in ms since 1970; later than that of the click
 *   before
 * @property {[number, number]} late when no request to leave, or to join, that had no answer is
 *   carried out any more, in ms since 1970; 0 for none. Where that is for the opposite of what
 *   was asked for last, that is sent once more then.
 * @property {number} end
 * @property {[string, number?]} [error]
 */
/** @typedef {Increment | Like} Entry */
/**
 * @typedef {object} Outcome of sending an entry
 * @property {boolean} [counted] it is as asked for now; false if it had been before
 * @property {CounterError} [error] it is refused, and was not counted
 * @property {number} [again] what became of it is unknown; to be sent again in this many ms at the
 *   soonest
 * @property {string} [trouble] why, in words
 * @property {boolean} [all] whether that holds for other counters as well: the server can't be
 *   reached
 */
/**
 * @typedef {object} Credentials
 * @property {string} as whose they are, in few characters that tell nobody more; "" for nobody's
 */
/**
 * How increments and likes get to Firestore: `overHTTP` by the function, or `overFirestore` by the
 * Firebase SDK.
 * @typedef {object} Transport
 * @property {string} [name] what it sends to: pages that send elsewhere have queues of their own
 * @property {() => Promise<Credentials>} [prepare] what to send the next entry with
 * @property {(entry: Entry, how: { user: string, credentials: any, signal: AbortSignal }) =>
 *   Promise<Outcome>} send the user is whom it is of; `me` where only the function knows. A request
 *   that the signal cuts has an unknown outcome
 * @property {Watch} watch
 */
/**
 * Tells whether a member has joined: it calls `next` with that, and with when that was asked for
 * (as of performance.now()), at first and perhaps whenever it changes. It returns a function that
 * ends it.
 * @typedef {(like: { counter: string, field: string, member: string }, next: (joined: boolean,
 *   asked: number) => void) => () => void} Watch
 */
/**
 * @typedef {object} Waiting
 * @property {string} name of the entry, here and in the storage
 * @property {Entry} entry
 * @property {boolean} own whether it was asked for here, and not on an earlier page or in another
 *   tab
 * @property {boolean} kept whether the storage has it
 * @property {boolean} settled whether it was answered, and is only kept for what may be carried out
 *   late
 * @property {boolean} again whether it is sent once more, though it was answered
 * @property {boolean} parked whether it was sent with credentials that are not those of now
 * @property {Promise<boolean>} done
 * @property {(counted: boolean) => void} resolve
 * @property {(error: Error) => void} reject
 */
/**
 * @typedef {object} Options of a queue
 * @property {string} name tells this queue from others in the storage
 * @property {() => boolean} mine whether the user is still the one whose queue this is
 * @property {string} user whose queue it is
 * @property {Transport} transport
 * @property {import("./record.js").Store} [storage] none: nothing outlives the page
 * @property {number} keep ms after which an increment is given up; less than the function's
 *   REQUEST_TTL
 * @property {LockManager} [locks] of the window
 * @property {() => void} changed called when `trouble` or what waits has changed
 * @property {(waiting: Waiting) => void} added called for each that waits, of this page, earlier
 *   ones and other tabs
 * @property {(like: Like) => void} liked called when a like is as asked for
 * @property {(error: CounterError, entry: Entry) => void} failed called for those whose page and
 *   promise are gone
 */
/** @param {Entry} entry */
export declare function errorOf({ end, error }: Entry): CounterError;
/** @param {Entry | undefined} entry @returns {[number, number]} */
export declare function lateOf(entry: Entry | undefined): [number, number];
/** @param {[number, number]} a @param {[number, number]} b @returns {[number, number]} */
export declare function latest(a: [number, number], b: [number, number]): [number, number];
/** A key. `crypto.randomUUID` is only there on pages that came over HTTPS or from this machine. */
export declare function uuid(): string;
/**
 * Wants ids that a request can carry: text, of whole characters. As a part of a URL's path, "." and
 * ".." would be steps to another one, whatever is escaped, and an empty part before the first one
 * would name another host.
 * @param {unknown[]} ids of counters, fields or members
 */
export declare function want(...ids: unknown[]): void;
/** @param {Waiting} waiting */
export declare function joinedOf({ entry }: Waiting): boolean | undefined;
