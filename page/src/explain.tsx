// Explains the result of a panel: what each call returned, where the points are stored, and what was left
// out.

import { useSignal } from "@preact/signals";
import { useAnswer } from "./answer";
import type { Explained, ExplainedFetch, ExplainedPart, MadePart } from "./api";
import { parameters } from "./fetcher";
import { bare, type Panel } from "./link";
import { count, duration, many, moment, retention, visible } from "./numbers";
import { addPanel, view } from "./state";
import { Values } from "./values";

interface Props {
  panel: Panel;
  /** How many points fit on the plot. */
  points: number;
}

export function Explain({ panel, points }: Props) {
  const { from, until, tz } = view.value;
  const key = JSON.stringify([panel.targets, bare(panel).options, from, until, tz, points]);
  const { found, problem } = useAnswer<Explained>("plumbago/explain", () => parameters(view.peek(), panel, points), key);
  const answer = found.value;
  if (problem.value !== "") return <p class="problem" role="alert">{visible(problem.value)}</p>;
  if (!answer) return <p class="note" role="status">asking…</p>;
  const { find_ms: find, fetch_ms: fetch, evaluate_ms: evaluate } = answer.times;
  return (
    <div class="explain" role="group" aria-label="Explanation">
      <p class="note">
        Names found in {ms(find)}, points read in {ms(fetch)}, functions evaluated in {ms(evaluate)}.
        {answer.kept && " /render answers this from its cache at the moment; the points of each fetch are as the daemon would read them now."}
      </p>
      {answer.targets.map((part, place) => <Target key={place} part={part} text={panelTargets(panel)[place] ?? part.text} />)}
      {answer.fetches.map((fetch, place) => <Fetch key={place} fetch={fetch} number={place} zone={tz} answer={answer} />)}
      <Fitted answer={answer} />
      <Limits answer={answer} />
    </div>
  );
}

function panelTargets(panel: Panel): string[] {
  return panel.targets.filter((target) => target.trim() !== "");
}

/** The text of a target, and the tree of its parts beside it. */
function Target({ part, text }: { part: ExplainedPart; text: string }) {
  const marked = useSignal<ExplainedPart | null>(null);
  const letters = [...text];
  const [begin, end] = marked.value ? [marked.value.begin, marked.value.end] : [0, 0];
  return (
    <div class="explain-target">
      <code>
        {visible(letters.slice(0, begin).join(""))}
        <mark>{visible(letters.slice(begin, end).join(""))}</mark>
        {visible(letters.slice(end).join(""))}
      </code>
      <ul aria-label="Parts of the target">
        <Part part={part} mark={(next) => (marked.value = next)} />
      </ul>
    </div>
  );
}

function Part({ part, mark }: { part: ExplainedPart; mark: (part: ExplainedPart | null) => void }) {
  const inner = (part.arguments ?? []).filter((argument) => argument.kind !== "literal");
  const literals = (part.arguments ?? []).filter((argument) => argument.kind === "literal").map((argument) => argument.text);
  return (
    <li>
      <button
        type="button"
        class="quiet part"
        title="Plot this part alone"
        onClick={() => addPanel([part.text])}
        onMouseEnter={() => mark(part)}
        onMouseLeave={() => mark(null)}
        onFocus={() => mark(part)}
        onBlur={() => mark(null)}
      >
        <bdi>{visible(part.function ?? (part.kind === "template" ? "template" : part.text))}</bdi>
        {literals.length > 0 && <span class="literals"> {visible(literals.join(", "))}</span>}
      </button>
      <span class="facts">{facts(part)}</span>
      {inner.length > 0 && <ul>{inner.map((argument, place) => <Part key={place} part={argument} mark={mark} />)}</ul>}
      {part.made && <MadeParts part={part} made={part.made} />}
    </li>
  );
}

/** The targets that a call's function made. They are nowhere in the text, so nothing is marked in it. */
function MadeParts({ part, made }: { part: ExplainedPart; made: MadePart[] }) {
  const more = part.more_made ?? 0;
  return (
    <ul class="made" aria-label={`Targets made by ${part.function ?? ""}`}>
      {made.map((one, place) => {
        const text = <bdi>{visible(one.text)}{!one.whole && "…"}</bdi>;
        return (
          <li key={place}>
            <span class="facts">made by {part.function}: </span>
            {one.plots ? <button type="button" class="quiet part" title="Plot this target alone" onClick={() => addPanel([one.text])}>{text}</button> : <code>{text}</code>}
            <span class="facts">{facts(one)}{one.more_fetches > 0 && ` and ${count(one.more_fetches)} more`}</span>
          </li>
        );
      })}
      {more > 0 && <li class="facts">and {count(more)} more</li>}
    </ul>
  );
}

