// A view of the daemon: whether it is ready, what happened to the points, and what data it has.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, Refusal, type Figure, type Status } from "./api";
import { count, duration, many, moment, short, visible } from "./numbers";
import { Stages } from "./stages";
import { addPanels } from "./state";
import { token, Token } from "./token";
import { Values } from "./values";

const EVERY = 5000;

/** Figures whose names begin with these are shown together. */
const GROUPS: [title: string, beginnings: string[]][] = [
  ["Metrics in memory", ["plumbago_engine_"]],
  ["Names", ["plumbago_index_"]],
  ["Journal", ["plumbago_journal_"]],
  ["Spool and sender", ["plumbago_spool_", "plumbago_sender_"]],
  ["Store", ["plumbago_store_", "plumbago_cassandra_"]],
  ["Peers and relay", ["plumbago_peer_", "plumbago_relay_"]],
  ["Aggregation and quotas", ["plumbago_aggregation_", "plumbago_quota_"]],
  ["Requests", ["plumbago_api_", "plumbago_http_", "plumbago_carbonlink_"]],
  ["Jobs", ["plumbago_maintenance_", "plumbago_backup"]],
];

/** Figures whose names begin with these are shown in words or tables. */
const SHOWN_ELSEWHERE = ["plumbago_ingest_received_", "plumbago_ingest_passed_", "plumbago_ingest_active_", "plumbago_rejected_", "plumbago_condition"];

function begins(name: string, beginnings: string[]): boolean {
  return beginnings.some((beginning) => name.startsWith(beginning));
}

const HISTORY = ["metricsReceived", "committedPoints", "errors", "creates", "cpuUsage", "memUsage"];

/** A status, and the one before it, for rates. */
interface Seen {
  status: Status;
  at: number;
  before: { figures: Map<string, number>; at: number } | null;
}

export function StatusView() {
  const seen = useSignal<Seen | null>(null);
  const problem = useSignal<Refusal | null>(null);
  const asked = useSignal(0);
  useEffect(() => {
    const controller = new AbortController();
    let timer: number | undefined;
    const ask = () => {
      if (document.visibilityState !== "visible") {
        timer = window.setTimeout(ask, EVERY);
        return;
      }
      get<Status>("plumbago/status", [], controller.signal, token()).then(
        (status) => {
          const last = seen.peek();
          const before = last && { figures: valuesOf(last.status.figures), at: last.at };
          seen.value = { status, at: performance.now(), before };
          problem.value = null;
          timer = window.setTimeout(ask, EVERY);
        },
        (error: unknown) => {
          if (controller.signal.aborted) return;
          problem.value = error instanceof Refusal ? error : new Refusal(-1, String(error));
          if (problem.value.passes) timer = window.setTimeout(ask, EVERY);
        },
      );
    };
    ask();
    return () => {
      controller.abort();
      window.clearTimeout(timer);
    };
  }, [asked.value]);
  return (
    <section class="status" aria-label="Status of the daemon">
      {problem.value && <p class="problem" role="alert">{visible(problem.value.message)}</p>}
      {problem.value?.status === 401 && <Token action="Show the status" done={() => (asked.value += 1)} />}
      {seen.value && <Shown seen={seen.value} />}
      {!seen.value && !problem.value && <p class="note" role="status">asking…</p>}
    </section>
  );
}

