// One answer of the daemon, asked for while a part of the page is shown.

import { useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, Refusal } from "./api";
import type { Pair } from "./link";

/** The answer, and why there is none: "" if there is no problem. It is asked for anew when `key` changes. */
export function useAnswer<T>(path: string, parameters: () => Pair[], key: string): { found: ReadonlySignal<T | null>; problem: ReadonlySignal<string> } {
  const found = useSignal<T | null>(null);
  const problem = useSignal("");
  useEffect(() => {
    const controller = new AbortController();
    get<T>(path, parameters(), controller.signal).then(
      (answer) => {
        found.value = answer;
        problem.value = "";
      },
      (error: unknown) => {
        if (!controller.signal.aborted) problem.value = error instanceof Refusal ? error.message : String(error);
      },
    );
    return () => controller.abort();
  }, [key]);
  return { found, problem };
}
