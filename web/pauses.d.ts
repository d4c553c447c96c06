declare const LONGEST = 15000;
export { LONGEST };
export type Pause = {
    ms: number;
    /**
     * until the next attempt
     */
    timer?: ReturnType<typeof setTimeout>;
    trouble?: string;
};
/**
 * @typedef {object} Pause
 * @property {number} ms
 * @property {ReturnType<typeof setTimeout>} [timer] until the next attempt
 * @property {string} [trouble]
 */
/** Pauses of counters, each by itself, and under "" of all: while the server can't be reached. */
export declare class Pauses {
    #private;
    over: () => void;
    /** @param {() => void} over called when one is over */
    constructor(over: () => void);
    /**
     * Why nothing gets through, in words; undefined while it does.
     * @returns {string | undefined}
     */
    get trouble(): string | undefined;
    /** @param {string} counter */
    get(counter: string): Pause | undefined;
    /** What goes to a counter gets through. @param {string} counter */
    through(counter: string): void;
    /**
     * Something didn't. The next pause is twice as long.
     * @param {string} counter
     * @param {number} least ms
     * @param {string} [trouble]
     */
    begin(counter: string, least: number, trouble?: string): void;
    /** Ends them; how long the next are stays. */
    end(): void;
    /** Forgets them. */
    clear(): void;
}