function Shown({ seen }: { seen: Seen }) {
  const { status } = seen;
  const { about } = status;
  return (
    <>
      <h2>
        {status.ready ? "Ready" : "Not ready"}{" "}
        <span class="facts">
          Plumbago {about.version}, {about.store} store, started {moment(about.started, "")} ({duration(Math.max(0, Date.now() / 1000 - about.started))} ago)
        </span>
      </h2>
      <ul class="conditions">
        {status.conditions.map((condition) => (
          <li key={condition.name} class={condition.severity}>
            <b>{condition.severity}</b> <code>{condition.name}</code> since {moment(condition.since, "")}: {visible(condition.text)}
          </li>
        ))}
        {status.conditions.length === 0 && <li>No condition holds.</li>}
      </ul>
      <Ledger status={status} />
      <Listeners seen={seen} />
      <Refused status={status} />
      <h3>Memory</h3>
      <p>
        <meter min={0} max={about.memory_max_bytes} high={about.memory_max_bytes} value={about.memory_bytes} aria-label="Memory" /> {short(about.memory_bytes, "binary")}B of {short(about.memory_max_bytes, "binary")}B (<code>engine.memory_max</code>)
      </p>
      {about.self_metrics !== null && (
        <p>
          <button type="button" onClick={() => addPanels(HISTORY.map((name) => `${about.self_metrics}.${name}`))}>Plot the history</button>{" "}
          <span class="facts">of <code>{visible(about.self_metrics)}.*</code>, every {duration(about.self_metrics_interval)}</span>
        </p>
      )}
      <Stages store={status.store} />
      <Jobs title="Requested jobs" jobs={status.jobs} />
      <Jobs title="Scheduled jobs" jobs={status.maintenance} />
      {GROUPS.map(([title, beginnings]) => <Group key={title} title={title} seen={seen} belongs={(name) => begins(name, beginnings)} />)}
      <Group title="Others" seen={seen} belongs={(name) => !begins(name, [...SHOWN_ELSEWHERE, ...GROUPS.flatMap(([, beginnings]) => beginnings)])} />
    </>
  );
}

/** The balance of all points. */
function Ledger({ status }: { status: Status }) {
  const { ledger } = status;
  const left: [string, number][] = [["received", ledger.received], ["derived", ledger.derived], ["recovered", ledger.recovered]];
  const right: [string, number][] = [["stored", ledger.stored], ["held", ledger.held], ["replaced", ledger.replaced], ["consumed", ledger.consumed], ["rejected", ledger.rejected], ["lost", ledger.lost]];
  const rows = Math.max(left.length, right.length);
  const sum = (side: [string, number][]) => side.reduce((total, [, value]) => total + value, 0);
  return (
    <>
      <h3>What became of the points</h3>
      <table class="figures balance">
        <thead>
          <tr><th scope="col" colSpan={2}>came</th><th scope="col" colSpan={2}>went</th></tr>
        </thead>
        <tbody>
          {Array.from({ length: rows }, (_, row) => (
            <tr key={row}>
              {[left[row], right[row]].map((cell, side) => (
                <>
                  <td key={`${side}n`}>{cell?.[0] ?? ""}</td>
                  <td key={`${side}v`} class="number">{cell ? count(cell[1]) : ""}</td>
                </>
              ))}
            </tr>
          ))}
          <tr>
            <td>sum</td><td class="number">{count(sum(left))}</td>
            <td>sum</td><td class="number">{count(sum(right))}</td>
          </tr>
        </tbody>
      </table>
      <p class={ledger.missing === 0 ? "note" : "problem"}>missing {count(ledger.missing)}</p>
    </>
  );
}

function Listeners({ seen }: { seen: Seen }) {
  const { figures, about } = seen.status;
  const history = (name: string) => (
    <button type="button" class="quiet" aria-label={`Plot the history of ${name}`} onClick={() => addPanels([`${about.self_metrics}.listeners.${name}.*`])}>Plot</button>
  );
  const of = (name: string, listener: string) => figures.filter((figure) => figure.name === name && figure.labels["listener"] === listener);
  const total = (found: Figure[]) => found.reduce((sum, figure) => sum + figure.value, 0);
  const names = figures.filter((figure) => figure.name === "plumbago_ingest_received_total").map((figure) => figure.labels["listener"] ?? "");
  const used = names.filter((name) => total(of("plumbago_ingest_received_total", name)) > 0 || total(of("plumbago_ingest_active_connections", name)) > 0);
  return (
    <>
      <h3>Listeners</h3>
      {used.length === 0 && <p class="note">No listener has had a point yet.</p>}
      {used.length > 0 && (
        <Values
          label="Listeners and their points"
          columns={["listener", "a second", "received", "passed on", "refused", "connections", ...(about.self_metrics === null ? [] : ["history"])]}
          rows={used.map((name) => {
            const received = of("plumbago_ingest_received_total", name);
            const others = ["plumbago_ingest_passed_total", "plumbago_rejected_points_total", "plumbago_ingest_active_connections"];
            const cells = [rate(seen, received), count(total(received)), ...others.map((other) => count(total(of(other, name))))];
            return { key: name, head: name, cells: about.self_metrics === null ? cells : [...cells, history(name)] };
          })}
        />
      )}
    </>
  );
}

