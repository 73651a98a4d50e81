// Requests to the daemon. All addresses are relative, so that the page works behind a proxy with any path
// prefix.

import { signal } from "@preact/signals";
import type { Pair } from "./link";

/** An answer that is not a success. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
    /** Where the mistake in a target is, if the daemon said so. */
    readonly fault: Fault | null = null,
  ) {
    super(message);
  }

  /** Whether the same request may succeed later. */
  get passes(): boolean {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

/** How many requests have waited long for an answer. */
export const waiting = signal(0);
/** Counts how often the daemon answered again after a failure to answer. */
export const returned = signal(0);
let isAway = false;

/** After this many milliseconds without an answer the page reports that the daemon does not answer. */
const SLOW = 5000;
/** After this many milliseconds the page cancels a request: twice the default time limit of the daemon (api.limits.request_time). */
const SILENT_MAX = 120_000;
/** How long to wait before a failed request of a list is sent again, in milliseconds. */
export const RETRY = 3000;

/** A mistake in a target. */
export interface Fault {
  target: string;
  begin: number;
  end: number;
  /** The function that a misspelt name probably means. */
  meant?: string;
  /** What the daemon expected at this position. */
  expected?: string;
}

/** The longest query string; longer requests are sent as forms. */
const QUERY_MAX = 4000;

export async function get<T>(path: string, parameters: Pair[], signal?: AbortSignal, token = ""): Promise<T> {
  const query = new URLSearchParams(parameters.map(([name, value]) => [name, value.toWellFormed()])).toString();
  const init: RequestInit = { credentials: "same-origin", headers: bearer(token), ...(signal ? { signal } : {}) };
  let url = path;
  if (query.length > QUERY_MAX) {
    Object.assign(init, { method: "POST", body: query, headers: { ...init.headers, "Content-Type": "application/x-www-form-urlencoded" } });
  } else if (query !== "") {
    url = `${path}?${query}`;
  }
  return answerOf<T>(path, url, init);
}

/** Sends a JSON body. */
export async function post<T>(path: string, body: unknown, signal: AbortSignal, token = ""): Promise<T> {
  const headers = { "Content-Type": "application/json", ...bearer(token) };
  return answerOf<T>(path, path, { method: "POST", body: JSON.stringify(body), headers, credentials: "same-origin", signal });
}

/** The header with a token. A token with characters that no header can hold cannot be the right one. */
function bearer(token: string): Record<string, string> {
  if (token === "") return {};
  if (/[^\t\x20-\x7e\x80-\xff]/.test(token)) throw new Refusal(401, "this is not the token: it has characters that no token can have");
  return { Authorization: `Bearer ${token}` };
}

async function answerOf<T>(path: string, url: string, init: RequestInit): Promise<T> {
  const { status, ok, text } = await received(url, init);
  if (!ok) throw refusal(status, text);
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new Refusal(status, `the answer of ${path} is no JSON`);
  }
}

/** Sends a request, and cancels it if the daemon is silent for too long. */
async function received(url: string, init: RequestInit): Promise<{ status: number; ok: boolean; text: string }> {
  const { signal: wished } = init;
  const controller = new AbortController();
  const abort = () => controller.abort();
  wished?.addEventListener("abort", abort);
  let isSlow = false;
  let isSilent = false;
  const slow = window.setTimeout(() => {
    isSlow = true;
    waiting.value++;
  }, SLOW);
  const silent = window.setTimeout(() => {
    isSilent = true;
    abort();
  }, SILENT_MAX);
  try {
    if (wished?.aborted) abort();
    const response = await fetch(url, { ...init, signal: controller.signal });
    const text = await response.text();
    if (isAway) returned.value++;
    isAway = false;
    return { status: response.status, ok: response.ok, text };
  } catch (error) {
    if (wished?.aborted) throw error;
    isAway = true;
    throw new Refusal(0, isSilent ? `the daemon has not answered for ${SILENT_MAX / 1000} s` : "the daemon does not answer");
  } finally {
    window.clearTimeout(slow);
    window.clearTimeout(silent);
    wished?.removeEventListener("abort", abort);
    if (isSlow) waiting.value--;
  }
}

