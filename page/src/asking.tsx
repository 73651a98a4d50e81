// Sends a request and shows its answer, or the reason if it is refused. Only the newest request counts.

import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Refusal, RETRY } from "./api";
import { visible } from "./numbers";
import { spoken } from "./state";

export function refusalOf(error: unknown): Refusal {
  return error instanceof Refusal ? error : new Refusal(-1, String(error));
}

export function Problem({ refusal }: { refusal: Refusal }) {
  return <div class="problem" role="alert">{refusal.message.split("\n").map((line, place) => <div key={place}>{visible(line)}</div>)}</div>;
}

/** A request with its answer, or with the problem if there is no answer. Only the newest request counts. It is sent again after a failure that may pass. */
export function useRequest<T>(): { answer: Signal<T | null>; problem: Signal<Refusal | null>; busy: Signal<boolean>; send: (request: (signal: AbortSignal) => Promise<T>, said: (answer: T) => string) => void } {
  const answer = useSignal<T | null>(null);
  const problem = useSignal<Refusal | null>(null);
  const busy = useSignal(false);
  const current = useSignal<AbortController | null>(null);
  const timer = useRef<number | undefined>(undefined);
  const stop = () => {
    current.peek()?.abort();
    window.clearTimeout(timer.current);
  };
  useEffect(() => stop, []);
  const send = (request: (signal: AbortSignal) => Promise<T>, said: (answer: T) => string) => {
    stop();
    busy.value = true;
    // The reason why an earlier request was refused does not apply to this one. After a 401 the problem stays, because it shows the field in which somebody may be typing the token.
    if (problem.peek()?.status !== 401) problem.value = null;
    attempt(request, said);
  };
  // After a failure the problem stays until there is an answer, so that it neither flickers nor is read aloud again.
  const attempt = (request: (signal: AbortSignal) => Promise<T>, said: (answer: T) => string) => {
    const controller = new AbortController();
    current.value = controller;
    request(controller.signal).then(
      (found) => {
        if (controller.signal.aborted) return;
        answer.value = found;
        problem.value = null;
        busy.value = false;
        spoken.value = said(found);
      },
      (error: unknown) => {
        if (controller.signal.aborted) return;
        answer.value = null;
        problem.value = refusalOf(error);
        busy.value = false;
        if (problem.value.passes) timer.current = window.setTimeout(() => attempt(request, said), RETRY);
      },
    );
  };
  return { answer, problem, busy, send };
}
