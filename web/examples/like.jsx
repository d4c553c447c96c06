import { useLike } from "@firestore-counters/web/react";
import { asUser } from "./counters.js";

export function Like({ post }) {
  const { value, liked, error, toggle } = useLike(post, "likes");
  return <>
    <button aria-pressed={liked ?? false} onClick={() => asUser(toggle)}>♥ {value ?? "…"}</button>
    {error && <p role="alert">{error.message}</p>}
  </>;
}