function refusal(status: number, text: string): Refusal {
  try {
    const parsed = JSON.parse(text) as { error?: unknown; fault?: Fault };
    if (typeof parsed.error === "string") return new Refusal(status, parsed.error, parsed.fault ?? null);
  } catch {
    // Other answers are plain text.
  }
  return new Refusal(status, text.trim().slice(0, 2000) || `the daemon answered ${status}`);
}

export interface Axis {
  start: number;
  step: number;
  count: number;
}

export interface Drawing {
  color?: string;
  alpha?: number;
  lineWidth?: number;
  dashed?: number;
  secondYAxis?: boolean;
  stacked?: boolean;
  invisible?: boolean;
  drawAsInfinite?: boolean;
}

export interface Column {
  name: string;
  axis: number;
  /** Seconds between two values before they were fitted to the width. */
  step: number;
  consolidation: string;
  options?: Drawing;
  stage?: { retention: string; number: number };
  values: (number | null)[];
}

/** An answer of /render in the format `columns`. */
export interface Columns {
  from: number;
  until: number;
  now: number;
  total: number;
  series: Column[];
  axes: Axis[];
}

export interface Entry {
  name: string;
  leaf: boolean;
  branch: boolean;
  /** Metrics below; null if there are too many to count. */
  metrics: number | null;
}

export interface BrowsePage {
  path: string;
  total: number;
  matching: number;
  offset: number;
  children: Entry[];
}

export interface SearchAnswer {
  total: number;
  complete: boolean;
  results: { path: string; leaf: boolean; branch: boolean }[];
}

/** A part of a target, as /plumbago/explain saw it. `begin` and `end` count characters. */
export interface ExplainedPart {
  kind: "call" | "name" | "tags" | "template" | "literal";
  text: string;
  begin: number;
  end: number;
  function?: string;
  arguments?: ExplainedPart[];
  fetches?: number[];
  evaluations?: number;
  series?: number;
  values?: number;
  known?: number;
  ms?: number;
  own_ms?: number;
  /** The first targets that the function of this call made. */
  made?: MadePart[];
  /** The number of further targets that it made. */
  more_made?: number;
}

/** A target that a function made from names. It has no place in the text. */
export interface MadePart extends Omit<ExplainedPart, "kind" | "begin" | "end"> {
  kind: "made";
  /** Whether the text is the whole target. */
  whole: boolean;
  /** Whether it can be plotted alone. */
  plots: boolean;
  more_fetches: number;
}

export interface ExplainedFetch {
  expression: string;
  from: number;
  until: number;
  names: number;
  find_ms: number;
  read_ms: number;
  /** The number of known points of the metrics below, by the place where they are. `cache` is the number that a kept answer has for the whole fetch; null if it is not known. */
  points: { head: number; spool: number; peers: number; store: number; cache: number | null };
  metrics: {
    name: string;
    retention: string;
    stage: number;
    why: string;
    x_files_factor: number;
    slots: number;
    known: number;
    head: number;
    spool: number;
    peers: number;
    store: number;
    hidden: number;
  }[];
}

export interface Explained {
  from: number;
  until: number;
  targets: ExplainedPart[];
  fetches: ExplainedFetch[];
  series: { total: number; first: { name: string; step: number; values: number; shown_step: number; shown_values: number; consolidation: string; hidden: number }[] };
  times: { find_ms: number; fetch_ms: number; evaluate_ms: number };
  limits: { name: string; used: number; limit: number }[];
  kept: boolean;
}

export interface Figure {
  name: string;
  labels: Record<string, string>;
  value: number;
}

/** What the store has of a stage. `null` means not known. */
export interface StoreStage {
  stage: string;
  holds: "raw" | "windows";
  step: number;
  slots: number;
  bytes: number | null;
  /** Only for the embedded store. */
  blocks?: number;
  long_blocks?: number;
  buckets?: number;
  since?: number;
  /** Only for Cassandra. */
  table?: string;
  used?: boolean;
  trouble?: string | null;
  rows?: number | null;
}

export interface StoreStages {
  kind: "embedded" | "cassandra";
  keyspace?: string;
  stages: StoreStage[];
  state_bytes?: number | null;
  names_bytes?: number | null;
  log_bytes?: number | null;
}

