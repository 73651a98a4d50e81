// A test of the rules: what they do with a name, and what edited rules would do with the existing metrics.

import { signal, useSignal, type Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, post, RETRY, type Fits, type Refusal, type RuleExplanation, type RulesInForce, type RuleTrial, type SectionUse } from "./api";
import { Problem, refusalOf, useRequest } from "./asking";
import { Command } from "./command";
import { count, duration, many, moment, short, visible } from "./numbers";
import { token, Token } from "./token";
import { Values } from "./values";

/** What was typed, which stays while other parts of the page are shown. */
const name = signal("");
const schemas = signal<string | null>(null);
const aggregation = signal<string | null>(null);

export function RulesView() {
  const inForce = useSignal<RulesInForce | null>(null);
  const problem = useSignal<Refusal | null>(null);
  const asked = useSignal(0);
  useEffect(() => {
    const controller = new AbortController();
    let timer: number | undefined;
    get<RulesInForce>("plumbago/rules", [], controller.signal, token()).then(
      (found) => {
        inForce.value = found;
        problem.value = null;
        schemas.value ??= found.schemas.text;
        aggregation.value ??= found.aggregation.text;
      },
      (error: unknown) => {
        if (controller.signal.aborted) return;
        problem.value = refusalOf(error);
        if (problem.value.passes) timer = window.setTimeout(() => (asked.value += 1), RETRY);
      },
    );
    return () => {
      controller.abort();
      window.clearTimeout(timer);
    };
  }, [asked.value]);
  return (
    <section class="status rules" aria-label="Test of the rules">
      {problem.value && <Problem refusal={problem.value} />}
      {problem.value?.status === 401 && <Token action="Show the rules" done={() => (asked.value += 1)} />}
      {inForce.value && <Name />}
      {inForce.value && <Trial inForce={inForce.value} />}
      {!inForce.value && !problem.value && <p class="note" role="status">asking…</p>}
    </section>
  );
}

function Name() {
  const { answer, problem, busy, send } = useRequest<RuleExplanation>();
  return (
    <>
      <h2>What the rules do with a name</h2>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const asked = name.value.trim();
          if (asked !== "") send((signal) => get("plumbago/rules", [["name", asked]], signal, token()), (found) => `${found.received} explained`);
        }}
      >
        <label>
          Name as a sender writes it <input id="rule-name" spellcheck={false} autocomplete="off" value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} />
        </label>
        <button type="submit">Explain</button>
      </form>
      {busy.value && <p class="note" role="status">asking…</p>}
      {problem.value && <Problem refusal={problem.value} />}
      {answer.value && <Explanation found={answer.value} />}
    </>
  );
}

const TAKERS = { blacklist: "blacklist", whitelist: "whitelist", rewrite: "rewrite rule", post: "rewrite rule after aggregation" };

function Explanation({ found }: { found: RuleExplanation }) {
  const { passage, metric } = found;
  return (
    <div class="explanation" role="group" aria-label={`What the rules do with ${visible(found.received)}`}>
      <h3>On its way in</h3>
      {passage.steps.length > 0 && (
        <Values
          label="Lists and rules that match the name"
          columns={["by", "file and line", "as written", "name after it"]}
          rows={passage.steps.map((step, place) => ({
            key: String(place),
            head: TAKERS[step.kind],
            cells: [at(step.file, step.line), step.line === 0 ? "no line of it" : visible(step.rule), step.name === null ? "refused" : visible(step.name)],
          }))}
        />
      )}
      {passage.refused && <p class="problem">Points of this name are refused: {passage.refused.text} (<code>{passage.refused.reason}</code>).</p>}
      {passage.stored !== null && (
        <p>
          {passage.steps.some((step) => step.kind === "rewrite" || step.kind === "post") ? "Stored as" : "No rule renames it. Stored as"} <code>{visible(passage.stored)}</code>
        </p>
      )}
      {metric && passage.refused && <p class="note">The rest is about the metric <code>{visible(metric.name)}</code>, which may already exist.</p>}
      {found.schemas && <Sections title="Retention" fits={found.schemas} />}
      {found.aggregations && <Sections title="Aggregation" fits={found.aggregations} />}
      {metric && <Stages metric={metric} />}
      {metric && <Existing metric={metric} />}
    </div>
  );
}

