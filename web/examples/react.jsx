import { useSyncExternalStore } from "react";
import { Counters } from "@firestore-counters/web";

const counters = new Counters({ url: "/increment" });

export function Likes({ post }) {
  const likes = counters.counter(post);
  const value = useSyncExternalStore(likes.subscribe, () => likes.value);
  return <button onClick={() => likes.add(1)}>♥ {value ?? "…"}</button>;
}
