// A table with a heading for each row, which scrolls separately from the page.

import type { ComponentChildren } from "preact";
import { visible } from "./numbers";

export interface Row {
  key: string;
  /** The heading, which may hold anything. */
  head: string;
  cells: ComponentChildren[];
  title?: string;
}

export function Values({ label, columns, rows }: { label: string; columns: string[]; rows: Row[] }) {
  return (
    <div class="values" tabIndex={0} role="group" aria-label={label}>
      <table>
        <thead>
          <tr>{columns.map((name) => <th key={name} scope="col">{name}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.key} title={row.title}>
              <th scope="row"><bdi>{visible(row.head)}</bdi></th>
              {row.cells.map((cell, place) => <td key={place}>{cell}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