function at(file: string | null, line: number | null): string {
  const text = file === null ? "built-in rules" : visible(file.split("/").pop() ?? file);
  return line === null || line === 0 ? text : `${text}:${line}`;
}

function Sections({ title, fits }: { title: string; fits: Fits }) {
  const file = fits.file === null ? "the built-in rules" : visible(fits.file);
  return (
    <>
      <h3>{title}</h3>
      {fits.sections.length === 0 && <p>None of the {many(fits.of, "section")} of <code>{file}</code> fits, so carbon's default applies: {fits.default}.</p>}
      {fits.sections.length > 0 && (
        <>
          <p class="note">{many(fits.sections.length, "section")} of {count(fits.of)} in <code>{file}</code>: the first one decides. Each of the others would decide if those before it did not exist.</p>
          <Values
            label={`${title}: sections that fit`}
            columns={["section", "order", "line", "gives", "pattern", "tried as"]}
            rows={fits.sections.map((one, place) => ({
              key: String(one.place),
              head: one.section,
              cells: [place === 0 ? "decides" : "later", count(one.line), visible(one.gives), visible(one.pattern), `${count(one.place + 1)} of ${count(fits.of)}`],
            }))}
          />
        </>
      )}
    </>
  );
}

const ORIGINS = {
  measured: "measured on the points of this metric",
  embedded: "estimated: 1.44 bytes a point, 5.08 a window, as measured on other metrics",
  cassandra: "estimated: 24 bytes a point, as BigGraphite does for Cassandra's tables",
};

type Metric = NonNullable<RuleExplanation["metric"]>;

function Stages({ metric }: { metric: Metric }) {
  const origins = [...new Set(metric.stages.map((stage) => stage.origin))];
  return (
    <>
      <h3>Stages of a new metric</h3>
      <Values
        label="Stages of a new metric"
        columns={["stage", "a value every", "kept for", "slots", "bytes when full", "which is"]}
        rows={metric.stages.map((stage) => ({
          key: stage.stage,
          head: stage.stage,
          cells: [duration(stage.resolution), duration(stage.seconds), count(stage.slots), `${short(stage.bytes, "binary")}B`, stage.origin === "measured" ? "measured" : "estimated"],
        }))}
      />
      <p class="note">{short(metric.bytes, "binary")}B when all are full ({origins.map((origin) => ORIGINS[origin]).join("; ")}).</p>
    </>
  );
}

function Existing({ metric }: { metric: Metric }) {
  const { existing } = metric;
  if (!existing) return <p class="note">There is no metric of this name.</p>;
  return (
    <>
      <h3>The existing metric</h3>
      <p>Created {moment(existing.created_on, "")}. Rules count when a metric is created: a later change of them leaves it as it is.</p>
      {!existing.differs && <p>It has the settings of the rules.</p>}
      {existing.differs && (
        <>
          <Values
            label="Where the metric differs"
            columns={["setting", "of the metric", "of the rules"]}
            rows={existing.differences.map((one) => ({ key: one.what, head: one.what, cells: [visible(one.now), visible(one.rules)] }))}
          />
          {existing.refused !== null && <p class="problem">It cannot be changed: {visible(existing.refused)}</p>}
          {existing.refused === null && <Command text={existing.command} what="This gives it the settings of the rules:" />}
        </>
      )}
    </>
  );
}

function Trial({ inForce }: { inForce: RulesInForce }) {
  const { answer, problem, busy, send } = useRequest<RuleTrial>();
  return (
    <>
      <h2>Try other rules</h2>
      <p class="note">The text of the rules in force, to edit. Nothing is changed by trying it.</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const body = { schemas: (schemas.value ?? "").toWellFormed(), aggregation: (aggregation.value ?? "").toWellFormed() };
          send((signal) => post("plumbago/rules", body, signal, token()), (found) => `${many(found.metrics, "metric")} counted, ${count(found.apply.changed)} would change`);
        }}
      >
        <Text label="Storage schemas" file={inForce.schemas.file} id="rule-schemas" text={schemas} />
        <Text label="Storage aggregation" file={inForce.aggregation.file} id="rule-aggregation" text={aggregation} />
        <div class="buttons">
          <button type="submit">Try</button>
          <button
            type="button"
            class="quiet"
            onClick={() => {
              schemas.value = inForce.schemas.text;
              aggregation.value = inForce.aggregation.text;
            }}
          >
            Back to the rules in force
          </button>
        </div>
      </form>
      {busy.value && <p class="note" role="status">counting…</p>}
      {problem.value && <Problem refusal={problem.value} />}
      {answer.value && <Tried found={answer.value} inForce={inForce} />}
    </>
  );
}

