// Draws the series of a panel with uPlot, and follows the pointer.

import uPlot from "uplot";
import type { Columns } from "./api";
import { colorOf, faded } from "./colors";
import { short } from "./numbers";
import { Raise } from "./raise";
import { padded, shape, type Shaped } from "./shape";

/** An event of /events. */
export interface Mark {
  when: number;
  what: string;
  tags: string[];
}

export interface Asked {
  answer: Columns;
  lineMode: string;
  areaMode: string;
  unit: string;
  yMin: number | null;
  yMax: number | null;
  dark: boolean;
  zone: string;
  hidden: ReadonlySet<string>;
  marks: Mark[];
  width: number;
  height: number;
}

export interface Followed {
  /** The index of the time under the pointer, or null. */
  at: number | null;
  /** The series nearest to the pointer, or null. */
  nearest: number | null;
  left: number;
  top: number;
  /** The events at the pointer. */
  marks: Mark[];
}

export interface Wishes {
  follow: (followed: Followed) => void;
  range: (from: number, until: number) => void;
}

/** The crosshairs of all plots move together. */
const TOGETHER = "all";
/** With more series than this, only the nearest one has a point at the crosshair: each point is a layer of the browser. */
const POINTS_MAX = 30;

export class Drawn {
  readonly plot: uPlot;
  shaped: Shaped;
  asked: Asked;
  /** Which series have a value that only a point can show, because it is between two gaps. */
  lonely: boolean[];

  constructor(host: HTMLElement, asked: Asked, wishes: Wishes) {
    const { answer } = asked;
    const stacks = stacker(asked);
    this.shaped = shape(answer, stacks);
    this.asked = asked;
    this.lonely = this.shaped.drawn.map(lonely);
    const data = [this.shaped.times, ...this.shaped.drawn] as uPlot.AlignedData;
    this.plot = new uPlot(options(asked, this.shaped, wishes, this), data, host);
    this.plot.setScale("x", { min: answer.from, max: answer.until });
    gestures(this.plot, wishes);
  }

  /** Whether new values can be shown without a new plot, so that the zoom and the pointer stay. */
  static fits(old: Asked, next: Asked): boolean {
    const key = (asked: Asked) => JSON.stringify([asked.answer.series.map((s) => [s.name, s.options]), asked.lineMode, asked.areaMode, asked.unit, asked.yMin, asked.yMax, asked.dark, asked.zone, [...asked.hidden], asked.marks]);
    return key(old) === key(next);
  }

  destroy(): void {
    this.plot.destroy();
  }
}

function stacker(asked: Asked): (column: Columns["series"][number], place: number) => boolean {
  return (column) => !asked.hidden.has(column.name) && !column.options?.secondYAxis && !column.options?.drawAsInfinite && (asked.areaMode === "stacked" || column.options?.stacked === true);
}

export function update(drawn: Drawn, asked: Asked): void {
  const shaped = shape(asked.answer, stacker(asked));
  Object.assign(drawn, { shaped, asked, lonely: shaped.drawn.map(lonely) });
  drawn.plot.batch(() => {
    drawn.plot.setData([shaped.times, ...shaped.drawn] as uPlot.AlignedData, false);
    drawn.plot.setScale("x", { min: asked.answer.from, max: asked.answer.until });
  });
}

