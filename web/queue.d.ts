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
export type Store = Pick<Storage, "length" | "key" | "getItem" | "setItem" | "removeItem">;
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
     * whose credentials it was sent with; "" where there were none, and while it was not sent
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
     * when it was asked for, in ms since 1970; later than that of the click before
     */
    at: number;
    /**
     * when no request to leave, or to join, that had no answer is carried out any more, in ms since
     * 1970; 0 for none. Where that is for the opposite of what was asked for last, that is sent once more then.
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
     * what became of it is unknown; to be sent again in this many ms at the soonest
     */
    again?: number;
    /**
     * why, in words
     */
    trouble?: string;
    /**
     * whether that holds for other counters as well: the server can't be reached
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
     * the user is whom
     * it is of; `me` where only the function knows. A request that the signal cuts has an unknown outcome
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
     * whether it was asked for here, and not on an earlier page or in another tab
     */
    own: boolean;
    /**
     * whether the storage has it
     */
    kept: boolean;
    /**
     * whether it was answered, and is only kept for what may be carried out late
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
export type Pause = {
    ms: number;
    /**
     * until the next attempt
     */
    timer?: ReturnType<typeof setTimeout>;
    trouble?: string;
};
/** @typedef {Pick<Storage, "length" | "key" | "getItem" | "setItem" | "removeItem">} Store */
/**
 * @typedef {object} Increment until it is answered
 * @property {string} counter
 * @property {string} field
 * @property {string} key its Idempotency-Key
 * @property {number} by
 * @property {number} at when it was added, in ms since 1970
 * @property {boolean} tried whether it was sent, so that it may have been counted
 * @property {string} as whose credentials it was sent with; "" where there were none, and while it was not sent
 * @property {number} end
 * @property {[string, number?]} [error] why, and with what status, where it ended so
 */
/**
 * @typedef {object} Like whether a member shall be counted, until that is answered. It needs no key and grows never too old:
 *   however often it is sent, the member is counted once, or not at all.
 * @property {string} counter
 * @property {string} field
 * @property {string} member
 * @property {boolean} joined
 * @property {string} id of this click
 * @property {number} at when it was asked for, in ms since 1970; later than that of the click before
 * @property {[number, number]} late when no request to leave, or to join, that had no answer is carried out any more, in ms since
 *   1970; 0 for none. Where that is for the opposite of what was asked for last, that is sent once more then.
 * @property {number} end
 * @property {[string, number?]} [error]
 */
/** @typedef {Increment | Like} Entry */
/**
 * @typedef {object} Outcome of sending an entry
 * @property {boolean} [counted] it is as asked for now; false if it had been before
 * @property {CounterError} [error] it is refused, and was not counted
 * @property {number} [again] what became of it is unknown; to be sent again in this many ms at the soonest
 * @property {string} [trouble] why, in words
 * @property {boolean} [all] whether that holds for other counters as well: the server can't be reached
 */
/**
 * @typedef {object} Credentials
 * @property {string} as whose they are, in few characters that tell nobody more; "" for nobody's
 */
/**
 * How increments and likes get to Firestore: `overHTTP` by the function, or `overFirestore` by the Firebase SDK.
 * @typedef {object} Transport
 * @property {string} [name] what it sends to: pages that send elsewhere have queues of their own
 * @property {() => Promise<Credentials>} [prepare] what to send the next entry with
 * @property {(entry: Entry, how: { user: string, credentials: any, signal: AbortSignal }) => Promise<Outcome>} send the user is whom
 *   it is of; `me` where only the function knows. A request that the signal cuts has an unknown outcome
 * @property {Watch} watch
 */
/**
 * Tells whether a member has joined: it calls `next` with that, and with when that was asked for (as of performance.now()), at
 * first and perhaps whenever it changes. It returns a function that ends it.
 * @typedef {(like: { counter: string, field: string, member: string }, next: (joined: boolean, asked: number) => void) => () => void} Watch
 */
