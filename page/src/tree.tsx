// The tree of names: only the visible rows are elements of the document.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { focusSoon } from "./focus";
import { above, changed, refreshTree, root, rowAt, toggle, type Row } from "./names";
import { count, visible } from "./numbers";
import { plot } from "./state";
import { targetOf } from "./targets";

const ROW = 26;
/** How often new names are looked for, in milliseconds. */
const REFRESH = 30_000;
/** A directory with more names than this has a filter. */
const FILTER_FROM = 12;
/** How many rows are tried to find one with a filter. */
const ROWS_TRIED = 1000;

export function Tree() {
  const scrolled = useSignal(0);
  const height = useSignal(600);
  const chosen = useSignal(0);
  const box = useRef<HTMLDivElement>(null);
  changed.value;

  useEffect(() => {
    void root.load(0);
    void refreshTree();
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => (height.value = element.clientHeight));
    observer.observe(element);
    // The rows do not change while the tree has the focus.
    const isFree = () => document.visibilityState === "visible" && !element.contains(document.activeElement);
    const timer = window.setInterval(() => isFree() && void refreshTree(), REFRESH);
    return () => {
      observer.disconnect();
      window.clearInterval(timer);
    };
  }, []);

  const rows = root.rows;
  const choose = (number: number) => {
    chosen.value = Math.max(0, Math.min(rows - 1, number));
    const element = box.current;
    if (!element) return;
    const top = chosen.value * ROW;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW > element.scrollTop + element.clientHeight) element.scrollTop = top + ROW - element.clientHeight;
  };

  /** Goes to the filter of the directory that the chosen row is in, or else of the first one that has a filter. */
  const toFilter = () => {
    const filters = (number: number) => {
      const row = rowAt(number);
      return row.kind === "entry" && row.open !== null && row.open.total > FILTER_FROM;
    };
    let number = chosen.value;
    while (number > 0 && !filters(number)) number = above(number);
    for (let next = 0; !filters(number) && next < Math.min(rows, ROWS_TRIED); next++) number = next;
    if (!filters(number)) return;
    choose(number);
    focusSoon(() => document.querySelector<HTMLElement>(`#row-${number} input`));
  };

  const onKey = (event: KeyboardEvent) => {
    if (event.target !== box.current || event.altKey || event.ctrlKey || event.metaKey) return;
    const row = rowAt(chosen.value);
    const page = Math.max(1, Math.floor(height.value / ROW) - 1);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows, End: rows };
    const step = steps[event.key];
    if (step !== undefined) choose(chosen.value + step);
    else if (event.key === "ArrowRight") row.kind === "entry" && !row.open && row.entry.branch ? toggle(row) : choose(chosen.value + 1);
    else if (event.key === "ArrowLeft") row.kind === "entry" && row.open ? toggle(row) : choose(above(chosen.value));
    else if (event.key === "Enter") act(row, event.shiftKey);
    else if (event.key === " ") toggle(row);
    else if (event.key === "f") toFilter();
    else return;
    event.preventDefault();
  };

  const first = Math.max(0, Math.floor(scrolled.value / ROW) - 4);
  const last = Math.min(rows, Math.ceil((scrolled.value + height.value) / ROW) + 4);
  const shown = [];
  for (let number = first; number < last; number++) {
    shown.push(<Line key={number} number={number} row={rowAt(number)} chosen={number === chosen.value} choose={choose} />);
  }
  return (
    <div
      class="tree"
      role="tree"
      aria-label="Names"
      tabIndex={0}
      aria-activedescendant={rows > 0 ? `row-${chosen.value}` : undefined}
      ref={box}
      onKeyDown={onKey}
      onScroll={(event) => (scrolled.value = event.currentTarget.scrollTop)}
    >
      <div class="tree-rows" role="presentation" style={{ height: `${rows * ROW}px` }}>
        {shown}
      </div>
    </div>
  );
}

/** Plots a metric; a directory opens, or with Shift its metrics are added. */
function act(row: Row, adds: boolean): void {
  if (row.kind !== "entry") return;
  if (row.entry.leaf || adds) plot(targetOf(row.path, row.entry.leaf), adds);
  else toggle(row);
}

interface LineProps {
  number: number;
  row: Row;
  chosen: boolean;
  choose: (number: number) => void;
}

function Line({ number, row, chosen, choose }: LineProps) {
  const { depth } = row.directory;
  const style = { top: `${number * ROW}px`, paddingLeft: `${8 + depth * 14}px` };
  const frame = { id: `row-${number}`, style, role: "treeitem" as const, "aria-level": depth + 1, "aria-selected": chosen };
  if (row.kind !== "entry") {
    return (
      <div {...frame} class={`row note${chosen ? " chosen" : ""}`}>
        {row.kind === "loading" ? "…" : visible(row.text)}
      </div>
    );
  }
  const { entry, open, path } = row;
  return (
    <div
      {...frame}
      aria-expanded={entry.branch ? open !== null : undefined}
      class={`row${chosen ? " chosen" : ""}`}
      title={visible(path)}
      onClick={(event) => {
        choose(number);
        if (event.target instanceof HTMLInputElement) return;
        if (entry.branch) toggle(row);
        else plot(targetOf(path, true), event.shiftKey);
      }}
    >
      <span class={entry.branch ? "twist" : "twist leaf"} aria-hidden="true">
        {entry.branch ? (open ? "▾" : "▸") : "•"}
      </span>
      <span class="name">{visible(entry.name)}</span>
      {open && open.total > FILTER_FROM && (
        <input
          class="filter"
          aria-label={`Filter within ${visible(path)}`}
          placeholder="filter"
          value={open.filter}
          onInput={(event) => open.refilter(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") event.currentTarget.closest<HTMLElement>(".tree")?.focus();
          }}
        />
      )}
      {entry.branch && entry.metrics !== null && <span class="below">{count(entry.metrics)}</span>}
      {entry.branch && entry.metrics === null && <span class="below" title="The metrics below are not counted">–</span>}
      {entry.branch && entry.leaf && (
        <button type="button" class="mini" tabIndex={-1} title="Plot the metric of this name" onClick={(event) => (event.stopPropagation(), plot(targetOf(path, true), event.shiftKey))}>
          ∿
        </button>
      )}
    </div>
  );
}
