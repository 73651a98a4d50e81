// Dashboards in Grafana's schema v2 (Grafana 12 and later) as the classic model. No access to the browser.

import { fields, list, string, type Fields } from "./json";

/** How deeply layouts may be nested. */
const DEPTH_MAX = 20;

/** Whether a dashboard is in schema v2. */
export function isSecond(dashboard: Fields): boolean {
  return fields(dashboard["elements"]) !== null;
}

/** The classic model of a dashboard, as far as the import uses it. */
export function classic(dashboard: Fields): Fields {
  const elements = fields(dashboard["elements"]) ?? {};
  const placed: Placed[] = [];
  collect(dashboard["layout"], "", 0, placed);
  // Without a layout that can be read, all panels are taken.
  const all = placed.length > 0 ? placed : Object.keys(elements).map((name): Placed => ({ name, repeat: "" }));
  const times = fields(dashboard["timeSettings"]) ?? {};
  return {
    time: { from: times["from"], to: times["to"] },
    timezone: times["timezone"],
    templating: { list: list(dashboard["variables"]).map(variable) },
    panels: all.map(({ name, repeat }) => ({ ...panel(fields(elements[name]) ?? {}), repeat })),
  };
}

interface Placed {
  name: string;
  /** The variable that Grafana repeats the panel for, or "". */
  repeat: string;
}

/** Finds the panels of a layout in their order, in grids, rows and tabs. */
function collect(value: unknown, repeat: string, depth: number, into: Placed[]): void {
  if (depth > 4 * DEPTH_MAX) return;
  if (Array.isArray(value)) return value.forEach((one) => collect(one, repeat, depth + 1, into));
  const own = fields(value);
  if (!own) return;
  if (own["kind"] === "ElementReference") return void into.push({ name: string(own["name"]), repeat });
  const repeated = string(fields(own["repeat"])?.["value"]) || repeat;
  for (const part of Object.values(own)) collect(part, repeated, depth + 1, into);
}

function panel(element: Fields): Fields {
  const spec = fields(element["spec"]) ?? {};
  const data = fields(fields(spec["data"])?.["spec"]) ?? {};
  const drawn = fields(fields(spec["vizConfig"])?.["spec"]) ?? {};
  return {
    id: spec["id"],
    title: spec["title"],
    libraryPanel: spec["libraryPanel"],
    targets: list(data["queries"]).map(query),
    fieldConfig: drawn["fieldConfig"],
    ...pick(fields(data["queryOptions"]) ?? {}, ["timeFrom", "timeShift"]),
  };
}

function query(one: unknown): Fields {
  const spec = fields(fields(one)?.["spec"]) ?? {};
  const asked = fields(spec["query"]) ?? {};
  // Early versions of the schema have the type of the data source as the kind of the query.
  const kind = string(asked["group"]) || (asked["kind"] === "DataQuery" ? "" : string(asked["kind"]));
  const own = fields(asked["spec"]) ?? {};
  // An empty query has no target either.
  const target = kind === "graphite" || Object.keys(own).length === 0 ? { target: "" } : {};
  return { ...target, ...own, refId: spec["refId"], hide: spec["hidden"], datasource: { type: kind } };
}

function variable(one: unknown): Fields {
  const own = fields(one) ?? {};
  const kind = string(own["kind"]).replace(/Variable$/, "").toLowerCase();
  return { ...fields(own["spec"]), type: kind === "text" ? "textbox" : kind };
}

function pick(from: Fields, names: string[]): Fields {
  return Object.fromEntries(names.map((name) => [name, from[name]]));
}
