// The state that all parts of the page share. The view is written to the address, so that the address can be
// used as a link.

import { batch, computed, effect, signal } from "@preact/signals";
import { Keys } from "./keys";
import { emptyPanel, formatView, isZone, option, PANELS_MAX, parseView, unreadable, withLive, withOption, type Panel, type View } from "./link";

export const view = signal<View>(parseView(""));
/** The panel that names are added to. */
export const current = signal(0);
export const live = computed(() => view.value.live !== false);
export const sidebar = signal(window.innerWidth >= 900);
export const helping = signal(false);
/** What the page shows: graphs, the daemon's status, the test of its rules, or its costs. */
const SHOWN = ["graphs", "status", "rules", "costs"] as const;
export type Shown = (typeof SHOWN)[number];
export const showing = signal<Shown>("graphs");
export const theme = signal<"auto" | "dark" | "light">("auto");
/** The range of the newest answer, in seconds since the epoch. `key` stands for the times and the time zone that were asked for. */
export const answered = signal<{ key: string; from: number; until: number } | null>(null);
/** Parts of the link that could not be read, or not shown. */
export const unread = signal<string[]>([]);
/** Why the last action of the user was not carried out; "" if it was. */
export const refused = signal("");
/** What a screen reader is to say. */
export const spoken = signal("");

const system = window.matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(system.matches);
system.addEventListener("change", () => (systemDark.value = system.matches));
export const dark = computed(() => (theme.value === "auto" ? systemDark.value : theme.value === "dark"));

const known = Intl.DateTimeFormat().resolvedOptions().timeZone;
const ownZone = known === undefined || known === "Etc/Unknown" ? "" : known;
/** The time zone that times are shown and read in: the chosen one, or the browser's. "" if it is not known. */
export const zone = computed(() => (isZone(view.value.tz) ? view.value.tz : ownZone));

/** The keys by which the page recognises a panel when others are removed. */
export const panelKeys = new Keys();

/** Whether the time range moves with the clock. */
export const moves = computed(() => !isAbsolute(view.value.until));

/** Whether a time is in seconds since the epoch. Eight digits are a date. */
export function isSeconds(time: string): boolean {
  return /^\d{5,}$/.test(time) && time.length !== 8;
}

export function isAbsolute(time: string): boolean {
  return isSeconds(time) || /^\d\d:\d\d_\d{8}$/.test(time) || /^\d{8}$/.test(time);
}

/** Shows another part, or the graphs again. Back undoes it. */
export function show(what: Shown): void {
  if (showing.peek() === what) return;
  history.pushState(null, "", `${location.pathname}#${what === "graphs" ? formatView(view.peek()) : what}`);
  showing.value = what;
}

/** Reads the state from the address, and follows it from then on. */
export function begin(): void {
  const read = () => {
    showing.value = SHOWN.find((what) => location.hash === `#${what}`) ?? "graphs";
    if (showing.value !== "graphs") return;
    const text = location.hash.length > 1 ? location.hash : location.search;
    const found = parseView(text);
    unread.value = [...unreadable(text), ...tooMany(found)];
    refused.value = "";
    view.value = cut(found);
    current.value = Math.min(current.value, Math.max(0, view.value.panels.length - 1));
  };
  read();
  if (location.search !== "") history.replaceState(null, "", `${location.pathname}#${formatView(view.value)}`);
  window.addEventListener("hashchange", read);
  window.addEventListener("popstate", read);
  const saved = load("theme");
  if (saved === "dark" || saved === "light") theme.value = saved;
  effect(() => {
    document.documentElement.dataset["theme"] = dark.value ? "dark" : "light";
  });
}

/** A view with no more panels than the page shows. */
function cut(view: View): View {
  return view.panels.length > PANELS_MAX ? { ...view, panels: view.panels.slice(0, PANELS_MAX) } : view;
}

function tooMany(view: View): string[] {
  const more = view.panels.length - PANELS_MAX;
  return more > 0 ? [`panels after the first ${PANELS_MAX} (${more}) are not shown`] : [];
}

