export type Counters = import("./counter.js").Counters;
export type State = import("./counter.js").State;
/** Gives the counters to the hooks below it: `<CountersProvider value={counters}>`. */
export declare const CountersProvider: import("react").Provider<import("./counter.js").Counters | undefined>;
/**
 * A counter, as it is now.
 * @param {string} id
 * @param {string} [field]
 */
export declare function useCounter(id: string, field?: string): {
    value: number | null | undefined;
    pending: number;
    exists: boolean | undefined;
    live: boolean;
    error: Error | undefined;
    /** @param {number} [by] */
    add: (by?: number) => Promise<void>;
    /** @param {string} key @param {number} [by] */
    incrementOnce: (key: string, by?: number) => Promise<boolean>;
};
/**
 * A counter of members, as it is now, and whether the user is one.
 * @param {string} id
 * @param {string} [field]
 */
export declare function useLike(id: string, field?: string): {
    value: number | null | undefined;
    liked: boolean | undefined;
    pending: number;
    exists: boolean | undefined;
    live: boolean;
    error: Error | undefined;
    toggle: () => Promise<boolean>;
};
