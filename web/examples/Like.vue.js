import { h, shallowRef, watchEffect } from "vue";

export const Like = {
  props: ["counter"],
  setup({ counter }) {
    const likes = shallowRef(counter.state);
    // post: not on a server
    watchEffect((ended) => ended(counter.subscribe((now) => (likes.value = now))), { flush: "post" });
    const toggle = () => (likes.value.liked ? counter.leave() : counter.join());
    return () => h("button", { "aria-pressed": likes.value.liked ?? false, onClick: toggle }, `♥ ${likes.value.value ?? "…"}`);
  },
};
