// Converts the state of the page to text and back: parameters of /render, with `panel=TITLE` before each
// further panel. No access to the browser.

export type Pair = [name: string, value: string];

export interface Panel {
  title: string;
  targets: string[];
  /** Other parameters of /render, such as areaMode. */
  options: Pair[];
}

export interface View {
  from: string;
  until: string;
  /** A time zone, or "" for the browser's. */
  tz: string;
  /** `false` if new points are not shown as they arrive; absent otherwise. */
  live?: false;
  panels: Panel[];
}

/** The start time of a view that has no target yet. */
export const DEFAULT_FROM = "-1h";
/** The start time of a link with targets that contains none, as in /render. */
const RENDER_FROM = "-24h";
export const DEFAULT_UNTIL = "now";

/** Maximum number of panels. More stall the browser. */
export const PANELS_MAX = 100;

/** Parameters that say how an answer is sent, and the size of a picture. The page drops them. */
const DROPPED = new Set(["format", "width", "height", "maxDataPoints", "jsonp", "pretty", "rawData", "_salt", "_t", "noCache"]);

/** Options of a panel that only the page knows; /render ignores them. */
const PAGE_ONLY = new Set(["hide", "only", "table"]);

export function emptyPanel(): Panel {
  return { title: "", targets: [], options: [] };
}

export function parseView(text: string): View {
  const view: View = { from: "", until: DEFAULT_UNTIL, tz: "", panels: [] };
  let panel = emptyPanel();
  let begun = false;
  const close = () => {
    if (begun) view.panels.push(panel);
  };
  for (const [name, value] of pairs(text)) {
    if (name === "panel") {
      close();
      panel = { ...emptyPanel(), title: value };
      begun = true;
    } else if (name === "from" || name === "until" || name === "tz") {
      if (value !== "") view[name] = value;
    } else if (name === "live") {
      if (value === "0") view.live = false;
      else delete view.live;
    } else if (name === "target" || name === "target[]") {
      panel.targets.push(value);
      begun = true;
    } else if (name === "title") {
      panel.title = value;
      begun = true;
    } else if (!DROPPED.has(name)) {
      panel.options.push([name, value]);
      begun = true;
    }
  }
  close();
  if (view.from === "") view.from = defaultFrom(view);
  return view;
}

function defaultFrom(view: View): string {
  return view.panels.some((panel) => panel.targets.length > 0) ? RENDER_FROM : DEFAULT_FROM;
}

/** The parameters that take only certain values, with these values. Other values have no effect. */
const VALUES = new Map([
  ["areaMode", ["none", "first", "all", "stacked"]],
  ["lineMode", ["slope", "staircase", "connected"]],
  ["yUnitSystem", ["si", "binary", "none", "sec", "msec"]],
  ["live", ["0", "1"]],
  ["table", ["0", "1"]],
]);

