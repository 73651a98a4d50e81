// Requests an answer of the daemon while a part of the page is shown.

import { useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, Refusal, RETRY } from "./api";
import type { Pair } from "./link";

/** The answer, and the problem if there is no answer ("" for no problem). It is requested again when `key` changes, and after a failure that may pass. */
export function useAnswer<T>(path: string, parameters: () => Pair[], key: string): { found: ReadonlySignal<T | null>; problem: ReadonlySignal<string> } {
  const found = useSignal<T | null>(null);
  const problem = useSignal("");
  useEffect(() => {
    const controller = new AbortController();
    let timer: number | undefined;
    const ask = () => {
      get<T>(path, parameters(), controller.signal).then(
        (answer) => {
          found.value = answer;
          problem.value = "";
        },
        (error: unknown) => {
          if (controller.signal.aborted) return;
          problem.value = error instanceof Refusal ? error.message : String(error);
          if (error instanceof Refusal && error.passes) timer = window.setTimeout(ask, RETRY);
        },
      );
    };
    ask();
    return () => {
      controller.abort();
      window.clearTimeout(timer);
    };
  }, [key]);
  return { found, problem };
}
