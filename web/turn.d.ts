/**
 * A turn that one page at a time has, by a Web Lock, which the browser gives to the next when the
 * page is gone; or, on pages that came neither over HTTPS nor from this machine and have no locks,
 * by a lease in the storage.
 */
export declare class Turn {
    #private;
    locks: LockManager | undefined;
    storage: import("./record.js").Store;
    /**
     * @param {string} name
     * @param {object} options
     * @param {LockManager} [options.locks]
     * @param {import("./record.js").Store} options.storage
     * @param {() => void} options.taken called when this page has it
     */
    constructor(name: string, { locks, storage, taken }: {
        locks?: LockManager;
        storage: import("./record.js").Store;
        taken: () => void;
    });
    /** Whether this page has it. A page that slept through its lease doesn't. */
    get held(): boolean;
    /** Waits for it. */
    start(): void;
    /** Gives it back. */
    stop(): void;
}