function Text({ label, file, id, text }: { label: string; file: string | null; id: string; text: Signal<string | null> }) {
  return (
    <label>
      {label} <span class="facts">{file === null ? "built-in rules" : visible(file)}</span>
      <textarea id={id} rows={10} spellcheck={false} autocomplete="off" value={text.value ?? ""} onInput={(event) => (text.value = event.currentTarget.value)} />
    </label>
  );
}

function Tried({ found, inForce }: { found: RuleTrial; inForce: RulesInForce }) {
  const { apply } = found;
  const files = [inForce.schemas.file, inForce.aggregation.file].filter((file) => file !== null);
  return (
    <div class="tried" role="group" aria-label="What the rules would do">
      <h3>{many(found.metrics, "metric")} counted</h3>
      {!found.complete && <p class="problem">Not all metrics were counted: <code>api.limits.request_time</code> or <code>api.limits.find_visited</code> ended the count.</p>}
      {!found.tagged && <p class="note">Tagged series are not counted: they need <code>index.mode = "memory"</code>.</p>}
      {found.warnings.map((warning) => <p key={warning} class="note">{visible(warning)}</p>)}
      <Used title="Retention" sections={found.schemas} />
      <Used title="Aggregation" sections={found.aggregations} />
      <h3>Existing metrics that differ</h3>
      <p>{count(apply.changed)} would change with <code>plumbago rules apply</code>.</p>
      {apply.changes.length > 0 && (
        <Values
          label="Changes of existing metrics"
          columns={["from", "to", "metrics", "such as", "this loses"]}
          rows={apply.changes.map((one) => ({ key: `${one.from} ${one.to}`, head: one.from, cells: [visible(one.to), count(one.metrics), visible(one.example), one.loss === "" ? "nothing" : visible(one.loss)] }))}
        />
      )}
      {apply.refused.map((one) => <p key={one.why} class="note">{many(one.metrics, "metric")} would stay, {visible(one.example)} among them: {visible(one.why)}</p>)}
      {files.length > 0 && <p class="note">To use them, put the texts into {files.map(visible).join(" and ")} and send the daemon SIGHUP. New metrics follow them from then on.</p>}
      {files.length === 0 && <p class="note">To use them, put the texts into files, name these in <code>storage_schemas</code> and <code>storage_aggregation</code>, and send the daemon SIGHUP.</p>}
      {apply.changed > 0 && <Command text="plumbago rules apply --dry-run" what="Then this shows what would change, and without --dry-run changes it:" />}
    </div>
  );
}

function Used({ title, sections }: { title: string; sections: SectionUse[] }) {
  return (
    <>
      <h3>{title}</h3>
      <Values
        label={`${title}: metrics of each section`}
        columns={["section", "line", "metrics", "gives", "such as"]}
        rows={sections
          .filter((one) => one.section !== null || one.metrics > 0)
          .map((one, place) => ({
            key: String(place),
            head: one.section ?? "no section (carbon's default)",
            ...(one.pattern === null ? {} : { title: visible(one.pattern) }),
            cells: [one.line === null ? "–" : count(one.line), count(one.metrics), visible(one.gives), one.examples.length === 0 ? "–" : one.examples.map(visible).join(", ")],
          }))}
      />
    </>
  );
}
