// Tags with their values and counts. The chosen tags become a seriesByTag call.

import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useAnswer } from "./answer";
import { get, Refusal } from "./api";
import { count, visible } from "./numbers";
import { quoted } from "./search";
import { plot } from "./state";

interface Value {
  value: string;
  count: number;
}

/** The chosen `tag=value`s. */
const chosen = signal<string[]>([]);
const VALUES = 500;

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
        {shown?.map((tag) => <Tag key={tag} tag={tag} />)}
      </ul>
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
    get<string[]>("tags/findSeries", expressions.map((text) => ["expr", text]), controller.signal).then(
      (series) => (found.value = `${count(series.length)} series`),
      (error: unknown) => controller.signal.aborted || (found.value = error instanceof Refusal ? error.message : String(error)),
    );
    return () => controller.abort();
  }, [expressions]);
  return <span class="note" role="status">{found.value}</span>;
}

function Tag({ tag }: { tag: string }) {
  const isOpen = useSignal(false);
  const values = useSignal<Value[] | null>(null);
  const problem = useSignal("");
  const filter = useSignal("");
  const open = async () => {
    isOpen.value = !isOpen.value;
    if (values.value) return;
    try {
      const found = await get<{ values: Value[] }>(`tags/${encodeURIComponent(tag)}`, [["limit", String(VALUES)]]);
      values.value = found.values;
    } catch (error) {
      problem.value = error instanceof Refusal ? error.message : String(error);
    }
  };
  const toggle = (value: string) => {
    const text = `${tag}=${value}`;
    const rest = chosen.value.filter((other) => other !== text);
    chosen.value = rest.length < chosen.value.length ? rest : [...rest, text];
  };
  const shown = values.value?.filter(({ value }) => value.toLowerCase().includes(filter.value.toLowerCase())) ?? [];
  return (
    <li>
      <button type="button" class="tag" aria-expanded={isOpen.value} onClick={open}>
        <span class="twist" aria-hidden="true">{isOpen.value ? "▾" : "▸"}</span>
        <span class="name">{visible(tag)}</span>
        {values.value && <span class="below">{values.value.length >= VALUES ? `${VALUES}+` : values.value.length}</span>}
      </button>
      {problem.value !== "" && <p class="problem" role="alert">{visible(problem.value)}</p>}
      {isOpen.value && (values.value?.length ?? 0) > 12 && (
        <input class="filter wide" aria-label={`Filter values of ${visible(tag)}`} placeholder="Filter values" value={filter.value} onInput={(event) => (filter.value = event.currentTarget.value)} />
      )}
      {isOpen.value && (
        <ul>
          {shown.map(({ value, count: series }) => (
            <li key={value}>
              <button type="button" class="value" aria-pressed={chosen.value.includes(`${tag}=${value}`)} onClick={() => toggle(value)}>
                <span class="name">{visible(value)}</span>
                <span class="below">{count(series)}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}
