// An answer of /render as the columns that uPlot draws. No access to the browser.

import type { Column, Columns } from "./api";

/** Maximum number of series that are drawn. More cannot be told apart, and stall the browser. */
export const SERIES_MAX = 500;

export interface Shaped {
  times: number[];
  /** What is drawn: sums for stacked series. `undefined` where a series of a longer step has no value. */
  drawn: (number | null | undefined)[][];
  /** The series' own values on the same times. */
  own: (number | null | undefined)[][];
  /** For each stacked series the series below it, or -1 for the ground; null for other series. */
  below: (number | null)[];
}

export interface Summary {
  last: number | null;
  min: number | null;
  max: number | null;
  mean: number | null;
}

export function shape(answer: Columns, stacks: (column: Column, place: number) => boolean): Shaped {
  const times = [...new Set(answer.axes.flatMap((axis) => Array.from({ length: axis.count }, (_, at) => axis.start + at * axis.step)))].sort((a, b) => a - b);
  const places = answer.axes.map((axis) => {
    if (answer.axes.length === 1) return null;
    const found = new Int32Array(axis.count);
    for (let at = 0, from = 0; at < axis.count; at++) {
      while (times[from] !== axis.start + at * axis.step) from++;
      found[at] = from;
    }
    return found;
  });
  const own = answer.series.map((column) => {
    const map = places[column.axis];
    if (!map) return column.values;
    const spread = new Array<number | null | undefined>(times.length).fill(undefined);
    column.values.forEach((value, at) => (spread[map[at] ?? 0] = value));
    return spread;
  });
  const below: (number | null)[] = answer.series.map(() => null);
  const drawn = own.slice();
  let ground: number[] | null = null;
  let latest = -1;
  const known = new Uint8Array(times.length);
  answer.series.forEach((column, place) => {
    if (!stacks(column, place)) return;
    const sums: number[] = ground?.slice() ?? new Array<number>(times.length).fill(0);
    const values = own[place] ?? [];
    for (let at = 0; at < sums.length; at++) {
      const value = values[at];
      if (value === null || value === undefined) continue;
      sums[at] = (sums[at] ?? 0) + value;
      known[at] = 1;
    }
    ground = sums;
    drawn[place] = sums.map((sum, at) => (values[at] === undefined ? undefined : sum));
    below[place] = latest;
    latest = place;
  });
  // Where no series of the stack has a value there is a gap without a filled area.
  drawn.forEach((values, place) => {
    if (below[place] !== null) drawn[place] = values.map((value, at) => (value === undefined || known[at] ? value : null));
  });
  return { times, drawn, own, below };
}

/** The ends of an axis for values between `min` and `max`: the requested ends, if the lower one is below the upper one. */
export function padded(min: number | null, max: number | null, low: number | null, high: number | null): [number, number] {
  let [from, to] = [min ?? 0, max ?? 1];
  if (from === to) [from, to] = from === 0 ? [0, 1] : [Math.min(0, from), Math.max(0, to) * 1.1];
  const room = (to - from) * 0.06;
  const bottom = from >= 0 && from < (to - from) * 0.6 ? 0 : from - room;
  const ends: [number, number] = [low ?? bottom, high ?? to + room];
  if (ends[0] < ends[1]) return ends;
  if (low !== null && high !== null) return padded(min, max, null, null);
  // All values are outside of the end that was asked for.
  return low === null ? [ends[1] - 1, ends[1]] : [ends[0], ends[0] + 1];
}

export function summary(values: (number | null | undefined)[]): Summary {
  let [sum, known] = [0, 0];
  let last: number | null = null;
  let min: number | null = null;
  let max: number | null = null;
  for (const value of values) {
    if (value === null || value === undefined) continue;
    last = value;
    sum += value;
    known++;
    if (min === null || value < min) min = value;
    if (max === null || value > max) max = value;
  }
  return { last, min, max, mean: known > 0 ? sum / known : null };
}
