import { useLike } from "@firestore-counters/web/react";

export function Like({ post }) {
  const { value, liked, toggle } = useLike(post);
  return <button aria-pressed={liked ?? false} onClick={toggle}>♥ {value ?? "…"}</button>;
}
