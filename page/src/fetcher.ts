// Requests the series of a panel, repeatedly while the page is live and visible.

import { get, Refusal, type Columns } from "./api";
import type { Panel, View } from "./link";
import { option } from "./link";
import { SERIES_MAX } from "./shape";
import { zone } from "./state";

export type Outcome = { answer: Columns; view: View } | { problem: Refusal; retryIn: number | null };

const BACKOFF_MAX = 60_000;

/** One panel's requests: the newest replaces those before it. */
export class Fetcher {
  private running: AbortController | null = null;
  private timer: number | undefined;
  private failures = 0;

  constructor(private readonly deliver: (outcome: Outcome) => void) {}

  ask(view: View, panel: Panel, width: number, follows: boolean): void {
    this.stop();
    const controller = new AbortController();
    this.running = controller;
    get<Columns>("render", parameters(view, panel, width), controller.signal).then(
      (answer) => {
        this.failures = 0;
        this.deliver({ answer, view });
        if (follows) this.later(Math.max(1, step(answer)) * 1000, () => this.ask(view, panel, width, follows));
      },
      (error: unknown) => {
        if (controller.signal.aborted) return;
        const problem = error instanceof Refusal ? error : new Refusal(-1, String(error));
        const wait = problem.passes ? Math.min(BACKOFF_MAX, 1000 * 2 ** this.failures++) : null;
        this.deliver({ problem, retryIn: wait });
        if (wait !== null) this.later(wait, () => this.ask(view, panel, width, follows));
      },
    );
  }

  stop(): void {
    this.running?.abort();
    this.running = null;
    window.clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.onSight);
  }

  private next: (() => void) | null = null;
  private readonly onSight = () => {
    if (document.visibilityState !== "visible") return;
    document.removeEventListener("visibilitychange", this.onSight);
    this.next?.();
  };

  /** Continues after a while; in a hidden tab only once it is in sight again. */
  private later(milliseconds: number, next: () => void): void {
    this.next = next;
    this.timer = window.setTimeout(() => {
      if (document.visibilityState === "visible") next();
      else document.addEventListener("visibilitychange", this.onSight);
    }, milliseconds);
  }
}

export function parameters(view: View, panel: Panel, width: number): [string, string][] {
  const asked: [string, string][] = panel.targets.filter((target) => target.trim() !== "").map((target) => ["target", target]);
  for (const name of ["xFilesFactor", "noNullPoints", "cacheTimeout", "now"]) {
    const value = option(panel, name);
    if (value !== "") asked.push([name, value]);
  }
  for (const [name, value] of panel.options) if (name.startsWith("template[")) asked.push([name, value]);
  asked.push(["from", view.from], ["until", view.until]);
  // Words like "midnight", and days, refer to the time zone of the axis.
  const tz = zone.peek();
  if (tz !== "") asked.push(["tz", tz]);
  asked.push(["format", "columns"], ["maxDataPoints", String(width)], ["seriesMax", String(SERIES_MAX)], ["errors", "json"]);
  return asked;
}

function step(answer: Columns): number {
  return answer.series.reduce((least, column) => Math.min(least, column.step), answer.series.length > 0 ? Infinity : 60);
}
