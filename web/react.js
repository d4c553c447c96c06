// Counters in React: hooks that render on servers, too.
import { createContext, useContext, useSyncExternalStore } from "react";

/** @typedef {import("./counter.js").Counters} Counters */
/** @typedef {import("./counter.js").State} State */

/** What a server knows, and a page until it has heard. @type {State} */
const unknown = { value: undefined, limit: undefined, left: undefined, liked: undefined, pending: 0, exists: undefined, live: false, heldUp: false, error: undefined };
const Context = createContext(/** @type {Counters | undefined} */ (undefined));

/** Gives the counters to the hooks below it: `<CountersProvider value={counters}>`. */
export const CountersProvider = Context.Provider;

/**
 * A counter, as it is now.
 * @param {string} id
 * @param {string} [field]
 */
export function useCounter(id, field) {
  const { counter, state } = useState(id, field);
  return {
    value: state.value, limit: state.limit, left: state.left, pending: state.pending, exists: state.exists, live: state.live, heldUp: state.heldUp, error: state.error,
    /** @param {number} [by] */
    add: (by) => counter.add(by),
    /** @param {string} key @param {number} [by] */
    incrementOnce: (key, by) => counter.incrementOnce(key, by),
  };
}

/**
 * A counter of members, as it is now, and whether the user is one.
 * @param {string} id
 * @param {string} [field]
 */
export function useLike(id, field) {
  const { counter, state } = useState(id, field);
  const { liked } = state;
  return {
    value: state.value, limit: state.limit, left: state.left, liked, pending: state.pending, exists: state.exists, live: state.live, heldUp: state.heldUp, error: state.error,
    toggle: () => counter.toggle(),
  };
}

/** @param {string} id @param {string} [field] */
function useState(id, field) {
  const counters = useContext(Context);
  if (!counters) throw new Error("want <CountersProvider value={counters}> around what uses a counter");
  const counter = counters.counter(id, field);
  return { counter, state: useSyncExternalStore(counter.subscribe, () => counter.state, () => unknown) };
}
