// Checks whether the daemon serves another version of the page than the open one, e.g. after an update.

import { effect, signal } from "@preact/signals";
import { returned } from "./api";

export const isOld = signal(false);

const EVERY = 600_000;

/** From now on, compares the page's script with the daemon's: from time to time, when the page is in sight again, and after a failure. */
export function followVersion(): void {
  let first: string | null = null;
  const look = async () => {
    const tag = await newest();
    if (tag === null) return;
    first ??= tag;
    if (tag !== first) isOld.value = true;
  };
  void look();
  window.setInterval(() => document.visibilityState === "visible" && void look(), EVERY);
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && void look());
  effect(() => {
    if (returned.value > 0) void look();
  });
}

/** The tag of the daemon's script; null if it cannot be read. */
async function newest(): Promise<string | null> {
  try {
    const response = await fetch(new URL("page.js", import.meta.url), { method: "HEAD", cache: "no-store", credentials: "same-origin" });
    return response.ok ? response.headers.get("etag") : null;
  } catch {
    return null;
  }
}
