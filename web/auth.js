// Users of Firebase Authentication.

/**
 * Has counters know the user by Firebase Authentication: `new Counters({ url, ...signedIn(auth) })`.
 * Once it is known that nobody has signed in, not even anonymously, likes are refused, and no one has
 * joined. What is clicked before is the user's whom the page turns out to have.
 * @param {object} auth what `getAuth` returned
 * @param {{ uid: string, getIdToken: () => Promise<string> } | null} auth.currentUser
 * @param {(changed: () => void) => () => void} auth.onAuthStateChanged
 * @param {() => Promise<void>} [auth.authStateReady]
 */
export function signedIn(auth) {
  // Earlier versions of the SDK tell it only those who ask for changes.
  const known = () => auth.authStateReady?.() ?? new Promise((/** @type {(known: void) => void} */ known) => {
    const stop = auth.onAuthStateChanged(() => known(queueMicrotask(() => stop())));
  });
  return {
    /** @returns {string | undefined} */
    member: () => auth.currentUser?.uid,
    /** @param {() => void} changed */
    onUser: (changed) => auth.onAuthStateChanged(changed),
    /** @returns {Promise<Record<string, string>>} */
    headers: async () => {
      await known();
      const token = await auth.currentUser?.getIdToken();
      return token ? { Authorization: `Bearer ${token}` } : {};
    },
  };
}