/**
 * @typedef {object} Waiting
 * @property {string} name of the entry, here and in the storage
 * @property {Entry} entry
 * @property {boolean} own whether it was asked for here, and not on an earlier page or in another tab
 * @property {boolean} kept whether the storage has it
 * @property {boolean} settled whether it was answered, and is only kept for what may be carried out late
 * @property {boolean} again whether it is sent once more, though it was answered
 * @property {boolean} parked whether it was sent with credentials that are not those of now
 * @property {Promise<boolean>} done
 * @property {(counted: boolean) => void} resolve
 * @property {(error: Error) => void} reject
 */
/**
 * @typedef {object} Pause while what goes to a counter, or anything at all, doesn't get through
 * @property {number} ms
 * @property {ReturnType<typeof setTimeout>} [timer] until the next attempt
 * @property {string} [trouble]
 */
/**
 * A user's increments and likes on their way. Each is sent until it is answered: an increment under one key, by which it is
 * counted once however often it comes, and of a member's likes the last that was asked for. Each is stored before it is sent.
 * One page sends what all of them have stored, so that nothing is on its way twice, and says in the storage how it ended; when
 * that page is gone or frozen, another one goes on.
 */
export declare class Queue {
    #private;
    mine: () => boolean;
    user: string;
    transport: Transport;
    keep: number;
    page: any;
    changed: () => void;
    added: (waiting: Waiting) => void;
    liked: (like: Like) => void;
    failed: (error: CounterError, entry: Entry) => void;
    /**
     * @param {object} options
     * @param {string} options.name tells this queue from others in the storage
     * @param {() => boolean} options.mine whether the user is still the one whose queue this is
     * @param {string} options.user whose queue it is
     * @param {Transport} options.transport
     * @param {Store} [options.storage] none: nothing outlives the page
     * @param {number} options.keep ms after which an increment is given up; less than the function's REQUEST_TTL
     * @param {any} options.page the window
     * @param {() => void} options.changed called when `trouble` or what waits has changed
     * @param {(waiting: Waiting) => void} options.added called for each that waits, of this page, earlier ones and other tabs
     * @param {(like: Like) => void} options.liked called when a like is as asked for
     * @param {(error: CounterError, entry: Entry) => void} options.failed called for those whose page and promise are gone
     */
    constructor({ name, mine, user, transport, storage, keep, page, changed, added, liked, failed }: {
        name: string;
        mine: () => boolean;
        user: string;
        transport: Transport;
        storage?: Store;
        keep: number;
        page: any;
        changed: () => void;
        added: (waiting: Waiting) => void;
        liked: (like: Like) => void;
        failed: (error: CounterError, entry: Entry) => void;
    });
    /** Begins to send, or goes on after a `close`. */
    open(): void;
    /** Stops sending. What is stored is sent by another page, or by the next. */
    close(): void;
    /** Why nothing gets through, in words; undefined while it does. @returns {string | undefined} */
    get trouble(): string | undefined;
    /** Whether the storage has all that this page knows of. */
    get kept(): boolean;
    /** What is not answered yet, of this page, of earlier ones and of other tabs. */
    get waiting(): Waiting[];
    /**
     * What the increments and likes that are being sent at this moment add to a counter: up under 1, down under -1.
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
     * @returns {Promise<boolean>} fulfilled once it is counted, with false if it had been before; or rejected with a CounterError
     */
    add(counter: string, field: string, by: number, key?: string): Promise<boolean>;
    /**
     * Asks for a member to be counted, or not to be any more. It takes the place of what was asked for before and not sent yet.
     * @param {string} counter
     * @param {string} field
     * @param {string} member
     * @param {boolean} joined
     * @returns {Promise<boolean>} fulfilled once it is as asked for, with false if it had been before, or if the opposite has
     *   taken its place; or rejected with a CounterError
     */
    like(counter: string, field: string, member: string, joined: boolean): Promise<boolean>;
    /** Ends all pauses: there is reason to believe that requests get through again. */
    go(): void;
}