/** The options of a plot. `now` always has what is drawn at the moment, also after new values have come. */
function options(asked: Asked, shaped: Shaped, wishes: Wishes, now: Pick<Drawn, "asked" | "shaped" | "lonely">): uPlot.Options {
  const { answer, dark } = asked;
  const text = dark ? "#9aa7b4" : "#55616d";
  const grid = { stroke: dark ? "#ffffff12" : "#00000012", width: 1 };
  const font = "11px system-ui, sans-serif";
  const stepped = asked.lineMode === "staircase";
  const paths = stepped ? uPlot.paths.stepped?.({ align: 1 }) : uPlot.paths.linear?.();
  const hasSecond = answer.series.some((column) => column.options?.secondYAxis);
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  answer.series.forEach((column, place) => {
    const drawing = column.options ?? {};
    const color = colorOf(drawing.color, place, dark);
    const isStacked = shaped.below[place] !== null;
    const below = shaped.below[place] ?? -1;
    const filled = isStacked || asked.areaMode === "all" || (asked.areaMode === "first" && place === 0);
    if (isStacked && below >= 0) bands.push({ series: [place + 1, below + 1], fill: drawing.invisible ? "transparent" : faded(color, drawing.alpha ?? 0.35) });
    const one: uPlot.Series = {
      label: column.name,
      scale: drawing.secondYAxis ? "y2" : drawing.drawAsInfinite ? "infinite" : "y",
      show: !asked.hidden.has(column.name),
      stroke: drawing.invisible || drawing.drawAsInfinite ? "transparent" : color,
      width: drawing.lineWidth ?? 1.25,
      alpha: filled ? 1 : (drawing.alpha ?? 1),
      spanGaps: asked.lineMode === "connected",
      points: { show: () => now.lonely[place] ?? false, size: 4 },
    };
    if (paths) one.paths = paths;
    if (drawing.dashed) one.dash = [drawing.dashed, drawing.dashed];
    if (filled && !drawing.drawAsInfinite && !drawing.invisible && below < 0) one.fill = faded(color, drawing.alpha ?? (isStacked ? 0.35 : Math.min(0.3, 1 / answer.series.length)));
    series.push(one);
  });
  const axis = (scale: string, side: 1 | 3): uPlot.Axis => ({
    scale, side, stroke: text, font, grid: side === 3 ? grid : { show: false }, ticks: { show: false }, gap: 4,
    size: (_, labels) => Math.max(52, ...(labels ?? []).map((label) => 8 + 7 * label.length)),
    values: (_, splits) => splits.map((split) => short(split, asked.unit || "si")),
  });
  let raise: Raise | undefined;
  const range: uPlot.Scale.Range = (_, min, max) => padded(min, max, asked.yMin, asked.yMax);
  return {
    width: asked.width,
    height: asked.height,
    tzDate: (time) => (asked.zone === "" ? new Date(time * 1000) : zoned(time, asked.zone)),
    padding: [10, 10, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: TOGETHER, setSeries: false },
      focus: { prox: 24 },
      points: { size: 6, one: answer.series.length > POINTS_MAX },
      drag: { x: true, y: false, setScale: false },
      dataIdx: (plot, place, closest) => (place === 0 ? closest : near(plot, place, closest)),
    },
    // With any other value, all series would be drawn again when another series comes near the pointer.
    focus: { alpha: 1 },
    scales: {
      x: { time: true, range: (_, min, max) => [min, max] },
      y: { range },
      infinite: { range: () => [0, 1] },
      ...(hasSecond ? { y2: { range: (_: uPlot, min: number, max: number) => padded(min, max, null, null) } } : {}),
    },
    axes: [
      { stroke: text, font, grid, ticks: { ...grid, size: 4 }, size: 38, gap: 3, values: TIMES },
      axis("y", 3),
      ...(hasSecond ? [axis("y2", 1)] : []),
    ],
    series,
    bands,
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width < 4) return;
          wishes.range(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        },
      ],
      setCursor: [
        (plot) => {
          const { idx, left, top } = plot.cursor;
          const nearest = plot.series.findIndex((one, place) => place > 0 && (one as { _focus?: boolean })._focus === true);
          const focused = plot.series.filter((one, place) => place > 0 && (one as { _focus?: boolean })._focus === true).length;
          const inside = left !== undefined && left !== null && left >= 0;
          raise?.show(inside && focused === 1 && answer.series.length > 1 ? nearest : null);
          wishes.follow({ at: inside ? (idx ?? null) : null, nearest: focused === 1 ? nearest - 1 : null, left: left ?? 0, top: top ?? 0, marks: inside ? marksNear(plot, asked.marks, left) : [] });
        },
      ],
      ready: [(plot) => (raise = new Raise(plot, stepped))],
      draw: [(plot) => infinite(plot, now.asked, now.shaped), (plot) => marks(plot, asked), () => raise?.draw()],
    },
  };
}