/** The parts of a link that cannot be understood. The other parts are used. */
export function unreadable(text: string): string[] {
  const found: string[] = [];
  for (const part of text.replace(/^[?#]/, "").split("&")) {
    if (part === "" || part === "panel" || DROPPED.has(part)) continue;
    const why = part.includes("=") ? (isEncoded(part) ? mistake(part) : "has a % that encodes no character") : "is no parameter with a value";
    if (why !== "") found.push(`“${part.length > 60 ? `${part.slice(0, 60)}…` : part}” ${why}`);
  }
  return found.length > 5 ? [...found.slice(0, 5), `${found.length - 5} more`] : found;
}

/** Why the value of a parameter has no effect; "" if it has one. */
function mistake(part: string): string {
  const [name, value] = pairs(part)[0] ?? ["", ""];
  if (value === "") return "";
  if (name === "tz") return isZone(value) ? "" : "is no time zone that this browser knows; times are in its own";
  if ((name === "yMin" || name === "yMax") && Number.isNaN(Number(value))) return "is no number";
  const known = VALUES.get(name);
  return known === undefined || known.includes(value) ? "" : `is not one of ${known.join(", ")}`;
}

/** Whether the browser knows a time zone. */
export function isZone(name: string): boolean {
  try {
    return name !== "" && new Intl.DateTimeFormat("en-GB", { timeZone: name }) !== null;
  } catch {
    return false;
  }
}

function isEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** The parameters in an address of any Graphite's /render or composer, or of this page; null for other texts. */
export function queryOfAddress(text: string): string | null {
  const found = /^\s*(?:https?:\/\/[^\s?#]*|\/[^\s?#]*)?[?#]((?:\S*&)?target(?:\[\]|%5B%5D)?=[^\r\n]*?)\s*$/i.exec(text);
  const query = found?.[1] ?? "";
  return parseView(query).panels.some((panel) => panel.targets.length > 0) ? query : null;
}

/** The view of such an address; null for other texts. */
export function viewOfAddress(text: string): View | null {
  const query = queryOfAddress(text);
  return query === null ? null : parseView(query);
}

export function formatView(view: View): string {
  const out: Pair[] = [];
  if (view.from !== defaultFrom(view)) out.push(["from", view.from]);
  if (view.until !== DEFAULT_UNTIL) out.push(["until", view.until]);
  if (view.tz !== "") out.push(["tz", view.tz]);
  if (view.live === false) out.push(["live", "0"]);
  view.panels.forEach((panel, place) => {
    if (place > 0) out.push(["panel", panel.title]);
    else if (panel.title !== "" || (panel.targets.length === 0 && panel.options.length === 0)) out.push(["title", panel.title]);
    for (const target of panel.targets) out.push(["target", target]);
    out.push(...panel.options);
  });
  return out.map(([name, value]) => `${encode(name)}=${encode(value)}`).join("&");
}

export function option(panel: Panel, name: string): string {
  return panel.options.findLast((pair) => pair[0] === name)?.[1] ?? "";
}

/** The panel with an option set, or without it if the value is "". */
export function withOption(panel: Panel, name: string, value: string): Panel {
  const options = panel.options.filter((pair) => pair[0] !== name);
  if (value !== "") options.push([name, value]);
  return { ...panel, options };
}

/** The panel without the options that only the page knows. */
export function bare(panel: Panel): Panel {
  return { ...panel, options: panel.options.filter(([name]) => !PAGE_ONLY.has(name)) };
}

export function withLive(view: View, live: boolean): View {
  const { live: _, ...rest } = view;
  return live ? rest : { ...rest, live: false };
}

/** The hidden series: those that `hide` names, or all except those that `only` names. An `only` that names none of the series is ignored. */
export function hiddenOf(panel: Panel, names: readonly string[]): Set<string> {
  const [hide, only] = [valuesOf(panel, "hide"), valuesOf(panel, "only")];
  const isAlone = names.some((name) => only.has(name));
  return new Set(names.filter((name) => (isAlone ? !only.has(name) : hide.has(name))));
}

/** The panel after a series was hidden or shown again; `alone` shows it as the only one. If it is the only one already, all are shown again. */
export function withToggled(panel: Panel, names: readonly string[], name: string, alone: boolean): Panel {
  const hidden = hiddenOf(panel, names);
  const shown = names.filter((other) => !hidden.has(other));
  if (alone) return shown.every((other) => other === name) && shown.length > 0 ? withValues(panel, [], []) : withValues(panel, [], [name]);
  if (names.some((other) => valuesOf(panel, "only").has(other))) {
    const next = hidden.has(name) ? [...shown, name] : shown.filter((other) => other !== name);
    return next.length === 0 ? withValues(panel, names, []) : withValues(panel, [], new Set(next).size === new Set(names).size ? [] : next);
  }
  const hide = valuesOf(panel, "hide");
  if (!hide.delete(name)) hide.add(name);
  return withValues(panel, hide, []);
}

function valuesOf(panel: Panel, name: string): Set<string> {
  return new Set(panel.options.filter((pair) => pair[0] === name).map((pair) => pair[1]));
}

function withValues(panel: Panel, hide: Iterable<string>, only: Iterable<string>): Panel {
  const made = (name: string, values: Iterable<string>): Pair[] => [...new Set(values)].map((value) => [name, value]);
  const others = panel.options.filter(([name]) => name !== "hide" && name !== "only");
  return { ...panel, options: [...others, ...made("hide", hide), ...made("only", only)] };
}

function pairs(text: string): Pair[] {
  const found: Pair[] = [];
  for (const part of text.replace(/^[?#]/, "").split("&")) {
    if (part === "") continue;
    const at = part.indexOf("=");
    const [name, value] = at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)];
    found.push([decode(name), decode(value)]);
  }
  return found;
}

/** Decodes what can be decoded, and leaves the rest as it is. */
function decode(text: string): string {
  const spaced = text.replaceAll("+", " ");
  try {
    return decodeURIComponent(spaced);
  } catch {
    return spaced.replace(/(%[0-9a-f]{2})+/gi, (part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    });
  }
}

/** Encodes as little as is safe, so that a link stays readable. */
function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed())
    .replace(/%(2C|3A|2F|40|3B|7B|7D|5B|5D|24)/g, (part) => decodeURIComponent(part))
    .replaceAll("%20", "+");
}