function facts(part: ExplainedPart | MadePart): string {
  const out: string[] = [];
  if (part.series !== undefined && part.values !== undefined && part.known !== undefined) {
    out.push(`${count(part.series)} series`, `${count(part.known)} of ${count(part.values)} points known`);
  }
  if (part.own_ms !== undefined && part.kind === "call") out.push(ms(part.own_ms));
  if (part.ms !== undefined && part.kind === "made") out.push(ms(part.ms));
  if ((part.evaluations ?? 0) > 1) out.push(`evaluated ${part.evaluations} times`);
  if (part.fetches !== undefined && part.fetches.length > 0) out.push(`fetch ${part.fetches.map((number) => number + 1).join(", ")}`);
  return out.join(" · ");
}

function Fetch({ fetch, number, zone, answer }: { fetch: ExplainedFetch; number: number; zone: string; answer: Explained }) {
  const isOther = fetch.from !== answer.from || fetch.until !== answer.until;
  return (
    <details class="explain-fetch" open={number === 0}>
      <summary>
        Fetch {number + 1}: <bdi>{visible(fetch.expression)}</bdi>{" "}
        <span class="facts">
          {fetch.names === 0 ? "no name matches" : `${many(fetch.names, "name")} found in ${ms(fetch.find_ms)}, read in ${ms(fetch.read_ms)}`}, from {moment(fetch.from, zone)} to {moment(fetch.until, zone)}{isOther && ", a range that a function needs"}
        </span>
      </summary>
      {fetch.metrics.length > 0 && <p class="note">{places(fetch, answer.kept)}</p>}
      {fetch.metrics.length > 0 && (
        <Values
          label={`Metrics of fetch ${number + 1}`}
          columns={["metric", "stage", "head", "spool", "peers", "store", "unknown", "hidden"]}
          rows={fetch.metrics.map((metric) => ({
            key: metric.name,
            head: metric.name,
            title: metric.why,
            cells: [
              `${metric.stage} of ${retention(metric.retention)}`,
              ...[metric.head, metric.spool, metric.peers, metric.store, metric.slots - metric.known - metric.hidden, metric.hidden].map(count),
            ],
          }))}
        />
      )}
      {reasons(fetch).map((reason) => <p key={reason} class="note">{reason}</p>)}
    </details>
  );
}

/** Where the points of a fetch are. */
function places({ points }: ExplainedFetch, isKept: boolean): string {
  const { cache, ...others } = points;
  const cached = cache === null ? "cache not known" : `cache ${count(cache)}`;
  const own = Object.entries(others).map(([place, number]) => `${place} ${count(number)}`).join(", ");
  return `Points from ${own}, ${cached}${isKept ? " (the cached answer has these instead of the others)" : ""}.`;
}

/** Why these stages answer, each reason once, and what xFilesFactor hides. */
function reasons(fetch: ExplainedFetch): string[] {
  const stages = fetch.metrics.map((metric) => `Stage ${metric.stage} answers: ${metric.why}.`);
  const hidden = fetch.metrics.filter((metric) => metric.hidden > 0);
  const factors = [...new Set(hidden.map((metric) => metric.x_files_factor))].join(", ");
  const out = [...new Set(stages)].slice(0, 5);
  if (hidden.length > 0) out.push(`Hidden windows hold points, but fewer than xFilesFactor (${factors}) asks for.`);
  if (fetch.names > fetch.metrics.length) out.push(`${count(fetch.names)} names were found; ${count(fetch.metrics.length)} are shown.`);
  return out;
}

/** What consolidation did to fit the width. */
function Fitted({ answer }: { answer: Explained }) {
  const changed = answer.series.first.filter((one) => one.values !== one.shown_values);
  if (changed.length === 0) return <p class="note">All values of the answer are drawn: none were consolidated.</p>;
  const kinds = new Map<string, number>();
  let hidden = 0;
  for (const one of changed) {
    const kind = `the ${one.consolidation} of each ${duration(one.shown_step)} is drawn, values are ${duration(one.step)} apart`;
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    hidden += one.hidden;
  }
  return (
    <p class="note">
      To fit the width: {[...kinds].map(([kind, times]) => `${kind} (${count(times)} series)`).join("; ")}.
      {hidden > 0 && ` xFilesFactor hides ${count(hidden)} of them.`}
    </p>
  );
}

function Limits({ answer }: { answer: Explained }) {
  return (
    <details class="explain-fetch">
      <summary>Limits <span class="facts">{largest(answer)}</span></summary>
      <ul class="limits">
        {answer.limits.map(({ name, used, limit }) => (
          <li key={name}>
            <code>api.limits.{name}</code> {count(used)} of {count(limit)} ({percent(used, limit)})
          </li>
        ))}
      </ul>
    </details>
  );
}

function largest(answer: Explained): string {
  const [first] = [...answer.limits].sort((a, b) => b.used / b.limit - a.used / a.limit);
  return first ? `at most ${percent(first.used, first.limit)} of one is in use` : "";
}

function percent(used: number, limit: number): string {
  const share = (100 * used) / Math.max(1, limit);
  return share > 0 && share < 0.1 ? "< 0.1 %" : `${share.toFixed(share < 10 ? 1 : 0)} %`;
}

function ms(value: number): string {
  return duration(value / 1000);
}