/** The default labels of uPlot in the 24-hour clock. */
const TIMES: uPlot.Axis.Values = [
  [31_536_000, "{YYYY}", null, null, null, null, null, null, 1],
  [2_419_200, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86_400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [3600, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
  [60, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
] as unknown as uPlot.Axis.Values;

function zoned(time: number, zone: string): Date {
  try {
    return uPlot.tzDate(new Date(time * 1000), zone);
  } catch {
    return new Date(time * 1000);
  }
}

/** Whether a series has a value between two gaps, which no line would show. */
function lonely(values: (number | null | undefined)[]): boolean {
  const known = values.filter((value) => value !== undefined);
  return known.some((value, at) => value !== null && (known[at - 1] ?? null) === null && (known[at + 1] ?? null) === null);
}

/** The index of the nearest value of a series that has a longer step than others. */
function near(plot: uPlot, series: number, place: number): number {
  const values = plot.data[series];
  if (!values || values[place] !== undefined) return place;
  for (let away = 1; away < 200; away++) {
    if (values[place - away] !== undefined) return place - away;
    if (values[place + away] !== undefined) return place + away;
  }
  return place;
}

function infinite(plot: uPlot, asked: Asked, shaped: Shaped): void {
  const { ctx, bbox } = plot;
  asked.answer.series.forEach((column, place) => {
    if (!column.options?.drawAsInfinite || asked.hidden.has(column.name)) return;
    ctx.save();
    ctx.strokeStyle = colorOf(column.options.color, place, asked.dark);
    ctx.globalAlpha = column.options.alpha ?? 1;
    ctx.lineWidth = (column.options.lineWidth ?? 1) * devicePixelRatio;
    ctx.beginPath();
    shaped.own[place]?.forEach((value, at) => {
      if (!value) return;
      const x = Math.round(plot.valToPos(shaped.times[at] ?? 0, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) return;
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
    });
    ctx.stroke();
    ctx.restore();
  });
}

/** The events within a few pixels of a place. */
export function marksNear(plot: uPlot, marks: Mark[], left: number): Mark[] {
  return marks.filter((mark) => Math.abs(plot.valToPos(mark.when, "x") - left) <= 6);
}

function marks(plot: uPlot, asked: Asked): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = asked.dark ? "#d9a0ff" : "#8a3fc4";
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const mark of asked.marks) {
    const x = Math.round(plot.valToPos(mark.when, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const size = 4 * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x - size, bbox.top);
    ctx.lineTo(x + size, bbox.top);
    ctx.lineTo(x, bbox.top + 1.5 * size);
    ctx.fill();
  }
  ctx.restore();
}

/** Wheel with Ctrl or Shift, and two fingers. */
function gestures(plot: uPlot, wishes: Wishes): void {
  const over = plot.over;
  const range = (): [number, number] => [plot.scales["x"]?.min ?? 0, plot.scales["x"]?.max ?? 0];
  let waiting: number | undefined;
  let wanted: [number, number] | null = null;
  const soon = (from: number, until: number) => {
    wanted = [from, until];
    plot.setScale("x", { min: from, max: until });
    window.clearTimeout(waiting);
    waiting = window.setTimeout(() => wanted && wishes.range(...wanted), 180);
  };
  over.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
      event.preventDefault();
      const [from, until] = wanted ?? range();
      const amount = event.deltaY || event.deltaX;
      if (event.shiftKey) {
        const by = (until - from) * Math.sign(amount) * 0.1;
        soon(from + by, until + by);
      } else {
        const at = plot.posToVal(event.clientX - over.getBoundingClientRect().left, "x");
        const by = Math.max(0.5, Math.min(2, 1.0015 ** amount));
        soon(at - (at - from) * by, at + (until - at) * by);
      }
    },
    { passive: false },
  );
  const fingers = new Map<number, number>();
  let pinch: { from: number; until: number; a: number; b: number } | null = null;
  const x = (event: PointerEvent) => event.clientX - over.getBoundingClientRect().left;
  over.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch") return;
    fingers.set(event.pointerId, x(event));
    const [a, b] = [...fingers.values()];
    if (a !== undefined && b !== undefined) pinch = { from: range()[0], until: range()[1], a: plot.posToVal(a, "x"), b: plot.posToVal(b, "x") };
  });
  over.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return;
    fingers.set(event.pointerId, x(event));
    const [a, b] = [...fingers.values()];
    if (!pinch || a === undefined || b === undefined || Math.abs(a - b) < 10) return;
    // The times under the two fingers stay under them during the gesture.
    const perPixel = (pinch.b - pinch.a) / (b - a);
    const from = pinch.a - a * perPixel;
    if (perPixel > 0) soon(from, from + over.clientWidth * perPixel);
  });
  for (const end of ["pointerup", "pointercancel", "pointerleave"] as const) {
    over.addEventListener(end, (event) => {
      fingers.delete(event.pointerId);
      pinch = null;
    });
  }
}