/** Shows the view of a text, or adds its panels. Back undoes it. */
export function openText(text: string, adds = false): void {
  const found = parseView(text);
  change(adds ? { ...view.peek(), panels: [...view.peek().panels, ...found.panels] } : found, unreadable(text));
}

/** Changes the state; Back undoes it. The problems are shown with it. */
export function change(wanted: View, problems: string[] = []): void {
  const next = cut(wanted);
  unread.value = [...problems, ...tooMany(wanted)];
  refused.value = "";
  const text = formatView(next);
  const wasOther = showing.peek() !== "graphs";
  showing.value = "graphs";
  if (wasOther || text !== formatView(view.peek())) history.pushState(null, "", `${location.pathname}#${text}`);
  view.value = next;
}

export function setRange(from: string, until: string): void {
  change({ ...view.peek(), from, until });
}

/** The first and the last second that a range may have: 1970-01-02, as smaller numbers could be other words, and the year 3000. */
const [FIRST, LAST] = [86_400, 32_503_680_000];

/** Shows the range between two moments in seconds, or one of 2 s if they are closer. */
export function setSeconds(begin: number, end: number): void {
  const within = (time: number) => Math.max(FIRST, Math.min(LAST, time));
  const from = within(Math.floor(begin));
  setRange(String(from), String(Math.max(from + 2, within(Math.ceil(end)))));
}

export function setLive(live: boolean): void {
  change(withLive(view.peek(), live));
}

export function setPanel(place: number, panel: Panel): void {
  // The series that is shown alone may be missing in the result of other targets.
  const next = (old: Panel) => (old.targets === panel.targets ? panel : withOption(panel, "only", ""));
  const panels = view.peek().panels.map((old, at) => (at === place ? next(old) : old));
  change({ ...view.peek(), panels });
}

export function setOption(place: number, name: string, value: string): void {
  const panel = view.peek().panels[place];
  if (panel && option(panel, name) !== value) setPanel(place, withOption(panel, name, value));
}

/** Sets options in one step, which Back undoes as one. */
export function setOptions(place: number, options: [name: string, value: string][]): void {
  const panel = view.peek().panels[place];
  if (panel) setPanel(place, options.reduce((made, [name, value]) => (option(made, name) === value ? made : withOption(made, name, value)), panel));
}

export function removePanel(place: number): void {
  const panels = view.peek().panels.filter((_, at) => at !== place);
  panelKeys.remove(place);
  batch(() => {
    current.value = Math.max(0, Math.min(current.peek(), panels.length - 1));
    change({ ...view.peek(), panels });
  });
}

export function addPanel(targets: string[] = []): void {
  const { length } = view.peek().panels;
  batch(() => {
    const panels = [...view.peek().panels, { ...emptyPanel(), targets }];
    change({ ...view.peek(), panels });
    current.value = view.peek().panels.length - 1;
  });
  // If the page shows no more panels, a message about that is shown instead.
  if (view.peek().panels.length > length) spoken.value = `Panel ${length + 1} added`;
}

/** Adds a panel for each of these targets, in one step. */
export function addPanels(targets: string[]): void {
  batch(() => {
    const old = view.peek().panels.filter((panel) => panel.targets.length > 0);
    change({ ...view.peek(), panels: [...old, ...targets.map((target) => ({ ...emptyPanel(), targets: [target] }))] });
    current.value = Math.min(old.length, view.peek().panels.length - 1);
    spoken.value = `${view.peek().panels.length - old.length} panels added`;
  });
}

/** Plots a target in a panel of its own, or adds it to the current panel. */
export function plot(target: string, adds: boolean): void {
  const { panels } = view.peek();
  const panel = panels[current.peek()];
  if (adds && panel) {
    setPanel(current.peek(), { ...panel, targets: [...panel.targets, target] });
    spoken.value = `Added to panel ${current.peek() + 1}`;
  } else if (panel && panels.length === 1 && panel.targets.length === 0) {
    setPanel(0, { ...panel, targets: [target] });
  } else {
    addPanel([target]);
  }
}

export function load(key: string): string | null {
  try {
    return localStorage.getItem(`plumbago.${key}`);
  } catch {
    return null;
  }
}

export function save(key: string, value: string): void {
  try {
    localStorage.setItem(`plumbago.${key}`, value);
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
}
