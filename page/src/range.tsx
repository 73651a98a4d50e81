// The time range, the time zone, and whether the page is live.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { get, type Columns } from "./api";
import { loadMarks, showsMarks } from "./events";
import { DEFAULT_FROM, DEFAULT_UNTIL, withLive } from "./link";
import { moment, visible } from "./numbers";
import { answered, change, isAbsolute, isSeconds, live, refused, setLive, setRange, setSeconds, view, zone } from "./state";
import { Unseen } from "./unseen";

const RANGES: [name: string, from: string][] = [
  ["5 min", "-5min"], ["15 min", "-15min"], ["1 h", "-1h"], ["3 h", "-3h"], ["6 h", "-6h"], ["12 h", "-12h"], ["24 h", "-24h"],
  ["2 days", "-2d"], ["7 days", "-7d"], ["30 days", "-30d"], ["90 days", "-90d"], ["1 year", "-1y"], ["5 years", "-5y"],
];
/** How often a live view asks for events, in milliseconds. */
const MARKS_EVERY = 10_000;
const ZONES = ["", "UTC", "Europe/London", "Europe/Berlin", "America/New_York", "America/Los_Angeles", "Asia/Kolkata", "Asia/Tokyo", "Australia/Sydney"];

export function Range() {
  const { from, until, tz } = view.value;
  const isOpen = useSignal(false);
  const opener = useRef<HTMLButtonElement>(null);
  const close = () => {
    isOpen.value = false;
    opener.current?.focus();
  };
  const typedFrom = useSignal(from);
  const typedUntil = useSignal(until);
  useEffect(() => {
    typedFrom.value = from;
    typedUntil.value = until;
  }, [from, until]);
  const follows = live.value && !isAbsolute(until) && showsMarks.value;
  useEffect(() => {
    void loadMarks();
    if (!follows) return;
    const timer = window.setInterval(() => document.visibilityState === "visible" && void loadMarks(), MARKS_EVERY);
    return () => window.clearInterval(timer);
  }, [from, until, tz, showsMarks.value, follows]);
  const known = RANGES.find((range) => range[1] === from && until === DEFAULT_UNTIL);
  const text = (time: string) => (/^\d{9,}$/.test(time) ? moment(Number(time), tz) : visible(time));
  const shown = known ? `last ${known[1] === DEFAULT_FROM ? "1 h" : known[0]}` : `${text(from)} – ${text(until)}`;
  const zones = ZONES.includes(tz) ? ZONES : [...ZONES, tz];
  const pan = (way: number) => {
    const [begin, end] = seconds(from, until);
    setSeconds(begin + (way * (end - begin)) / 2, end + (way * (end - begin)) / 2);
  };
  const zoomOut = () => {
    const [begin, end] = seconds(from, until);
    const half = (end - begin) / 2;
    setSeconds(begin - half, end + half);
  };
  return (
    <div class="range" onKeyDown={(event) => event.key === "Escape" && isOpen.value && close()}>
      <button type="button" class="icon" aria-label="Earlier" title="Earlier" onClick={() => pan(-1)}>‹</button>
      <button type="button" class="when" ref={opener} title={shown} aria-expanded={isOpen.value} aria-haspopup="dialog" onClick={() => (isOpen.value = !isOpen.value)}>
        {shown}
      </button>
      <button type="button" class="icon" aria-label="Later" title="Later" onClick={() => pan(1)}>›</button>
      <button type="button" class="icon" aria-label="Zoom out" title="Zoom out" onClick={zoomOut}>−</button>
      <button type="button" class="live" aria-pressed={live.value && !isAbsolute(until)} title="New points are shown as they come" onClick={() => {
        if (isAbsolute(until)) {
          const length = isAbsolute(from) ? Math.round(Number(until) - Number(from)) : NaN;
          change({ ...withLive(view.value, true), from: Number.isFinite(length) ? `-${length}s` : DEFAULT_FROM, until: DEFAULT_UNTIL });
        } else setLive(!live.value);
      }}>
        Live
      </button>
      {isOpen.value && (
        <div class="popup" role="dialog" aria-label="Time range">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            setRange(typedFrom.value.trim() || DEFAULT_FROM, typedUntil.value.trim() || DEFAULT_UNTIL);
            close();
          }}
        >
          <div class="quick">
            {RANGES.map(([name, begin]) => (
              <button type="button" key={begin} aria-pressed={known?.[1] === begin} onClick={() => (setRange(begin, DEFAULT_UNTIL), close())}>{name}</button>
            ))}
          </div>
          <label>From <input value={typedFrom.value} spellcheck={false} onInput={(event) => (typedFrom.value = event.currentTarget.value)} /></label>
          <label>Until <input value={typedUntil.value} spellcheck={false} onInput={(event) => (typedUntil.value = event.currentTarget.value)} /></label>
          <Unseen text={typedFrom.value + typedUntil.value} />
          <label>
            Time zone{" "}
            <select value={tz} onChange={(event) => change({ ...view.value, tz: event.currentTarget.value })}>
              {zones.map((zone) => <option key={zone} value={zone}>{zone === "" ? `of this browser (${Intl.DateTimeFormat().resolvedOptions().timeZone})` : visible(zone)}</option>)}
            </select>
          </label>
          <label class="check"><input type="checkbox" checked={showsMarks.value} onChange={(event) => (showsMarks.value = event.currentTarget.checked)} /> Show events</label>
          <p class="note">As in Graphite: -2h, noon yesterday, 14:30_20260102, or seconds since 1970.</p>
          <div class="buttons"><button type="submit">Apply</button></div>
        </form>
        </div>
      )}
    </div>
  );
}

/** The range in seconds as far as the page can tell; the daemon knows more words. */
function seconds(from: string, until: string): [number, number] {
  const known = answered.peek();
  if (known && known.key === keyOf(from, until)) return [known.from, known.until];
  const now = Math.floor(Date.now() / 1000);
  const units: Record<string, number> = { s: 1, min: 60, h: 3600, d: 86_400, w: 604_800, mon: 2_592_000, y: 31_536_000 };
  const of = (text: string): number | null => {
    if (isSeconds(text)) return Number(text);
    if (text === "now" || text === "") return now;
    const found = /^(?:now)?-(\d+)(s|min|h|d|w|mon|y)/.exec(text);
    return found ? now - Number(found[1]) * (units[found[2] ?? ""] ?? 1) : null;
  };
  const end = of(until) ?? now;
  return [of(from) ?? end - 3600, end];
}

function keyOf(from: string, until: string): string {
  return `${from} ${until} ${view.peek().tz}`;
}

/** Makes the times of the view absolute, so that a link shows the same later. */
export async function freeze(): Promise<void> {
  const { from, until } = view.peek();
  const key = keyOf(from, until);
  if (answered.peek()?.key !== key) {
    // For words that no panel has sent to the daemon yet, ask the daemon what they mean.
    const tz = zone.peek();
    const isOther = () => keyOf(view.peek().from, view.peek().until) !== key;
    try {
      const found = await get<Columns>("render", [["target", "constantLine(0)"], ["from", from], ["until", until], ...(tz === "" ? [] : [["tz", tz] as [string, string]]), ["format", "columns"]]);
      if (isOther()) return;
      answered.value = { key, from: found.from, until: found.until };
    } catch (error) {
      if (isOther()) return;
      // With guessed times the link would show something else.
      refused.value = `The times were not made absolute: ${error instanceof Error ? error.message : String(error)}.`;
      return;
    }
  }
  const [begin, end] = seconds(from, until);
  setSeconds(begin, end);
}