/** The answer of /plumbago/status. Times are in seconds since the epoch. */
export interface Status {
  now: number;
  ready: boolean;
  conditions: { name: string; severity: string; since: number; text: string }[];
  about: { version: string; started: number; store: string; memory_bytes: number; memory_max_bytes: number; self_metrics: string | null; self_metrics_interval: number };
  store: StoreStages;
  ledger: { received: number; derived: number; recovered: number; stored: number; held: number; replaced: number; consumed: number; rejected: number; missing: number; lost: number; rejected_by_reason: Record<string, number> };
  refused: { listener: string; reason: string; sender: string | null; text: string; at: number }[];
  jobs: unknown[];
  maintenance: unknown[];
  figures: Figure[];
}

/** The text of a file of rules; `file` is null for the built-in ones. */
export interface RuleText {
  file: string | null;
  text: string;
}

/** The answer of /plumbago/rules without a name. */
export interface RulesInForce {
  schemas: RuleText;
  aggregation: RuleText;
}

export interface MetricSettings {
  retention: string;
  aggregation: string;
  x_files_factor: number;
}

/** The sections of a file that fit a name, in the order in which they are tried: the first decides. */
export interface Fits {
  file: string | null;
  of: number;
  sections: { section: string; line: number; pattern: string; place: number; gives: string }[];
  default: string;
}

/** What the rules do with a name. */
export interface RuleExplanation {
  received: string;
  passage: {
    steps: { kind: "blacklist" | "whitelist" | "rewrite" | "post"; file: string; line: number; rule: string; name: string | null }[];
    refused: { reason: string; text: string } | null;
    stored: string | null;
  };
  schemas?: Fits;
  aggregations?: Fits;
  metric: {
    name: string;
    settings: MetricSettings;
    bytes: number;
    stages: { stage: string; resolution: number; slots: number; seconds: number; bytes: number; origin: "measured" | "embedded" | "cassandra" }[];
    existing: {
      settings: MetricSettings;
      created_on: number;
      differs: boolean;
      differences: { what: string; now: string; rules: string }[];
      refused: string | null;
      command: string;
    } | null;
  } | null;
}

/** A section with the existing metrics for which it decides; null for carbon's default. */
export interface SectionUse {
  section: string | null;
  line: number | null;
  pattern: string | null;
  gives: string;
  metrics: number;
  examples: string[];
}

/** What edited rules would do with the existing metrics. */
export interface RuleTrial {
  metrics: number;
  complete: boolean;
  tagged: boolean;
  warnings: string[];
  schemas: SectionUse[];
  aggregations: SectionUse[];
  apply: {
    metrics: number;
    changed: number;
    changes: { from: string; to: string; metrics: number; example: string; loss: string }[];
    refused: { why: string; metrics: number; example: string }[];
  };
}

/** What metrics cost. `both` counts those that are neither written nor read. `stored_bytes`, `unread` and `both` are null if they are not known. */
export interface Counts {
  metrics: number;
  bytes: number;
  stored_bytes: number | null;
  unwritten: number;
  unread: number | null;
  both: number | null;
}

export interface CostDirectory extends Counts {
  path: string;
  /** Whether only the metrics directly in the directory are counted. */
  direct: boolean;
  share: number;
}

export interface Unused {
  metrics: number;
  examples: string[];
  directories: CostDirectory[];
}

export interface BiggestTags {
  biggest: { text: string; series: number; values: number }[];
  total: number;
}

/** The answer of /plumbago/costs. */
export interface Costs {
  asked: { days: number; depth: number; under: string; limit: number };
  now: number;
  since: number;
  reads_noted_since: number | null;
  complete: boolean;
  origin: "embedded" | "cassandra";
  /** The file of the storage schemas; null for the built-in rules. */
  schemas: string | null;
  total: Counts;
  tagged: Counts;
  directories: { rows: CostDirectory[]; total: number; cut: boolean };
  newest: { name: string; created_on: number; retention: string; section: string | null; line: number | null; differs: boolean }[];
  unwritten: Unused;
  unread: Unused | null;
  both: Unused | null;
  tags: { tags: BiggestTags; tag: string | null; values: BiggestTags | null } | null;
  missing: string[];
}
