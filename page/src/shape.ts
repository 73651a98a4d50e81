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
  /** For stacked series: the series that is below, or -1 for the ground. */
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
