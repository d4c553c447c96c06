import { useSyncExternalStore } from "react";
import { Counters } from "@firestore-counters/web";

const counters = new Counters({ url: "/increment" });

export function Like({ post, user }) {
  const likes = counters.counter(post);
  const value = useSyncExternalStore(likes.subscribe, () => likes.value);
  const liked = useSyncExternalStore(likes.subscribe, () => likes.joined(user));
  return <button aria-pressed={liked} onClick={() => (liked ? likes.leave(user) : likes.join(user))}>♥ {value ?? "…"}</button>;
}
