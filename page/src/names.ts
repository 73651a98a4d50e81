// The tree of names as rows of one long list. Directories load their children in pages, when those pages are
// scrolled into view.

import { signal } from "@preact/signals";
import { get, Refusal, RETRY, type BrowsePage, type Entry } from "./api";

export const PAGE = 200;

/** An open directory. */
export class Directory {
  count = 0;
  total = 0;
  filter = "";
  problem = "";
  isClosed = false;
  private pages = new Map<number, Entry[] | "asked">();
  /** Open directories among the children, by place. */
  readonly open = new Map<number, Directory>();

  constructor(
    readonly path: string,
    readonly depth: number,
  ) {}

  /** The number of rows of the children and of everything open below. */
  get rows(): number {
    let rows = this.problem !== "" || (this.count === 0 && this.pages.get(0) !== "asked") ? Math.max(1, this.count) : this.count;
    for (const child of this.open.values()) rows += child.rows;
    return rows;
  }

  child(place: number): Entry | null {
    const page = this.pages.get(Math.floor(place / PAGE));
    if (page === undefined) void this.load(Math.floor(place / PAGE));
    return Array.isArray(page) ? (page[place % PAGE] ?? null) : null;
  }

  async load(page: number): Promise<void> {
    if (this.pages.has(page)) return;
    this.pages.set(page, "asked");
    const filter = this.filter;
    try {
      const answer = await get<BrowsePage>("plumbago/browse", [
        ["path", this.path],
        ["filter", filter],
        ["offset", String(page * PAGE)],
        ["limit", String(PAGE)],
      ]);
      if (filter !== this.filter) return;
      this.count = answer.matching;
      this.total = answer.total;
      this.problem = "";
      this.pages.set(page, answer.children);
    } catch (error) {
      if (filter !== this.filter) return;
      this.pages.delete(page);
      this.problem = error instanceof Refusal ? error.message : String(error);
      if (error instanceof Refusal && error.passes) window.setTimeout(() => !this.isClosed && filter === this.filter && void this.load(page), RETRY);
    }
    changed.value++;
  }

  refilter(text: string): void {
    this.filter = text;
    this.open.clear();
    this.pages.clear();
    void this.load(0);
  }
}

export type Row =
  | { kind: "entry"; directory: Directory; place: number; entry: Entry; open: Directory | null; path: string }
  | { kind: "loading"; directory: Directory; place: number }
  | { kind: "note"; directory: Directory; text: string };

/** Counts changes of the tree. */
export const changed = signal(0);
export const root = new Directory("", 0);

/** The row with a number. */
export function rowAt(number: number, directory: Directory = root): Row {
  if (directory.problem !== "") return { kind: "note", directory, text: directory.problem };
  let before = 0;
  for (const place of [...directory.open.keys()].sort((a, b) => a - b)) {
    const open = directory.open.get(place);
    if (!open) continue;
    const here = place + before;
    if (number <= here) break;
    if (number <= here + open.rows) return rowAt(number - here - 1, open);
    before += open.rows;
  }
  const place = number - before;
  if (directory.count === 0) return { kind: "note", directory, text: directory.filter === "" ? "no names here" : "nothing matches the filter" };
  const entry = directory.child(place);
  if (!entry) return { kind: "loading", directory, place };
  return { kind: "entry", directory, place, entry, open: directory.open.get(place) ?? null, path: join(directory.path, entry.name) };
}

export function toggle(row: Row): void {
  if (row.kind !== "entry" || !row.entry.branch) return;
  if (row.open) {
    row.open.isClosed = true;
    row.directory.open.delete(row.place);
  } else {
    const directory = new Directory(row.path, row.directory.depth + 1);
    row.directory.open.set(row.place, directory);
    void directory.load(0);
  }
  changed.value++;
}

export function join(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}
