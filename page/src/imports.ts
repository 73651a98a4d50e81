// Turns graphs of other programs into panels of this page: addresses of /render, dashboards of graphite-web,
// dashboards, panels and Explore links of Grafana. No access to the browser.

import { classic, isSecond } from "./grafana2";
import { fields, list, string, type Fields } from "./json";
import { DEFAULT_FROM, DEFAULT_UNTIL, emptyPanel, PANELS_MAX, parseView, queryOfAddress, unreadable, type Pair, type Panel, type View } from "./link";

export interface Imported {
  view: View;
  /** Variables in the targets, with the values that they have in the imported graph. */
  variables: Pair[];
  /** What is not in the view, and why. */
  leftOut: string[];
}

/** A text that holds no graph that can be shown. */
export class Unreadable extends Error {}

/** The longest text that is read. */
export const TEXT_MAX = 20_000_000;

/** Reads a text that was pasted or dropped. */
export function readImport(text: string): Imported {
  const trimmed = text.trim();
  if (trimmed === "") throw new Unreadable("there is nothing to read");
  if (trimmed.length > TEXT_MAX) throw new Unreadable("the text is longer than 20 MB");
  const explored = exploreState(trimmed);
  if (explored !== null) return readExplore(explored);
  const query = queryOfAddress(trimmed);
  if (query !== null) return limited({ view: parseView(query), variables: [], leftOut: unreadable(query) });
  if (/^\S+$/.test(trimmed) && /^(?:https?:\/\/|\/)/.test(trimmed)) throw new Unreadable(whatToPaste(trimmed));
  if (!/^[[{]/.test(trimmed)) throw new Unreadable("this is neither an address of a graph nor JSON of a dashboard");
  return readJson(parsed(trimmed, "the text"));
}

/** The view with the variables replaced by these values. */
export function filled({ view }: Imported, values: Pair[]): View {
  const known = new Map(values);
  const fill = (text: string) =>
    text.replace(VARIABLE, (whole, ...groups: (string | undefined)[]) => {
      const { name, format } = reference(groups);
      const value = known.get(name);
      return value === undefined ? whole : formatted(value, format);
    });
  const panels = view.panels.map((panel) => ({ ...panel, title: fill(panel.title), targets: panel.targets.map(fill) }));
  return { ...view, panels };
}

function whatToPaste(address: string): string {
  if (/\/d(?:-solo)?\/[^/]+|\/dashboards\b|\/dashboard\/(?:snapshot|db|new|import)\b|\/goto\//.test(address)) {
    return "the address of a dashboard of Grafana holds no targets; paste the dashboard's JSON (in Grafana: Share or Export, then JSON, or Settings, JSON model), or a panel's JSON (Inspect, Panel JSON)";
  }
  if (/\/dashboard\b/.test(address)) {
    const name = /\/dashboard(?:\/(?:load\/|#)?|#)([^/?#]+)/.exec(address)?.[1] ?? "NAME";
    return `this page may ask no other host; open /dashboard/load/${name} of that graphite-web and paste what it shows`;
  }
  return "this address holds no target";
}

function parsed(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Unreadable(`${what} is no JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function readJson(json: unknown): Imported {
  const outer = fields(json);
  if (!outer) throw new Unreadable("this JSON is no dashboard and no panel: an object is expected");
  if (typeof outer["error"] === "string") throw new Unreadable(`graphite-web answered: ${outer["error"]}`);
  const state = fields(outer["state"]) ?? outer;
  if (Array.isArray(state["graphs"])) return readGraphiteDashboard(state);
  // Since version 12 Grafana wraps a dashboard as a resource with a `spec`.
  const dashboard = fields(outer["dashboard"]) ?? fields(outer["spec"]) ?? outer;
  if (isSecond(dashboard)) return readGrafanaDashboard(classic(dashboard));
  if (Array.isArray(dashboard["panels"]) || Array.isArray(dashboard["rows"])) return readGrafanaDashboard(dashboard);
  // A library panel, as Grafana's API returns it, contains a panel.
  const panel = fields(fields(outer["result"])?.["model"]) ?? fields(outer["model"]) ?? outer;
  if (Array.isArray(panel["targets"])) return readGrafanaDashboard({ panels: [panel] });
  throw new Unreadable("this JSON has none of graphs (graphite-web), panels, rows or targets (Grafana)");
}

/** A dashboard of graphite-web: `graphs` is a list of [targets, parameters, address]. */
function readGraphiteDashboard(state: Fields): Imported {
  const leftOut: string[] = [];
  const panels: Panel[] = [];
  list(state["graphs"]).forEach((graph, place) => {
    const parameters = fields(list(graph)[1]) ?? {};
    const targets = [parameters["target"]].flat().map(string).filter((target) => target !== "");
    if (targets.length === 0) {
      leftOut.push(`graph ${place + 1}: it has no target`);
      return;
    }
    const options: Pair[] = KEPT.map((name): Pair => [name, string(parameters[name])]).filter(([, value]) => value !== "");
    panels.push({ title: string(parameters["title"]), targets, options });
  });
  const first = fields(list(list(state["graphs"])[0])[1]) ?? {};
  const times = graphiteTimes(fields(state["timeConfig"])) ?? { from: string(first["from"]), until: string(first["until"]) };
  const view = { from: times.from || DEFAULT_FROM, until: times.until || DEFAULT_UNTIL, tz: string(first["tz"]), panels };
  return limited({ view, variables: [], leftOut });
}

/** Options of /render that the page follows. */
const KEPT = ["areaMode", "lineMode", "yMin", "yMax", "yUnitSystem", "xFilesFactor"];

function graphiteTimes(config: Fields | null): { from: string; until: string } | null {
  if (!config) return null;
  if (config["type"] === "relative") {
    const until = string(config["relativeUntilUnits"]);
    const quantity = string(config["relativeUntilQuantity"]);
    return { from: `-${string(config["relativeStartQuantity"])}${string(config["relativeStartUnits"])}`, until: until === "now" || quantity === "" ? "now" : `-${quantity}${until}` };
  }
  const [from, until] = [moment(config["startDate"], config["startTime"]), moment(config["endDate"], config["endTime"])];
  return from && until ? { from, until } : null;
}

/** A day and a time of day like "9:30 PM", in the form HH:MM_YYYYMMDD of graphite-web. */
function moment(day: unknown, time: unknown): string | null {
  const date = /^(\d{4})-(\d\d)-(\d\d)/.exec(string(day)) ?? /^(\d{1,2})\/(\d{1,2})\/(\d{4})/.exec(string(day));
  const clock = /^(\d{1,2}):(\d\d)\s*([AP]M)?/i.exec(string(time));
  if (!date || !clock) return null;
  const [year, month, dayOfMonth] = (date[1] ?? "").length === 4 ? [date[1], date[2], date[3]] : [date[3], date[1], date[2]];
  const half = (clock[3] ?? "").toUpperCase();
  const hour = half === "" ? Number(clock[1]) : (Number(clock[1]) % 12) + (half === "PM" ? 12 : 0);
  const two = (value: string | number | undefined) => String(value).padStart(2, "0");
  return `${two(hour)}:${two(clock[2])}_${year}${two(month)}${two(dayOfMonth)}`;
}

/** The state in a link of Grafana's Explore; null for other texts. */
function exploreState(text: string): unknown {
  const found = /^\S*\/explore\?(\S*)$/.exec(text);
  if (!found) return null;
  const parameters = new Map((found[1] ?? "").split(/[&#]/).map((part): Pair => {
    const at = part.indexOf("=");
    return [part.slice(0, at), part.slice(at + 1)];
  }));
  const encoded = parameters.get("panes") ?? parameters.get("left");
  if (encoded === undefined) throw new Unreadable("this link of Explore has neither panes nor left, which hold its queries");
  let decoded: string;
  try {
    decoded = decodeURIComponent(encoded.replaceAll("+", " "));
  } catch {
    throw new Unreadable("panes or left of this link cannot be decoded: a part of it is missing");
  }
  const state = parsed(decoded, "panes or left of this link");
  return parameters.has("panes") ? Object.values(fields(state) ?? {}) : [state];
}

function readExplore(state: unknown): Imported {
  const leftOut: string[] = [];
  const panels: Panel[] = [];
  let times = { from: DEFAULT_FROM, until: DEFAULT_UNTIL };
  for (const pane of list(state)) {
    // Before version 8 it was a list: from, until, source, queries.
    const old = Array.isArray(pane) ? pane : null;
    const { queries, range } = old ? { queries: old.slice(3), range: { from: old[0], to: old[1] } } : (fields(pane) ?? {});
    const panel = { ...emptyPanel(), targets: targetsOf(list(queries), `query of pane ${panels.length + 1}`, leftOut) };
    if (panel.targets.length > 0) panels.push(panel);
    times = grafanaTimes(fields(range)) ?? times;
  }
  const view = { ...times, tz: "", panels };
  return limited({ view, variables: variables(view, []), leftOut });
}

function readGrafanaDashboard(dashboard: Fields): Imported {
  const leftOut: string[] = [];
  const panels: Panel[] = [];
  // An export for sharing contains the library panels that it uses.
  const libraries = fields(dashboard["__elements"]) ?? {};
  const read = (all: unknown[], depth: number) => {
    if (depth > DEPTH_MAX) return void leftOut.push(`panels that are in more than ${DEPTH_MAX} others`);
    for (const one of all) {
      const own = fields(one);
      // Older versions of Grafana saved the copies of repeated panels too.
      if (!own || string(own["repeatPanelId"]) !== "") continue;
      const library = fields(own["libraryPanel"]);
      const model = list(own["targets"]).length === 0 ? fields(fields(libraries[string(library?.["uid"])])?.["model"]) : null;
      const panel: Fields = { ...model, ...own, ...(model ? { targets: model["targets"] } : {}) };
      const title = string(panel["title"]) || `panel ${string(panel["id"]) || panels.length + 1}`;
      if (library && list(panel["targets"]).length === 0) leftOut.push(`${title}: it is the library panel ${string(library["name"])}, whose JSON is elsewhere`);
      const targets = targetsOf(list(panel["targets"]), title, leftOut, sourceOf(panel));
      if (targets.length > 0) panels.push({ title: string(panel["title"]), targets, options: grafanaOptions(panel) });
      if (targets.length > 0 || panel["type"] === "row") leftOut.push(...differences(panel).map((what) => `${title}: ${what}`));
      // A collapsed row contains its panels.
      read(list(panel["panels"]), depth + 1);
    }
  };
  read(list(dashboard["panels"]), 0);
  for (const row of list(dashboard["rows"])) read(list(fields(row)?.["panels"]), 0);
  const times = grafanaTimes(fields(dashboard["time"])) ?? { from: DEFAULT_FROM, until: DEFAULT_UNTIL };
  const zone = string(dashboard["timezone"]);
  const view = { ...times, tz: zone === "browser" || zone === "" ? "" : zone === "utc" ? "UTC" : zone, panels };
  return limited({ view, variables: variables(view, list(fields(dashboard["templating"])?.["list"])), leftOut });
}

/** What Grafana does with a panel and this page does not. */
function differences(panel: Fields): string[] {
  const [repeat, from, shift] = ["repeat", "timeFrom", "timeShift"].map((name) => string(panel[name]));
  return [
    ...(repeat ? [`Grafana repeats it for each value of ${repeat}; here it is shown once, with all`] : []),
    ...(from ? [`its own time range, ${from}; all panels have the same here`] : []),
    ...(shift ? [`its time shift, ${shift}; use timeShift() in the target`] : []),
  ];
}

/** How deeply panels may be nested. Grafana itself has one level, its rows. */
const DEPTH_MAX = 20;

/** Fields of a query that do not say what is queried. */
const NO_QUERY = ["refId", "datasource", "hide"];

/** The targets of queries. Queries that are not for Graphite are left out. `#A` in a target is the target of query A. */
function targetsOf(queries: unknown[], what: string, leftOut: string[], panelSource = ""): string[] {
  // A query may refer to a later one.
  const known = new Map<string, string>();
  queries.forEach((one, place) => {
    const query = fields(one) ?? {};
    known.set(string(query["refId"]) || String(place + 1), string(query["targetFull"]) || string(query["target"]));
  });
  const whole = (target: string) => inGraphitesUnits(expanded(target, known));
  const targets: string[] = [];
  queries.forEach((one, place) => {
    const query = fields(one) ?? {};
    const name = string(query["refId"]) || String(place + 1);
    const target = string(query["targetFull"]) || string(query["target"]);
    const source = sourceOf(query) || panelSource;
    if (target === "" || isOther(source)) {
      const isEmpty = !isOther(source) && (query["target"] !== undefined || Object.keys(query).every((key) => NO_QUERY.includes(key)));
      leftOut.push(`${what}, query ${name}: ${isEmpty ? "it is empty" : `no query of Graphite${source === "" ? "" : ` (${source})`}`}`);
      return;
    }
    if (query["hide"] !== true) targets.push(whole(target));
  });
  return targets;
}

/** A target with Grafana's intervals '1m' and '1M' as Graphite takes them. Grafana does the same. */
function inGraphitesUnits(target: string): string {
  return target.replace(/'(\d+)m'/g, "'$1min'").replace(/'(\d+)M'/g, "'$1mon'");
}

/** How many characters references may add to a target: references to references could grow without end. */
const EXPANSION_MAX = 100_000;

/** A target with `#A` replaced by the target of query A. */
function expanded(target: string, known: Map<string, string>): string {
  let text = target;
  let left = EXPANSION_MAX;
  for (let round = 0; round < 5; round++) {
    const before = text;
    text = text.replace(/#([A-Z])\b/g, (reference, letter: string) => {
      const found = known.get(letter) ?? "";
      if (found === "" || found.length > left) return reference;
      left -= found.length;
      return found;
    });
    if (text === before) break;
  }
  return text;
}

/** The type of a data source, or its name in older dashboards; "" if none is named. */
function sourceOf(value: Fields): string {
  return string(fields(value["datasource"])?.["type"]) || string(value["datasource"]);
}

/** Whether a data source is known not to be Graphite. A name or a variable may be anything. */
function isOther(source: string): boolean {
  return OTHERS.has(source.toLowerCase());
}

/** Types of data sources that are not Graphite, although their queries may have a `target`, or none at all. */
const OTHERS = new Set(["prometheus", "loki", "influxdb", "elasticsearch", "opentsdb", "mysql", "postgres", "grafana-postgresql-datasource", "mssql", "cloudwatch", "stackdriver", "tempo", "jaeger", "zipkin", "grafana-testdata-datasource", "testdata", "grafana-simple-json-datasource", "simpod-json-datasource", "marcusolsson-json-datasource", "yesoreyeram-infinity-datasource", "__expr__"]);

function grafanaOptions(panel: Fields): Pair[] {
  const options: Pair[] = [];
  const defaults = fields(fields(panel["fieldConfig"])?.["defaults"]) ?? {};
  const custom = fields(defaults["custom"]) ?? {};
  const stacking = string(fields(custom["stacking"])?.["mode"]);
  const fill = Number(custom["fillOpacity"] ?? panel["fill"] ?? 0);
  if (panel["stack"] === true || (stacking !== "" && stacking !== "none")) options.push(["areaMode", "stacked"]);
  else if (fill >= 30 || (fill > 0 && custom["fillOpacity"] === undefined)) options.push(["areaMode", "all"]);
  if (panel["steppedLine"] === true || /^step/.test(string(custom["lineInterpolation"]))) options.push(["lineMode", "staircase"]);
  else if (panel["nullPointMode"] === "connected" || custom["spanNulls"] === true) options.push(["lineMode", "connected"]);
  const axis = fields(list(panel["yaxes"])[0]) ?? {};
  const unit = UNITS.get(string(defaults["unit"]) || string(axis["format"]));
  if (unit !== undefined) options.push(["yUnitSystem", unit]);
  for (const [name, value] of [["yMin", defaults["min"] ?? axis["min"]], ["yMax", defaults["max"] ?? axis["max"]]] as const) {
    const number = string(value);
    if (number !== "" && !Number.isNaN(Number(number))) options.push([name, number]);
  }
  return options;
}

const UNITS = new Map([["bytes", "binary"], ["decbytes", "si"], ["s", "sec"], ["ms", "msec"], ["none", "none"]]);

function grafanaTimes(range: Fields | null): { from: string; until: string } | null {
  if (!range) return null;
  const [from, until] = [grafanaTime(range["from"], false), grafanaTime(range["to"], true)];
  return from && until ? { from, until } : null;
}

/** A time of Grafana as /render takes it: now-6h, milliseconds, or ISO 8601. Graphite can only round to days (now/d). Another rounded start becomes one whole unit before now. */
function grafanaTime(value: unknown, isEnd: boolean): string | null {
  const text = string(value);
  if (/^\d{11,}$/.test(text)) return String(Math.floor(Number(text) / 1000));
  const relative = /^now(?:([-+])(\d+)([smhdwMyQ]))?(?:\/f?([smhdwMyQ]))?$/.exec(text);
  if (relative) {
    const [, sign, quantity, unit = "s", rounded] = relative;
    const before = sign === "+" ? -Number(quantity) : Number(quantity ?? 0);
    if (rounded === "d" && (before === 0 || unit === "d")) {
      // A range of whole days ends with its last day, but not after now.
      const days = before - (isEnd ? 1 : 0);
      return days < 0 ? "now" : days === 0 ? "midnight" : `midnight-${days}d`;
    }
    if (before === 0) return rounded === undefined || isEnd ? "now" : offset(1, rounded);
    return offset(before, unit);
  }
  const time = Date.parse(text);
  return text === "" || Number.isNaN(time) ? null : String(Math.floor(time / 1000));
}

/** A time before now, or after it if the quantity is negative. */
function offset(quantity: number, unit: string): string {
  const size = Math.abs(unit === "Q" ? quantity * 3 : quantity);
  return `${quantity < 0 ? "now+" : "-"}${size}${RELATIVE.get(unit) ?? "s"}`;
}

const RELATIVE = new Map([["s", "s"], ["m", "min"], ["h", "h"], ["d", "d"], ["w", "w"], ["M", "mon"], ["y", "y"], ["Q", "mon"]]);

/** `$name`, `${name}`, `${name:format}` and `[[name]]`. */
const VARIABLE = /\$(?:\{(\w+)(?:[:.]([^}]*))?\}|(\w+))|\[\[(\w+)(?::(\w+))?\]\]/g;

/** The variable that a match of VARIABLE names, and the format of its value. */
function reference([braced, format, plain, bracketed, old]: (string | undefined)[]): { name: string; format: string } {
  return { name: braced ?? plain ?? bracketed ?? "", format: format ?? old ?? "" };
}

/** A value, or several in braces, in one of Grafana's formats. Graphite's own is the glob. */
function formatted(value: string, format: string): string {
  const inner = /^\{([^{}]*)\}$/.exec(value)?.[1] ?? value;
  // A glob with braces within it is one value.
  const values = /[{}]/.test(inner) ? [inner] : inner.split(",");
  if (format === "pipe") return values.join("|");
  if (format === "csv" || format === "raw") return values.join(",");
  if (format !== "regex") return value;
  const patterns = values.map((one) => (one === "*" ? ".*" : one.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")));
  return patterns.length > 1 ? `(${patterns.join("|")})` : (patterns[0] ?? "");
}

/** The variables in the targets and titles, with their values in the dashboard. */
function variables(view: View, declared: unknown[]): Pair[] {
  const values = new Map<string, string>([["__interval", "1min"], ["interval", "1min"], ["__rate_interval", "1min"], ["__interval_ms", "60000"], ["__range", "1h"], ["__range_s", "3600"]]);
  for (const one of declared) {
    const variable = fields(one) ?? {};
    values.set(string(variable["name"]), valueOf(variable));
  }
  const used = new Set<string>();
  for (const text of view.panels.flatMap((panel) => [panel.title, ...panel.targets])) {
    for (const [, ...groups] of text.matchAll(VARIABLE)) used.add(reference(groups).name);
  }
  return [...used].map((name) => [name, values.get(name) ?? "*"]);
}

function valueOf(variable: Fields): string {
  const chosen = [fields(variable["current"])?.["value"] ?? []].flat().map(string);
  if (chosen.includes("$__all")) return string(variable["allValue"]) || "*";
  if (chosen[0]?.startsWith("$__auto_interval")) return "1min";
  if (chosen.length === 0) return defaultOf(string(variable["type"]), string(variable["query"]));
  if (variable["type"] === "interval") return interval(chosen[0] ?? "");
  return chosen.length > 1 ? `{${chosen.join(",")}}` : (chosen[0] ?? "");
}

function interval(text: string): string {
  return text.replace(/m$/, "min").replace(/M$/, "mon");
}

/** The value of a variable for which none is chosen. What a query would find is not known. */
function defaultOf(type: string, query: string): string {
  if (type === "constant" || type === "textbox") return query;
  // "a, b" or "Name : a, Other : b"; Grafana chooses the first.
  const first = (query.split(",")[0] ?? "").replace(/^.*\s:\s/, "").trim();
  if (type === "custom") return first;
  if (type === "interval") return interval(first);
  return "*";
}

function limited(imported: Imported): Imported {
  const { view, leftOut } = imported;
  if (view.panels.length === 0) throw new Unreadable(["no panel with a target of Graphite is in it", ...leftOut.slice(0, 5)].join("; "));
  const more = view.panels.length - PANELS_MAX;
  if (more <= 0) return imported;
  return { ...imported, view: { ...view, panels: view.panels.slice(0, PANELS_MAX) }, leftOut: [...leftOut, `${more} panels after the first ${PANELS_MAX}`] };
}

/** A panel as Grafana takes it in "Panel JSON" or on its clipboard. */
export function grafanaPanel(panel: Panel): string {
  const set = new Map(panel.options);
  const custom: Fields = {};
  if (set.get("areaMode") === "stacked") custom["stacking"] = { mode: "normal", group: "A" };
  if (set.get("areaMode") === "stacked" || set.get("areaMode") === "all") custom["fillOpacity"] = 40;
  if (set.get("lineMode") === "staircase") custom["lineInterpolation"] = "stepAfter";
  if (set.get("lineMode") === "connected") custom["spanNulls"] = true;
  const defaults: Fields = { custom };
  const unit = [...UNITS].find(([, system]) => system === set.get("yUnitSystem"));
  if (unit) defaults["unit"] = unit[0];
  for (const [name, field] of [["yMin", "min"], ["yMax", "max"]] as const) {
    const value = set.get(name);
    if (value !== undefined && value !== "" && !Number.isNaN(Number(value))) defaults[field] = Number(value);
  }
  const targets = panel.targets.filter((target) => target.trim() !== "").map((target, place) => ({ refId: refId(place), target }));
  return JSON.stringify({ title: panel.title, type: "timeseries", datasource: { type: "graphite" }, targets, fieldConfig: { defaults, overrides: [] }, options: {}, gridPos: { h: 8, w: 12, x: 0, y: 0 } }, null, 2);
}

/** A, B, …, Z, AA, AB, … */
function refId(place: number): string {
  return (place >= 26 ? refId(Math.floor(place / 26) - 1) : "") + String.fromCharCode(65 + (place % 26));
}
