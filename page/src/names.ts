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
      const answer = await this.ask(page);
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

  private ask(page: number): Promise<BrowsePage> {
    return get("plumbago/browse", [["path", this.path], ["filter", this.filter], ["offset", String(page * PAGE)], ["limit", String(PAGE)]]);
  }

  /** Reads the first page again, and shows what has changed in it. */
  async refresh(): Promise<void> {
    const filter = this.filter;
    if (!Array.isArray(this.pages.get(0))) return;
    // A failure changes nothing: the next time may be better.
    const answer = await this.ask(0).catch(() => null);
    const old = this.pages.get(0);
    if (answer === null || filter !== this.filter || this.isClosed || !Array.isArray(old)) return;
    const isMoved = answer.matching !== this.count || answer.children.some((child, place) => child.name !== old[place]?.name);
    if (isMoved && !this.reopen(answer.children)) return;
    if (isMoved) this.pages.clear();
    this.pages.set(0, answer.children);
    [this.count, this.total] = [answer.matching, answer.total];
    changed.value++;
  }

  /** Finds the open directories among new children. Returns false and changes nothing if one of them is not in the first page, because its place is not known then. */
  private reopen(children: Entry[]): boolean {
    const found = [...this.open.values()].map((directory): [number, Directory] => [children.findIndex((child) => join(this.path, child.name) === directory.path), directory]);
    if (found.some(([place]) => place < 0)) return false;
    this.open.clear();
    for (const [place, directory] of found) this.open.set(place, directory);
    return true;
  }

  refilter(text: string): void {
    this.filter = text;
    this.open.clear();
    this.pages.clear();
    void this.load(0);
  }
}

/** Maximum number of open directories that are read again. */
const REFRESHED_MAX = 20;

/** Reads the open directories again, one after the other. */
export async function refreshTree(): Promise<void> {
  const directories = [root];
  for (const directory of directories) {
    await directory.refresh();
    directories.push(...[...directory.open.values()].slice(0, REFRESHED_MAX - directories.length));
  }
}

export type Row =
  | { kind: "entry"; directory: Directory; place: number; entry: Entry; open: Directory | null; path: string }
  | { kind: "loading"; directory: Directory; place: number }
  | { kind: "note"; directory: Directory; text: string };

/** Counts changes of the tree. */
export const changed = signal(0);
export const root = new Directory("", 0);

/** The row with this number. 0 is the first row below the directory. */
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

/** The number of the row of the directory that a row is in, or of the first row. Loads nothing. */
export function above(number: number, directory: Directory = root, first = 0): number {
  let before = 0;
  for (const place of [...directory.open.keys()].sort((a, b) => a - b)) {
    const open = directory.open.get(place);
    const here = place + before;
    if (!open || number <= here) break;
    if (number <= here + open.rows) return above(number - here - 1, open, first + here + 1);
    before += open.rows;
  }
  return Math.max(0, first - 1);
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