function Refused({ status }: { status: Status }) {
  const reasons = Object.entries(status.ledger.rejected_by_reason).filter(([, points]) => points > 0).sort((a, b) => b[1] - a[1]);
  return (
    <>
      <h3>Refused points</h3>
      <p>{reasons.length === 0 ? "None since the start." : reasons.map(([reason, points]) => `${reason} ${count(points)}`).join(", ")}</p>
      {status.refused.length > 0 && (
        <Values
          label="Samples of refused points"
          columns={["text", "reason", "listener", "sender", "at"]}
          rows={status.refused.map((one) => ({ key: `${one.listener} ${one.reason}`, head: one.text, cells: [one.reason, one.listener, one.sender ?? "–", moment(one.at, "")] }))}
        />
      )}
      {status.refused.length > 0 && <p class="note">The newest sample of each listener and reason, at most one a minute.</p>}
    </>
  );
}

function Jobs({ title, jobs }: { title: string; jobs: unknown[] }) {
  if (jobs.length === 0) return null;
  const rows = jobs.map((job) => (typeof job === "object" && job !== null ? (job as Record<string, unknown>) : { job }));
  // The name of a job comes first; the other fields differ between jobs.
  const names = [...new Set(["job", ...rows.flatMap(Object.keys)])].filter((name) => rows.some((row) => row[name] !== null && row[name] !== undefined));
  return (
    <details class="group">
      <summary>{title} <span class="facts">{count(jobs.length)}</span></summary>
      <Values label={title} columns={names} rows={rows.map((row, place) => ({ key: String(place), head: cell(names[0] ?? "", row), cells: names.slice(1).map((name) => visible(cell(name, row))) }))} />
    </details>
  );
}

/** The text of a field of a job. */
function cell(name: string, row: Record<string, unknown>): string {
  const value = row[name];
  if (value === null || value === undefined) return "–";
  if (name === "every_seconds" && value === 0) return "on request";
  if (name.endsWith("_seconds") && typeof value === "number") return duration(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function Group({ title, seen, belongs }: { title: string; seen: Seen; belongs: (name: string) => boolean }) {
  const figures = seen.status.figures.filter((figure) => belongs(figure.name) && figure.value !== 0);
  if (figures.length === 0) return null;
  return (
    <details class="group">
      <summary>{title} <span class="facts">{many(figures.length, "figure")}</span></summary>
      <table class="figures">
        <thead>
          <tr><th scope="col">figure</th><th scope="col">value</th><th scope="col">a second</th></tr>
        </thead>
        <tbody>
          {figures.map((figure) => (
            <tr key={keyOf(figure)}>
              <td><code>{figure.name}</code> {visible(Object.entries(figure.labels).map(([name, value]) => `${name}=${value}`).join(" "))}</td>
              <td class="number">{figure.name.endsWith("_bytes") ? `${short(figure.value, "binary")}B` : figure.name.endsWith("_seconds") && figure.value < 1e9 ? duration(figure.value) : count(figure.value)}</td>
              <td class="number">{figure.name.endsWith("_total") ? rate(seen, [figure]) : ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

function keyOf(figure: Figure): string {
  return `${figure.name} ${JSON.stringify(figure.labels)}`;
}

function valuesOf(figures: Figure[]): Map<string, number> {
  return new Map(figures.map((figure) => [keyOf(figure), figure.value]));
}

/** The increase per second since the previous status; unknown after a restart. */
function rate(seen: Seen, figures: Figure[]): string {
  const { before } = seen;
  if (!before) return "–";
  const seconds = (seen.at - before.at) / 1000;
  let increase = 0;
  for (const figure of figures) increase += figure.value - (before.figures.get(keyOf(figure)) ?? figure.value);
  return increase < 0 ? "–" : short(increase / seconds);
}
