// The series of a panel as a table: name, last, min, max, mean.

import { useSignal } from "@preact/signals";
import type { Columns } from "./api";
import { colorOf } from "./colors";
import { count, duration, retention, short, visible } from "./numbers";
import type { Summary } from "./shape";

const ROWS = 100;

interface Props {
  answer: Columns;
  summaries: Summary[];
  unit: string;
  dark: boolean;
  hidden: ReadonlySet<string>;
  nearest: number | null;
  hide: (name: string, alone: boolean) => void;
}

export function Legend({ answer, summaries, unit, dark, hidden, nearest, hide }: Props) {
  const filter = useSignal("");
  const words = filter.value.toLowerCase().split(/\s+/);
  const fits = (name: string) => words.every((word) => name.toLowerCase().includes(word));
  const places = answer.series.map((_, place) => place).filter((place) => fits(answer.series[place]?.name ?? ""));
  const steps = [...new Set(answer.series.map((column) => column.step))].sort((a, b) => a - b);
  const stages = [...new Set(answer.series.map((column) => column.stage && `stage ${column.stage.number} of ${retention(column.stage.retention)}`).filter(Boolean))];
  return (
    <div class="legend">
      <div class="legend-head">
        <span class="note">
          {answer.total > answer.series.length ? `the first ${count(answer.series.length)} of ${count(answer.total)} series are drawn` : `${count(answer.series.length)} series`}
          {steps.length > 0 && ` · every ${steps.map(duration).join(", ")}`}
          {stages.length > 0 && ` · ${stages.slice(0, 2).join("; ")}`}
        </span>
        {answer.series.length > 8 && (
          <input class="filter" aria-label="Filter series" placeholder="filter series" value={filter.value} onInput={(event) => (filter.value = event.currentTarget.value)} />
        )}
      </div>
      <div class="legend-table" tabIndex={0} role="group" aria-label="Series and their values">
        <table>
          <thead>
            <tr>
              <th scope="col">Series</th>
              <th scope="col">last</th>
              <th scope="col">min</th>
              <th scope="col">max</th>
              <th scope="col">mean</th>
            </tr>
          </thead>
          <tbody>
            {places.slice(0, ROWS).map((place) => {
              const column = answer.series[place];
              const values = summaries[place];
              if (!column || !values) return null;
              return (
                <tr key={place} class={`${hidden.has(column.name) ? "off" : ""}${nearest === place ? " near" : ""}`}>
                  <th scope="row">
                    <button type="button" aria-pressed={!hidden.has(column.name)} title={`${visible(column.name)}\nClick hides or shows, Ctrl+click shows it alone`} onClick={(event) => hide(column.name, event.ctrlKey || event.metaKey)}>
                      <span class="swatch" style={{ background: colorOf(column.options?.color, place, dark) }} aria-hidden="true" />
                      <bdi>{visible(column.name)}</bdi>
                    </button>
                  </th>
                  <td>{short(values.last, unit)}</td>
                  <td>{short(values.min, unit)}</td>
                  <td>{short(values.max, unit)}</td>
                  <td>{short(values.mean, unit)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
        {places.length > ROWS && <p class="note">{count(places.length - ROWS)} more; filter to see them</p>}
      </div>
    </div>
  );
}
