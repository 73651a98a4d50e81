// Events of /events, drawn as marks into all panels.

import { signal } from "@preact/signals";
import { get } from "./api";
import type { Mark } from "./draw";
import { view } from "./state";

export const marks = signal<Mark[]>([]);
export const showsMarks = signal(false);
export const marksProblem = signal("");

const MARKS_MAX = 500;

export async function loadMarks(): Promise<void> {
  if (!showsMarks.value) {
    marks.value = [];
    return;
  }
  const { from, until, tz } = view.value;
  try {
    const found = await get<Mark[]>("events/get_data", [["from", from], ["until", until], ...(tz === "" ? [] : [["tz", tz] as [string, string]])]);
    marks.value = found.slice(0, MARKS_MAX).map(({ when, what }) => ({ when, what }));
    marksProblem.value = "";
  } catch (error) {
    marksProblem.value = error instanceof Error ? error.message : String(error);
  }
}
