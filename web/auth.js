// Users of Firebase Authentication.

/**
 * Has counters know the user by Firebase Authentication: `new Counters({ url, ...signedIn(auth) })`.
 * Until somebody has signed in, also anonymously, likes are refused, and no one has joined.
 * @param {object} auth what `getAuth` returned
 * @param {{ uid: string, getIdToken: () => Promise<string> } | null} auth.currentUser
 * @param {(changed: () => void) => () => void} auth.onAuthStateChanged
 * @param {() => Promise<void>} [auth.authStateReady]
 */
export function signedIn(auth) {
  return {
    /** @returns {string | undefined} */
    member: () => auth.currentUser?.uid,
    /** @param {() => void} changed */
    onUser: (changed) => auth.onAuthStateChanged(changed),
    /** @returns {Promise<Record<string, string>>} */
    headers: async () => {
      await auth.authStateReady?.();
      const token = await auth.currentUser?.getIdToken();
      return token ? { Authorization: `Bearer ${token}` } : {};
    },
  };
}
