/**
 * ms after its answer, there was a roll-up with it, or the roll-up is broken: its interval is up to
 * 5 s.
 */
export declare const EXPIRES = 10000;
export type Own = {
    by: number;
    /**
     * when, in ms; Infinity until then
     */
    answered: number;
};
/**
 * An increment of ours that a roll-up to come may bring.
 * @typedef {object} Own
 * @property {number} by
 * @property {number} answered when, in ms; Infinity until then
 */
/**
 * The number to display: the total, and what we added that it doesn't hold. Nothing says which that
 * is, so this goes by moves of the total: one uses up what we added in its direction. While we
 * alone add to a counter, this is exact. While it only grows, nothing shows twice or steps back,
 * but one of ours that fails; what others add may hide behind ours until the total holds both.
 * Where others move it against us, this may be off by what we added in the last 3 seconds, at most
 * 10. Once all is counted, it is the total.
 */
export declare class Shown {
    #private;
    /**
     * The total of the last snapshot; undefined before the first, and null for the average of none.
     * @type {number | null | undefined}
     */
    total: number | null | undefined;
    /** The number to display; NaN before the first snapshot. */
    get value(): number;
    /**
     * Shows an increment of ours from now on.
     * @param {number} by
     * @returns {Own} set its `answered` once it is
     */
    add(by: number): Own;
    /**
     * Gives up waiting for what was answered long ago.
     * @param {Own} own
     * @param {number} now
     */
    expire(own: Own, now: number): void;
    /** Shows nothing any more of what was added here. */
    forget(): void;
    /**
     * Takes an increment back. Moves that used it up were not its own: they use up another of ours,
     * if there is one.
     * @param {Own} own
     */
    fail(own: Own): void;
    /**
     * Takes a new total.
     * @param {number | null} total
     * @param {number} now
     */
    snapshot(total: number | null, now: number): void;
    /**
     * Takes the first total after the connection was lost. What was answered is in it, or comes
     * with the next one, or is gone: it is shown no more, so that nothing shows that isn't there.
     * What still waits stays, as far as the total hasn't moved so much. What is being sent may be
     * in a total that has moved the other way, as that of a database that was started again: then
     * it shows once the total rises, and not twice until then.
     * @param {number | null} total
     * @param {{ 1: number, "-1": number }} [sent] what is being sent, by direction
     */
    reconnected(total: number | null, sent?: {
        1: number;
        "-1": number;
    }): void;
}
export type Way = 1 | -1;
