import { useCounter } from "@firestore-counters/web/react";

export function Likes({ post }) {
  const { value, error, add } = useCounter(post);
  return (
    <>
      <button onClick={() => add(1).catch(() => {})}>♥ {value ?? "…"}</button>
      {error && <p role="alert">{error.message}</p>}
    </>
  );
}
