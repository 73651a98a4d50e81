// Events of /events, drawn as marks into all panels.

import { signal } from "@preact/signals";
import { get, Refusal, RETRY } from "./api";
import type { Mark } from "./draw";
import { view, zone } from "./state";

export const marks = signal<Mark[]>([]);
export const showsMarks = signal(false);
export const marksProblem = signal("");

const MARKS_MAX = 500;
/** The newest request. Answers to those before it are not wanted. */
let running: AbortController | null = null;
let timer: number | undefined;

export async function loadMarks(): Promise<void> {
  running?.abort();
  window.clearTimeout(timer);
  const controller = new AbortController();
  running = controller;
  if (!showsMarks.value) {
    marks.value = [];
    marksProblem.value = "";
    return;
  }
  const { from, until } = view.value;
  const tz = zone.value;
  try {
    const found = await get<Mark[]>("events/get_data", [["from", from], ["until", until], ...(tz === "" ? [] : [["tz", tz] as [string, string]])], controller.signal);
    marks.value = found.slice(0, MARKS_MAX).map(({ when, what, tags }) => ({ when, what: String(what), tags: Array.isArray(tags) ? tags.map(String) : [] }));
    marksProblem.value = "";
  } catch (error) {
    if (controller.signal.aborted) return;
    marks.value = [];
    marksProblem.value = error instanceof Error ? error.message : String(error);
    if (error instanceof Refusal && error.passes) timer = window.setTimeout(() => void loadMarks(), RETRY);
  }
}

/** An event in words. */
export function said({ what, tags }: Mark): string {
  return tags.length > 0 ? `${what} (${tags.join(", ")})` : what;
}
