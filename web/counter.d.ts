import { CounterError } from "./entry.js";
import { Queue } from "./queue.js";
export { CounterError };
export { documentOf, fromFirestore, fromFunction } from "./sources.js";
export type Snapshot = import("./sources.js").Snapshot;
export type Source = import("./sources.js").Source;
export type Transport = import("./entry.js").Transport;
export type State = {
    /**
     * the number to show; undefined until it is known, and
     * null for the average of none
     */
    value: number | null | undefined;
    /**
     * whether the user has joined; undefined until that is known
     */
    liked: boolean | undefined;
    /**
     * how many increments and likes wait for their answer
     */
    pending: number;
    exists: boolean | undefined;
    live: boolean;
    error: Error | undefined;
};
/** @typedef {import("./sources.js").Snapshot} Snapshot */
/** @typedef {import("./sources.js").Source} Source */
/** @typedef {import("./entry.js").Transport} Transport */
/**
 * What to show of a counter. It is the same object as long as nothing of it has changed.
 * @typedef {object} State
 * @property {number | null | undefined} value the number to show; undefined until it is known, and
 *   null for the average of none
 * @property {boolean | undefined} liked whether the user has joined; undefined until that is known
 * @property {number} pending how many increments and likes wait for their answer
 * @property {boolean | undefined} exists
 * @property {boolean} live
 * @property {Error | undefined} error
 */
/** The counters behind one Increment function. */
export declare class Counters {
    #private;
    url: string;
    field: string;
    source: import("./sources.js").Source;
    transport: import("./entry.js").Transport;
    /**
     * @param {object} options
     * @param {string} [options.url] of the Increment function; not needed with a transport and a
     *   source
     * @param {string} [options.field] that counters are of where none is named; total unless given
     * @param {Source} [options.source] of totals; the function itself unless given, see
     *   `fromFunction`
     * @param {Transport} [options.transport] how increments and likes are sent; by the function
     *   unless given, see `overFirestore`
     * @param {string | (() => string | null | undefined)} [options.member] who the user is, now:
     *   what one has asked for is sent for nobody else. Unless given, users are told apart by their
     *   `Authorization`, and their likes are those of `me`, the user whom the function knows by
     *   that
     * @param {Storage | null} [options.storage] where increments and likes are kept until they are
     *   answered; localStorage unless given, and null for nowhere
     * @param {number} [options.keep] ms after which an increment that isn't answered is given up:
     *   23 hours unless given, and less than the function's REQUEST_TTL in any case, because it
     *   counts a key it has forgotten once more
     * @param {() => HeadersInit | Promise<HeadersInit>} [options.headers] to send with each
     *   request, such as Authorization
     * @param {(error: CounterError, counter: Counter) => void} [options.failed] called for
     *   increments and likes of an earlier page that are given up
     * @param {any} [options.page] the window; for tests
     */
    constructor({ url, field, source, transport, member, storage, keep, headers, failed, page }: {
        url?: string;
        field?: string;
        source?: Source;
        transport?: Transport;
        member?: string | (() => string | null | undefined);
        storage?: Storage | null;
        keep?: number;
        headers?: () => HeadersInit | Promise<HeadersInit>;
        failed?: (error: CounterError, counter: Counter) => void;
        page?: any;
    });
    /** Who the user is; `me` where only the function knows. */
    get member(): string;
    /** What the user has on the way. */
    get queue(): Queue;
    /**
     * A counter; the same object for the same id and field.
     * @param {string} id
     * @param {string} [field] `Counters.field` unless given
     */
    counter(id: string, field?: string): Counter;
    /** Why increments don't get through, in words; undefined while they do. */
    get trouble(): string | undefined;
    /**
     * Whether what waits outlives the page, and other tabs know of it; false where the storage is
     * full or there is none: then a reload would lose a click, and a like that is taken back in
     * another tab may come out either way.
     */
    get kept(): boolean;
    /** Ends everything. Increments that aren't answered are sent by another page, or the next. */
    close(): void;
}
export type Member = {
    /**
     * whether it has joined, by the last that the server has said
     */
    known: boolean | undefined;
    /**
     * the same, or what was taken for it when the first like was asked for
     */
    base: boolean;
    /**
     * when that was said, as of performance.now()
     */
    since: number;
    /**
     * likes that aren't answered yet, oldest first
     */
    wishes: Wish[];
    stop?: () => void;
};
export type Wish = {
    joined: boolean;
    /**
     * what it adds to the number shown; none if it changes
     * nothing
     */
    own?: import("./shown.js").Own;
};
/**
 * @typedef {object} Member what is known of a member
 * @property {boolean | undefined} known whether it has joined, by the last that the server has said
 * @property {boolean} base the same, or what was taken for it when the first like was asked for
 * @property {number} since when that was said, as of performance.now()
 * @property {Wish[]} wishes likes that aren't answered yet, oldest first
 * @property {() => void} [stop]
 */
