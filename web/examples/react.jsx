import { useCounter } from "@firestore-counters/web/react";

export function Likes({ post }) {
  const { value, add } = useCounter(post);
  return <button onClick={() => add(1)}>♥ {value ?? "…"}</button>;
}
