// Tags with their values and counts. The chosen tags become a seriesByTag call.

import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { useAnswer } from "./answer";
import { get, Refusal, RETRY } from "./api";
import { count, many, visible } from "./numbers";
import { plot } from "./state";
import { holding, quoted } from "./targets";

interface Value {
  value: string;
  count: number;
}

/** The chosen `tag=value`s. */
const chosen = signal<string[]>([]);
/** Maximum numbers of tags and of values of a tag that are shown. More would make the page slow. */
const [TAGS, VALUES] = [300, 500];

export function Tags() {
  const { found: tags, problem } = useAnswer<{ tag: string }[]>("tags", () => [], "");
  const filter = useSignal("");
  const expression = `seriesByTag(${chosen.value.map(quoted).join(", ")})`;
  const shown = tags.value?.map((one) => one.tag).filter((tag) => tag.toLowerCase().includes(filter.value.toLowerCase()));
  return (
    <div class="tags">
      {problem.value !== "" && <p class="problem" role="alert">{visible(problem.value)}</p>}
      <input class="filter wide" aria-label="Filter tags" placeholder="Filter tags" value={filter.value} onInput={(event) => (filter.value = event.currentTarget.value)} />
      {chosen.value.length > 0 && (
        <div class="building">
          <code>{visible(expression)}</code>
          <Matching />
          <button type="button" onClick={(event) => plot(expression, event.shiftKey)}>Plot</button>
          <button type="button" onClick={() => plot(expression, true)}>Add</button>
          <button type="button" onClick={() => (chosen.value = [])}>Clear</button>
        </div>
      )}
      <ul class="tag-list" aria-label="Tags">
        {shown?.slice(0, TAGS).map((tag) => <Tag key={tag} tag={tag} />)}
      </ul>
      {shown !== undefined && shown.length > TAGS && <p class="note" role="status">{count(shown.length - TAGS)} more; filter to see them.</p>}
      {shown?.length === 0 && <p class="note">{tags.value?.length === 0 ? "No tagged series yet. A name like cpu;host=a has tags." : "No tag matches."}</p>}
    </div>
  );
}

/** The number of series that the chosen tags select. */
function Matching() {
  const found = useSignal("");
  const expressions = chosen.value;
  useEffect(() => {
    const controller = new AbortController();
    let timer: number | undefined;
    const ask = () => {
      get<string[]>("tags/findSeries", expressions.map((text) => ["expr", text]), controller.signal).then(
        (series) => (found.value = `${count(series.length)} series`),
        (error: unknown) => {
          if (controller.signal.aborted) return;
          found.value = error instanceof Refusal ? error.message : String(error);
          if (error instanceof Refusal && error.passes) timer = window.setTimeout(ask, RETRY);
        },
      );
    };
    ask();
    return () => {
      controller.abort();
      window.clearTimeout(timer);
    };
  }, [expressions]);
  return <span class="note" role="status">{visible(found.value)}</span>;
}

function Tag({ tag }: { tag: string }) {
  const isOpen = useSignal(false);
  return (
    <li>
      <button type="button" class="tag" aria-expanded={isOpen.value} onClick={() => (isOpen.value = !isOpen.value)}>
        <span class="twist" aria-hidden="true">{isOpen.value ? "▾" : "▸"}</span>
        <span class="name">{visible(tag)}</span>
      </button>
      {isOpen.value && <Values tag={tag} />}
    </li>
  );
}

/** The values of a tag. The daemon filters them, as there may be more than the page shows. */
function Values({ tag }: { tag: string }) {
  const filter = useSignal("");
  /** Whether the filter is shown. Once shown, it stays, even when it leaves few values. */
  const hasFilter = useRef(false);
  const words = filter.value;
  const { found, problem } = useAnswer<{ values: Value[] } | null>(`tags/${encodeURIComponent(tag)}`, () => [["limit", String(VALUES + 1)], ["filter", holding(words)]], words);
  const values = found.value?.values ?? [];
  if (values.length > 12) hasFilter.current = true;
  const toggle = (value: string) => {
    const text = `${tag}=${value}`;
    const rest = chosen.value.filter((other) => other !== text);
    chosen.value = rest.length < chosen.value.length ? rest : [...rest, text];
  };
  return (
    <>
      {problem.value !== "" && <p class="problem" role="alert">{visible(problem.value)}</p>}
      {hasFilter.current && <input class="filter wide" aria-label={`Filter values of ${visible(tag)}`} placeholder="Filter values" value={words} onInput={(event) => (filter.value = event.currentTarget.value)} />}
      <ul>
        {values.slice(0, VALUES).map(({ value, count: series }) => (
          <li key={value}>
            <button type="button" class="value" aria-pressed={chosen.value.includes(`${tag}=${value}`)} onClick={() => toggle(value)}>
              <span class="name">{visible(value)}</span>
              <span class="below">{count(series)}</span>
            </button>
          </li>
        ))}
      </ul>
      {found.value !== null && <p class="note" role="status">{values.length > VALUES ? `The first ${count(VALUES)} values; filter to see others.` : many(values.length, "value")}</p>}
    </>
  );
}
