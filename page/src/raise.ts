// Raises the series nearest to the pointer: a veil over the plot, and the series above it. They have a canvas of their own,
// because drawing a hundred series again takes longer than a frame.

import type uPlot from "uplot";

/** How much of the other series the veil hides. */
const VEIL = 0.6;

export class Raise {
  readonly #plot: uPlot;
  readonly #canvas: HTMLCanvasElement;
  readonly #isStepped: boolean;
  #series: number | null = null;

  constructor(plot: uPlot, isStepped: boolean) {
    this.#plot = plot;
    this.#isStepped = isStepped;
    this.#canvas = document.createElement("canvas");
    this.#canvas.className = "raise";
    plot.over.before(this.#canvas);
  }

  /** Raises the series with this number, which counts from 1 as in uPlot; null for none. */
  show(series: number | null): void {
    if (series === this.#series) return;
    this.#series = series;
    this.draw();
  }

  /** Draws the raised series. Must be called whenever the plot was drawn. */
  draw(): void {
    const { ctx, bbox, series, root } = this.#plot;
    const context = this.#canvas.getContext("2d");
    const one = this.#series === null ? undefined : series[this.#series];
    if (!context || (!one && this.#canvas.width === 0)) return;
    const { width, height } = ctx.canvas;
    if (this.#canvas.width !== width || this.#canvas.height !== height) Object.assign(this.#canvas, { width, height });
    context.clearRect(0, 0, width, height);
    if (!one || this.#series === null) return;
    context.save();
    context.beginPath();
    context.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    context.clip();
    context.globalAlpha = VEIL;
    context.fillStyle = getComputedStyle(root).getPropertyValue("--sheet");
    context.fillRect(bbox.left, bbox.top, bbox.width, bbox.height);
    context.globalAlpha = one.alpha ?? 1;
    context.strokeStyle = paint(one, this.#plot, this.#series);
    context.lineWidth = (one.width ?? 1) * devicePixelRatio;
    context.setLineDash((one.dash ?? []).map((length) => length * devicePixelRatio));
    context.stroke(this.#path(this.#series, one));
    context.restore();
  }

  #path(place: number, one: uPlot.Series): Path2D {
    const plot = this.#plot;
    const [path, times, values] = [new Path2D(), plot.data[0], plot.data[place] ?? []];
    const scale = one.scale ?? "y";
    let before: number | null = null;
    times.forEach((time, at) => {
      const value = values[at];
      // The series has no slot at this time: another one has a shorter step.
      if (value === undefined) return;
      if (value === null) {
        if (one.spanGaps !== true) before = null;
        return;
      }
      const [x, y] = [plot.valToPos(time, "x", true), plot.valToPos(value, scale, true)];
      if (before === null) path.moveTo(x, y);
      else if (this.#isStepped) path.lineTo(x, before);
      path.lineTo(x, y);
      before = y;
    });
    return path;
  }
}

/** The colour of a series. uPlot turns the colour that it was given into a function. */
function paint(one: uPlot.Series, plot: uPlot, place: number): string | CanvasGradient | CanvasPattern {
  return typeof one.stroke === "function" ? one.stroke(plot, place) : (one.stroke ?? "transparent");
}