/**
 * @typedef {object} Wish
 * @property {boolean} joined
 * @property {import("./shown.js").Own} [own] what it adds to the number shown; none if it changes
 *   nothing
 */
/** A counter. It is watched while there are subscribers. */
export declare class Counter {
    #private;
    id: string;
    field: string;
    /** Whether what is known is what the server has now. */
    live: boolean;
    /** @type {boolean | undefined} Whether there is one; undefined until that is known. */
    exists: boolean | undefined;
    /** @type {number | undefined} When it was last rolled up, in ms since 1970. */
    updatedAt: number | undefined;
    /** @type {Error | undefined} Why it can't be watched. */
    error: Error | undefined;
    /**
     * Use `Counters.counter`.
     * @param {Counters} counters
     * @param {string} id
     * @param {string} field
     */
    constructor(counters: Counters, id: string, field: string);
    /** What the counter's document says; undefined until that is known. */
    get total(): number | null | undefined;
    /**
     * The number to show: the total, and what was added here that it doesn't hold yet. Undefined
     * until that is known, and null for the average of none.
     */
    get value(): number | null | undefined;
    /** How many increments and likes wait, those of earlier pages and of other tabs included. */
    get pending(): number;
    /** All that there is to show, as of now. @returns {State} */
    get state(): State;
    /**
     * Adds to the counter. It shows at once, is sent until it is answered, and outlives a reload.
     * @param {number} [by] a whole number, not 0
     * @returns {Promise<void>} once it is counted; rejects with a CounterError when it was given
     *   up, and shows no more
     */
    add(by?: number): Promise<void>;
    /**
     * Adds to the counter once, however often this is called with the same key, here or anywhere,
     * for as long as the function remembers keys (REQUEST_TTL, a day unless set). The same key with
     * another number is an error.
     * @param {string} key up to 255 printable ASCII characters
     * @param {number} [by] a whole number, not 0
     * @returns {Promise<boolean>} as of `add`; false if it had been counted before
     */
    incrementOnce(key: string, by?: number): Promise<boolean>;
    /**
     * Shows what waits. For `Counters`.
     * @param {import("./entry.js").Waiting} waiting
     */
    follow({ entry, done }: import("./entry.js").Waiting): undefined;
    /** Takes it that the user is another one now. For `Counters`. */
    switched(): void;
    /**
     * Counts a member, once until it leaves: a like, a vote. It shows at once, is sent until it is
     * answered, and outlives a reload; of what is asked for before it can be sent, the last is.
     * @param {string} [member] `Counters.member` unless given
     * @returns {Promise<boolean>} once the member is counted: false if it had been before, or was
     *   taken off again before it was sent. Rejects with a CounterError when it was given up, and
     *   shows no more
     */
    join(member?: string): Promise<boolean>;
    /**
     * Takes a member off again.
     * @param {string} [member] `Counters.member` unless given
     * @returns {Promise<boolean>} as of `join`
     */
    leave(member?: string): Promise<boolean>;
    /**
     * Whether a member is counted, or will be once what was asked for here is answered; undefined
     * until that is known. While there are subscribers it is asked for.
     * @param {string} [member] `Counters.member` unless given
     * @returns {boolean | undefined}
     */
    joined(member?: string): boolean | undefined;
    /**
     * Takes an answered like. For `Counters`.
     * @param {import("./entry.js").Like} like
     */
    liked({ member, joined }: import("./entry.js").Like): void;
    /**
     * Calls `changed` now, and whenever anything of the counter has changed, with its `state`, and
     * watches it as long as there are subscribers. It is what Svelte takes for a store, and React's
     * useSyncExternalStore for a subscription.
     * @param {(state: State) => void} changed
     * @returns {() => void} ends it
     */
    subscribe: (changed: (state: State) => void) => () => void;
    /** Tells the subscribers. */
    changed(): void;
    /** Ends watching, with all subscriptions. */
    close(): void;
}
